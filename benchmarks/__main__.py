"""Run the quick benchmarks: `python -m benchmarks`."""

from benchmarks import moments, path

if __name__ == "__main__":
    moments.main()
    path.main()
