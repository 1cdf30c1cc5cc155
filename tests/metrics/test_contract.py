"""One loop over the registry: what every metric must obey, a five-line plug-in included."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pytest

from steelyard import compose, evidence, metric, over, sums
from steelyard.errors import InputError, UsageError
from steelyard.metrics import metrics as registry
from steelyard.metrics.collector import Collector
from steelyard.metrics.definition import Definition, Metric, metric_of
from steelyard.metrics.facts import Comparing, Method, Names, Rows, Shown, Uncertainty
from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate, value
from tests.support.contract import CHECKS
from tests.support.tables import every_instance, table

EVERY = every_instance()


@pytest.mark.parametrize("name", EVERY)
def test_every_metric_obeys(name: str) -> None:
    chosen = metric_of(name)
    for seed, check in enumerate(CHECKS):
        check(chosen, seed)


@pytest.mark.parametrize("name", EVERY)
def test_every_name_reads_back(name: str) -> None:
    chosen = metric_of(name)
    assert str(chosen) == name
    assert metric_of(str(chosen)) == chosen


@pytest.mark.parametrize("name", list(registry))
def test_every_docstring_teaches_and_its_example_runs(name: str) -> None:
    definition = registry[name]
    assert definition.shown.formula, "a metric states its formula"
    test = doctest.DocTestParser().get_doctest(definition.doc, {"value": value}, name, None, 0)
    assert test.examples, "a metric has a runnable example"
    assert doctest.DocTestRunner(verbose=False).run(test).failed == 0
    assert len(inspect.cleandoc(definition.doc).splitlines()[0]) >= 20


@pytest.fixture
def plugin() -> Iterator[Metric]:
    @metric(better="lower", bounds=(0, None), formula="mean of squared distance to the score")
    def squared_score(score, correct):
        """Squared distance of a score and correctness, for this test."""
        return (score - correct) ** 2

    yield squared_score()
    registry.remove("squared_score")


def test_a_five_line_metric_obeys_too(plugin: Metric) -> None:
    for seed, check in enumerate(CHECKS):
        check(plugin, seed)
    records = table(np.random.default_rng(3))
    found = evaluate(records, ["squared_score"], by=["group.site"], pool=["perturbation"])
    assert found["squared_score"].interval is not None
    assert found["squared_score{group.site=x}"].n < found["squared_score"].n


def test_keyed_sums_with_a_finish_obey_too() -> None:
    @metric(better="lower", bounds=(0, 1), formula="largest share of one site")
    def crowding(group__site):
        """Largest share of one site, for this test."""
        return sums(n=1, by=group__site)

    @crowding.finish
    def _(s):
        return s.n.max(-1) / s.n.sum(-1)

    try:
        for seed, check in enumerate(CHECKS):
            check(crowding(), seed)
    finally:
        registry.remove("crowding")


def test_the_escape_hatch_obeys_too() -> None:
    @metric(better="higher", bounds=(0, None), formula="weighted geometric mean of latency")
    def geometric(latency_ms, *, weight):
        """Weighted geometric mean, for this test."""
        kept = ~np.isnan(latency_ms)
        return np.exp((weight[kept] * np.log(latency_ms[kept] + 1)).sum() / weight[kept].sum()) - 1

    try:
        for seed, check in enumerate(CHECKS):
            check(geometric(), seed)
    finally:
        registry.remove("geometric")


def test_combinators_obey_too() -> None:
    @over(better="lower", bounds=(0, None), formula="spread over groups")
    def spread(groups):
        """Standard deviation over groups, for this test."""
        return groups.values.std(-1)

    @compose(registry["accuracy"], registry["answer_rate"], better="higher", formula="accuracy × answer_rate")
    def product(a, b):
        """A product of two metrics, for this test."""
        return a * b

    try:
        for chosen in (spread("accuracy", by="group.site"), product()):
            for seed, check in enumerate(CHECKS):
                check(chosen, seed)
    finally:
        registry.remove("spread")
        registry.remove("product")


def test_what_a_metric_does_in_a_way_of_its_own_is_a_keyword_or_a_decorator() -> None:
    @metric(
        better="higher",
        bounds=(0, None),
        formula="most · correct / N",
        bounds_of=lambda options: (0, options["most"]),
        twin="accuracy",
        detail=lambda s, *, most: {"most": most},
    )
    def scaled(correct, *, most: float = 1.0, answered_only: bool = False):
        """Accuracy on another scale, for this test."""
        return most * correct

    @scaled.extreme
    def _():
        return True

    try:
        chosen = metric_of("scaled(most=2.0)")
        assert (chosen.bounds, chosen.twin, chosen.is_extreme) == ((0, 2.0), "accuracy", True)
        assert (metric_of("accuracy").twin, metric_of("accuracy").is_extreme) == ("", False)
        assert (chosen.population, scaled(answered_only=True).population) == ("asked", "answered")
        found = evaluate(table(np.random.default_rng(3)), [chosen], pool=["perturbation"])
        assert found[str(chosen)].detail == {"most": 2.0}
    finally:
        registry.remove("scaled")


def test_what_is_stated_of_shared_evidence_holds_for_each_of_its_metrics() -> None:
    @evidence(better="lower", bounds=(0, 1), unit="share")
    def marks(correct):
        return sums(right=correct, n=1)

    @marks.metric(better="higher", formula="correct / N")
    def right(s):
        """The share that is right, for this test."""
        return s.right / s.n

    @marks.metric(formula="1 − correct / N")
    def wrong(s):
        """The share that is wrong, for this test."""
        return 1 - s.right / s.n

    try:
        stated = [(m.better, m.bounds, m.unit) for m in (right(), wrong())]
        assert stated == [("higher", (0, 1), "share"), ("lower", (0, 1), "share")]
    finally:
        registry.remove("right")
        registry.remove("wrong")


def test_every_fact_has_one_place() -> None:
    kinds = (Definition, Names, Shown, Rows, Uncertainty, Comparing)
    stated = [f.name for kind in kinds for f in fields(kind)]
    methods = [name for name, kind in vars(Definition).items() if isinstance(kind, Method)]
    assert len({*stated, *methods}) == len(stated) + len(methods)


def test_an_unknown_fact_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):

        @metric(colour="red")
        def odd(correct):
            return correct


def test_metrics_share_evidence() -> None:
    records = table(np.random.default_rng(1))
    collector = Collector(records)
    names = ("aurc", "augrc", "aurc_optimal", "aurc_achievable", "risk_at(c=0.2)")
    found = {id(collector.evidence(m, m.constants([records]))) for m in map(metric_of, names)}
    assert len(found) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("acuracy", "did you mean accuracy"),
        ("ece(bin=10)", "no option 'bin'"),
        ("ece(bins=many)", "bins is a whole number"),
        ("ece(bins=0)", "bins is at least 1"),
        ("ace(bins=1000000000)", "at most 10,000"),
        ("fairness_gap(" * 4 + "accuracy" + ", by=group.site)" * 4, "nested 3 deep"),
        ("accuracy.x", "has no members"),
        ("latency.p42", "has the members"),
        ("accuracy@3", "no cutoff"),
        ("aurc_at(c=1.5)", r"coverage in \(0, 1\]"),
        ("aurc(loss=square)", "unknown loss"),
        ("aurc(loss=abs_norm)", "range=3"),
        ("fairness_gap(accuracy, bye=group.site)", "no option 'bye'"),
        ("fairness_gap(3, by=group.site)", "a metric is expected"),
        ("fairness_gap(p_calibrated, by=group.site)", "whole run"),
        ("robustness_score(mae)", "relative_change"),
        ("no.such.module:thing", "no module"),
        ("math:pi", "not a metric"),
        ("ece(bins=3, bins=4)", "twice"),
        ("", "a name is expected"),
        ("accuracy{group.site=x}", "by="),
    ],
)
def test_a_wrong_request_says_what_to_do(text: str, problem: str) -> None:
    numeric = "loss=abs" in text or "mae" in text
    records = table(np.random.default_rng(0), numeric=numeric)
    with pytest.raises(UsageError, match=problem):
        evaluate(records, [text], pool=["perturbation"])


def test_a_missing_column_is_named_with_what_there_is() -> None:
    records = Records.from_columns({"item": [1, 2], "target": ["a", "b"], "prediction": ["a", "a"]})
    with pytest.raises(InputError, match="ece needs column 'confidence'; the table has: item, target, prediction"):
        evaluate(records, ["ece"])


def test_reserved_words_are_refused() -> None:
    with pytest.raises(UsageError, match="reserved"):

        @metric()
        def delta(correct):
            return correct
