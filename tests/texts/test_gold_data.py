"""The hand-checked clinical texts have the shape that their README promises, whatever an extractor makes of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from tests.support.places import TESTS

DATA = TESTS / "texts" / "data"
CATEGORIES = {"diagnoses", "treatments", "medications", "symptoms", "labs"}
COMPARED = {"asserted", "historical", "uncertain"}
CONTEXTS = COMPARED | {"negated", "family", "hypothetical"}
KINDS = {"ED note", "discharge summary", "clinic letter", "nursing note", "radiology report", "consult"}
COVERED = {
    *("negation", "abbreviations", "ambiguous", "hyphens", "plurals", "misspellings", "short-words", "brand", "twins"),
    *("family", "history", "uncertainty", "hypothetical", "synonyms", "longest-match", "labs", "whole-token"),
}


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


PAIRS = lines("pairs.jsonl")
NOTES = lines("notes.jsonl")


def parts(item: str) -> tuple[str, str, str]:
    """Category, name and context of `category:name@context`."""
    category, _, rest = item.partition(":")
    name, _, context = rest.partition("@")
    return category, name, context or "asserted"


def places(text: str, spans: list[str]) -> list[int]:
    """Where each span stands as a whole word after the one before; -1 where it does not."""
    found, end = [], 0
    for span in spans:
        match = re.compile(rf"(?<!\w){re.escape(span)}(?!\w)").search(text, end)
        found.append(match.start() if match else -1)
        end = match.end() if match else end
    return found


def plain(name: str) -> bool:
    """Whether a name is lower case, without the signs of the notation, and without spaces at its ends."""
    return bool(name) and name == name.lower().strip() and not re.search(r"[:@|{}]", name)


def test_there_are_enough_of_both() -> None:
    assert len(PAIRS) >= 150
    assert len(NOTES) == 40


def test_every_id_is_used_once() -> None:
    for rows in (PAIRS, NOTES):
        assert [name for name, count in Counter(row["id"] for row in rows).items() if count > 1] == []


def test_every_subject_has_pairs() -> None:
    counts = Counter(tag for pair in PAIRS for tag in pair["tags"])
    assert {tag: counts[tag] for tag in COVERED if counts[tag] < 4} == {}


def test_the_notes_are_of_many_kinds_and_specialties() -> None:
    assert {note["kind"] for note in NOTES} == KINDS
    assert len({note["specialty"] for note in NOTES}) >= 8
    assert {entity["context"] for note in NOTES for entity in note["entities"]} == CONTEXTS


def test_no_text_is_used_twice() -> None:
    both = [(pair["reference"], pair["answer"]) for pair in PAIRS]
    assert len(set(both)) == len(both)
    assert len({note["text"] for note in NOTES}) == len(NOTES)


def test_a_name_has_one_category_in_both_files() -> None:
    found: dict[str, set[str]] = {}
    items = [parts(item) for pair in PAIRS for key in ("matched", "missed", "extra") for item in pair[key]]
    items += [(entity["category"], entity["name"], "") for note in NOTES for entity in note["entities"]]
    for category, name, _ in items:
        found.setdefault(name, set()).add(category)
    # albumin is infused in one note and measured in another
    assert {name for name, categories in found.items() if len(categories) > 1} == {"albumin"}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair["id"])
def test_a_pair_is_well_formed(pair: dict[str, Any]) -> None:
    assert list(pair) == ["id", "reference", "answer", "matched", "missed", "extra", "reason", "tags"]
    assert pair["reference"].strip()
    assert pair["answer"].strip()
    assert pair["tags"]
    assert re.fullmatch(r"\S.{15,}\.", pair["reason"]), "one sentence that says why"
    every = [*pair["matched"], *pair["missed"], *pair["extra"]]
    assert len(set(every)) == len(every), "an entity in a context stands in one list"
    for category, name, context in map(parts, every):
        assert category in CATEGORIES
        assert plain(name)
        assert context in CONTEXTS
    assert {context for _, _, context in map(parts, [*pair["missed"], *pair["extra"]])} <= COMPARED


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note["id"])
def test_a_note_is_well_formed(note: dict[str, Any]) -> None:
    assert list(note) == ["id", "kind", "specialty", "text", "entities"]
    assert 80 <= len(note["text"].split()) <= 220
    assert not re.search(r"[|{}]", note["text"])
    assert len(note["entities"]) >= 10
    for entity in note["entities"]:
        assert list(entity) == ["text", "category", "name", "context"]
        assert entity["category"] in CATEGORIES
        assert entity["context"] in CONTEXTS
        assert plain(entity["name"])
    assert -1 not in places(note["text"], [entity["text"] for entity in note["entities"]])


def test_the_check_of_places_would_notice() -> None:
    assert places("No fever. Feverfew, then fever.", ["fever", "fever"]) == [3, 25]
    assert places("cough and fever", ["fever", "cough"]) == [10, -1]
