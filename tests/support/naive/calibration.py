"""Whether a confidence means what it says, in plain loops (section 3)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any

from tests.support.naive.regression import exact_mean
from tests.support.naive.table import Oracle, Row, Table, Value, answered, asked, is_correct, mean, with_target


def calibration_rows(table: Table) -> list[Row]:
    return [row for row in with_target(answered(table)) if row["confidence"] is not None]


def width_bin(confidence: float, bins: int) -> int:
    """Bin k is [k/bins, (k+1)/bins), the last closed; the edges are the doubles k/bins."""
    for k in range(bins):
        if k / bins <= confidence < (k + 1) / bins:
            return k
    return bins - 1


def mass_bins(confidences: list[float], bins: int) -> list[int]:
    """⌊bins · midrank / n⌋ with the midrank as the mass below plus half the ties, in whole numbers."""
    n = len(confidences)
    doubled = [
        2 * sum(other < c for other in confidences) + sum(other == c for other in confidences) for c in confidences
    ]
    return [bins * d // (2 * n) for d in doubled]


def gaps(rows: list[Row], bin_of_row: list[int]) -> list[tuple[int, float]]:
    """(rows, |accuracy − mean confidence|) of every non-empty bin."""
    found = []
    for k in sorted(set(bin_of_row)):
        inside = [row for row, b in zip(rows, bin_of_row, strict=True) if b == k]
        hits = sum(is_correct(row) for row in inside) / len(inside)
        confidence = math.fsum(row["confidence"] for row in inside) / len(inside)
        found.append((len(inside), abs(hits - confidence)))
    return found


def width_gaps(table: Table, bins: int) -> list[tuple[int, float]]:
    rows = calibration_rows(table)
    return gaps(rows, [width_bin(row["confidence"], bins) for row in rows])


def weighted_gap(found: list[tuple[int, float]]) -> Value:
    total = sum(n for n, _ in found)
    return math.fsum(n / total * gap for n, gap in found) if found else None


def ece(table: Table, *, bins: int = 10) -> Value:
    return weighted_gap(width_gaps(table, bins))


def calibration_error2(table: Table, *, bins: int = 10) -> Value:
    """Σ over bins of (S² − Q)·G/(G−1)/(N·n_b): pairs of different clusters, cluster by cluster."""
    rows = calibration_rows(table)
    units = [row[table.cluster] for row in rows]
    count = len(set(units))
    if count < 2:
        return None
    total = 0.0
    places = [width_bin(row["confidence"], bins) for row in rows]
    for k in set(places):
        gap: dict[Any, float] = {}
        for row, unit, place in zip(rows, units, places, strict=True):
            if place == k:
                gap[unit] = gap.get(unit, 0.0) + is_correct(row) - row["confidence"]
        pairs = math.fsum(gap[a] * gap[b] for a in gap for b in gap if a != b)
        total += pairs / (len(rows) * places.count(k))
    return total * count / (count - 1)


def of_class(oracle: Callable[..., Value], table: Table, *, positive: str, **options: Any) -> Value:
    """The same metric with the confidence read as the probability of a class, on every asked row with both.

    A class that no target has is undefined: it may be misspelt.
    """
    if all(row["target"] != positive for row in table.rows):
        return None
    rows = [
        {**row, "outcome": "answered", "prediction": "hit", "target": "hit" if row["target"] == positive else "miss"}
        for row in with_target(asked(table))
    ]
    return oracle(table.of(rows), **options)


def mce(table: Table, *, bins: int = 10) -> Value:
    return max((gap for _, gap in width_gaps(table, bins)), default=None)


def ace(table: Table, *, bins: int = 10) -> Value:
    rows = calibration_rows(table)
    return weighted_gap(gaps(rows, mass_bins([row["confidence"] for row in rows], bins)))


def brier(table: Table, *, binary: bool = False) -> Value:
    rows = answered(table)
    held = {row["prediction"] for row in rows} | {row["target"] for row in with_target(rows)}
    if binary and len(held) > 2:
        return None
    return mean([(row["confidence"] - is_correct(row)) ** 2 for row in calibration_rows(table)])


def nll(table: Table) -> Value:
    terms = []
    for row in calibration_rows(table):
        p = min(max(row["confidence"], 1e-6), 1 - 1e-6)
        terms.append(-math.log(p if is_correct(row) else 1 - p))
    return mean(terms)


def signed_gaps(table: Table, bins: int, number: type) -> list[dict[int, Any]]:
    """d_cb = hits − mass of every cluster, by bin; exact where `number` is Fraction."""
    found: dict[Any, dict[int, Any]] = {}
    for row in calibration_rows(table):
        cell = found.setdefault(row[table.cluster], {})
        k = width_bin(row["confidence"], bins)
        cell[k] = cell.get(k, 0) + is_correct(row) - number(row["confidence"])
    return list(found.values())


def ece_under(signs: Iterable[int], clusters: list[dict[int, Any]], n: int) -> Any:
    """Σ_b |Σ_c s_c d_cb| / N."""
    total: dict[int, Any] = {}
    for sign, cell in zip(signs, clusters, strict=True):
        for k, d in cell.items():
            total[k] = total.get(k, 0) + sign * d
    return sum(map(abs, total.values())) / n


def null_eces(table: Table, bins: int) -> list[Fraction]:
    """The ECE under every choice of cluster signs, exactly (for few clusters)."""
    clusters, n = signed_gaps(table, bins, Fraction), len(calibration_rows(table))
    if not n:
        return []
    return [ece_under(signs, clusters, n) for signs in itertools.product((1, -1), repeat=len(clusters))]


def sampled_null_eces(table: Table, bins: int, draws: int, random: Random) -> list[float]:
    """The ECE under random cluster signs."""
    clusters, n = signed_gaps(table, bins, float), len(calibration_rows(table))
    return [ece_under([random.choice((1, -1)) for _ in clusters], clusters, n) for _ in range(draws)]


def ece_null(table: Table, *, bins: int = 10) -> Value:
    """The mean over all cluster signs."""
    found = null_eces(table, bins)
    return float(exact_mean(found)) if found else None


def p_calibrated(table: Table, *, bins: int = 10, slack: float = 0.0) -> Value:
    """The share of all cluster signs whose ECE reaches the observed one, which is the one of all signs +1."""
    found = null_eces(table, bins)
    return sum(e >= found[0] - Fraction(slack) for e in found) / len(found) if found else None


# -- by name ---------------------------------------------------------------------------------------------------------

CALIBRATION: dict[str, Oracle] = {
    **{f"ece(bins={k})": partial(ece, bins=k) for k in (1, 5, 15, 64)},
    **{f"mce(bins={k})": partial(mce, bins=k) for k in (1, 15)},
    **{f"ace(bins={k})": partial(ace, bins=k) for k in (1, 2, 3, 15)},
    "ece": ece,
    "mce": mce,
    "ace": ace,
    "brier": brier,
    "brier(binary=true)": partial(brier, binary=True),
    "nll": nll,
    "calibration_error2": calibration_error2,
    "calibration_error2(bins=3)": partial(calibration_error2, bins=3),
    **{
        f"{name}(positive=A)": partial(of_class, oracle, positive="A")
        for name, oracle in (("ece", ece), ("ace", ace), ("brier", brier), ("nll", nll), ("mce", mce))
    },
    "calibration_error2(positive=A)": partial(of_class, calibration_error2, positive="A"),
}

CHANCE: dict[str, Oracle] = {
    "ece_null": ece_null,
    "ece_null(bins=3)": partial(ece_null, bins=3),
    "p_calibrated": p_calibrated,
    "p_calibrated(bins=3)": partial(p_calibrated, bins=3),
}
