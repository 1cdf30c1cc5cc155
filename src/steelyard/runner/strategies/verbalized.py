"""Verbalized confidence: the model says how sure it is, from 1 to 5, in words that say what each means."""

from __future__ import annotations

from steelyard.runner.strategies.contract import Asking, strategies, without_number

strategies.add(
    "verbalized",
    without_number(Asking(name="verbalized", about="the question, and how sure the model is: 1 to 5", verbalized=True)),
)
