"""The names people type: every alias of every metric, whatever its case; and what is said of a name that is none."""

from __future__ import annotations

import re

import pytest

from steelyard.errors import UsageError
from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import Definition, metric_of
from steelyard.metrics.spellings import nearest
from steelyard.metrics.titles import derived
from steelyard.naming import parse
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate
from tests.support.tables import every_instance

_PLACES = {"k": "7", "label": "some.label"}


def _needed(definition: Definition, alias: str) -> str:
    """The alias as it may be typed, with what the metric cannot do without."""
    text = re.sub(r"\{(\w+)\}", lambda place: _PLACES.get(place.group(1), "0.25"), alias)
    text += "7" if text.endswith("@") else ""
    cut = text.endswith("@7") or "{k}" in alias
    given = {"metric": "accuracy", "column": "group.site", "float": "0.5"}
    if not cut and any(p.name == "k" and p.required for p in definition.params):
        text += "@7"
    options = [f"{p.name}={given[p.kind]}" for p in definition.params if p.required and p.name != "k"]
    return f"{text}({', '.join(options)})" if options else text


ALIASES = [
    (name, alias)
    for name in registry
    for alias in registry[name].names.typed
    if not ("{label}" in alias and registry[name].params)  # what is left open there is filled in from a table
]


@pytest.mark.parametrize(("name", "alias"), ALIASES)
@pytest.mark.parametrize("case", [str, str.upper, str.swapcase])
def test_every_alias_means_its_metric_whatever_its_case(name: str, alias: str, case: type[str]) -> None:
    places = re.split(r"(\{\w+\})", alias)
    typed = "".join(part if part.startswith("{") else case(part) for part in places)
    metric = metric_of(_needed(registry[name], typed))
    assert metric.definition is registry[name]
    assert metric_of(str(metric)) == metric
    if "{k}" in alias or alias.endswith("@"):
        assert metric.values["k"] == 7
    if "{label}" in alias:
        assert metric.label == "some.label"


@pytest.mark.parametrize("name", list(registry))
def test_every_metric_has_a_title_for_people(name: str) -> None:
    title = registry[name].names.title
    assert title, "a metric states its title"
    assert title[0].isupper() or title[0] == "{" or title in ("nDCG", "chrF")
    assert "_" not in re.sub(r"\{\w+\}", "", title)
    places = set(re.findall(r"\{(\w+)\}", title)) - {"label"}
    assert places <= {p.name for p in registry[name].params}
    members = registry[name].members
    if isinstance(members, tuple):
        assert set(registry[name].names.member_titles) == set(members)


def test_titles_differ_where_metrics_do() -> None:
    titles = {name: metric_of(name).title for name in every_instance()}
    assert len(set(titles.values())) == len(titles)
    assert all(title == title.strip() and "{" not in title and "None" not in title for title in titles.values())


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("selective_accuracy", "Selective Accuracy (answered only)"),
        ("answer_rate", "Answer Rate (Coverage)"),
        ("ece", "Expected Calibration Error"),
        ("ece(bins=15)", "Expected Calibration Error, 15 bins"),
        ("f1", "F1"),
        ('f1."very bad"', "F1 of very bad"),
        ("ndcg@10", "nDCG@10"),
        ("precision@5(level=2)", "Precision@5, relevant from grade 2"),
        ("latency.p95", "95th Percentile of Latency"),
        ("stability(accuracy).mean", "Accuracy, Mean over Repeats"),
        ("disparity(accuracy, by=group.site).x", "Disparity of Accuracy by site: x"),
        ("worst_group(ece(bins=5), by=group.site)", "Expected Calibration Error (5 bins) in the Worst Group by site"),
        ("risk_at(c=0.8)", "Risk at Coverage 0.8"),
        ("risk_at", "Risk at Coverage"),
        ("brier(binary=true)", "Brier Score, binary"),
        ("aurc(loss=abs)", "Area under the Risk-Coverage Curve, abs loss"),
    ],
)
def test_titles_tell_the_options(name: str, title: str) -> None:
    assert metric_of(name).title == title


def test_a_title_is_made_from_a_name_where_none_is_stated() -> None:
    assert derived("root_error") == "Root Error"
    assert derived("gain@") == "Gain"


