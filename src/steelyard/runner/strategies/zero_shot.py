"""Zero-shot: the question, and nothing else."""

from __future__ import annotations

from steelyard.runner.strategies.contract import Asking, strategies, without_examples

strategies.add("zero-shot", without_examples(Asking(name="zero-shot", about="the question alone")))
