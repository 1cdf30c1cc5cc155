"""A lexicon: entries by category, each with a name, synonyms and flags; read from tables of tab-separated values.

    # name <tab> category <tab> synonyms separated by | <tab> flags separated by |
    myocardial infarction	diagnoses	heart attack|ami	critical
    fever	symptoms	pyrexia|febrile|!afebrile

A synonym after "!" says that the entry is not so: afebrile is "no fever". A flag `is:nsaids` names a class that the
entry belongs to.

An entry counts once, whatever its synonyms. Within a category a phrase belongs to one entry; between categories too,
unless `ambiguous.tsv` says how its neighbours tell them apart. Further tables add entries, or synonyms of known ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Literal, get_args

from steelyard.errors import InputError, UsageError
from steelyard.texts.normalise import words

Category = Literal["diagnoses", "treatments", "medications", "symptoms", "labs"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
CRITICAL = "critical"  # a flag: a diagnosis that must not be missed
_CLASS, _ABSENT = "is:", "!"
ICD = "icd10cm"  # the name of the lexicon of all ICD-10-CM titles
_PREFIXES = (
    "osteo",
    "gastro",
    "hyper",
    "hypo",
    "pneumo",
    "cardio",
    "broncho",
    "entero",
    "endo",
    "peri",
    "poly",
    "micro",
)
_STEM = 5  # letters after a prefix
_IRREGULAR = {"diagnosis": "diagnoses", "metastasis": "metastases", "thrombosis": "thromboses", "stenosis": "stenoses"}


@dataclass(frozen=True, order=True)
class Entry:
    """One clinical concept: what it is called, of which category it is."""

    category: Category
    name: str
    flags: frozenset[str] = field(default=frozenset(), compare=False)
    synonyms: tuple[str, ...] = field(default=(), compare=False)
    antonyms: tuple[str, ...] = field(default=(), compare=False)  # words that say that it is not so

    @property
    def critical(self) -> bool:
        return CRITICAL in self.flags

    @property
    def classes(self) -> frozenset[str]:
        """The names of the entries that it is one of: ibuprofen is one of the nsaids."""
        return frozenset(flag.removeprefix(_CLASS) for flag in self.flags if flag.startswith(_CLASS))

    @property
    def phrases(self) -> tuple[str, ...]:
        """Everything that it is called."""
        return (self.name, *self.synonyms)


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Entries, and what tells this lexicon from others. Equal content is one object."""

    entries: tuple[Entry, ...]
    digest: str

    @cached_property
    def by_phrase(self) -> dict[tuple[str, ...], Entry]:
        """Every phrase as words with its entry, plurals and possessives included; what is written wins over both."""
        stated = {tuple(words(phrase)): entry for entry in self.entries for phrase in entry.phrases}
        implied: dict[tuple[str, ...], Entry] = {}
        for phrase, entry in stated.items():
            for variant in _variants(phrase):
                implied.setdefault(variant, entry)
        return {**implied, **stated}

    @cached_property
    def heads(self) -> frozenset[str]:
        """The last words of names of several words: what "X of the Y" may be a name of."""
        return frozenset(phrase[-1] for phrase in self.by_phrase if len(phrase) > 1)

    def of(self, category: Category, name: str) -> Entry | None:
        """The entry of that name."""
        return self._named.get((category, name))

    @cached_property
    def _named(self) -> dict[tuple[str, str], Entry]:
        return {(entry.category, entry.name): entry for entry in self.entries}


def lexicon(added: Sequence[str] = ()) -> Lexicon:
    """The project's lexicon, with the tables at these paths added; `icd10cm` stands for the ICD-10-CM titles."""
    tables = tuple((path, "" if path == ICD else _content(path)) for path in added)
    return _made(tables)


@cache
def _made(tables: tuple[tuple[str, str], ...]) -> Lexicon:
    digest = hashlib.sha256()
    entries: dict[tuple[str, str], Entry] = {}
    owners: dict[tuple[Category, tuple[str, ...]], Entry] = {}
    told: list[tuple[str, int, Entry]] = []
    for name, content in (*_own(), *tables):
        rows = _icd_titles() if name == ICD else list(_rows(name, content))
        said = [(e.category, e.name, e.synonyms, e.antonyms, sorted(e.flags)) for _, e in rows]
        digest.update(repr(said).encode())
        for line, entry in rows:
            _add(entry, entries, owners, name, line)
            if entry.classes:
                told.append((name, line, entry))
    names = {entry.name for entry in entries.values()}
    for name, line, entry in told:
        if not entry.classes <= names:
            raise InputError(
                f"after {_CLASS} stands the name of an entry, which this is not", file=name, line=line, field="flags"
            )
    return Lexicon(tuple(entries.values()), digest.hexdigest()[:16])


