"""One line per model while it is asked: on a terminal a live one, elsewhere a plain one every some seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from steelyard.cli.command import say
from steelyard.errors import counted, printable

if TYPE_CHECKING:
    from steelyard.runner.tally import Tally

EVERY = 10.0  # seconds between two plain lines


class _Rates:
    """How fast each model answers, since this process asks it."""

    def __init__(self) -> None:
        self._began: dict[str, tuple[float, int]] = {}

    def line(self, name: str, tally: Tally) -> str:
        now = time.monotonic()
        began, before = self._began.setdefault(name, (now, tally.done))
        rate = (tally.done - before) / (now - began) if now > began else 0.0
        left = f"{_span((tally.total - tally.done) / rate)} left" if rate and tally.done < tally.total else ""
        parts = [
            f"{printable(name)}: {tally.done:,}/{tally.total:,}",
            f"{rate:,.1f}/s" if rate else "",
            left,
            counted(tally.input_tokens + tally.output_tokens, "token"),
            "" if tally.cost is None else f"cost {tally.cost:.4g}",
            f"{tally.failed:,} failed" if tally.failed else "",
            counted(tally.retries, "retry") if tally.retries else "",
        ]
        return ", ".join(part for part in parts if part)


def evaluating() -> Callable[[float], None]:
    """What is to be called with the share of an evaluation or a comparison that is done: a line every some seconds."""
    last, shown = time.monotonic(), -1

    def plain(share: float) -> None:
        nonlocal last, shown
        percent = int(100 * share)
        if time.monotonic() - last >= EVERY and percent != shown:
            last, shown = time.monotonic(), percent
            say(f"evaluating, {percent}%")

    return plain


@contextmanager
def asking_line() -> Iterator[Callable[[Mapping[str, Tally]], None]]:
    """What is to be called with the counts now and then."""
    rates = _Rates()
    if not sys.stderr.isatty():
        last = time.monotonic()

        def plain(tallies: Mapping[str, Tally]) -> None:
            nonlocal last
            lines = [rates.line(name, tally) for name, tally in tallies.items()]
            if time.monotonic() - last >= EVERY:
                last = time.monotonic()
                for line in lines:
                    say(line)

        yield plain
        return
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    with Live(Text(""), console=Console(stderr=True), auto_refresh=False, transient=True) as live:

        def drawn(tallies: Mapping[str, Tally]) -> None:
            live.update(Group(*(Text(rates.line(name, tally)) for name, tally in tallies.items())), refresh=True)

        yield drawn


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
