"""What is risked at which coverage, in plain loops (section 4)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from tests.support.naive.table import Oracle, Row, Table, Value, answered, asked, mean, share


def loss_of(row: Row, loss: str | None, width: float | None) -> float:
    """zero_one for labels and abs for numbers unless said otherwise."""
    prediction, target = row["prediction"], row["target"]
    numeric = isinstance(target, int | float) and not isinstance(target, bool)
    name = loss or ("abs" if numeric else "zero_one")
    if name == "zero_one":
        return float(prediction != target)
    distance = float(abs(Fraction(prediction) - Fraction(target)))
    return distance / width if name == "abs_norm" else distance


@dataclass(frozen=True)
class Point:
    """One working point."""

    coverage: float
    risk: float
    generalized: float


def ranked(table: Table, rank: str, loss: str | None, width: float | None) -> list[tuple[float, float]]:
    """(signal, loss) of the answered rows, highest signal first."""
    found = [(row[rank], loss_of(row, loss, width or table.width)) for row in answered(table)]
    return sorted(found, key=lambda pair: -pair[0])


def working_points(rows: list[tuple[float, float]], n: int) -> list[Point]:
    """One point per distinct signal: all rows of a plateau are added at once."""
    points = []
    for signal in dict.fromkeys(signal for signal, _ in rows):  # −0.0 == 0.0
        accepted = [loss for other, loss in rows if other >= signal]
        total = math.fsum(accepted)
        points.append(Point(len(accepted) / n, total / len(accepted), total / n))
    return points


def curve(
    table: Table, *, rank: str = "confidence", loss: str | None = None, range: float | None = None
) -> list[Point]:
    rows = ranked(table, rank, loss, range)
    return working_points(rows, len(asked(table)))


def optimal_curve(
    table: Table, *, rank: str = "confidence", loss: str | None = None, range: float | None = None
) -> list[Point]:
    """Every answered row its own point, by loss ascending."""
    losses = sorted(loss for _, loss in ranked(table, rank, loss, range))
    return working_points([(-float(i), loss) for i, loss in enumerate(losses)], len(asked(table)))


def area(line: list[tuple[float, float]]) -> float:
    """Trapezoids under a polyline."""
    return math.fsum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in itertools.pairwise(line))


def risk_line(points: list[Point]) -> list[tuple[float, float]]:
    """Selective risk with risk(0) = the first risk."""
    return [(0.0, points[0].risk), *((p.coverage, p.risk) for p in points)]


def generalized_line(points: list[Point]) -> list[tuple[float, float]]:
    return [(0.0, 0.0), *((p.coverage, p.generalized) for p in points)]


def cut(line: list[tuple[float, float]], c: float) -> list[tuple[float, float]]:
    """The polyline up to min(c, its end), interpolated linearly to land there."""
    kept = [line[0]]
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        if x1 <= c:
            kept.append((x1, y1))
        else:
            kept.append((c, y0 + (y1 - y0) * (c - x0) / (x1 - x0)))
            break
    return kept


def cmax(table: Table, **options: Any) -> Value:
    return share(len(answered(table)), len(asked(table)))


def aurc(table: Table, **options: Any) -> Value:
    points = curve(table, **options)
    return area(risk_line(points)) if points else None


def augrc(table: Table, **options: Any) -> Value:
    points = curve(table, **options)
    return area(generalized_line(points)) if points else None


def aurc_optimal(table: Table, **options: Any) -> Value:
    points = optimal_curve(table, **options)
    return area(risk_line(points)) if points else None


def augrc_optimal(table: Table, **options: Any) -> Value:
    points = optimal_curve(table, **options)
    return area(generalized_line(points)) if points else None


def difference(table: Table, *, of: Callable[..., Value], minus: Callable[..., Value], **options: Any) -> Value:
    left, right = of(table, **options), minus(table, **options)
    return None if left is None or right is None else left - right


def aurc_over_orders(
    table: Table, *, rank: str = "confidence", loss: str | None = None, range: float | None = None
) -> Value:
    """The mean AURC over every order of tied rows, each row its own point, by enumerating them (tiny tables)."""
    rows = ranked(table, rank, loss, range)
    if not rows:
        return None
    plateaus = [[row for row in rows if row[0] == signal] for signal in dict.fromkeys(s for s, _ in rows)]
    areas = []
    for orders in itertools.product(*(itertools.permutations(plateau) for plateau in plateaus)):
        ordered = [(-float(i), loss) for i, (_, loss) in enumerate(itertools.chain(*orders))]
        areas.append(area(risk_line(working_points(ordered, len(asked(table))))))
    return mean(areas)


def aurc_exact_ties(
    table: Table, *, rank: str = "confidence", loss: str | None = None, range: float | None = None
) -> Value:
    """The same in closed form: after j of m tied rows, j/m of the plateau's loss is expected."""
    rows, n = ranked(table, rank, loss, range), len(asked(table))
    if not rows:
        return None
    points, before = [], []
    for signal in dict.fromkeys(s for s, _ in rows):
        tied = [loss for s, loss in rows if s == signal]
        for j, _ in enumerate(tied, start=1):
            total = math.fsum(before) + math.fsum(tied) * j / len(tied)
            points.append(Point((len(before) + j) / n, total / (len(before) + j), total / n))
        before += tied
    return area(risk_line(points))


