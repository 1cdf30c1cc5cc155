"""What commands that search write outside the store."""

from __future__ import annotations


def run_files() -> tuple[str, ...]:
    """The names of the files of a run."""
    from steelyard.runs.run_json import NAME
    from steelyard.runs.saved import FILES

    return NAME, *FILES
