"""Solved examples that are held out of what is scored, and which of them go with a question.

The first of them, in their order, for most strategies; for those that ask by similarity, the ones whose own question is
most like the one that is asked, by the cosine of two vectors, the likest last: it then stands next to the question. A
question that a perturbation changed is compared as it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from steelyard.ground.arrays import Floats
from steelyard.runner.strategies import Strategy
from steelyard.runner.tasks import Item, Task
from steelyard.texts.embedders import Embedder, embedder

EMBEDDER = "hash"
OFFLINE = ("hash", "wordllama")  # questions are compared before anything is asked, also where nothing ever is
POOL = 50  # examples to choose from by similarity
_KEPT = 65_536  # comparisons that are remembered
_DIGITS = 12  # to which two similarities are told apart, on any machine


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Examples of a task, and what compares questions with them."""

    task: Task
    items: tuple[Item, ...] = ()
    embedder: str = EMBEDDER

    def for_question(self, strategy: Strategy, item: Item) -> Sequence[Item]:
        """The examples that a strategy shows with an item."""
        if not strategy.similar:
            return self.items[: strategy.examples]
        order, _ = self._compared(self.task.question(item))
        return [self.items[place] for place in reversed(order[: strategy.examples])]

    def signals(self, strategy: Strategy, item: Item) -> dict[str, float]:
        """How alike the examples are that were chosen for an item; nothing where they are the same for all."""
        if not strategy.similar:
            return {}
        order, similarities = self._compared(self.task.question(item))
        chosen = similarities[list(order[: strategy.examples])]
        return {
            "retrieval_reference_count": len(chosen),
            "retrieval_similarity_mean": float(chosen.mean()),
            "retrieval_similarity_max": float(chosen.max()),
        }

    @cached_property
    def _compared(self) -> Callable[[str], tuple[tuple[int, ...], Floats]]:
        """From a question to the places of the examples, the likest first, and how alike each is."""
        return lru_cache(_KEPT)(self._order)

    def _order(self, question: str) -> tuple[tuple[int, ...], Floats]:
        similarities = self._vectors @ _unit(self._embedder, ["question"], [question], "questions")[0]
        order = np.lexsort((np.arange(len(similarities)), -np.round(similarities, _DIGITS)))
        return tuple(order.tolist()), similarities

    @cached_property
    def _embedder(self) -> Embedder:
        return embedder(self.embedder)

    @cached_property
    def _vectors(self) -> Floats:
        questions = [self.task.question(item) for item in self.items]
        return _unit(self._embedder, [str(item.id) for item in self.items], questions, "examples")


def _unit(by: Embedder, ids: Sequence[str], texts: Sequence[str], what: str) -> Floats:
    """Vectors of length 1."""
    vectors = by.embed(ids, texts, what=what).astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
