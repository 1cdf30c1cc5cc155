"""Names that MLflow takes: legal, the same in every run, and no two alike, whatever metrics and labels are called."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.exports.mlflow import ENDINGS, metrics_of, names_document
from steelyard.exports.plain_names import plain_names
from steelyard.halves import whole_text
from steelyard.metrics.definition import metric_of
from steelyard.study.evaluation import evaluate
from steelyard.study.wire import flat_key
from tests.support.exports import estimate
from tests.support.hostile import PAYLOADS, TEXTS
from tests.support.tables import every_instance, fitting

LEGAL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,249}")


def check(names: dict[str, str]) -> None:
    spelt = [f"{name}{ending}".casefold() for name in names.values() for ending in ("", *ENDINGS)]
    assert len(spelt) == len(set(spelt))
    assert [name for name in names.values() if not LEGAL.fullmatch(f"{name}.high")] == []


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("accuracy", "accuracy"),
        ("ece(bins=15)", "ece-bins-15"),
        ("ndcg@10", "ndcg-10"),
        ("f1.self-care", "f1.self-care"),
        ("accuracy{group.site=x}", "accuracy-group.site-x"),
        ("accuracy{model=m-1,group.site=x}", "accuracy-model-m-1-group.site-x"),
        ("fairness_gap(f1_macro, by=group.site)", "fairness_gap-f1_macro-by-group.site"),
        ("x(t=-0.5)", "x-t--0.5"),
        ("mine.parts:gap", "mine.parts-gap"),
    ],
)
def test_ordinary_names_can_be_read(key: str, name: str) -> None:
    assert plain_names([key]) == {key: name}


def test_what_is_lost_is_marked_alike_in_every_run() -> None:
    one, two = plain_names(['f1."very bad"'], ENDINGS), plain_names(['f1."very bad"', "accuracy"], ENDINGS)
    assert one['f1."very bad"'] == two['f1."very bad"']
    assert re.fullmatch(r"f1\.very-bad-[0-9a-f]{8}", one['f1."very bad"'])
    assert plain_names(['f1."é"']) != plain_names(['f1."è"'])
    assert plain_names(["f1.a+b"]) != plain_names(["f1.a-b"])


def test_names_that_would_meet_are_told_apart() -> None:
    for keys in (
        ("ndcg@10", "ndcg-10"),
        ("f1.A", "f1.a"),
        ("f1", "f1.low"),
        ("f1.N", "f1"),
        ("a(b=c)", "a(b, c)", "a{b=c}"),
        ("x" * 300, "x" * 301),
    ):
        names = plain_names(keys, ENDINGS)
        assert list(names) == list(keys)
        check(names)


def test_every_estimate_of_every_metric_has_a_legal_name() -> None:
    rng = np.random.default_rng(0)
    estimates = {}
    for name in every_instance():
        chosen = metric_of(name)
        table = fitting(chosen, rng, rows=12)
        by = [] if chosen.grouped_by else ["group.site"]
        found = evaluate(table, [chosen], by=by, resamples=100)
        estimates |= {flat_key(e.metric, e.slice): e for e in found}
    assert len(estimates) > 200
    check(plain_names(list(estimates), ENDINGS))
    every = list(estimates.values())
    numbers, known = metrics_of(every), names_document(every)
    assert len(known) == sum(e.value is not None for e in every)
    assert {name.removesuffix(".low").removesuffix(".high").removesuffix(".n") for name in numbers} >= known.keys()
    for name, meant in known.items():
        assert numbers[name] == estimates[flat_key(meant["metric"], meant["slice"])].value


@given(
    st.lists(TEXTS.map(whole_text), unique=True, max_size=8),
    st.lists(st.text("aA-.é ", max_size=4), unique=True, max_size=8),
)
def test_whatever_labels_hold_no_two_names_meet(labels: list[str], more: list[str]) -> None:
    each = [flat_key("f1", {"group.x": label}) for label in dict.fromkeys([*labels, *more])]
    each += [f"f1.{label}" for label in more]
    check(plain_names(each, ENDINGS))


def test_hostile_and_endless_labels() -> None:
    labels = (*map(whole_text, PAYLOADS), "x" * 10_000, "\x00" * 10_000)
    keys = [flat_key("accuracy", {"group.site": label}) for label in labels]
    names = plain_names(keys, ENDINGS)
    check(names)
    assert max(map(len, names.values())) <= 209


def test_what_has_no_value_is_left_out_and_open_ends_too() -> None:
    numbers = metrics_of(
        [
            estimate(),
            estimate("f1_macro", None, interval=None),
            estimate("ece(bins=15)", 0.1, interval=None),
            estimate("worst_group(accuracy, by=group.site)", 0.2, interval=(0.1, float("inf"))),
        ]
    )
    assert numbers == {
        "accuracy": 0.75,
        "accuracy.low": 0.5,
        "accuracy.high": 0.9,
        "accuracy.n": 40.0,
        "ece-bins-15": 0.1,
        "ece-bins-15.n": 40.0,
        "worst_group-accuracy-by-group.site": 0.2,
        "worst_group-accuracy-by-group.site.low": 0.1,
        "worst_group-accuracy-by-group.site.n": 40.0,
    }
