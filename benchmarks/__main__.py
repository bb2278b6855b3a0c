"""Run the benchmarks: `python -m benchmarks [NAME …]`. The table of peers is also written to bench.json.

Every row is printed, those outside their limit with MISS, and the exit code is 1 if there is one. A wrong answer is a
miss too; a benchmark whose packages are not installed is not.
"""

from __future__ import annotations

import argparse
import importlib
import sys

from benchmarks.timing import printed

QUICK = ("moments", "audits", "path", "scale", "apply", "peers")


def run(name: str) -> int:
    """Print the rows of one benchmark, and return how many miss."""
    try:
        return printed(importlib.import_module(f"benchmarks.{name}").measured())
    except ModuleNotFoundError as error:
        print(f"      {name}: not measured, {error}", flush=True)
        return 0
    except AssertionError as error:
        print(f"MISS  {name}: a wrong answer, {str(error).strip() or 'an assertion failed'}", flush=True)
        return 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(QUICK))
    names = parser.parse_args(arguments).names or QUICK
    if unknown := set(names) - set(QUICK):
        parser.error(f"no benchmark {', '.join(sorted(unknown))}: there are {', '.join(QUICK)}")
    missed = sum(run(name) for name in names)
    print(f"{missed} missed" if missed else "all within their limits")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
