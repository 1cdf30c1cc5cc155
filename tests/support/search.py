"""Exact search and learning a shift, in plain loops over queries and documents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st


def naive_cosine(q: Sequence[float], d: Sequence[float]) -> float:
    lengths = math.sqrt(sum(x * x for x in q)) * math.sqrt(sum(x * x for x in d))
    return sum(x * y for x, y in zip(q, d, strict=True)) / lengths if lengths else 0.0


def naive_order(q: Sequence[float], docs: Sequence[Sequence[float]]) -> list[int]:
    """Documents by cosine downwards, compared exactly; Python sorts stably, so equal ones stay in document order."""
    return sorted(range(len(docs)), key=lambda j: -_signed_square(q, docs[j]))


def _signed_square(q: Sequence[float], d: Sequence[float]) -> Fraction:
    """The square of the cosine with its sign: without roots, so that nothing is rounded."""
    left, right = [Fraction(float(x)) for x in q], [Fraction(float(x)) for x in d]
    lengths = sum(x * x for x in left) * sum(x * x for x in right)
    dot = sum((x * y for x, y in zip(left, right, strict=True)), Fraction(0))
    return dot * abs(dot) / lengths if lengths else Fraction(0)


def naive_rank(q: Sequence[float], docs: Sequence[Sequence[float]], gold: int) -> int:
    return naive_order(q, docs).index(gold) + 1


def naive_training(
    queries: Sequence[Sequence[float]],
    docs: Sequence[Sequence[float]],
    gold: Sequence[int],
    *,
    hard_negatives: int,
    max_norm: float | None,
    epsilon: float,
) -> dict[str, Any]:
    """Section 9, word by word."""
    directions: list[list[float]] = []
    seen: set[tuple[int, int]] = set()
    zero = 0
    for q, right in zip(queries, gold, strict=True):
        if right < 0:
            continue
        order = naive_order(q, docs)
        if order[0] == right:
            continue
        taken = 0
        for wrong in order:
            if wrong == right:
                continue
            if taken == max(hard_negatives, 1):
                break
            direction = [a - b for a, b in zip(docs[right], docs[wrong], strict=True)]
            seen.add((right, wrong))
            if sum(x * x for x in direction) <= 1e-18:
                zero += 1
                continue
            directions.append(direction)
            taken += 1
    dimension = len(docs[0])
    count = len(directions)
    mean = [sum(direction[k] for direction in directions) / count if count else 0.0 for k in range(dimension)]
    before = math.sqrt(sum(x * x for x in mean))
    clipped = bool(max_norm) and before > (max_norm or 0)
    delta = [x * (max_norm or 0) / before for x in mean] if clipped else mean
    lengths = [math.sqrt(sum(x * x for x in direction)) for direction in directions]
    return {
        "delta": delta,
        "norm": math.sqrt(sum(x * x for x in delta)),
        "before": before,
        "clipped": clipped,
        "pairs": count,
        "unique": len(seen),
        "zero": zero,
        "lengths": (min(lengths, default=0.0), sum(lengths) / count if count else 0.0, max(lengths, default=0.0)),
        "suspected": count > 0 and before <= 1e-3,
    }


@st.composite
def problems(draw: Any) -> dict[str, Any]:
    """Small whole numbers: sums are exact, so ties are ties; copies, multiples and zero vectors are common."""
    d = draw(st.integers(1, 4))
    vector = st.lists(st.integers(-2, 2), min_size=d, max_size=d)
    docs = draw(st.lists(vector, min_size=1, max_size=10))
    docs += draw(st.lists(st.sampled_from(docs), max_size=5))
    docs += [[4 * x for x in doc] for doc in draw(st.lists(st.sampled_from(docs), max_size=3))]
    queries = draw(st.lists(vector, min_size=1, max_size=8))
    gold = [draw(st.integers(-1, len(docs) - 1)) for _ in queries]
    return {"queries": queries, "docs": docs, "gold": gold}
