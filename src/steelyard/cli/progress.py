"""A bar on a terminal while something takes long."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(title: str) -> Iterator[Callable[[float], None] | None]:
    """A bar on a terminal once work exceeds a second; nothing in pipes."""
    if not sys.stderr.isatty():
        yield None
        return
    from time import monotonic

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    bar = Progress(TextColumn(title), BarColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=1.0)
    started, shown = monotonic(), False

    def update(share: float) -> None:
        nonlocal shown
        if not shown and monotonic() - started > 1.0:
            bar.start()
            shown = True
        bar.update(task, completed=share)

    try:
        yield update
    finally:
        if shown:
            bar.stop()
