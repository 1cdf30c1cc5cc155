"""Tables of every kind as hypothesis draws them, and values that agree with their oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import Any

from hypothesis import strategies as st

from steelyard.records.table import Records
from steelyard.study.evaluation import value
from tests.support.naive.regression import errors
from tests.support.naive.table import Oracle, Row, Table

CONFIDENCES = [0.0, -0.0, 1.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.5, 0.6, 0.7, 0.9, 1 / 3, 2 / 3, 14 / 15, 1e-300, 1 - 2**-53]
SIGNALS = [0.0, -0.0, -3.5, 1.0, 2.0, 2.5, 7.0, 1e150, -1e150, 1e-300]
OUTCOMES = ["answered", "abstained", "unparsed", "failed", None]
EIGHTHS = [k / 8 for k in range(-24, 280)]
Columns = tuple[str, ...]


# -- tables ----------------------------------------------------------------------------------------------------------

EXTRA: dict[str, st.SearchStrategy[Any]] = {
    "signal.x": st.sampled_from(SIGNALS),
    "should_abstain": st.sampled_from([True, False, None]),
    "latency_ms": st.one_of(st.none(), st.sampled_from([0.0, 1.0, 12.5, 1e6]), st.floats(0, 1e4)),
    "input_tokens": st.one_of(st.none(), st.integers(0, 10**6)),
    "output_tokens": st.one_of(st.none(), st.integers(0, 10**6)),
    "cost": st.one_of(st.none(), st.sampled_from([0.0, 0.25, 3.0]), st.floats(0, 1e3)),
    "score": st.one_of(st.none(), st.floats(-1e6, 1e6)),
    "group.site": st.sampled_from(["x", "y", "z", None]),
    "task": st.sampled_from(["x", "y", "z"]),
}


def a_row(draw: Any, targets: list[Any], predictions: list[Any], outcomes: list[Any], extra: Columns) -> Row:
    """One row but for its keys; an answered row always has a prediction and something to rank by."""
    outcome = draw(st.sampled_from(outcomes))
    prediction = draw(st.sampled_from(predictions))
    if outcome != "answered" and draw(st.booleans()):
        prediction = None
    ranks = outcome == "answered" or (outcome is None and prediction is not None)
    confidence = draw(st.one_of(st.sampled_from(CONFIDENCES), st.floats(0, 1)))
    return {
        "target": draw(st.sampled_from(targets)),
        "prediction": prediction,
        "outcome": outcome,
        "confidence": confidence if ranks or draw(st.booleans()) else None,
        **{name: draw(EXTRA[name]) for name in extra},
    }


def outcomes_of(draw: Any) -> list[Any]:
    """All four and unstated ones, or a table in which all rows fared alike."""
    return draw(st.sampled_from([OUTCOMES, OUTCOMES, ["answered"], ["answered", "failed"], *([o] for o in OUTCOMES)]))


def labels_of(draw: Any) -> tuple[list[str], list[str]]:
    """Targets and predictions: one class, two, three, or a prediction that is never a target."""
    targets = draw(st.sampled_from([["A"], ["A", "B"], ["A", "B", "C"]]))
    return targets, targets + draw(st.sampled_from([[], ["Z"]]))


def numbers_of(draw: Any) -> tuple[list[float], list[float]]:
    numbers = draw(st.lists(st.sampled_from(EIGHTHS), min_size=1, max_size=6))
    return numbers, numbers


@st.composite
def label_tables(draw: Any, extra: Columns = (), missing: Columns = ()) -> Table:
    """Labelled rows, one row an item; columns in `missing` have nulls, at random."""
    outcomes, (targets, predictions) = outcomes_of(draw), labels_of(draw)
    rows = []
    for item in range(draw(st.integers(1, 25))):
        row = {"item": item, **a_row(draw, targets, predictions, outcomes, extra)}
        rows.append({k: None if k in missing and draw(st.integers(0, 3)) == 0 else v for k, v in row.items()})
    labels = draw(st.sampled_from([None, None, ("A", "B", "C"), ("A", "B", "C", "D")]))
    facts = st.sampled_from([None, 0.0, 60.0, 0.37])
    return Table(rows, labels, wall_seconds=draw(facts), kwh=draw(facts), co2_kg=draw(facts))


@st.composite
def number_tables(
    draw: Any, pool: list[Any], offset: float = 0.0, size: int = 25, extra: Columns = ("signal.x",)
) -> Table:
    """Rows with numbers, targets and predictions from one pool, moved by an offset."""
    outcomes = outcomes_of(draw)
    numbers = [offset + v for v in draw(st.lists(st.sampled_from(pool), min_size=1, max_size=8))]
    rows = [
        {"item": item, **a_row(draw, numbers, numbers, outcomes, extra)} for item in range(draw(st.integers(1, size)))
    ]
    return Table(rows, width=4.0, co2_kg=draw(st.sampled_from([None, 0.0, 0.37])))


@st.composite
def repeat_tables(draw: Any, content: Any, extra: Columns = ()) -> Table:
    """Few items, asked one to four times; an answer may be missing from a repeat."""
    outcomes, (targets, predictions) = outcomes_of(draw), content(draw)
    repeats = draw(st.integers(1, 4))
    keys = [(item, repeat) for item in range(draw(st.integers(1, 6))) for repeat in range(repeats)]
    kept = [key for key in keys if key[0] == 0 or draw(st.integers(0, 5))]
    rows = [{"item": i, "repeat": r, **a_row(draw, targets, predictions, outcomes, extra)} for i, r in kept]
    return Table(rows)


@st.composite
def perturbed_tables(draw: Any, content: Any) -> Table:
    """Originals beside one perturbation; either may be missing for an item, the target is the same."""
    outcomes, (targets, predictions) = outcomes_of(draw), content(draw)
    original = draw(st.sampled_from([None, "none", "original"]))
    rows = []
    for item in range(draw(st.integers(1, 10))):
        target = draw(st.sampled_from(targets))
        which = draw(st.sampled_from([(original, "typo")] * 6 + [(original,), ("typo",)]))
        for perturbation in which if item else (original, "typo"):
            row = a_row(draw, [target], predictions, outcomes, ())
            rows.append({"item": item, "perturbation": perturbation, **row})
    return Table(rows)


def records(table: Table) -> Records:
    """The table as the package reads it."""
    columns = {name: [row[name] for row in table.rows] for name in table.rows[0]}
    task: dict[str, Any] = {}
    if table.labels is not None:
        task["labels"] = list(table.labels)
    if table.width is not None:
        task["range"] = table.width
    facts = {name: getattr(table, name) for name in ("wall_seconds", "kwh", "co2_kg")}
    task["facts"] = {name: fact for name, fact in facts.items() if fact is not None}
    if table.plan is not None:
        task["benchmark"] = table.plan
    return Records.from_columns(columns, cluster=table.cluster, task=task)


# -- comparing -------------------------------------------------------------------------------------------------------


def agrees(got: float | None, wanted: float | None, to: float, scale: float) -> bool:
    """Both undefined, or equal to `to`, relatively or in units of `scale`."""
    undefined = got is None or math.isnan(got)
    if wanted is None or undefined:
        return undefined and wanted is None
    return math.isclose(got, wanted, rel_tol=to, abs_tol=to * scale)


def check(oracles: Mapping[str, Oracle], table: Table, *, to: float = 1e-9, scale: float = 1.0) -> None:
    """Every metric in `oracles` has its oracle's value on this table."""
    data = records(table)
    found = [(text, value(text, data), oracle(table)) for text, oracle in oracles.items()]
    wrong = [f"{text}: {got!r}, not {wanted!r}" for text, got, wanted in found if not agrees(got, wanted, to, scale)]
    assert not wrong, "\n".join(wrong)


