"""How far numbers are off, exact (section 2)."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

from tests.support.naive.table import Oracle, Table, Value, answered, with_target


def pairs_of_numbers(table: Table) -> list[tuple[Fraction, Fraction]]:
    """(target, prediction) of the answered rows, exactly."""
    return [(Fraction(row["target"]), Fraction(row["prediction"])) for row in with_target(answered(table))]


def errors(table: Table) -> list[Fraction]:
    return [prediction - target for target, prediction in pairs_of_numbers(table)]


def exact_mean(numbers: list[Fraction]) -> Fraction:
    return sum(numbers, Fraction(0)) / len(numbers)


def root(number: Fraction) -> float:
    """A square root that neither overflows nor underflows on the way: 60 digits by whole numbers."""
    if number == 0:
        return 0.0
    shift = 200 - (number.numerator.bit_length() - number.denominator.bit_length()) // 2
    scaled = number * Fraction(4) ** shift
    return float(Fraction(math.isqrt(scaled.numerator // scaled.denominator)) / Fraction(2) ** shift)


def mae(table: Table) -> Value:
    found = [abs(e) for e in errors(table)]
    return float(exact_mean(found)) if found else None


def mdae(table: Table) -> Value:
    found = sorted(abs(e) for e in errors(table))
    if not found:
        return None
    return float((found[(len(found) - 1) // 2] + found[len(found) // 2]) / 2)


def rmse(table: Table) -> Value:
    found = [e * e for e in errors(table)]
    return root(exact_mean(found)) if found else None


def bias(table: Table) -> Value:
    found = errors(table)
    return float(exact_mean(found)) if found else None


def r2(table: Table) -> Value:
    pairs = pairs_of_numbers(table)
    if len({target for target, _ in pairs}) < 2:
        return None
    centre = exact_mean([target for target, _ in pairs])
    left = sum((prediction - target) ** 2 for target, prediction in pairs)
    total = sum((target - centre) ** 2 for target, _ in pairs)
    return float(1 - left / total)


def correlation(pairs: list[tuple[Fraction, Fraction]]) -> Value:
    if len({x for x, _ in pairs}) < 2 or len({y for _, y in pairs}) < 2:
        return None
    mx, my = exact_mean([x for x, _ in pairs]), exact_mean([y for _, y in pairs])
    xy = sum((x - mx) * (y - my) for x, y in pairs)
    xx = sum((x - mx) ** 2 for x, _ in pairs)
    yy = sum((y - my) ** 2 for _, y in pairs)
    return math.copysign(root(xy * xy / (xx * yy)), xy)


def pearson(table: Table) -> Value:
    return correlation(pairs_of_numbers(table))


def midranks(numbers: list[Any]) -> list[Fraction]:
    """1-based ranks, equal numbers share their mean."""
    return [
        Fraction(2 * sum(other < number for other in numbers) + sum(other == number for other in numbers) + 1, 2)
        for number in numbers
    ]


def spearman(table: Table) -> Value:
    pairs = pairs_of_numbers(table)
    targets, predictions = midranks([x for x, _ in pairs]), midranks([y for _, y in pairs])
    return correlation(list(zip(targets, predictions, strict=True)))


def mae_by_bin(table: Table, *, low: float, high: float = math.inf) -> Value:
    """Both ends belong to the bin, which is the target's."""
    return mae(table.of([row for row in with_target(table.rows) if low <= row["target"] <= high]))


# -- by name ---------------------------------------------------------------------------------------------------------

REGRESSION: dict[str, Oracle] = {
    "mae": mae,
    "mdae": mdae,
    "rmse": rmse,
    "bias": bias,
    "r2": r2,
    "pearson": pearson,
    "spearman": spearman,
    "mae_by_bin.1-3": partial(mae_by_bin, low=1, high=3),
    "mae_by_bin.5-8": partial(mae_by_bin, low=5, high=8),
    "mae_by_bin.13-21": partial(mae_by_bin, low=13, high=21),
    "mae_by_bin.34+": partial(mae_by_bin, low=34),
    'mae_by_bin(bins=["0-1", "2-3"]).2-3': partial(mae_by_bin, low=2, high=3),
}
