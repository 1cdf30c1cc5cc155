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
    for label, count in whole.items():
        share = count / len(labels)
        off = abs(counts[label] - len(sample) * share)
        assert off < 1 + share  # its own rounding, and its share of that of two others
        if all((len(sample) * each) % len(labels) == 0 for each in whole.values()):
            assert off == 0


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


def numbered(values: list[float]) -> list[Item]:
    return [Item(id=number, fields={}, target=value) for number, value in enumerate(values)]


def test_numbers_are_sampled_at_random() -> None:
    """Every target is another; the mean of a sample is that of all, up to chance."""
    whole = numbered([float(value) for value in range(1000)])
    samples = [sampled(whole, 50, seed) for seed in range(200)]
    assert len({tuple(item.id for item in sample) for sample in samples}) == 200
    means = [sum(float(item.target) for item in sample) / 50 for sample in samples]  # type: ignore[arg-type]
    assert abs(sum(means) / 200 - 499.5) < 15  # five standard errors: 289 / √50 / √200 = 2.9 each
    assert max(Counter(item.id for sample in samples for item in sample).values()) < 30  # 10 are expected


def test_labels_of_few_items_have_their_chance() -> None:
    """A hundred labels of two items and fifty of one: neither kind is left out where there are fewer seats."""
    labels = [f"two {n // 2}" for n in range(200)] + [f"one {n}" for n in range(50)]
    whole = items(labels)
    drawn = Counter(item.id for seed in range(400) for item in sampled(whole, 50, seed))
    for kind in (range(200), range(200, 250)):
        assert 0.18 < sum(drawn[number] for number in kind) / len(kind) / 400 < 0.22
    assert len(drawn) == 250


def test_labels_of_as_many_items_take_turns_by_the_seed_and_not_by_their_spelling() -> None:
    whole = items(["a", "b", "c"] * 10)
    first = Counter(sampled(whole, 1, seed)[0].target for seed in range(300))
    assert all(70 <= first[label] <= 130 for label in "abc")  # 100, with a standard deviation of 8.2


def test_sizes_that_are_none() -> None:
    whole = items(["a", "b"])
    assert sampled(whole, None, 0) == tuple(whole)
    with pytest.raises(UsageError, match="at least 1"):
        sampled(whole, 0, 0)
