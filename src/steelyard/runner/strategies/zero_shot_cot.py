"""Zero-shot with a chain of thought: the model is asked to reason before it answers."""

from __future__ import annotations

from steelyard.runner.strategies.contract import Asking, strategies, without_number

strategies.add(
    "zero-shot-cot",
    without_number(Asking(name="zero-shot-cot", about="the question, to be reasoned about first", reasoning=True)),
)