def aurc_achievable(table: Table, **options: Any) -> Value:
    """The lower hull by gift wrapping: from each vertex to the point with the smallest slope, the farthest of equals.

    Then vertices that lie at most 1e-10 under the chord of their neighbours are dropped.
    """
    points = curve(table, **options)
    if not points:
        return None
    hull, place = [points[0]], 0
    while place < len(points) - 1:
        here = points[place]
        slopes = {
            k: (points[k].risk - here.risk) / (points[k].coverage - here.coverage)
            for k in range(place + 1, len(points))
        }
        place = max(k for k, slope in slopes.items() if slope == min(slopes.values()))
        hull.append(points[place])
    flat = True
    while flat:
        flat = False
        for a, b, c in zip(hull, hull[1:], hull[2:], strict=False):
            chord = a.risk + (c.risk - a.risk) * (b.coverage - a.coverage) / (c.coverage - a.coverage)
            if chord - b.risk <= 1e-10:
                hull.remove(b)
                flat = True
                break
    return area(risk_line(hull))


def aurc_at(table: Table, *, c: float, **options: Any) -> Value:
    points = curve(table, **options)
    return area(cut(risk_line(points), c)) if points else None


def augrc_at(table: Table, *, c: float, **options: Any) -> Value:
    points = curve(table, **options)
    return area(cut(generalized_line(points), c)) if points else None


def risk_at(table: Table, *, c: float, **options: Any) -> Value:
    return next((p.risk for p in curve(table, **options) if p.coverage >= c), None)


# -- by name ---------------------------------------------------------------------------------------------------------


def selective_family(text: str, **options: Any) -> dict[str, Oracle]:
    """The whole family with these options, written as `text`."""

    def named(name: str, more: str = "") -> str:
        given = ", ".join(part for part in (text, more) if part)
        return f"{name}({given})" if given else name

    return {
        named("cmax"): partial(cmax, **options),
        named("aurc"): partial(aurc, **options),
        named("augrc"): partial(augrc, **options),
        named("aurc_optimal"): partial(aurc_optimal, **options),
        named("augrc_optimal"): partial(augrc_optimal, **options),
        named("eaurc"): partial(difference, of=aurc, minus=aurc_optimal, **options),
        named("eaugrc"): partial(difference, of=augrc, minus=augrc_optimal, **options),
        named("aurc", "ties=exact"): partial(aurc_exact_ties, **options),
        named("eaurc", "ties=exact"): partial(difference, of=aurc_exact_ties, minus=aurc_optimal, **options),
        named("aurc_achievable"): partial(aurc_achievable, **options),
        named("aurc_at"): partial(aurc_at, c=0.5, **options),
        named("augrc_at"): partial(augrc_at, c=0.5, **options),
        **{named("aurc_at", f"c={c}"): partial(aurc_at, c=c, **options) for c in (0.05, 0.3, 0.75, 1)},
        **{named("augrc_at", f"c={c}"): partial(augrc_at, c=c, **options) for c in (0.05, 0.3, 0.75, 1)},
        **{named("risk_at", f"c={c}"): partial(risk_at, c=c, **options) for c in (0.1, 0.3, 0.5, 0.6, 0.9, 1)},
    }


def some_selective(text: str, **options: Any) -> dict[str, Oracle]:
    """A few of the family: enough to see that an option is read."""
    heads = ("aurc", "augrc", "eaurc", "aurc_achievable", "augrc_at", "risk_at")
    found = selective_family(text, **options)
    return {named: oracle for named, oracle in found.items() if named.partition("(")[0] in heads}


SELECTIVE_LABELS: dict[str, Oracle] = {
    **selective_family(""),
    **some_selective("loss=zero_one", loss="zero_one"),
    **selective_family("rank=signal.x", rank="signal.x"),
}

SELECTIVE_NUMBERS: dict[str, Oracle] = {
    **selective_family("loss=abs", loss="abs"),
    **some_selective(""),
    **some_selective("loss=abs_norm, range=3", loss="abs_norm", range=3.0),
    **some_selective("loss=abs_norm", loss="abs_norm"),
    **some_selective("loss=zero_one", loss="zero_one"),
    **some_selective("rank=signal.x, loss=abs", rank="signal.x", loss="abs"),
}
