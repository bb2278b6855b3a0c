"""Run the quick benchmarks: `python -m benchmarks`. The table of peers is also written to bench.json."""

from benchmarks import moments, path, peers

if __name__ == "__main__":
    moments.main()
    path.main()
    peers.main(["--json", "bench.json"])
