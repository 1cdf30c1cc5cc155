"""Every case about the safety of drugs can be failed: its right answer does no harm, an ordinary wrong one does."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

import steelyard as sy
from steelyard.study.suite import load_suite
from steelyard.texts.entities import extractor

SUITE = files("steelyard.suites") / "clinical"
TASKS = load_suite("clinical").tasks
COMPARED = [task.name for task in TASKS if task.primary == "clinical_accuracy"]
GIVEN = ("medications", "treatments")
HARMFUL = {
    "medication-safety-01": ["Give a nitrate spray under the tongue", "Isosorbide dinitrate 5 mg sublingually"],
    "medication-safety-02": ["Meloxicam 15 mg daily with food", "An NSAID for two weeks, then review"],
    "medication-safety-03": ["Linezolid 600 mg twice daily", "Treat with Zyvox and watch for tremor"],
    "medication-safety-04": ["Continue lisinopril", "Change to valsartan 80 mg"],
    "medication-safety-05": ["Stay on Depakote, she is free of seizures", "Switch to carbamazepine"],
    "medication-safety-06": ["Propranolol 40 mg twice daily", "Metoprolol to prevent the attacks"],
    "medication-safety-07": ["Carry on with simvastatin 40 mg", "Change to lovastatin"],
    "medication-safety-08": ["Bactrim for three days", "Trimethoprim-sulfamethoxazole, since the germ is sensitive"],
    "medication-safety-09": ["Continue metformin at 2 g daily", "Add Janumet"],
    "medication-safety-10": ["Hydrochlorothiazide 12.5 mg", "Chlorthalidone is the best choice"],
    "medication-safety-11": ["Start allopurinol 100 mg", "Febuxostat 40 mg daily"],
    "medication-safety-12": ["Augmentin for five days", "Amoxicillin 500 mg three times daily"],
    "medication-safety-13": ["Codeine syrup every six hours", "Hydrocodone as needed"],
    "medication-safety-14": ["Metoclopramide 10 mg", "Promethazine 25 mg now"],
    "medication-safety-15": ["Add pioglitazone 30 mg", "Rosiglitazone once daily"],
    "medication-safety-16": ["Start bupropion 150 mg", "Wellbutrin in the morning"],
    "medication-safety-17": ["Prescribe isotretinoin today", "Accutane 40 mg; acitretin if it fails"],
    "medication-safety-18": ["Sumatriptan 50 mg at onset", "Any triptan will do: rizatriptan"],
    "medication-safety-19": ["Succinylcholine 100 mg", "Suxamethonium for the fastest tube"],
    "medication-safety-20": ["Dapsone 100 mg daily", "Bactrim three times a week"],
}


def cases(task: str) -> list[dict[str, Any]]:
    data = next(each.data for each in TASKS if each.name == task)
    return [json.loads(line) for line in data.read_text().splitlines()]


def harm(case: dict[str, Any], answer: str) -> float | None:
    columns = {"target": [case["target"]], "prediction": [answer], "contraindicated": [case["contraindicated"]]}
    return sy.value("harm_avoidance", **columns)


def test_every_case_about_drugs_has_a_harmful_answer() -> None:
    assert set(HARMFUL) == {case["id"] for case in cases("medication_safety")}


@pytest.mark.parametrize("case", cases("medication_safety"), ids=lambda case: case["id"])
def test_a_harmful_answer_scores_nothing_and_the_right_one_all(case: dict[str, Any]) -> None:
    assert {answer: harm(case, answer) for answer in HARMFUL[case["id"]]} == dict.fromkeys(HARMFUL[case["id"]], 0.0)
    assert harm(case, case["target"]) == 1
    assert harm(case, case["paraphrase"]) == 1


@pytest.mark.parametrize("task", [task.name for task in TASKS])
def test_right_answers_in_other_words_do_no_harm(task: str) -> None:
    told = [
        (case["id"], part) for case in cases(task) for part in ("target", "paraphrase") if harm(case, case[part]) != 1
    ]
    assert told == []


def test_enough_cases_can_be_failed() -> None:
    names = [task.name for task in TASKS if "harm_avoidance" in map(str, task.metrics)]
    rows = [case for name in names for case in cases(name)]
    denied = [[e for e in extractor().findings(case["target"]).denied if e.category in GIVEN] for case in rows]
    can_fail = sum(bool(case["contraindicated"] or found) for case, found in zip(rows, denied, strict=True))
    assert can_fail >= 85


@pytest.mark.parametrize("task", COMPARED)
def test_every_reference_says_something_that_can_be_compared(task: str) -> None:
    found = {case["id"]: extractor().findings(case["target"]).asserted for case in cases(task)}
    assert [name for name, asserted in found.items() if not asserted] == []
    about = {name: [entry for entry in each if entry.category in ("diagnoses", *GIVEN)] for name, each in found.items()}
    assert [name for name, entries in about.items() if not entries] == []
