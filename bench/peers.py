"""What the work is measured against: the same numbers computed the way people compute them today."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rows = list[tuple[float, float]]  # confidence and loss of each answered row


def curve_points(answered: Rows, asked: int) -> list[tuple[float, float, float]]:
    """Coverage, selective and generalized risk at every distinct confidence, in plain Python."""
    points = []
    total = 0.0
    ordered = sorted(answered, reverse=True)
    for rows, (confidence, loss) in enumerate(ordered, start=1):
        total += loss
        if rows == len(ordered) or ordered[rows][0] != confidence:
            points.append((rows / asked, total / rows, total / asked))
    return points


def area(points: Sequence[tuple[float, float]], start: float, stop: float = 1.0) -> float:
    """Trapezoids from coverage 0 up to `stop`."""
    x0, y0, found = 0.0, start, 0.0
    for x, y in points:
        if x >= stop:
            if x > x0:
                end = y0 + (y - y0) * (stop - x0) / (x - x0)
                found += (stop - x0) * (y0 + end) / 2
            return found
        found += (x - x0) * (y0 + y) / 2
        x0, y0 = x, y
    return found


def aurc(answered: Rows, asked: int) -> float:
    points = curve_points(answered, asked)
    return area([(c, r) for c, r, _ in points], points[0][1]) if points else float("nan")


def augrc(answered: Rows, asked: int) -> float:
    return area([(c, g) for c, _, g in curve_points(answered, asked)], 0.0)


def optimal(answered: Rows) -> Rows:
    return [(-loss - i * 1e-12, loss) for i, (_, loss) in enumerate(sorted(answered, key=lambda row: row[1]))]


def hull(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    kept: list[tuple[float, float]] = []
    for x, y in points:
        while len(kept) > 1:
            (x0, y0), (x1, y1) = kept[-2:]
            if y0 + (y - y0) * (x1 - x0) / (x - x0) - y1 > 1e-10:
                break
            kept.pop()
        kept.append((x, y))
    return kept


def risk_at(answered: Rows, asked: int, c: float) -> float:
    return next((risk for coverage, risk, _ in curve_points(answered, asked) if coverage >= c), float("nan"))


def _at(c: float, kind: int) -> Callable[[Rows, int], float]:
    def found(answered: Rows, asked: int) -> float:
        points = curve_points(answered, asked)
        start = points[0][1] if kind == 1 and points else 0.0
        return area([(p[0], p[kind]) for p in points], start, c)

    return found


def _achievable(answered: Rows, asked: int) -> float:
    points = hull([(c, r) for c, r, _ in curve_points(answered, asked)])
    return area(points, points[0][1]) if points else float("nan")


SELECTIVE: dict[str, Callable[[Rows, int], float]] = {
    "cmax": lambda answered, asked: len(answered) / asked,
    "aurc": aurc,
    "augrc": augrc,
    "aurc_optimal": lambda answered, asked: aurc(optimal(answered), asked),
    "augrc_optimal": lambda answered, asked: augrc(optimal(answered), asked),
    "eaurc": lambda answered, asked: aurc(answered, asked) - aurc(optimal(answered), asked),
    "eaugrc": lambda answered, asked: augrc(answered, asked) - augrc(optimal(answered), asked),
    "aurc_achievable": _achievable,
    "aurc_at": _at(0.5, 1),
    "augrc_at": _at(0.5, 2),
    "risk_at(c=0.2)": lambda answered, asked: risk_at(answered, asked, 0.2),
    "risk_at(c=0.4)": lambda answered, asked: risk_at(answered, asked, 0.4),
    "risk_at(c=0.5)": lambda answered, asked: risk_at(answered, asked, 0.5),
    "risk_at(c=0.6)": lambda answered, asked: risk_at(answered, asked, 0.6),
}


def resample_and_recompute(patients: list[tuple[Rows, int]], name: str, resamples: int) -> list[float]:
    """The plain bootstrap of one metric: draw patients, pool their rows, compute the definition."""
    draw = random.Random(0)
    found = []
    for _ in range(resamples):
        chosen = [patients[draw.randrange(len(patients))] for _ in patients]
        answered = [row for rows, _ in chosen for row in rows]
        found.append(SELECTIVE[name](answered, sum(asked for _, asked in chosen)))
    return found


def numpy_areas(confidence: Floats, loss: Floats) -> tuple[float, float]:
    """AURC and AUGRC by argsort and cumulative sums, every row its own point (no ties expected)."""
    order = np.argsort(-confidence)
    total = np.cumsum(loss[order])
    k = np.arange(1, len(loss) + 1)
    x = np.concatenate([[0.0], k / len(loss)])
    risk = total / k
    return (
        float(np.trapezoid(np.concatenate([risk[:1], risk]), x)),
        float(np.trapezoid(np.concatenate([[0.0], total / len(loss)]), x)),
    )


def loop_curve(confidence: Floats, loss: Floats) -> tuple[list[float], list[float], float]:
    """The row-by-row loop of the published selective-classification scripts: drop the least confident row each step."""
    order = np.argsort(confidence)
    n = len(loss)
    coverages, risks, weights = [1.0], [float(loss.mean())], []
    left, total, since = n, float(loss.sum()), 0
    for i in range(n - 1):
        left -= 1
        total -= loss[order[i]]
        since += 1
        if i == 0 or confidence[order[i]] != confidence[order[i - 1]]:
            coverages.append(left / n)
            risks.append(total / left)
            weights.append(since / n)
            since = 0
    area_ = sum((risks[i] + risks[i + 1]) * 0.5 * weights[i] for i in range(len(weights)))
    return coverages, risks, area_
