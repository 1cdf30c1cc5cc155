"""Samples: of the right size, with labels as they are, the same for every model and order, and nested."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import UsageError
from steelyard.runner.tasks import Item, sampled

targets = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=60)


def items(labels: list[str]) -> list[Item]:
    return [Item(id=number, fields={}, target=label) for number, label in enumerate(labels)]


@given(targets, st.integers(1, 70), st.integers(0, 5))
def test_a_sample_has_its_size_and_each_label_its_share(labels: list[str], size: int, seed: int) -> None:
    sample = sampled(items(labels), size, seed)
    assert len(sample) == len({item.id for item in sample}) == min(size, len(labels))
    assert [item.id for item in sample] == sorted(item.id for item in sample)  # type: ignore[type-var]
    counts, whole = Counter(item.target for item in sample), Counter(labels)
    for label in whole:
        assert abs(counts[label] - len(sample) * whole[label] / len(labels)) <= 1.5


@given(targets, st.integers(0, 5), st.randoms(use_true_random=False))
def test_a_smaller_sample_is_part_of_a_larger_and_the_order_makes_no_difference(
    labels: list[str], seed: int, chance: random.Random
) -> None:
    whole = items(labels)
    before: set[str | int] = set()
    for size in range(1, len(labels) + 1):
        ids = {item.id for item in sampled(whole, size, seed)}
        assert before <= ids
        before = ids
    mixed = list(whole)
    chance.shuffle(mixed)
    half = len(labels) // 2 + 1
    assert {item.id for item in sampled(mixed, half, seed)} == {item.id for item in sampled(whole, half, seed)}


def test_seeds_differ_and_every_item_has_its_chance() -> None:
    whole = items(["a"] * 20)
    drawn = Counter(item.id for seed in range(400) for item in sampled(whole, 5, seed))
    assert len(drawn) == 20
    assert max(drawn.values()) < 150  # 100 are expected, with a standard deviation of 8.7


def test_sizes_that_are_none() -> None:
    whole = items(["a", "b"])
    assert sampled(whole, None, 0) == tuple(whole)
    with pytest.raises(UsageError, match="at least 1"):
        sampled(whole, 0, 0)
