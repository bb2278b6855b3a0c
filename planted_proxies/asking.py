"""Ask one tool about every world: run in the tool's own environment, as `python -m planted_proxies.asking FILE …`.

It prints one line of JSON for each draw as it is done, so that a run that is stopped loses nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from importlib import metadata
from typing import Any

from planted_proxies.runners import runner
from planted_proxies.worlds import WORLDS


def asked(file: str, world: str, seed: int, rows: int) -> dict[str, Any]:
    """Return what a tool says of one draw, with core-seconds, or what went wrong."""
    draw, start = WORLDS[world].draw(seed, rows), sum(os.times()[:4])
    found: dict[str, Any] = {"world": world, "seed": seed}
    try:
        answers = runner(file).run(draw)
    except Exception as error:  # a tool that fails has failed in this draw, not in all
        return found | {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    found["seconds"] = sum(os.times()[:4]) - start  # of processes that it started, too
    return found | {"answers": {name: answer._asdict() for name, answer in answers.items()}}


def about(file: str) -> dict[str, Any]:
    """Return what is known of a tool before it is asked."""
    tool = runner(file)
    package = tool.requires[0].split("==")[0]
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        version = ""
    words = {key: getattr(tool, key) for key in ("name", "page", "asked", "given", "rule")}
    return words | {"file": file, "version": version, "takes_chances": getattr(tool, "takes_chances", False)}


def main(arguments: list[str] | None = None) -> None:
    """Print what a tool says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS))
    options = parser.parse_args(arguments)
    out, sys.stdout = sys.stdout, sys.stderr  # what a tool prints is no answer
    print(json.dumps({**about(options.file), "rows": options.rows}), flush=True, file=out)
    asked(options.file, options.worlds[0], options.seeds[0], 500)  # imports and compilation are not timed
    for seed in options.seeds:
        for world in options.worlds:
            print(json.dumps(asked(options.file, world, seed, options.rows)), flush=True, file=out)


if __name__ == "__main__":
    sys.exit(main())
