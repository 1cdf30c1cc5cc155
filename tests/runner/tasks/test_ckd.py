"""The tasks about kidneys: labels that agree with what is shown, seeds, the UCI table, and what prompts hide."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import InputError, UsageError
from steelyard.runner.tasks import DataSpec, Item, Task, task_named, tasks
from steelyard.runner.tasks.kidneys import egfr, is_conflict, is_near_threshold, nearest_threshold, stage_of
from tests.support.places import SHARED

NAMES = ("ckd_detection", "ckd_staging", "ckd_progression")


def generated(name: str, size: int = 400, seed: int = 7) -> tuple[Item, ...]:
    return tasks[name].items(None, size=size, seed=seed).items


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_items_and_fewer_are_the_first_of_more(name: str) -> None:
    many = generated(name, 300)
    assert generated(name, 300) == many
    assert generated(name, 40) == many[:40]
    assert generated(name, 40, seed=8) != many[:40]
    assert len({item.id for item in many}) == 300
    assert len(tasks[name].items(None, size=None, seed=0).items) == 200


@pytest.mark.parametrize("name", NAMES)
def test_every_label_is_there_and_some_should_be_declined(name: str) -> None:
    items = generated(name)
    counts = Counter(item.target for item in items)
    assert set(counts) == set(tasks[name].labels or ())
    assert min(counts.values()) >= 20
    assert 0.1 < sum(item.should_abstain is True for item in items) / len(items) < 0.7


@pytest.mark.parametrize("name", NAMES)
def test_egfr_and_stage_are_those_of_the_values_shown(name: str) -> None:
    for item in generated(name):
        shown = tasks[name].shown(item)
        creatinine = shown["visits"][-1]["creatinine"] if name == "ckd_progression" else shown["creatinine"]
        value = egfr(creatinine, shown["age"], shown["sex"])
        assert item.more["egfr"] == value
        assert item.more["ckd_stage"] == stage_of(value or 0)
        assert item.more["egfr_constants"] == shown["sex"]
        assert item.should_abstain == (item.more["deferral_reason"] != "none")


def test_detection_defers_near_thresholds_and_on_conflict_and_labels_agree_otherwise() -> None:
    seen = Counter()
    for item in generated("ckd_detection", 1000):
        value, stage = item.more["egfr"], item.more["ckd_stage"]
        conflict = is_conflict(item.target, stage)  # type: ignore[arg-type]
        near = [f"egfr_near_threshold:{each}" for each in (15, 30, 60, 90) if abs(round(value - each, 2)) <= 3]
        reasons = ["label_stage_conflict"] * conflict + near
        assert item.more["deferral_reason"] == (";".join(reasons) or "none")
        if not conflict:
            assert item.target == ("ckd" if stage >= 3 else "notckd")
        assert (item.fields["urine_albumin"] > 0) == (item.target == "ckd")
        seen[item.more["deferral_reason"]] += 1
    near = {f"egfr_near_threshold:{each}" for each in (15, 30, 60, 90)}
    assert set(seen) > {"none", "label_stage_conflict", "label_stage_conflict;egfr_near_threshold:60", *near}


def test_staging_knows_no_conflict() -> None:
    for item in generated("ckd_staging", 1000):
        assert item.target == item.more["ckd_stage"]
        threshold, distance = nearest_threshold(item.more["egfr"])
        assert item.more["deferral_reason"] == (f"egfr_near_threshold:{threshold:g}" if distance <= 3 else "none")


def test_progression_compares_the_stages_of_the_first_and_the_last_visit() -> None:
    reasons = Counter()
    for item in generated("ckd_progression", 1000):
        values = [visit["egfr"] for visit in item.fields["visits"]]
        worse = stage_of(values[-1]) - stage_of(values[0])
        assert item.target == ("progressed" if worse > 0 else "improved" if worse < 0 else "stable")
        steps = [b - a for a, b in pairwise(values)]
        mixed = min(steps) < 0 < max(steps)
        stated = [reason.partition(":")[0] for reason in item.more["deferral_reason"].split(";")]
        assert ("ambiguous_trajectory" in stated) == (mixed or abs(round(values[-1] - values[0], 2)) <= 5)
        assert ("egfr_near_threshold" in stated) == (is_near_threshold(values[0]) or is_near_threshold(values[-1]))
        assert ("label_stage_conflict" in stated) == is_conflict(item.fields["diagnosis"], stage_of(values[-1]))
        reasons.update(stated)
    assert all(reasons[each] >= 30 for each in ("egfr_near_threshold", "label_stage_conflict", "ambiguous_trajectory"))


# -- prompts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_is_made_of_the_fields_that_it_names_and_of_nothing_else(name: str) -> None:
    task: Any = tasks[name]
    for item in generated(name, 100):
        hidden = {field: object() for field in item.fields if field not in task.prompt.names}
        other = replace(
            item,
            id="other",
            target=None,
            cluster="other",
            groups={"sex": "other"},
            should_abstain=not item.should_abstain,
            more={},
            fields={**item.fields, **hidden},
        )
        assert task.question(other) == task.question(item)
        assert set(task.shown(item)) == task.prompt.names
        assert str(item.id) not in task.question(item)


@pytest.mark.parametrize("name", NAMES)
def test_no_prompt_says_when_to_decline_in_numbers_or_names_what_is_only_known_afterwards(name: str) -> None:
    task = tasks[name]
    said = task.background().casefold()
    assert "you may decline" in said
    assert "abstain" in said
    assert not any(number in said for number in ("3.0", "5.0", "15", "30", "60", "90"))
    for item in generated(name, 100):
        shown = task.question(item).casefold()
        assert not any(word in shown for word in ("abstain", "deferral", "threshold", "label", "conflict", "ckd_stage"))
        if name != "ckd_progression":
            assert "notckd" not in shown
        assert "none" not in shown
        assert "undefined" not in shown


def test_progression_shows_the_course_and_not_what_it_is_called() -> None:
    task = tasks["ckd_progression"]
    shown = {task.question(item) for item in generated("ckd_progression", 100)}
    assert not any(str(label) in text.casefold() for text in shown for label in task.labels or ())
    assert all(text.count("Month ") == 4 for text in shown)


# -- the table of UCI --------------------------------------------------------------------------------------------------

HEADER = "id,age,bp,al,sc,htn,dm,classification"


def table(tmp_path: Path, *rows: str, header: str = HEADER) -> DataSpec:
    path = tmp_path / "kidneys.csv"
    path.write_text("\r\n".join((header, *rows)) + "\r\n")
    return DataSpec(path=str(path))


def test_cells_are_cleaned_and_rows_without_egfr_left_out_and_counted(tmp_path: Path) -> None:
    data = table(
        tmp_path,
        "0,48,80,1,1.2,yes,\tyes,ckd",
        "1,62,?,2,\t1.8, no,\tno,ckd\t",
        "2,50,80,0,,no,no,notckd",
        "3,50,80,0,0,no,no,notckd",
        "4,50,80,0,\t?,no,no,notckd",
        "5,,80,0,1.0,no,no,notckd",
        "6,50,80,0,1.0,no,no,?",
        "7,12,80,0,0.6,no,no,notckd",
    )
    made = tasks["ckd_detection"].items(data, size=None, seed=0)
    assert [item.id for item in made.items] == [0, 1, 7]
    assert [item.target for item in made.items] == ["ckd", "ckd", "notckd"]
    assert made.left_out == {"no creatinine above 0": 3, "no age": 1, "no diagnosis": 1}
    second = made.items[1]
    assert (second.fields["blood_pressure"], second.fields["diabetes"], second.fields["hypertension"]) == (
        None,
        "no",
        "no",
    )
    assert second.fields["creatinine"] == 1.8
    assert second.more["egfr"] == egfr(1.8, 62, None)
    assert second.more["egfr_constants"] == "male (sex not recorded)"
    assert "1 of 3 patients are under 18" in made.warnings[0]
    assert "sex of 3 of 3 patients is not recorded" in made.warnings[1]
    assert made.sources[0].sha256
    staged = tasks["ckd_staging"].items(data, size=None, seed=0)
    assert [item.id for item in staged.items] == [0, 1, 6, 7]  # a stage needs no diagnosis


@pytest.mark.parametrize("cell", ["1_0", "١", "0x1", "1e", "."])
def test_a_cell_that_is_no_plain_number_is_none(tmp_path: Path, cell: str) -> None:
    data = table(tmp_path, "0,48,80,1,1.2,yes,yes,ckd", f"1,48,80,1,{cell},yes,yes,ckd")
    made = tasks["ckd_detection"].items(data, size=None, seed=0)
    assert [item.id for item in made.items] == [0]
    assert made.left_out == {"no creatinine above 0": 1}


def test_a_column_of_sex_is_used(tmp_path: Path) -> None:
    data = table(tmp_path, "1,60,1.2,female", "2,60,1.2,M", header="id,age,sc,sex")
    one, two = tasks["ckd_staging"].items(data, size=None, seed=0).items
    assert (one.more["egfr"], two.more["egfr"]) == (egfr(1.2, 60, "female"), egfr(1.2, 60, "male"))
    assert (one.more["egfr_constants"], two.more["egfr_constants"]) == ("female", "male")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("1,48,80,1,1.2,yes,yes,maybe", "kidneys.csv:3: classification: ckd or notckd is expected"),
        ("0,48,80,1,1.2,yes,yes,ckd", "kidneys.csv:3: id: the id is that of line 2 too"),
    ],
)
def test_what_cannot_be_meant_is_an_error_with_its_line(tmp_path: Path, row: str, problem: str) -> None:
    data = table(tmp_path, "0,48,80,1,1.2,yes,yes,ckd", row)
    with pytest.raises(InputError) as caught:
        tasks["ckd_detection"].items(data, size=None, seed=0)
    assert str(caught.value).endswith(problem)


def test_columns_that_are_needed_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="eGFR needs column 'sc'"):
        tasks["ckd_staging"].items(table(tmp_path, "1,2", header="id,age"), size=None, seed=0)
    with pytest.raises(InputError, match="needs column 'classification'"):
        tasks["ckd_detection"].items(table(tmp_path, "1,2,3", header="id,age,sc"), size=None, seed=0)


def test_progression_is_generated_only(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ckd_progression has several visits per patient"):
        tasks["ckd_progression"].items(table(tmp_path, "1,2,3", header="id,age,sc"), size=None, seed=0)


def test_the_real_table() -> None:
    path = SHARED / "ckd" / "kidney_disease.csv"
    if not path.exists():
        pytest.skip("ckd/kidney_disease.csv is not at hand")
    data = DataSpec(path=str(path))
    made = tasks["ckd_detection"].items(data, size=None, seed=0)
    assert len(made.items) + sum(made.left_out.values()) == 400
    assert made.left_out == {"no creatinine above 0": 17, "no age": 9}
    assert Counter(item.target for item in made.items) == {"ckd": 230, "notckd": 144}
    task: Task = tasks["ckd_detection"]
    texts = [task.question(item) for item in made.items]
    assert not any(sign in text for text in texts for sign in ("\t", ": ?", "None", "nan"))
    for item in made.items:
        conflict = is_conflict(item.target, item.more["ckd_stage"])  # type: ignore[arg-type]
        assert item.should_abstain == (conflict or is_near_threshold(item.more["egfr"]))
    part = tasks["ckd_detection"].items(data, size=100, seed=3)
    assert Counter(item.target for item in part.items) == {"ckd": 61, "notckd": 39}
    assert {item.id for item in part.items} <= {item.id for item in made.items}
    assert tasks["ckd_detection"].items(data, size=100, seed=3).items == part.items


def test_names_that_are_no_task() -> None:
    with pytest.raises(UsageError, match="did you mean 'ckd_staging'"):
        task_named("ckd_stagin")
    with pytest.raises(UsageError, match="at least 1"):
        tasks["ckd_staging"].items(None, size=0, seed=0)
