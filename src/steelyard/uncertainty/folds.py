"""Folds: which clusters are left out together, so that what was learned from the others can be judged on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steelyard.errors import InputError, UsageError
from steelyard.ground.arrays import Codes
from steelyard.ground.randomness import words


def fold_of(clusters: int, folds: int, seed: int) -> Codes:
    """The fold that each cluster is left out in: a seeded shuffle, dealt round."""
    order = np.argsort(words(seed, 0, 1, clusters)[0], kind="stable")
    fold = np.empty(clusters, np.int64)
    fold[order] = np.arange(clusters) % max(folds, 1)
    return fold


def held_out_folds(clusters: Sequence[str], folds: int, seed: int) -> Codes:
    """The fold of each row: rows of a cluster stay together, and their order does not matter."""
    if folds < 2:
        raise UsageError("at least 2 folds are needed: what is learned on some is judged on the others")
    names, code = np.unique(np.array(clusters, dtype=object), return_inverse=True)
    if len(names) < 2:
        raise InputError("at least 2 queries (or clusters of them) are needed: some must be held out")
    return fold_of(len(names), min(folds, len(names)), seed)[code]
