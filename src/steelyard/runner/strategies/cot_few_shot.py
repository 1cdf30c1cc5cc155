"""Few-shot with a chain of thought: solved examples, with reasons where there are some, to be reasoned about too."""

from __future__ import annotations

from steelyard.runner.strategies.contract import Asking, Strategy, number_of_examples, strategies


def _make(examples: int | None) -> Strategy:
    count = number_of_examples("cot-few-shot", examples)
    about = "solved examples, then the question, to be reasoned about first"
    return Asking(name=f"cot-few-shot-{count}", about=about, examples=count, reasoning=True)


strategies.add("cot-few-shot", _make)
