"""Metric expressions: reading, canonical text, errors that point at the place."""

from __future__ import annotations

import pytest
from hypothesis import given

from steelyard.errors import UsageError
from steelyard.metrics.definition import metric_of
from steelyard.naming import Expr, label_text, parse, slice_text
from tests.support.expressions import expressions


@given(expressions)
def test_text_reads_back(expr: Expr) -> None:
    assert parse(str(expr)) == expr


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("ece( bins = 15 )", "ece(bins=15)"),
        ("ece(bins=10)", "ece"),
        ('f1."very bad"', 'f1."very bad"'),
        ('f1."plain"', "f1.plain"),
        ("aurc(loss=abs,rank=signal.evidence)", "aurc(rank=signal.evidence, loss=abs)"),
        ("fairness_gap(f1_macro,by=group.site)", "fairness_gap(f1_macro, by=group.site)"),
        ('fairness_gap("accuracy", by="group.site")', "fairness_gap(accuracy, by=group.site)"),
        ("fairness_gap(base=ece(bins=15), by=group.site)", "fairness_gap(ece(bins=15), by=group.site)"),
        ("mean(score,better=higher)", "mean(score, better=higher)"),
        ("mae_by_bin.34+", "mae_by_bin.34+"),
        ('mae_by_bin(bins=["0-1", "2-3"]).0-1', 'mae_by_bin(bins=["0-1", "2-3"]).0-1'),
        ('f1_macro(labels=["1", "2"])', 'f1_macro(labels=["1", "2"])'),
        ("f1_macro(labels=[1, 2])", "f1_macro(labels=[1, 2])"),
        ('f1_macro(labels=["true", x])', 'f1_macro(labels=["true", x])'),
        ("auroc(positive=1, score=signal.s)", "auroc(positive=1, score=signal.s)"),
        ('auroc(positive="007")', 'auroc(positive="007")'),
        ('auroc(positive="very bad")', 'auroc(positive="very bad")'),
        ("auroc(positive=true)", "auroc(positive=true)"),
        ("aurc_at(c=1)", "aurc_at(c=1)"),
        ("aurc_at(c=0.5)", "aurc_at"),
        ("coverage", "answer_rate"),
    ],
)
def test_canonical_names(written: str, canonical: str) -> None:
    chosen = metric_of(written)
    assert str(chosen) == canonical
    again = metric_of(str(chosen))
    assert again == chosen
    assert again.options == chosen.options


def test_lists_keep_their_types() -> None:
    assert metric_of('f1_macro(labels=["1", "2"])') != metric_of("f1_macro(labels=[1, 2])")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(",
        "a(",
        "a(b",
        "a(b=)",
        "a..b",
        "a{b}",
        "a{b=}",
        "a@x",
        'a."x',
        "a b",
        "a(1,)",
        "a{b=1,b=2}",
        "[1]",
        "a(" * 60,
    ],
)
def test_what_cannot_be_read_says_where(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        parse(text)


def test_slices_and_labels_are_quoted_when_needed() -> None:
    assert label_text("x-1") == "x-1"
    assert label_text("a b") == '"a b"'
    assert slice_text({"group.site": "a b", "model": "m1"}) == '{group.site="a b",model=m1}'
    assert slice_text({}) == ""


def test_families_need_a_member_where_one_number_is_meant() -> None:
    for text in ("fairness_gap(latency, by=group.site)", "stability(f1).mean", "worst_group(precision, by=group.site)"):
        with pytest.raises(UsageError, match="stands for several metrics"):
            metric_of(text)


def test_half_a_character_in_a_label_is_its_escape() -> None:
    assert parse(r'f1."\ud800"') == parse(r'f1."\\ud800"')
    assert str(parse(r'f1."\ud800"')) == r'f1."\\ud800"'
