"""Labels that are not words, and classes that are missing."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest

from tests.support.naive import NAIVE
from tests.support.naive.correctness import (
    balanced_accuracy,
    f1,
    f1_macro,
    f1_weighted,
    precision,
    recall,
)
from tests.support.naive.groups import (
    grouped,
)
from tests.support.naive.strategies import check
from tests.support.naive.table import Oracle, Table

ODD = ["a b", "c,d", "e.f"]


@pytest.mark.parametrize(
    ("labels", "text", "oracle"),
    [
        ([0, 1, 2], "f1.1", partial(f1, label=1)),
        ([0, 1, 2], "precision.0", partial(precision, label=0)),
        ([0, 1, 2], "recall.2", partial(recall, label=2)),
        ([0, 1, 2], "f1_macro(labels=[0, 1, 2, 3])", partial(f1_macro, labels=(0, 1, 2, 3))),
        ([True, False], "f1.true", partial(f1, label=True)),
        ([True, False], "precision.false", partial(precision, label=False)),
        ([True, False], "balanced_accuracy", balanced_accuracy),
        ([True, False], "f1_macro(labels=[true, false])", partial(f1_macro, labels=(True, False))),
        (ODD, 'f1."a b"', partial(f1, label="a b")),
        (ODD, 'precision."c,d"', partial(precision, label="c,d")),
        (ODD, 'recall."e.f"', partial(recall, label="e.f")),
        (ODD, 'f1_weighted(labels=["c,d", "e.f", "a b"])', f1_weighted),
    ],
)
def test_labels_of_every_kind(labels: list[Any], text: str, oracle: Oracle) -> None:
    random = Random(5)
    rows = [
        {"item": i, "target": random.choice(labels), "prediction": random.choice([*labels, None])} for i in range(60)
    ]
    check({text: oracle}, Table(rows), to=1e-12)


def test_a_predicted_class_outside_the_tasks_labels_has_an_f1() -> None:
    """Null only with neither support nor predictions; this class was predicted, never rightly."""
    rows = [{"item": 0, "target": "A", "prediction": "Z"}, {"item": 1, "target": "B", "prediction": "B"}]
    table = Table(rows, labels=("A", "B"))
    check({t: NAIVE[t] for t in ("f1.Z", "precision.Z", "recall.Z", "f1_macro")}, table)


def test_f1_is_the_harmonic_mean_where_a_target_is_missing() -> None:
    """Precision, recall and f1 of a class read the same rows."""
    rows = [{"item": i, "target": t, "prediction": "A"} for i, t in enumerate(["A", "B", None])]
    check({t: NAIVE[t] for t in ("precision.A", "recall.A", "f1.A")}, Table(rows))


@pytest.mark.parametrize("labels", [None, ("A", "B")])
def test_a_group_of_failed_rows_has_no_value(labels: Any) -> None:
    """Not the worst possible one: it is left out of the gap."""
    fates = [("x", "A", "answered"), ("x", "B", "answered"), ("y", "A", "failed")]
    rows = [
        {"item": i, "target": t, "prediction": t, "outcome": o, "group.site": g} for i, (g, t, o) in enumerate(fates)
    ]
    check(grouped("f1_macro"), Table(rows, labels=labels))
