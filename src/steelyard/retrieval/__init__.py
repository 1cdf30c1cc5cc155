"""Embedding retrieval: vectors, exact search, shifts of queries, and what they do to the ranks.

from steelyard.retrieval import gold_ranks, train_shift
"""

from __future__ import annotations

from steelyard.retrieval.search import gold_ranks
from steelyard.retrieval.shifts.shift import ShiftTraining, train_shift

__all__ = ["ShiftTraining", "gold_ranks", "train_shift"]
