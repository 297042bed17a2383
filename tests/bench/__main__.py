"""`python3 run.py bench [name]`: print the figures of the speed section, measured on this machine now.

Compare figures of one run with each other: machines are noisy. `--json` prints one object a line.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench import decode, measures, page, stored
from tests.bench.measures import Figure, in_world

Measure = Callable[[], list[Figure]]


def _start() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="nightdesk-bench-") as folder:
        return measures.start_time(Path(folder) / "data")


MEASURES: dict[str, Measure] = {
    "start": _start,
    "first": lambda: in_world(measures.first_token),
    "latency": lambda: in_world(measures.latency),
    "cpu": lambda: in_world(measures.cpu),
    "wire": lambda: in_world(measures.size_on_wire),
    "memory": lambda: in_world(measures.memory),
    "stored": stored.figures,
    "page": lambda: in_world(page.figures),
    "decode": decode.figures,
}


def _print(figure: Figure, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"measure": figure.measure, "value": round(figure.value, 4), "unit": figure.unit,
                          "at_most": figure.at_most, "holds": figure.holds}), flush=True)  # fmt: skip
        return
    bar = "" if figure.at_most is None else f"at most {figure.at_most:g}"
    mark = "" if figure.holds else "  MISSED"
    print(f"  {figure.measure:<58} {figure.value:>9.3f} {figure.unit:<6} {bar}{mark}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="run.py bench", description=__doc__)
    parser.add_argument(
        "name", nargs="?", choices=sorted(MEASURES), help="one group of measures; all without"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    for name, measure in MEASURES.items():
        if options.name not in (None, name):
            continue
        if not options.json:
            print(name)
        for figure in measure():
            _print(figure, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
