"""One-shot: one solved example before the question."""

from __future__ import annotations

from steelyard.runner.strategies.contract import Asking, strategies, without_number

strategies.add(
    "one-shot",
    without_number(Asking(name="one-shot", about="one solved example, then the question", examples=1)),
)
