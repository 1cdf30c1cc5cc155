"""The tables of tests/texts/data that a program reads: which of their lines the extractor gets wrong.

python -m tests.support.text_tables     write tests/texts/data/misses_of_tables.txt
"""

from __future__ import annotations

import steelyard as sy
from steelyard.texts.entities import extractor
from tests.support.gold import DATA, known_as

MISSES = DATA / "misses_of_tables.txt"
NOTHING = "NOTHING"


def rows(name: str) -> list[list[str]]:
    """The lines of a table as cells."""
    lines = (DATA / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def mentioned(text: str) -> str:
    """What a text mentions, each with its context, as the tables write it."""
    found = extractor().findings(text).mentions
    return "; ".join(f"{mention.context} {mention.entry.name}" for mention in found) or NOTHING


def meant(statement: str) -> str:
    """What a statement should be read as, with the names that the lexicon prefers."""
    items = [item.split(" ", 1) for item in statement.split("; ") if item != NOTHING]
    return "; ".join(f"{context} {known_as(name)}" for context, name in items) or NOTHING


def kept_apart(one: str, other: str) -> bool:
    """True if neither text passes for the other."""
    return all(sy.explain("diagnostic_accuracy", *pair).score == 0 for pair in ((one, other), (other, one)))


def is_same(one: str, other: str) -> bool:
    """True if each text passes for the other."""
    texts = extractor().findings(one).mentions
    metrics = ["clinical_accuracy", *(["diagnostic_accuracy"] * any(m.entry.category == "diagnoses" for m in texts))]
    return bool(texts) and all(sy.explain(name, one, other).score == 1 for name in metrics)


def harm_of(forbidden: str, answer: str) -> float | None:
    return sy.explain("harm_avoidance", "", answer, contraindicated=forbidden).score


def missed() -> list[str]:
    """The lines that the extractor gets wrong, each with its table."""
    wrong = [("kinds", one, other) for one, other, _ in rows("kinds") if not kept_apart(one, other)]
    wrong += [("same", one, other) for one, other, _ in rows("same") if not is_same(one, other)]
    wrong += [
        ("statements", text, f"read as {mentioned(text)}")
        for text, right, _ in rows("statements")
        if mentioned(text) != meant(right)
    ]
    wrong += [("harm", row[0], row[1]) for row in rows("harm") if harm_of(row[0], row[1]) != float(row[2])]
    return ["\t".join(line) for line in wrong]


if __name__ == "__main__":
    MISSES.write_text("".join(f"{line}\n" for line in missed()))
    print(MISSES.read_text(), end="")
