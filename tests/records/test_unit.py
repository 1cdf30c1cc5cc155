"""A column that looks like a forgotten unit is noticed; what is stated, or would change nothing, is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from steelyard.records.table import Records
from steelyard.records.unit import Unit, likely_unit, may_be_unit
from tests.support.answers import lines
from tests.support.commands import command

N = 24
FOURS = [f"p{i // 4}" for i in range(N)]


def unit(cluster: str | None = None, **columns: Any) -> Unit | None:
    given = {"item": list(range(N)), **{name.replace("__", "."): values for name, values in columns.items()}}
    return likely_unit(Records.from_columns(given, cluster=cluster))


@pytest.mark.parametrize(
    "name",
    [
        *("patient", "patient_id", "PatientID", "patientId", "patients", "subject", "subject-id", "user", "user_name"),
        *("document", "doc_id", "group.patient", "metadata.patient", "meta.data.user_id", "participant", "session_id"),
        *("case_id", "hospitalId", "group.ward_id", "note id", "question_id"),
    ],
)
def test_names_of_units(name: str) -> None:
    assert may_be_unit(name)
    assert unit(**{name: FOURS}) == Unit(name, 6, N)


@pytest.mark.parametrize(
    "name",
    [
        *("patience", "document_text", "username_hint", "idea", "valid", "paid", "id", "_id", "group.site", "ward"),
        *("model_id", "run_id", "strategy_id", "batch_id", "fold_id", "prompt_id", "item_id", "patient.note"),
    ],
)
def test_other_names(name: str) -> None:
    assert not may_be_unit(name)
    assert unit(**{name: FOURS}) is None


def test_what_is_stated_is_not_asked_for() -> None:
    assert unit(patient=FOURS, cluster="patient") is None
    assert unit(patient=FOURS, cluster="item") is None
    stated = Records.from_columns({"item": list(range(N)), "patient": FOURS, "cluster": FOURS})
    assert likely_unit(stated) is None


def test_one_row_per_value_or_one_value_only_is_no_unit() -> None:
    assert unit(patient=list(range(N))) is None
    assert unit(patient=["p"] * N) is None
    assert unit(case_id=list(range(N))) is None


def test_values_that_share_no_item_with_another_change_nothing() -> None:
    """Three models on items of one patient each: the items are the clusters already."""
    columns = {"item": [i // 3 for i in range(N)], "model": list("abc") * 8, "patient": [i // 3 for i in range(N)]}
    assert likely_unit(Records.from_columns(columns)) is None
    columns["patient"] = [i // 6 for i in range(N)]
    assert likely_unit(Records.from_columns(columns)) == Unit("patient", 4, N)


def test_an_id_that_divides_items_is_how_they_were_asked() -> None:
    crossed = {"item": [i // 3 for i in range(N)], "repeat": list("abc") * 8, "annotator_id": list("abc") * 8}
    assert likely_unit(Records.from_columns(crossed)) is None
    named = {**crossed, "user_id": list("abc") * 8}
    assert likely_unit(Records.from_columns(named)) == Unit("user_id", 3, N)


def test_gaps_lists_and_fractions_are_no_unit() -> None:
    assert unit(patient=[None, *FOURS[1:]]) is None
    assert unit(patient=[float(i // 4) + 0.5 for i in range(N)]) is None
    assert unit(patient=[["p"]] * N) is None
    assert unit(patient=[None] * N) is None


def test_persons_come_before_documents_and_both_before_other_ids() -> None:
    pairs = [i // 2 for i in range(N)]
    assert unit(doc=pairs, site_id=FOURS, patient=FOURS) == Unit("patient", 6, N)
    assert unit(site_id=FOURS, doc=pairs) == Unit("doc", 12, N)
    assert unit(site_id=FOURS, case_id=pairs) == Unit("case_id", 12, N)


# -- commands ----------------------------------------------------------------------------------------------------------


def answers(seed: int) -> list[dict[str, Any]]:
    said = ["y" if (i * 7 + seed) % 5 > 1 else "n" for i in range(400)]
    return [
        {"item": i, "patient_id": f"p{i % 120}", "target": "y", "prediction": prediction, "confidence": 0.5}
        for i, prediction in enumerate(said)
    ]


SAID = "rows look clustered by 'patient_id' (120 values in 400 rows): --cluster patient_id\n"
FEW = ("--resamples", 100, "--format", "json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, seed in (("a", 0), ("b", 1)):
        (tmp_path / f"{name}.jsonl").write_text(lines(answers(seed)))
    return tmp_path


BY = ("--confidence", "confidence")
COMMANDS = [
    ("evaluate", "a.jsonl", "-m", "accuracy", *FEW),
    ("compare", "a.jsonl", "b.jsonl", "-m", "accuracy", *FEW),
    ("gate", "--run", "a.jsonl", "--baseline", "b.jsonl", "--rule", "accuracy >= 0", *FEW),
    ("selective", "--input", "a.jsonl", *BY, "--loss", "zero_one", "--bootstrap-resamples", 100),
    ("calibrate", "fit", "--input", "a.jsonl", *BY, "--method", "logistic", "--output", "c.json"),
]


@pytest.mark.parametrize("asked", COMMANDS, ids=lambda asked: asked[0])
def test_commands_say_it_once_and_change_no_number(folder: Path, asked: tuple[Any, ...]) -> None:
    plain = command(*asked, cwd=folder)
    assert plain.code == 0, plain.err
    assert plain.err.count(SAID) == plain.err.count("clustered") == 1
    assert "clustered" not in plain.out
    for cluster in ("patient_id", "item"):
        stated = command(*asked, "--cluster", cluster, cwd=folder)
        assert "clustered" not in stated.err
    assert stated.out == plain.out  # by item, as without saying so


def test_the_option_can_be_typed_whatever_the_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item,patient id,target,prediction\n1,a,y,y\n2,a,y,n\n3,b,y,y\n4,b,y,y\n")
    done = command("evaluate", tmp_path / "a.csv", "-m", "accuracy", *FEW)
    assert "(2 values in 4 rows): --cluster 'patient id'\n" in done.err


def test_a_nested_column_is_shown_with_its_whole_name(tmp_path: Path) -> None:
    rows = [{"item": i, "metadata": {"patient": i // 2}, "target": "y", "prediction": "y"} for i in range(8)]
    (tmp_path / "a.jsonl").write_text(lines(rows))
    done = command("evaluate", tmp_path / "a.jsonl", "-m", "accuracy", *FEW)
    assert "'metadata.patient' (4 values in 8 rows): --cluster metadata.patient\n" in done.err
    assert command("evaluate", tmp_path / "a.jsonl", "-m", "accuracy", "--cluster", "metadata.patient", *FEW).code == 0
