"""Ask every tool about every world, and print the table: `python -m planted_proxies --seeds 20 --rows 5000`.

Each tool runs in an environment of its own, made in `--environments` at the first run. Answers are kept in `--out`, one
file of JSON lines for each tool, and no seed is asked again that is there already: a run that was stopped goes on, and
`--tools` asks some tools and reads the others. Remove the folder to begin anew.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from planted_proxies import figure, tables
from planted_proxies.asking import about
from planted_proxies.environments import environment
from planted_proxies.runners import files, runner
from planted_proxies.scoring import HARD, not_separated, scored
from planted_proxies.worlds import WORLDS

ROWS, SEEDS = 5_000, 20
BLOCK = "(<!-- printed: {} -->\n).*?(<!-- end -->)"


def ask(file: str, options: argparse.Namespace) -> None:
    """Ask a tool in its environment what it was not asked before, and keep what it says, or why it cannot be asked."""
    place, target = environment(runner(file).requires, options.environments), options.out / f"{file}.jsonl"
    before = read(target) if target.exists() else {}
    if before and ("failed" in before or before.get("rows") != options.rows):
        target.unlink()
        before = {}
    done = Counter(draw["seed"] for draw in before.get("draws", []))
    seeds = [str(seed) for seed in wanted(file, options) if done[seed] < len(WORLDS)]
    reason = place.reason if place.python is None else ""
    if seeds and not reason:
        command = [place.python, "-m", "planted_proxies.asking", file, "--rows", str(options.rows), "--seeds", *seeds]
        with target.open("a", encoding="utf-8") as out:
            ended = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, env=place.variables)
        lines = ended.stderr.strip().splitlines() or [f"it ended with code {ended.returncode}"]
        reason = lines[-1] if ended.returncode else ""
    if reason:
        with target.open("a", encoding="utf-8") as out:
            out.write(json.dumps({**about(file), "rows": options.rows, "failed": reason}) + "\n")


def wanted(file: str, options: argparse.Namespace) -> range:
    """Return the seeds of a tool: fewer of others than the required one where that is asked for."""
    seeds = options.seeds if options.others is None or file == options.require else options.others
    return range(options.first, options.first + seeds)


def read(path: Path) -> dict[str, Any]:
    """Return what a tool said: words about it, and the draws it was asked about."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    words = [line for line in lines if "world" not in line]
    draws = {(line["world"], line["seed"]): line for line in lines if "world" in line}
    return {**words[-1], "draws": list(draws.values()), "seeds": len({seed for _, seed in draws})}


def printed(found: list[dict[str, Any]], rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return every table by its name."""
    ours = [one for one in found if one["file"] == "tiltlens" and one["draws"]]
    return {
        "questions": tables.questions_table(rows),
        "sure": tables.sure_table(rows),
        "hard": tables.questions_table(rows, HARD),
        "words": tables.words_table(ours[0]) if ours else "tiltlens was not run.",
        "tools": tables.tools_table(rows),
        "worlds": tables.worlds_table(),
    }


def fill(page: Path, texts: dict[str, str]) -> None:
    """Put the tables where a page asks for them."""
    text = page.read_text(encoding="utf-8")
    for name, table in texts.items():
        pattern = re.compile(BLOCK.format(name), re.DOTALL)
        text = pattern.sub(lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}", text)
    page.write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Ask, score, print and write."""
    parser = argparse.ArgumentParser(
        prog="planted_proxies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="draws of each world")
    parser.add_argument("--others", type=int, help="draws of each world for other tools than --require")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--tools", nargs="*", choices=files(), default=files(), metavar="FILE", help=", ".join(files()))
    parser.add_argument("--out", type=Path, default=Path("planted-results"))
    parser.add_argument("--environments", type=Path, default=Path(".planted"))
    parser.add_argument(
        "--require", choices=files(), metavar="FILE", help="exit with 1 where its rule fails a question"
    )
    parser.add_argument("--page", type=Path, help="a Markdown page whose tables are filled in")
    parser.add_argument("--figure", type=Path, help="where the figure goes; default: in --out")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for file in options.tools:
        print(f"asking {runner(file).name} …", file=sys.stderr, flush=True)
        ask(file, options)
    paths = [options.out / f"{file}.jsonl" for file in files()]
    found = [read(path) for path in paths if path.exists()]
    rows = [scored(one) for one in found]
    texts = printed(found, rows)
    print("\n\n".join(texts.values()))
    (options.out / "results.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
    (options.out / "results.csv").write_text(tables.comma_separated(rows), encoding="utf-8")
    if options.page:
        fill(options.page, texts)
    try:
        figure.write(rows, options.figure or options.out / "planted_proxies.svg")
    except ImportError as error:
        print(f"no figure: {error}", file=sys.stderr)
    missed = [
        name
        for one, row in zip(found, rows, strict=True)
        if one["file"] == options.require
        for name in not_separated(row)
    ]
    if missed:
        print(f"{options.require} does not separate: {', '.join(missed)}", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
