"""The lexicons: large enough, without contradictions, and open to additions."""

from __future__ import annotations

from collections import defaultdict
from importlib import resources
from pathlib import Path

import pytest

import steelyard as sy
from steelyard.errors import InputError
from steelyard.texts.abbreviations import ambiguous
from steelyard.texts.entities import extractor
from steelyard.texts.lexicon import CATEGORIES, lexicon
from steelyard.texts.normalise import normalised, spellings, words

LEAST = {"diagnoses": 400, "medications": 300, "symptoms": 200, "labs": 120, "treatments": 150}
OWN = lexicon()


@pytest.mark.parametrize("category", CATEGORIES)
def test_there_are_enough_entries(category: str) -> None:
    entries = [entry for entry in OWN.entries if entry.category == category]
    assert len(entries) >= LEAST[category]
    assert sum(bool(entry.synonyms) for entry in entries) >= len(entries) / 3


def test_no_phrase_belongs_to_two_entries() -> None:
    owners = defaultdict(set)
    for entry in OWN.entries:
        for phrase in (*entry.phrases, *entry.antonyms):
            owners[normalised(phrase)].add((entry.category, entry.name))
    assert {phrase: names for phrase, names in owners.items() if len(names) > 1} == {}


def test_names_and_synonyms_are_written_as_they_are_read() -> None:
    for entry in OWN.entries:
        for phrase in (*entry.phrases, *entry.antonyms):
            assert phrase == phrase.lower()
            assert words(phrase), entry
        assert entry.name not in entry.synonyms


def test_every_name_is_found_as_itself() -> None:
    short = set(ambiguous(OWN))
    for entry in OWN.entries:
        for phrase in entry.phrases:
            if tuple(words(phrase)) not in short:
                assert [m.entry for m in extractor().findings(phrase).mentions] == [entry], phrase


def test_no_name_or_its_plural_is_a_plain_word() -> None:
    """DOE is dyspnea on exertion, "does" is not."""
    folder = resources.files("steelyard.texts.lexicons")
    files = [folder.joinpath(f"{name}.txt").read_text(encoding="utf-8") for name in ("plain_words", "stop_words")]
    plain = {word for text in files for word in text.split()}
    assert {phrase[0] for phrase in OWN.by_phrase if len(phrase) == 1} & plain == set()


def test_classes_are_entries() -> None:
    names = {entry.name for entry in OWN.entries}
    assert {name for entry in OWN.entries for name in entry.classes} <= names


def test_meanings_of_short_forms_are_entries() -> None:
    table = resources.files("steelyard.texts.lexicons").joinpath("ambiguous.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in table.splitlines() if not line.startswith("#")]
    known = {(entry.category, entry.name) for entry in OWN.entries}
    assert [row for row in rows if row[1] != "-" and (row[2], row[1]) not in known] == []


def test_a_spelling_leads_to_the_last_one_at_once() -> None:
    assert {spelling for spelling in spellings().values() if spelling in spellings()} == set()


def test_a_table_adds_entries_and_synonyms(tmp_path: Path) -> None:
    table = tmp_path / "my.tsv"
    table.write_text(
        "# mine\nzebrasis\tdiagnoses\tstripes disease|!stripeless\tcritical\npneumonia\tdiagnoses\tlungrot\n"
    )
    larger = lexicon((str(table),))
    assert len(larger.entries) == len(OWN.entries) + 1
    assert larger.digest != OWN.digest
    found = extractor((str(table),)).findings("Stripes disease and lungrot; now stripeless")
    assert [(m.entry.name, m.context) for m in found.mentions] == [
        ("zebrasis", "asserted"),
        ("pneumonia", "asserted"),
        ("zebrasis", "negated"),
    ]
    assert larger.of("diagnoses", "zebrasis").critical  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ("zebrasis\n", 1, "two to four cells"),
        ("a\tdiagnoses\tb\tcritical\tmore\n", 1, "two to four cells"),
        ("# x\nzebrasis\tdiseases\n", 2, "the category is one of"),
        ("zebrasis\tdiagnoses\t\turgent\n", 1, "a flag is critical or is:CLASS"),
        ("---\tdiagnoses\n", 1, "without any letter"),
        ("# x\nzebrasis\tmedications\t\tis:stripes\n", 2, "stands the name of an entry"),
        ("zebrasis\tdiagnoses\theart attack\n", 1, "belongs to another entry"),
    ],
)
def test_a_wrong_table_is_refused_at_its_line(tmp_path: Path, content: str, line: int, problem: str) -> None:
    table = tmp_path / "my.tsv"
    table.write_text(content)
    with pytest.raises(InputError, match=problem) as caught:
        lexicon((str(table),))
    assert (caught.value.line, caught.value.file) == (line, str(table))
    assert "zebrasis" not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_table_that_cannot_be_read_says_so(tmp_path: Path, content: bytes | None) -> None:
    table = tmp_path / "my.tsv"
    if content is not None:
        table.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be read|is UTF-8 text"):
        sy.explain("clinical_accuracy", "a", "b", lexicon=str(table))


@pytest.mark.slow
def test_icd_titles_are_diagnoses() -> None:
    pytest.importorskip("simple_icd_10_cm")
    titles = lexicon(("icd10cm",))
    assert len(titles.entries) > len(OWN.entries) + 5_000
    found = extractor(("icd10cm",)).findings("Coalworkers pneumoconiosis")
    assert [m.entry.category for m in found.mentions] == ["diagnoses"]
