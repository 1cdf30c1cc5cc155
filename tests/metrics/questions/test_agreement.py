"""Agreement beyond chance: oracles, published numbers, and scikit-learn."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.errors import InputError, UsageError
from steelyard.records.table import Records
from steelyard.study.evaluation import value
from tests.support.naive.agreement import AGREEMENT, RATED, RATERS
from tests.support.naive.strategies import check, label_tables
from tests.support.naive.table import Table

# Krippendorff (2011), section E: four observers, twelve units, with the four values of alpha that the text states;
# Gwet's AC1 of the same ratings is irrCAC's for its table cac.raw4raters
PUBLISHED = {
    "a": [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    "b": [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    "c": [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    "d": [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
}


@given(label_tables(missing=("target",)))
def test_agreement_of_answers_and_targets(table: Table) -> None:
    known = {
        text: oracle for text, oracle in AGREEMENT.items() if "[A, B, C]" not in text or table.labels != (*"ABCD",)
    }
    check(known, table)


@given(st.lists(st.tuples(*[st.sampled_from([None, 1, 2, 3, 5, 8])] * 3), min_size=1, max_size=12))
def test_agreement_of_raters(rows: list[tuple[int | None, ...]]) -> None:
    ratings = [{"item": i, **dict(zip(RATERS, row, strict=True))} for i, row in enumerate(rows)]
    ratings.append({"item": len(rows), **dict.fromkeys(RATERS, 1)})  # so that no column is empty
    check(RATED, Table(ratings))


@pytest.mark.parametrize(
    ("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]
)
def test_krippendorffs_own_numbers(level: str, alpha: float) -> None:
    assert value(f"krippendorff_alpha(raters=[a, b, c, d], level={level})", **PUBLISHED) == pytest.approx(
        alpha, abs=5e-4
    )


def test_irrcacs_number() -> None:
    assert value("gwet_ac1(raters=[a, b, c, d])", **PUBLISHED) == pytest.approx(0.77544, abs=5e-6)


def test_scikit_learn_agrees() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    random = Random(4)
    target = [random.randrange(4) for _ in range(200)]
    answer = [t if random.random() < 0.5 else random.randrange(4) for t in target]
    columns = {"target": target, "prediction": answer, "task": {"labels": [0, 1, 2, 3]}}
    assert value("mcc", **columns) == pytest.approx(metrics.matthews_corrcoef(target, answer), rel=1e-12)
    for weights in (None, "linear", "quadratic"):
        text = "kappa" if weights is None else f"kappa(weights={weights})"
        wanted = metrics.cohen_kappa_score(target, answer, weights=weights)
        assert value(text, **columns) == pytest.approx(wanted, rel=1e-12)
    score = [round(0.3 * t + random.random(), 1) for t in target]  # many ties
    wanted = metrics.average_precision_score([t == 3 for t in target], score)
    assert value("auprc(positive=3, score=s)", s=score, **columns) == pytest.approx(wanted, rel=1e-12)


def test_weights_need_an_order() -> None:
    columns = {"target": ["Low", "High"], "prediction": ["Low", "High"]}
    with pytest.raises(UsageError, match="labels=\\[Low, Medium, High\\]"):
        value("kappa(weights=linear)", **columns)
    assert value("kappa(weights=linear)", **columns, task={"labels": ["Low", "High"]}) == 1.0
    with pytest.raises(UsageError, match="needs numbers"):
        value("krippendorff_alpha(raters=[target, prediction], level=interval)", **columns)


def test_the_documented_alpha_follows_from_its_definition() -> None:
    units = [(1, 1, 1), (2, 2, 2), (3, 3, 2), (3, 3)]
    ratings = [rating for unit in units for rating in unit]
    within = sum(Fraction(sum(a != b for a, b in permutations(unit, 2)), len(unit) - 1) for unit in units)
    among = Fraction(sum(a != b for a, b in permutations(ratings, 2)), len(ratings) - 1)
    assert 1 - within / among == Fraction(3, 4)
    columns = {"a": [1, 2, 3, 3], "b": [1, 2, 3, None], "c": [1, 2, 2, 3]}
    assert value("krippendorff_alpha(raters=[a, b, c])", **columns) == pytest.approx(0.75, rel=1e-12)


def test_places_of_labels_are_those_of_the_whole_task() -> None:
    """A slice without the middle label has the distances that the whole has."""
    target, prediction = [1, 1, 3, 3, 3, 1, 2, 2], [1, 3, 3, 3, 1, 1, 2, 1]
    columns = {"target": target, "prediction": prediction, "item": list(range(8)), "group.site": ["x"] * 6 + ["y"] * 2}
    records = Records.from_columns(columns)
    result = sy.evaluate(records, ["kappa(weights=linear)"], by=["group.site"], resamples=100)
    stated = sy.evaluate(records, ["kappa(labels=[1, 2, 3], weights=linear)"], by=["group.site"], resamples=100)
    for slice_ in ("", "{group.site=x}", "{group.site=y}"):
        one, two = result[f"kappa(weights=linear){slice_}"], stated[f"kappa(labels=[1, 2, 3], weights=linear){slice_}"]
        assert one.value == pytest.approx(two.value)


def test_categories_are_counted_in_the_whole_study() -> None:
    rare = {"a": ["x"] * 30 + ["y"], "b": ["x"] * 31, "item": list(range(31))}
    estimate = sy.evaluate(Records.from_columns(rare), ["gwet_ac1(raters=[a, b])"], resamples=500)
    (found,) = estimate
    assert found.undefined_resamples == 0
    assert found.interval is not None
    assert found.interval[0] < found.value < found.interval[1]


def test_raters_rate_what_the_model_failed_at() -> None:
    columns = {
        "item": list(range(10)),
        "outcome": ["failed"] * 5 + ["answered"] * 5,
        "a": [1, 2] * 5,
        "b": [1, 2, 1, 1, 1] * 2,
        "prediction": [1] * 10,
    }
    records = Records.from_columns(columns)
    asked = ["krippendorff_alpha(raters=[a, b])", "gwet_ac1(raters=[a, b])", "gwet_ac1(raters=[a, prediction])"]
    result = sy.evaluate(records, asked, resamples=0)
    assert [result[text].n for text in asked] == [10, 10, 10]
    only = Records.from_columns({name: values[5:] for name, values in columns.items()})
    chance = sy.evaluate(only, [asked[2]], resamples=0)[asked[2]].value
    assert chance is not None


@pytest.mark.parametrize("other", [[1, 2], ["x", "y"]])
def test_ratings_of_two_kinds_are_refused(other: list[object]) -> None:
    records = Records.from_columns({"item": [1, 2], "a": [True, False], "b": other})
    with pytest.raises(InputError, match="ratings are labels or numbers, not both"):
        sy.evaluate(records, "krippendorff_alpha(raters=[a, b])", resamples=0)
