"""Contextual: what a newcomer should know of the task comes first, then the question."""

from __future__ import annotations

from steelyard.runner.strategies.contract import Asking, strategies, without_number

strategies.add(
    "contextual",
    without_number(
        Asking(name="contextual", about="the background of the task at length, then the question", contextual=True)
    ),
)