def largest_loss(table: Table) -> float:
    """The unit in which rounding of an area or an error is measured."""
    return max((abs(float(e)) for e in errors(table)), default=1.0)


def large(seed: int, *, numbers: bool = False, clusters: int = 40, repeats: int = 1) -> Table:
    """300 rows with every column and outcome, from Python's own generator."""
    random = Random(seed)
    rows = []
    for i in range(300):
        fate = random.choices(["answered", "abstained", "unparsed", "failed"], [80, 10, 5, 5])[0]
        target: Any = random.choice([k / 4 for k in range(160)] if numbers else "ABC")
        wrong: Any = target + random.gauss(0, 2) if numbers else random.choice("ABCZ")
        rows.append(
            {
                "item": i // repeats,
                "repeat": i % repeats,
                "patient": random.randrange(clusters),
                "target": target,
                "prediction": None if fate != "answered" else target if random.random() < 0.6 else wrong,
                "outcome": fate,
                "confidence": round(random.random(), random.choice([1, 2, 17])),
                "signal.x": random.choice([random.gauss(0, 1), float(random.randrange(4))]),
                "should_abstain": random.choice([True, False, None]),
                "latency_ms": random.lognormvariate(5, 1),
                "input_tokens": random.randrange(2000),
                "output_tokens": random.randrange(500),
                "cost": random.choice([None, random.random() / 100]),
                "score": random.gauss(3, 1),
                "group.site": random.choice("xyz"),
            }
        )
    return Table(rows, cluster="patient", width=4.0, wall_seconds=812.5, kwh=0.8, co2_kg=0.3)
