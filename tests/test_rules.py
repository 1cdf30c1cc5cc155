"""Rules of a gate as text: what is read, what is written back, and errors that point at the place."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import UsageError
from steelyard.naming import RESERVED, Expr, Quoted, Rule, parse_rule
from tests.support.expressions import expressions, labels, words

RELATIONS = ("<=", ">=", "<", ">")

thresholds = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**18), 10**18).map(float),
    st.sampled_from([0.0, -0.0, 0.1 + 0.2, -0.005, 1e-300, 5e-324, 1e15, 1e16, 1.7976931348623157e308]),
)
columns = st.builds(lambda head, rest: ".".join((head, *rest)), words, st.lists(labels, max_size=2))
metrics = st.one_of(
    expressions,
    st.builds(Expr, head=words, args=st.tuples(st.tuples(words, labels.map(Quoted)))),
    st.builds(Expr, head=st.builds("{}.{}:{}".format, words, words, words)),
).filter(lambda expr: expr.head not in RESERVED)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    metric, bound, delta = draw(metrics), draw(st.sampled_from([None, "low", "high"])), draw(st.booleans())
    inside = f"delta({metric})" if delta else str(metric)
    return Rule(
        key=f"{bound}({inside})" if bound else inside,
        metric=metric,
        relation=draw(st.sampled_from(RELATIONS)),
        threshold=draw(thresholds),
        bound=bound,
        delta=delta,
        marked=draw(st.booleans()),
        each=draw(st.none() | st.just("cell") | columns),
    )


@given(rules())
def test_a_rule_reads_back_as_itself(rule: Rule) -> None:
    assert parse_rule(str(rule)) == rule


@given(rules(), st.text(" \t\n", max_size=2), st.text(" \t\n", max_size=2))
def test_space_around_the_relation_and_the_mark_changes_nothing(rule: Rule, one: str, two: str) -> None:
    left, threshold = str(replace(rule, marked=False, each=None)).rsplit(f" {rule.relation} ", 1)
    each = str(rule)[len(str(replace(rule, each=None))) :]
    spaced = f"{one}{'!' if rule.marked else ''}{two}{left}{one}{rule.relation}{two}{threshold}{each}{one}"
    assert parse_rule(spaced) == rule


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("accuracy>=.8", "accuracy >= 0.8"),
        ("accuracy >= +0.80", "accuracy >= 0.8"),
        ("low( delta( accuracy ) )>=-1e-2", "low(delta(accuracy)) >= -0.01"),
        ("! bias<0", "!bias < 0"),
        ('accuracy{ group.site = "x" } > 1', "accuracy{group.site=x} > 1"),
        ('accuracy{group.site="St. Mary"} > 1', 'accuracy{group.site="St. Mary"} > 1'),
        ("high(delta(aurc))<=0.02 for  each\tgroup.site", "high(delta(aurc)) <= 0.02 for each group.site"),
        ("ece(bins = 15) <= 0.1 for each cell", "ece(bins=15) <= 0.1 for each cell"),
        ("NdcgEvaluator.delta >= -0.005", "NdcgEvaluator.delta >= -0.005"),
        ("map@1 >= 0.5", "map@1 >= 0.5"),
        ('f1."very bad" >= 2.50', 'f1."very bad" >= 2.5'),
        ("low(mine.parts:gap) >= 0", "low(mine.parts:gap) >= 0"),
    ],
)
def test_canonical_text(written: str, canonical: str) -> None:
    assert str(parse_rule(written)) == canonical
    assert str(parse_rule(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("accuracy {} 0.5", {">=": "point", ">": "point", "<=": "point", "<": "point"}),
        ("delta(accuracy) {} 0.5", {">=": "point", ">": "point", "<=": "point", "<": "point"}),
        ("low(accuracy) {} 0.5", {">=": "confirming", ">": "confirming", "<=": "permissive", "<": "permissive"}),
        ("high(delta(ece)) {} 0.5", {">=": "permissive", ">": "permissive", "<=": "confirming", "<": "confirming"}),
    ],
)
def test_the_bound_and_the_relation_say_the_kind(text: str, kind: dict[str, str]) -> None:
    assert {relation: parse_rule(text.format(relation)).kind for relation in RELATIONS} == kind


def test_the_key_is_the_left_side_as_it_is_written() -> None:
    assert parse_rule("!  NdcgEvaluator.delta  >= 0").key == "NdcgEvaluator.delta"
    assert parse_rule('f1."very bad">=0').key == 'f1."very bad"'
    assert parse_rule("low(delta(accuracy{model=m1})) >= 0").metric == Expr(head="accuracy", slice=(("model", "m1"),))


@pytest.mark.parametrize(
    ("text", "character", "problem"),
    [
        ("", 1, "a name is expected"),
        ("!", 2, "a name is expected"),
        ("!!bias >= 0", 2, "a name is expected"),
        ("0.8 <= accuracy", 1, "a name is expected"),
        ("accuracy", 9, "one of <=, >=, <, > is expected"),
        ("accuracy != 0.8", 10, "one of <=, >=, <, > is expected"),
        ("accuracy ≥ 0.8", 10, "one of <=, >=, <, > is expected"),
        ("accuracy <> 0.8", 11, "a number is expected"),
        ("accuracy >= ", 13, "a number is expected"),
        ("accuracy >= ece", 13, "a number is expected"),
        ("accuracy >= nan", 13, "a number is expected"),
        ("accuracy >= inf", 13, "a number is expected"),
        ("accuracy >= −0.01", 13, "a number is expected"),
        ("accuracy >= 0,5", 14, "nothing more is expected here"),
        ("accuracy >= 80%", 15, "nothing more is expected here"),
        ("accuracy >= 0.8 and ece <= 0.1", 17, "nothing more is expected here"),
        ("accuracy >= 0.8 for every x", 17, "nothing more is expected here"),
        ("accuracy >= 0.8 for each", 25, "a column name is expected"),
        ("accuracy >= 0.8 for each 3", 26, "a column name is expected"),
        ("accuracy >= 0.8 for each group.", 32, "a label is expected"),
        ("accuracy >= 0.8 for each cell for each task", 31, "nothing more is expected here"),
        ("accuracy{site=x >= 0.8", 17, "is expected"),
        ("accuracy{site=x,site=y} >= 0.8", 24, "a column appears twice"),
        ("ece(bins=) <= 0.1", 10, "a name is expected"),
        ('f1."x >= 1', 4, "a label is expected"),
    ],
)
def test_what_cannot_be_read_says_where_and_what_is_expected(text: str, character: int, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule(text)
    assert f"at character {character}: " in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.parametrize("text", ["accuracy == 0.8", "accuracy = 0.8", "low(delta(accuracy))==0", "!bias == 0"])
def test_equality_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(UsageError, match="equality is never decided by data") as caught:
        parse_rule(text)
    assert f"at character {text.index('=') + 1}: " in str(caught.value)


WRAPPED_WRONGLY = (
    "low",
    "delta",
    "low()",
    "low(accuracy, ece)",
    "low(accuracy).x",
    "low(accuracy){site=x}",
    "low@3(accuracy)",
    "low(0.5)",
    'low("accuracy")',
    "low(metric=accuracy)",
    "delta(accuracy){site=x}",
    "delta(low(accuracy))",
    "low(high(accuracy))",
    "delta(delta(accuracy))",
    "low(delta(high(accuracy)))",
)


@pytest.mark.parametrize("left", WRAPPED_WRONGLY)
def test_low_high_and_delta_wrap_one_metric_in_one_order(left: str) -> None:
    with pytest.raises(UsageError, match=r"takes one metric|stands in the wrong place"):
        parse_rule(f"{left} >= 0")


def test_a_wrong_wrapping_is_pointed_at_not_what_follows_it() -> None:
    for left in WRAPPED_WRONGLY:
        with pytest.raises(UsageError) as caught:
            parse_rule(f"{left} >= 0")
        place = re.search(r"at character (\d+)", str(caught.value))
        assert place is not None
        assert 1 <= int(place.group(1)) <= len(left), str(caught.value)


@pytest.mark.parametrize("text", ["accuracy >= 1e999", "accuracy <= 1e999", "bias >= -1e999"])
def test_a_threshold_that_no_number_can_hold_is_refused(text: str) -> None:
    # "<= 1e999" would pass whatever is measured, and "inf" does not read back
    with pytest.raises(UsageError, match="number"):
        parse_rule(text)


@pytest.mark.parametrize("text", ["(" * 60, "low(" * 60 + "accuracy" + ")" * 60 + " >= 0", "mean([" * 30 + " >= 0"])
def test_depth_is_bounded(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        parse_rule(text)


def test_hostile_text_is_shown_escaped_and_bounded() -> None:
    with pytest.raises(UsageError) as caught:
        parse_rule("accuracy \x1b[31m\n== 1" + "x" * 10_000)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_numbers_read_back_to_the_last_bit() -> None:
    for threshold in (0.1 + 0.2, math.pi, -1 / 3, 1e-320, 123456789012345680.0):
        assert parse_rule(f"accuracy >= {threshold!r}").threshold == threshold
        assert parse_rule(str(parse_rule(f"accuracy >= {threshold!r}"))).threshold == threshold


@pytest.mark.parametrize(
    "rule",
    ["accuracy >= ٠.٨", "accuracy >= ０.８", "accuracy >= 0.٨", "accuracy >= 0٨", "accuracy >= 1e-٣", "ndcg@١٠ >= 0",
     "ndcg@1٠ >= 0", "low(ece(bins=١٥)) <= 1", "low(ece(bins=1５)) <= 1", "accuracy >= −0.1", "accuracy >= ½"],
)  # fmt: skip
def test_numbers_are_written_in_the_digits_0_to_9(rule: str) -> None:
    with pytest.raises(UsageError, match="the digits 0 to 9"):
        parse_rule(rule)


def test_names_and_labels_may_hold_any_digits() -> None:
    assert str(parse_rule("f1.٣{group.site=７} >= 0.5")) == "f1.٣{group.site=７} >= 0.5"
