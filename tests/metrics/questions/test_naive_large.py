"""Larger tables against naive oracles, by both ways to a value."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from steelyard.metrics.definition import metric_of
from steelyard.study.evaluation import evaluate
from tests.support.naive.calibration import (
    CALIBRATION,
)
from tests.support.naive.correctness import (
    CORRECTNESS,
    SCORES,
)
from tests.support.naive.deferral import DEFERRAL
from tests.support.naive.efficiency import COST
from tests.support.naive.groups import (
    GROUPS_LABELS,
    GROUPS_NUMBERS,
    PERTURBED_LABELS,
    PERTURBED_NUMBERS,
    REPEATS_LABELS,
    REPEATS_NUMBERS,
)
from tests.support.naive.ranking import RANKINGS
from tests.support.naive.regression import REGRESSION
from tests.support.naive.resources import TAKEN
from tests.support.naive.selective import (
    selective_family,
)
from tests.support.naive.strategies import agrees, check, large, records
from tests.support.naive.table import Oracle, Row, Table


def ranked(seed: int) -> Table:
    """300 queries of clusters, with up to fifty ranked documents."""
    random = Random(seed)
    rows: list[Row] = []
    for i in range(300):
        judged = random.choices([-1, 0, 1, 2, 3], [1, 10, 5, 3, 1], k=random.randrange(30))
        gains = random.sample([*judged, *[None] * 30], random.randrange(len(judged) + 31))
        rows.append({"item": i, "patient": random.randrange(40), "gains": gains, "judged": judged})
    rows[0] |= {"gains": None}
    rows[1] |= {"judged": None}
    return Table(rows, cluster="patient")


def altered(table: Table, seed: int) -> Table:
    """The rows as originals, and each again under a perturbation that changes some answers."""
    random = Random(seed)
    rows = [{**row, "perturbation": None} for row in table.rows]
    for row in table.rows:
        other = random.choice(table.rows) if random.random() < 0.3 else row
        rows.append({**other, "item": row["item"], "target": row["target"], "perturbation": "typo"})
        rows[-1]["patient"] = row["patient"]
        rows[-1]["repeat"] = row["repeat"]
    return table.of(rows)


LARGE: dict[str, tuple[dict[str, Oracle], Any]] = {
    "correctness": ({**CORRECTNESS, **SCORES}, lambda seed: large(seed)),
    "calibration": (CALIBRATION, lambda seed: large(seed)),
    "rankings": (RANKINGS, ranked),
    "deferral and cost": ({**DEFERRAL, **COST, **TAKEN}, lambda seed: large(seed)),
    "selective labels": (selective_family(""), lambda seed: large(seed)),
    "selective signal": (selective_family("rank=signal.x", rank="signal.x"), lambda seed: large(seed)),
    "selective numbers": (selective_family("loss=abs", loss="abs"), lambda seed: large(seed, numbers=True)),
    "regression": (REGRESSION, lambda seed: large(seed, numbers=True)),
    "groups of labels": (GROUPS_LABELS, lambda seed: large(seed)),
    "groups of numbers": (GROUPS_NUMBERS, lambda seed: large(seed, numbers=True)),
    "repeats of labels": (REPEATS_LABELS, lambda seed: large(seed, repeats=3)),
    "repeats of numbers": (REPEATS_NUMBERS, lambda seed: large(seed, numbers=True, repeats=3)),
    "perturbed labels": (PERTURBED_LABELS, lambda seed: altered(large(seed), seed)),
    "perturbed numbers": (PERTURBED_NUMBERS, lambda seed: altered(large(seed, numbers=True), seed)),
}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("family", LARGE)
def test_three_hundred_rows(family: str, seed: int) -> None:
    oracles, make = LARGE[family]
    check(oracles, make(seed))


@pytest.mark.parametrize("family", LARGE)
def test_evaluate_says_the_same(family: str) -> None:
    """`evaluate` sums by cluster and then over clusters; its value is the oracle's all the same."""
    oracles, make = LARGE[family]
    table = make(3)
    found = evaluate(records(table), list(oracles), resamples=100)
    here = {"perturbation": "typo"} if "perturbation" in table.rows[0] else {}
    values = {e.metric: e.value for e in found if e.slice == here}
    wrong = [
        f"{text}: {values[metric_of(text).name]!r}, not {oracle(table)!r}"
        for text, oracle in oracles.items()
        if not agrees(values[metric_of(text).name], oracle(table), 1e-9, 1.0)
    ]
    assert not wrong, "\n".join(wrong)
