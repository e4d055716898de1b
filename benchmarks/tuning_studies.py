"""Tuning benchmarks: studies against the defaults and against those of other boosters, their cost, and kills.

    python benchmarks/tuning_studies.py small --out small.jsonl      # 12 small sets, 30 trials, against the defaults
    python benchmarks/tuning_studies.py larger --out larger.jsonl    # six data sets, 50 trials, against tuned peers
    python benchmarks/tuning_studies.py overhead                     # 100 trials on digits: time beyond the fits
    python benchmarks/tuning_studies.py kills --storage study.db     # SIGINT and SIGKILL at random moments
    python benchmarks/tuning_studies.py transfer --out random.jsonl  # where the first trials of studies come from
    python benchmarks/tuning_studies.py table small.jsonl

All but `overhead` go on where they were stopped: the file has a line for every result. Data sets are those of the
folder named by ABC_PLUGINS_DATA. Everything runs on one thread.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import describe_machine
from studies import kills, larger, overhead, small, transfer

COMMANDS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "small": small.run,
    "larger": larger.run,
    "overhead": overhead.run,
    "kills": kills.run,
    "transfer": transfer.run,
}


def show_table(path: str) -> None:
    """Print what a file of results has."""
    rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
    (larger.table if "peer" in rows[0] else small.table)(rows)


def main() -> None:
    """Run one of the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark", choices=(*COMMANDS, "table"))
    parser.add_argument("file", nargs="?", help="of `table`")
    parser.add_argument("--data", nargs="+", help="data sets; all by default")
    parser.add_argument("--peers", nargs="+", help="contenders of `larger`; all by default")
    parser.add_argument("--trials", type=int, help="trials of each study")
    parser.add_argument("--seconds", type=float, help="processor seconds of each study of `larger` (default 90)")
    parser.add_argument("--rows", type=int, help="most rows to tune on")
    parser.add_argument("--max-rounds", type=int, help="most rounds of a fit")
    parser.add_argument("--seed", type=int, default=0, help="of the split and the study (default 0)")
    parser.add_argument("--kills", type=int, default=20, help="of each kind (default 20)")
    parser.add_argument("--storage", help="of `kills`: .db or .log file")
    parser.add_argument("--out", help="file of results, a line each")
    options = parser.parse_args()
    if options.benchmark == "table":
        show_table(options.file)
        return
    print(json.dumps(describe_machine()))
    COMMANDS[options.benchmark](options)


if __name__ == "__main__":
    main()
