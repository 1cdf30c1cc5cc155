"""Metrics of texts agree with their definition in plain loops, obey what is promised of them, and meet the oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.errors import InputError, UsageError
from steelyard.metrics import metrics as registry
from steelyard.records.table import Records
from steelyard.texts.reasoning import PARTS
from tests.support.naive.strategies import check
from tests.support.naive.table import Table
from tests.support.naive.texts import CATEGORY, STATEMENTS, TEXTS
from tests.support.oracles import oracle

OUTCOMES = ["answered", "answered", "answered", "abstained", "unparsed", "failed", None]
texts = st.lists(st.sampled_from(STATEMENTS), max_size=7).map(
    lambda parts: "".join(f"{part}. " for part in parts).strip()
)
terms = st.sets(st.sampled_from(sorted(CATEGORY)), max_size=6).map(lambda names: ". ".join(sorted(names)))
SYMMETRIC = ("clinical_accuracy", "token_f1", "exact_match", "rouge_l")


@st.composite
def text_tables(draw: Any) -> Table:
    """Rows of texts with every outcome, an optional note and an optional list of what must not be given."""
    rows = []
    for item in range(draw(st.integers(1, 12))):
        outcome = draw(st.sampled_from(OUTCOMES))
        prediction = draw(texts if outcome == "answered" else st.none() | texts)
        forbidden = draw(st.sampled_from([None, "", "nsaids", "surgery; aspirin", "okapi"]))
        target = draw(texts | st.none()) if item else draw(texts)
        about = {"target": target, "prediction": prediction, "outcome": outcome}
        rows.append({"item": item, **about, "note": draw(texts), "contraindicated": forbidden})
    return Table(rows)


@given(text_tables())
def test_metrics_of_texts(table: Table) -> None:
    some = any(row["prediction"] is not None for row in table.rows)
    if some and any(row["contraindicated"] is not None for row in table.rows):
        check(TEXTS, table)


@pytest.mark.parametrize("name", SYMMETRIC)
@given(one=texts, two=texts)
def test_the_order_of_the_texts_is_irrelevant(name: str, one: str, two: str) -> None:
    assert sy.explain(name, one, two).score == pytest.approx(sy.explain(name, two, one).score)


@pytest.mark.parametrize("name", [*SYMMETRIC, "chrf", "diagnostic_accuracy"])
@given(text=texts | st.text(max_size=60))
def test_a_text_agrees_with_itself(name: str, text: str) -> None:
    assert sy.explain(name, text, text).score == pytest.approx(1.0)


@pytest.mark.parametrize("name", SYMMETRIC)
@given(one=terms, two=terms)
def test_texts_without_anything_in_common_score_nothing(name: str, one: str, two: str) -> None:
    words = [{*text.replace(".", " ").split()} for text in (one, two)]
    if words[0] and words[1] and not words[0] & words[1] and not {"heart", "myocardial"} <= words[0] | words[1]:
        assert sy.explain(name, one, two).score == 0.0


@given(one=terms, two=terms, wrong=st.sampled_from(sorted(CATEGORY)))
def test_a_wrong_entity_never_raises_clinical_accuracy(one: str, two: str, wrong: str) -> None:
    breakdown = sy.explain("clinical_accuracy", one, two)
    more = sy.explain("clinical_accuracy", one, f"{two}. {wrong}")
    if set(more.extra) - set(breakdown.extra) and breakdown.score is not None:
        assert (more.score or 0.0) <= breakdown.score + 1e-12


# -- the oracle --------------------------------------------------------------------------------------------------------

# cases whose score rests on terms that the two lexicons know differently, by how they begin
UNLIKE = {
    "leukocytosis white": "leukocytosis is there the count of white cells, here a finding of its own",
    "ceftriaxone insulin": "insulin is there a treatment too, and dyspnea another symptom than shortness of breath",
    "copd acute asthma": "acute asthma is there asthma, here an exacerbation of it",
}


@pytest.mark.parametrize("case", oracle("clinical")["clinical_accuracy_random"], ids=lambda case: case["expected"])
def test_entities_score_as_in_the_oracle(case: dict[str, Any]) -> None:
    score = sy.explain("clinical_accuracy", case["expected"], case["predicted"]).score
    unlike = any(case["expected"].startswith(start) for start in UNLIKE)
    assert (score == pytest.approx(case["score"], abs=1e-12)) is not unlike


# -- what is read and refused ------------------------------------------------------------------------------------------


def test_numbers_are_no_texts() -> None:
    with pytest.raises(InputError, match="token_f1 needs text; 'target' holds a whole number"):
        sy.value("token_f1", target=[1, 2], prediction=["a", "b"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("clinical_accuracy(weights=[1, 2])", "weights are 5 numbers"),
        ("clinical_accuracy(weights=[1, 2, 3, 4, -1])", "at least 0"),
        ("clinical_accuracy(weights=[0, 0, 0, 0, 0])", "not all 0"),
        ("reasoning_quality(weights=[1, 2, 3, 4, 5])", "weights are 4 numbers"),
        ("diagnostic_accuracy(critical=0)", "a weight above 0"),
        ("reasoning.style", "has the members"),
    ],
)
def test_a_wrong_option_says_what_is_expected(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        sy.value(text, target=["a"], prediction=["b"])


def test_rationales_are_read_where_the_table_has_both() -> None:
    columns = {"target": ["x"], "prediction": ["y"], "rationale": ["fever"], "target_rationale": ["fever"]}
    assert sy.value("reasoning.overlap_f1", **columns) == 1.0
    del columns["rationale"]
    assert sy.value("reasoning.overlap_f1", **columns) == 0.0


@pytest.mark.parametrize("name", ["reasoning_quality", *(f"reasoning.{part}" for part in PARTS)])
def test_an_answer_without_a_rationale_scores_nothing(name: str) -> None:
    """Leaving the reasons out must not pay: only rows without a reference are left out."""
    why = "First, fever suggests pneumonia; obviously everyone knows that. Therefore, consistent with infection."
    rows = [
        {"item": 1, "target": "a", "prediction": "a", "target_rationale": why, "rationale": why},
        {"item": 2, "target": "a", "prediction": "a", "target_rationale": why, "rationale": None},
        {"item": 3, "target": "a", "prediction": "a", "target_rationale": None, "rationale": why},
    ]
    both, one = (sy.evaluate(table, [name], resamples=0)[name] for table in (rows, rows[:1]))
    assert both.n == 2
    assert both.value == pytest.approx(one.value / 2)
    assert one.value > 0


def test_a_list_of_contraindications_is_read_too() -> None:
    columns: dict[str, Any] = {
        "prediction": ["give heparin", "give aspirin"],
        "contraindicated": [["heparin", "x"], []],
    }
    assert sy.value("harm_avoidance", **columns) == 0.5


def test_harm_needs_to_know_what_is_harmful() -> None:
    with pytest.raises(UsageError, match="needs a column 'target' or 'contraindicated'"):
        sy.value("harm_avoidance", prediction=["give heparin"])


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("Start ibuprofen.", 0.0),
        ("Consider ibuprofen.", 0.0),
        ("Avoid ibuprofen; give acetaminophen.", 1.0),
        ("Previously on ibuprofen.", 1.0),
        ("If needed, naproxen.", 1.0),
        ("Stop ibuprofen.", 1.0),
        ("", None),
    ],
)
def test_only_what_an_answer_recommends_is_harmful(answer: str, score: float | None) -> None:
    records = Records.from_columns(
        {"item": [1], "target": ["acetaminophen"], "prediction": [answer], "contraindicated": ["NSAIDs"]}
    )
    (estimate,) = sy.evaluate(records, ["harm_avoidance"])
    assert estimate.value == score


@pytest.mark.parametrize(("reference", "answer"), [("No pneumonia", "no"), ("Reassure and send home", "and")])
def test_words_that_say_nothing_are_no_answer(reference: str, answer: str) -> None:
    assert sy.explain("clinical_accuracy", reference, answer).score == 0
    assert sy.explain("clinical_accuracy", answer, reference).score == 0
    assert sy.explain("clinical_accuracy", answer, answer).score == 1


@pytest.mark.parametrize(
    ("text", "penalty"),
    [
        ("It is 100% a stroke", 0.15),
        ("Give 100% oxygen", 0.0),
        ("SpO2 100% on room air", 0.0),
        ("A test with a sensitivity of 100%", 0.0),
    ],
)
def test_a_measure_of_a_hundred_percent_is_no_fallacy(text: str, penalty: float) -> None:
    assert sy.value("reasoning.penalty", target=["x"], prediction=[text]) == pytest.approx(penalty)


@pytest.mark.parametrize(
    "answer",
    [
        "Appendicitis. Differential diagnosis: Crohn disease, renal colic",
        "Appendicitis, which is more likely than renal colic",
        "Appendicitis.\nLess likely: renal colic, Crohn disease",
        "Appendicitis. Renal colic would cause hematuria.",
    ],
)
def test_alternatives_that_are_dismissed_are_no_diagnoses(answer: str) -> None:
    assert sy.explain("diagnostic_accuracy", "appendicitis", answer).score == 1
    assert sy.explain("diagnostic_accuracy", "renal colic", answer).score == 0


def test_a_differential_alone_names_its_diagnoses() -> None:
    assert sy.explain("diagnostic_accuracy", "appendicitis", "Differential: appendicitis").score == 1


def test_only_the_penalty_is_better_lower() -> None:
    better = {member.label: member.better for member in registry["reasoning"]().expanded(Records({}))}
    assert better.pop("penalty") == "lower"
    assert set(better.values()) == {"higher"}


def test_texts_are_read_once_per_table(monkeypatch: pytest.MonkeyPatch) -> None:
    from steelyard.texts.entities import Extractor

    read: list[str] = []
    findings = Extractor.findings
    monkeypatch.setattr(
        Extractor, "findings", lambda self, text, also=(): read.append(text) or findings(self, text, also)
    )
    rows = 30
    records = Records.from_columns(
        {
            "item": list(range(rows)),
            "target": [f"pneumonia {i}" for i in range(rows)],
            "prediction": [f"fever {i}" for i in range(rows)],
            "group.site": ["x", "y", "z"] * 10,
        }
    )
    sy.evaluate(records, ["clinical_accuracy", "reasoning_quality", "diagnostic_accuracy"], by=["group.site"])
    assert len(read) == 2 * rows


def test_runs_read_with_different_lexicons_are_not_compared(tmp_path: Any) -> None:
    table = tmp_path / "my.tsv"
    table.write_text("zebrasis\tdiagnoses\n")
    columns = {"item": list(range(20)), "target": ["zebrasis"] * 20, "prediction": ["zebrasis"] * 20}
    one, two = (Records.from_columns(columns, task={"lexicon": names}) for names in ([], [str(table)]))
    with pytest.raises(UsageError, match="different lexicons"):
        sy.compare(one, two, ["clinical_accuracy"], unchanged="judge", resamples=200)


def test_an_answer_without_an_entity_says_that_words_were_compared() -> None:
    (remark,) = sy.explain("diagnostic_accuracy", "the quick brown fox", "the quick brown fox").remarks
    assert remark == "no entity to compare: the words were compared"
