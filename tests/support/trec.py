"""Judgements and ranked lists as TREC writes them."""

from __future__ import annotations

import random

TOPICS = 30


def qrels_text(seed: int = 0) -> str:
    rng = random.Random(seed)
    return "".join(f"topic{q} 0 doc{d} {rng.choice([0, 0, 1, 2])}\n" for q in range(TOPICS) for d in range(20))


def run_text(seed: int, tag: str, topics: range = range(TOPICS)) -> str:
    rng = random.Random(seed)
    return "".join(f"topic{q} Q0 doc{d} 0 {rng.random():.2f} {tag}\n" for q in topics for d in range(40))
