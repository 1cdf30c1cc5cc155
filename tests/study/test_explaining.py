"""Scores of texts explain themselves: one pair, or the worst rows of a table; and say nothing of texts unasked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import steelyard as sy
from steelyard.errors import UsageError
from tests.support.commands import command

ROWS = [
    {"item": 1, "target": "pneumonia with fever", "prediction": "Pneumonia, no fever"},
    {"item": 2, "target": "stroke", "prediction": "cerebrovascular accident"},
    {"item": 3, "target": "asthma", "prediction": None},
    {"item": 4, "target": "stroke", "prediction": "zebrasis"},
]


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_one_pair_is_explained() -> None:
    breakdown = sy.explain("clinical_accuracy", "pneumonia, no fever", "pneumonia and fever")
    assert breakdown.score == 0.75
    assert (breakdown.matched, breakdown.missed, breakdown.extra) == (("pneumonia",), (), ("fever",))
    assert breakdown.components == {"diagnoses": 1.0, "symptoms": 0.0}
    assert "extra: fever" in breakdown.words
    assert breakdown.to_dict(with_words=False).keys() == {"score", "components", "counts"}


def test_a_metric_that_does_not_explain_itself_says_so() -> None:
    with pytest.raises(UsageError, match="does not explain"):
        sy.explain("accuracy", "a", "b")


def test_the_worst_rows_come_first(answers: Path) -> None:
    found = sy.evaluate(answers, ["clinical_accuracy"], explain=3)
    assert [(row.key["item"], row.breakdown.score) for row in found.explained] == [(3, 0.0), (4, 0.0), (1, 0.75)]
    again = sy.load(_written(found, answers.parent / "evaluation.json"))
    assert isinstance(again, sy.Evaluation)
    assert again.explained == found.explained


def _written(found: sy.Evaluation, path: Path) -> Path:
    path.write_text(json.dumps(found.to_dict()))
    return path


def test_texts_and_entities_stay_out_of_what_was_not_asked_to_explain(answers: Path, tmp_path: Path) -> None:
    done = command(
        "evaluate", str(answers), "-m", "clinical_accuracy", "--format", "json", "--out", str(tmp_path / "o")
    )
    assert done.code == 0
    for text in (done.out, done.err, (tmp_path / "o" / "evaluation.json").read_text()):
        assert not any(word in text.lower() for word in ("pneumonia", "fever", "zebrasis", "asthma", "accident"))
    detail = json.loads(done.out)["estimates"][0]["detail"]
    assert (detail["matched"], detail["missed"], detail["extra"]) == (2, 3, 0)


def test_the_command_explains_where_it_is_asked_to(answers: Path) -> None:
    done = command("evaluate", str(answers), "-m", "clinical_accuracy", "--explain", "2", "--format", "json")
    rows = json.loads(done.out)["detailed_results"]
    assert [row["item"] for row in rows] == [3, 4]
    assert rows[0]["breakdown"]["missed"] == ["asthma"]
    assert (
        "worst rows by clinical_accuracy"
        in command("evaluate", str(answers), "-m", "clinical_accuracy", "--explain", "2").out
    )


def test_explaining_needs_a_metric_of_texts(answers: Path) -> None:
    done = command("evaluate", str(answers), "-m", "accuracy", "--explain", "2")
    assert done.code == 2
    assert "--explain is for metrics of texts" in done.err


def test_a_further_lexicon_is_known(answers: Path, tmp_path: Path) -> None:
    table = tmp_path / "my.tsv"
    table.write_text("zebrasis\tdiagnoses\tstripes disease\n")
    done = command(
        "evaluate",
        str(answers),
        "-m",
        "clinical_accuracy",
        "--lexicon",
        str(table),
        "--explain",
        "4",
        "--format",
        "json",
    )
    row = next(row for row in json.loads(done.out)["detailed_results"] if row["item"] == 4)
    assert row["breakdown"]["extra"] == ["zebrasis"]
    assert sy.explain("clinical_accuracy", "zebrasis", "stripes disease", lexicon=str(table)).score == 1.0
