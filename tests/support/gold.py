"""The hand-checked pairs and notes against the extractor: what agrees, what is missed, precision and recall.

python -m tests.support.gold     write tests/texts/data/misses.txt, and print precision and recall

Names are looked up in the lexicon as terms, since it may prefer another name. An item is a category, a name and a
context; pairs are compared as tests/texts/data/README.md says.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from steelyard.texts.entities import extractor
from tests.support.places import TESTS

DATA = TESTS / "texts" / "data"
MISSES = DATA / "misses.txt"
COMPARED = {"asserted", "historical", "uncertain"}
Item = tuple[str, str, str]


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def known_as(name: str) -> str:
    """What the lexicon calls a term; the term with a question mark where it does not know it."""
    mentions = extractor().findings(name).mentions
    return mentions[0].entry.name if len(mentions) == 1 else f"?{name}"


def found(text: str) -> list[Item]:
    return [(m.entry.category, m.entry.name, m.context) for m in extractor().findings(text).mentions]


def wanted(item: str) -> Item:
    category, _, rest = item.partition(":")
    name, _, context = rest.partition("@")
    return category, known_as(name), context or "asserted"


def missed(pair: dict[str, Any]) -> list[str]:
    """How the extractor disagrees with a pair, in words; nothing where it agrees."""
    one, two = ({*found(pair[side])} for side in ("reference", "answer"))
    got = {
        "matched": one & two,
        "missed": {item for item in one - two if item[2] in COMPARED},
        "extra": {item for item in two - one if item[2] in COMPARED},
    }
    said = []
    for kind, items in got.items():
        right = set(map(wanted, pair[kind]))
        said += [f"{kind}: found {_text(item)}" for item in sorted(items - right)]
        said += [f"{kind}: lacks {_text(item)}" for item in sorted(right - items)]
    return said


def _text(item: Item) -> str:
    category, name, context = item
    return f"{category}:{name}" + ("" if context == "asserted" else f"@{context}")


def precision_recall(part: Callable[[Item], Any]) -> tuple[float, float]:
    """Of the mentions in the notes, by what `part` takes of each."""
    hits = extra = lacking = 0
    for note in lines("notes.jsonl"):
        got = Counter(map(part, found(note["text"])))
        right = Counter(part((e["category"], known_as(e["name"]), e["context"])) for e in note["entities"])
        hits += (got & right).total()
        extra += (got - right).total()
        lacking += (right - got).total()
    return hits / (hits + extra), hits / (hits + lacking)


MEASURES: dict[str, Callable[[Item], Any]] = {
    "the name": lambda item: item[1],
    "name and category": lambda item: item[:2],
    "name, category and context": lambda item: item,
}


def misses() -> str:
    """Every pair with which the extractor disagrees, one to a line."""
    pairs = [(pair["id"], missed(pair)) for pair in lines("pairs.jsonl")]
    return "".join(f"{name}\t{'; '.join(said)}\n" for name, said in pairs if said)


def main() -> None:
    MISSES.write_text(misses())
    for name, part in MEASURES.items():
        print(f"{name}: precision {precision_recall(part)[0]:.3f}, recall {precision_recall(part)[1]:.3f}")


if __name__ == "__main__":
    main()
