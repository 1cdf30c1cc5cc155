"""`make simulate`, or `python -m bench.simulate`: run the study, or some parts of it, and print its page."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.simulate import __doc__ as about
from bench.simulate.page import rendered
from bench.simulate.study import PARTS, Plan, run

QUICK = Plan(16, 300, 20_000)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and print its page."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.simulate", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=_parts, default=PARTS, help=f"some parts, joined by commas: {','.join(PARTS)}")
    parser.add_argument("--replications", type=int, help="tables drawn for each cell (500)")
    parser.add_argument("--resamples", type=int, help="resamples of each table (1000)")
    parser.add_argument("--clusters", type=int, nargs="+", default=(), help="instead of each population's own numbers")
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--processes", type=int, default=Plan.processes)
    parser.add_argument("--quick", action="store_true", help="a glance: too few replications to judge by")
    parser.add_argument("--out", type=Path, help="also write the page to this file")
    asked = parser.parse_args(arguments)
    usual = QUICK if asked.quick else Plan()
    plan = Plan(
        asked.replications or usual.replications,
        asked.resamples or usual.resamples,
        usual.truth_clusters,
        tuple(asked.clusters),
        asked.only,
        asked.seed,
        asked.processes,
    )
    study = run(plan)
    page = rendered(study)
    if asked.out is not None:
        asked.out.write_text(page, encoding="utf-8")
    print(page, end="")
    print(f"{study.seconds:.0f} s on {plan.processes} processes", file=sys.stderr)


def _parts(text: str) -> tuple[str, ...]:
    asked = tuple(part.strip() for part in text.split(","))
    for part in asked:
        if part not in PARTS:
            raise argparse.ArgumentTypeError(f"no part '{part}'; there are: {', '.join(PARTS)}")
    return asked


if __name__ == "__main__":
    main()