@pytest.mark.parametrize(
    ("typed", "canonical"),
    [
        # trec_eval
        ("P_5", "precision@5"),
        ("recip_rank", "mrr"),
        ("ndcg_cut_10", "ndcg@10"),
        ("map_cut_10", "map@10"),
        ("success_5", "hit@5"),
        ("recall_5", "recall@5"),
        ("Rprec", "rprec"),
        # ir_measures
        ("P@5", "precision@5"),
        ("P(rel=2)@5", "precision@5(level=2)"),
        ("nDCG@10", "ndcg@10"),
        ("RR", "mrr"),
        ("RR@10", "mrr@10"),
        ("AP", "map"),
        ("AP(rel=2)@10", "map@10(level=2)"),
        ("R@5", "recall@5"),
        ("Success@5", "hit@5"),
        # other documents
        ("acc", "accuracy"),
        ("aurc_full", "aurc"),
        ("augrc_full", "augrc"),
        ("aurc_at_c(c=0.3)", "aurc_at(c=0.3)"),
        ("augrc_at_c", "augrc_at"),
        ("mae_at_coverage(c=0.1)", "risk_at(c=0.1)"),
        ("e_aurc", "eaurc"),
        ("e_augrc", "eaugrc"),
        ("brier_score", "brier"),
        ("ndcg_at_10", "ndcg@10"),
        ("per_class.Critical.f1", "f1.Critical"),
        ('per_class."very bad".recall', 'recall."very bad"'),
        ("confusion_matrix", "f1_macro"),
        ("expected_calibration_error", "ece"),
        # whatever the case, inside other metrics too
        ("NDCG@10", "ndcg@10"),
        ("AUROC", "auroc"),
        ("MAP", "map"),
        ("Fairness_Gap(ACC, by=group.Site)", "fairness_gap(accuracy, by=group.Site)"),
        ("F1.Critical", "f1.Critical"),
    ],
)
def test_names_people_type(typed: str, canonical: str) -> None:
    assert str(metric_of(typed)) == canonical


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("tpr2", "sensitivity"),
        ("auc", "auroc"),
        ("roc", "auroc"),
        ("rouge", "rouge_l"),
        ("bleu", "chrf"),
        ("exact", "exact_match"),
        ("calibration", "ece"),
        ("accurracy", "accuracy"),
        ("latencyy", "latency"),
        ("hit rate", "hit"),
        ("SetP", "precision@k"),
    ],
)
def test_an_unknown_name_suggests_by_meaning_and_by_spelling(typed: str, first: str) -> None:
    near = nearest(typed, registry.values())
    assert near[0] == first
    assert len(near) <= 5


def test_an_unknown_name_is_no_wall_of_names() -> None:
    with pytest.raises(UsageError) as problem:
        metric_of("xyzzy")
    assert str(problem.value) == "unknown metric 'xyzzy'; `steelyard metrics` lists all"
    with pytest.raises(UsageError, match=r"unknown metric 'bleu'; did you mean chrf\? `steelyard metrics` lists all"):
        metric_of("bleu")


@pytest.mark.parametrize(
    ("typed", "metric"),
    [
        ("per_group.x.accuracy", "in_group(accuracy, by=group.site).x"),
        ("per_group.st. x.selective_accuracy", "in_group(selective_accuracy, by=group.site).st. x"),
        ("disparities.x", "disparity(accuracy, by=group.site).x"),
        ("global_metric", "accuracy"),
    ],
)
def test_keys_of_other_documents_are_filled_in_from_the_table(typed: str, metric: str) -> None:
    rows = [
        {"item": i, "group.site": site, "target": "a", "prediction": said}
        for i, (site, said) in enumerate([("x", "a"), ("x", "b"), ("st. x", "a"), ("st. x", "a"), ("x", "a")])
    ]
    found = evaluate(rows, [typed], resamples=100)
    (estimate,) = found.estimates
    assert metric_of(estimate.metric) == metric_of(metric)
    assert f"{parse(typed)} was asked for alone and taken as {estimate.metric}" in found.warnings


def test_a_metric_in_one_group_is_the_metric_of_its_slice() -> None:
    rows = [
        {"item": i, "patient": i // 2, "group.site": "xyz"[i % 3], "target": "a", "prediction": "ab"[i % 7 == 0]}
        for i in range(120)
    ]
    for base in ("accuracy", "f1_macro", "mcc"):
        sliced = evaluate(rows, [base], by=["group.site"], cluster="patient", resamples=200)
        alone = evaluate(rows, [f"in_group({base}, by=group.site).y"], cluster="patient", resamples=200).estimates[0]
        of_slice = next(e for e in sliced.estimates if e.slice.get("group.site") == "y")
        assert (alone.value, alone.n, alone.clusters, alone.method) == (
            of_slice.value, of_slice.n, of_slice.clusters, of_slice.method,
        )  # fmt: skip
        if base == "accuracy":
            assert alone.interval == of_slice.interval
    before = [{**row, "prediction": "a" if row["item"] % 5 else "b"} for row in rows]
    delta = compare(before, rows, ["in_group(accuracy, by=group.site).y"], cluster="patient", resamples=200).deltas[0]
    sides = [[row for row in side if row["group.site"] == "y"] for side in (before, rows)]
    wanted = compare(*sides, ["accuracy"], cluster="patient", resamples=200).deltas[0]
    assert (delta.base, delta.new, delta.value) == (wanted.base, wanted.new, wanted.value)
    assert delta.interval == wanted.interval


def test_suggestions_are_among_what_the_table_has_columns_for() -> None:
    rows = [{"item": 0, "target": "a", "prediction": "a"}]
    with pytest.raises(UsageError, match="unknown metric 'latencies'; `steelyard metrics` lists all"):
        evaluate(rows, ["latencies"])
    with pytest.raises(UsageError, match="did you mean latency"):
        evaluate([{**row, "latency_ms": 3} for row in rows], ["latencies"])
    with pytest.raises(UsageError, match="did you mean accuracy"):
        evaluate(rows, ["acuracy"])


def test_commas_separate_metrics_outside_brackets_and_quotes() -> None:
    from steelyard.cli.options.records import split_metrics

    typed = ["acc, ece(bins=15)", 'f1."a, b",worst_group(f1_macro, by=group.site)', "P_5,"]
    split = ["acc", "ece(bins=15)", 'f1."a, b"', "worst_group(f1_macro, by=group.site)", "P_5"]
    assert split_metrics(typed) == split
    assert split_metrics(None) is None
