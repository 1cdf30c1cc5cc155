"""Self-consistency: the question several times, to be reasoned about each time; the commonest answer counts.

Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models", 2023. What becomes of the
samples is in `runner.samples`.
"""

from __future__ import annotations

from steelyard.errors import UsageError
from steelyard.runner.strategies.contract import Asking, Strategy, strategies

MOST_SAMPLES = 100


def _make(samples: int | None) -> Strategy:
    if samples is None:
        raise UsageError("self-consistency needs to know how many samples: self-consistency-5")
    if not 2 <= samples <= MOST_SAMPLES:
        raise UsageError(f"self-consistency takes 2 to {MOST_SAMPLES} samples; zero-shot-cot takes one")
    about = "the question several times, to be reasoned about first; the commonest answer"
    return Asking(name=f"self-consistency-{samples}", about=about, reasoning=True, samples=samples)


strategies.add("self-consistency", _make)