def _own() -> Iterator[tuple[str, str]]:
    folder = resources.files("steelyard.texts.lexicons")
    for category in CATEGORIES:
        yield category, folder.joinpath(f"{category}.tsv").read_text(encoding="utf-8")


def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as problem:
        reason = (problem.strerror or type(problem).__name__).lower()
        raise InputError(f"the lexicon cannot be read ({reason})", file=path) from None
    except UnicodeDecodeError:
        raise InputError("a lexicon is UTF-8 text, this file is not", file=path) from None


def _rows(name: str, content: str) -> Iterator[tuple[int, Entry]]:
    """The entries of a table with their lines."""
    for line, text in enumerate(content.splitlines(), start=1):
        if not text.strip() or text.startswith("#"):
            continue
        cells = [cell.strip() for cell in text.split("\t")]
        if not 2 <= len(cells) <= 4:
            raise InputError("two to four cells are expected: name, category, synonyms, flags", file=name, line=line)
        called, category, synonyms, flags = (*cells, "", "")[:4]
        if category not in CATEGORIES:
            raise InputError(f"the category is one of {', '.join(CATEGORIES)}", file=name, line=line, field="category")
        if not all(flag == CRITICAL or flag.startswith(_CLASS) for flag in _parts(flags)):
            raise InputError(f"a flag is {CRITICAL} or {_CLASS}CLASS", file=name, line=line, field="flags")
        own = tuple(part for part in _parts(synonyms) if not part.startswith(_ABSENT))
        absent = tuple(part.removeprefix(_ABSENT) for part in _parts(synonyms) if part.startswith(_ABSENT))
        entry = Entry(category, called, frozenset(_parts(flags)), own, absent)
        if not all(map(words, (*entry.phrases, *entry.antonyms))):
            raise InputError("a name without any letter or digit", file=name, line=line, field="name")
        yield line, entry


def _parts(cell: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in cell.split("|") if part.strip())


def _add(
    entry: Entry,
    entries: dict[tuple[str, str], Entry],
    owners: dict[tuple[Category, tuple[str, ...]], Entry],
    table: str,
    line: int,
) -> None:
    """Put an entry to the others; what is said again of a known one adds to it."""
    known = entries.get((entry.category, entry.name))
    if known is not None:
        synonyms = tuple(dict.fromkeys((*known.synonyms, *entry.synonyms)))
        antonyms = tuple(dict.fromkeys((*known.antonyms, *entry.antonyms)))
        entry = Entry(entry.category, entry.name, known.flags | entry.flags, synonyms, antonyms)
    entries[entry.category, entry.name] = entry
    for phrase in map(tuple, map(words, (*entry.phrases, *entry.antonyms))):
        owner = owners.setdefault((entry.category, phrase), entry)
        if owner != entry:
            raise InputError("a phrase of this entry belongs to another entry of its category", file=table, line=line)


def _variants(phrase: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The phrase with its last word as a plural, prefixes apart, and with or without the s of a possessive."""
    *before, last = phrase
    if len(last) > 3 and last.isalpha() and not last.endswith("s"):  # the plural of a short form may be a plain word
        yield (*before, _plural(last))
    if last in _IRREGULAR:
        yield (*before, _IRREGULAR[last])
    for i, word in enumerate(phrase):
        for prefix in _PREFIXES:  # osteo-arthritis
            if word.startswith(prefix) and len(word) - len(prefix) > _STEM:
                yield (*phrase[:i], prefix, word[len(prefix) :], *phrase[i + 1 :])
    for i, word in enumerate(phrase[:-1]):
        if word.endswith("s") and len(word) > 4 and word.isalpha():  # Crohns disease, Crohn disease
            yield (*phrase[:i], word[:-1], *phrase[i + 1 :])
        elif len(word) > 3 and word.isalpha():  # Wilson disease, Wilson's disease
            yield (*phrase[:i], f"{word}s", *phrase[i + 1 :])


def _plural(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("x", "ch", "sh", "z")) else f"{word}s"


@cache
def _icd_titles() -> list[tuple[int, Entry]]:
    """Every title of ICD-10-CM that the project's own diagnoses do not know."""
    try:
        import simple_icd_10_cm as icd
    except ImportError:
        raise UsageError(
            f"`lexicon={ICD}` needs the titles of ICD-10-CM, which are not installed: pip install 'steelyard[icd]'"
        ) from None
    own = {phrase for entry in _made(()).entries for phrase in map(tuple, map(words, entry.phrases))}
    titles: dict[tuple[str, ...], str] = {}
    for code in icd.get_all_codes(with_dots=True):
        title = icd.get_description(code)
        phrase = tuple(words(title))
        if icd.is_category_or_subcategory(code) and phrase not in own:
            titles.setdefault(phrase, title)
    return [(0, Entry("diagnoses", title)) for title in titles.values()]
