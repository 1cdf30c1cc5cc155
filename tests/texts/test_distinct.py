"""What is different stays different: terms that a careless lexicon merges, words one letter apart, classes of drugs."""

from __future__ import annotations

import json
from importlib import resources

import pytest

import steelyard as sy
from steelyard.texts.entities import extractor
from steelyard.texts.lexicon import Entry, lexicon
from tests.support.gold import DATA

OWN = lexicon()
DISTINCT = [line.split("\t") for line in (DATA / "distinct.tsv").read_text().splitlines() if not line.startswith("#")]
CLASSES = sorted({name for entry in OWN.entries for name in entry.classes})
# two different words, one letter apart or often taken for one another
ONE_LETTER_APART = [
    ("dysphasia", "dysphagia"),
    ("dysphoria", "dysphonia"),
    ("cefixime", "cefepime"),
    ("hematoma", "hepatoma"),
    ("abduction", "adduction"),
    ("dystocia", "dystonia"),
    ("hypocapnia", "hypercapnia"),
    ("nifedipine", "nimodipine"),
    ("prednisolone", "prednisone"),
    ("hydroxyzine", "hydralazine"),
    ("fluvastatin", "pitavastatin"),
    ("chlorpropamide", "chlorpromazine"),
    ("cycloserine", "cyclosporine"),
    ("vinblastine", "vincristine"),
    ("tolazamide", "tolbutamide"),
    ("oxymorphone", "hydromorphone"),
    ("quinine", "quinidine"),
    ("enuresis", "diuresis"),
    ("arteritis", "arthritis"),
    ("ureteral", "urethral"),
    ("dysplasia", "dysphasia"),
    ("pentobarbital", "phenobarbital"),
]
SLIPS = {
    "omeprezole": "omeprazole",
    "lisinipril": "lisinopril",
    "pnuemonia": "pneumonia",
    "hypertenson": "hypertension",
    "metforminn": "metformin",
    "amoxicilin": "amoxicillin",
    "diabetis": "diabetes mellitus",
    "cholecistitis": "cholecystitis",
}


def entries_of(text: str) -> frozenset[Entry]:
    return frozenset(mention.entry for mention in extractor().findings(text).mentions)


def members(name: str) -> list[Entry]:
    return [entry for entry in OWN.entries if name in entry.classes]


def test_there_are_enough_pairs_each_with_its_reason() -> None:
    assert len(DISTINCT) >= 150
    assert all(len(pair) == 3 and all(pair) for pair in DISTINCT)
    assert len({frozenset(pair[:2]) for pair in DISTINCT}) == len(DISTINCT)


@pytest.mark.parametrize("pair", DISTINCT, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def test_two_things_are_not_one(pair: list[str]) -> None:
    one, other, _ = pair
    assert entries_of(one), "no table knows it"
    assert entries_of(other), "no table knows it"
    assert sy.explain("clinical_accuracy", one, other).score != 1
    if all(entry.category == "diagnoses" for entry in entries_of(one) | entries_of(other)):
        assert sy.explain("diagnostic_accuracy", one, other).score == 0
        assert sy.explain("diagnostic_accuracy", other, one).score == 0


def test_no_wrong_label_of_the_clinical_suite_is_right() -> None:
    folder = resources.files("steelyard.suites.clinical")
    lines = [
        line for file in folder.iterdir() if file.name.endswith(".jsonl") for line in file.read_text().splitlines()
    ]
    cases = [case for case in map(json.loads, lines) if "labels" in case]
    wrong = [(case["target"], label) for case in cases for label in case["labels"] if label != case["target"]]
    assert len(wrong) == 240
    scored = {pair: sy.explain("diagnostic_accuracy", *pair).score for pair in wrong}
    assert [pair for pair, score in scored.items() if score] == []
    assert all(sy.explain("diagnostic_accuracy", case["target"], case["target"]).score == 1 for case in cases)


@pytest.mark.parametrize(("one", "other"), ONE_LETTER_APART)
def test_a_word_is_not_read_as_another(one: str, other: str) -> None:
    for word, instead in ((one, other), (other, one)):
        names = {entry.name for entry in entries_of(instead)}
        assert not names & {entry.name for entry in entries_of(word)}


@pytest.mark.parametrize(("slip", "meant"), SLIPS.items())
def test_a_slip_of_the_pen_is_forgiven(slip: str, meant: str) -> None:
    assert {entry.name for entry in entries_of(slip)} == {meant}


def test_a_letter_left_out_of_a_medication_makes_no_other_one() -> None:
    names = {entry.name for entry in OWN.entries if entry.category == "medications" and entry.name.isalpha()}
    for name in sorted(names):
        for short in {name[:i] + name[i + 1 :] for i in range(1, len(name))} - names:
            read = {entry.name for entry in entries_of(short) if entry.category == "medications"}
            assert len(read) <= 1, short
            assert read <= {name} or not (read & names), (short, read)


@pytest.mark.parametrize("name", CLASSES)
def test_what_is_forbidden_as_a_class_is_forbidden_by_each_name(name: str) -> None:
    (kind,) = [entry for entry in OWN.entries if entry.name == name]
    for entry in (kind, *members(name)):
        answer = f"Start {entry.name} today."
        assert _harm(kind.name, answer) == 0, entry.name
    for called in kind.phrases:
        assert _harm(called, f"Start {members(name)[0].name} today.") == 0, called


@pytest.mark.parametrize(
    ("forbidden", "given"),
    [
        ("penicillin", "amoxicillin"),
        ("anticoagulation", "heparin"),
        ("anticoagulants", "anticoagulation"),
        ("thrombolysis", "tPA"),
        ("MAOIs", "linezolid"),
        ("metformin", "Janumet"),
        ("oxycodone", "Percocet"),
        ("dopamine antagonists", "metoclopramide"),
        ("anticholinergics", "oxybutynin"),
        ("beta agonists", "albuterol"),
        ("iron", "ferrous sulfate"),
        ("intravenous fluids", "normal saline"),
        ("penicillins", "Augmentin"),
        ("beta-lactams", "ceftriaxone"),
        ("NSAIDs", "ibuprofen"),
        ("NSAID", "aspirin"),
        ("antiplatelets", "aspirin"),
        ("blood thinners", "apixaban"),
        ("DOACs", "rivaroxaban"),
        ("anticoagulants", "enoxaparin"),
        ("beta-blocker", "Lopressor"),
        ("ACEi", "lisinopril"),
        ("diuretics", "Lasix"),
        ("potassium-sparing diuretics", "spironolactone"),
        ("antidepressants", "sertraline"),
        ("sulfa", "Bactrim"),
        ("opioids", "Percocet"),
    ],
)
def test_what_must_not_be_given_is_found_under_any_name(forbidden: str, given: str) -> None:
    assert _harm(forbidden, f"Give {given} now.") == 0
    assert _harm(forbidden, "Give paracetamol now.") == 1


def test_classes_go_through() -> None:
    """What belongs to a class belongs to the classes of that class."""
    by_name = {entry.name: entry for entry in OWN.entries}
    for entry in OWN.entries:
        for name in entry.classes:
            assert set(by_name[name].classes) <= {*entry.classes, entry.name}, (entry.name, name)


def _harm(forbidden: str, answer: str) -> float | None:
    table = {"item": ["1"], "target": [""], "prediction": [answer], "contraindicated": [forbidden]}
    return sy.value("harm_avoidance", **{name: column for name, column in table.items() if name != "item"})
