"""Few-shot by similarity: of the examples that are held out, those most like the question, the likest next to it.

Which ones these are is the vectors' to say (`runner.examples`); how alike they are becomes signals of every answer.
"""

from __future__ import annotations

from steelyard.runner.strategies.contract import Asking, Strategy, number_of_examples, strategies


def _make(examples: int | None) -> Strategy:
    count = number_of_examples("few-shot-similar", examples)
    about = "the solved examples most like the question, then the question"
    return Asking(name=f"few-shot-similar-{count}", about=about, examples=count, similar=True)


strategies.add("few-shot-similar", _make)
