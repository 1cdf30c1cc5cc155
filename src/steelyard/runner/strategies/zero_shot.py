"""Zero-shot: the question, and nothing else."""

from __future__ import annotations

from steelyard.runner.strategies.contract import Asking, strategies, without_number

strategies.add("zero-shot", without_number(Asking(name="zero-shot", about="the question alone")))
