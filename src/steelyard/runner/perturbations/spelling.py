"""The same words spelt otherwise: misspelt, in capitals, without capitals."""

from __future__ import annotations

import re

from steelyard.ground.chance import Chance
from steelyard.runner.perturbations.contract import of_texts

SHARE = 0.1  # of the words that are long enough
_WORD = re.compile(r"[^\W\d_]{4,}")


@of_texts("typos", "about one word in ten is misspelt, at least one: letters swapped, left out or doubled")
def typos(text: str, chance: Chance) -> str:
    """Words of four letters and more; numbers, and the first letter of a word, stay."""
    words = list(_WORD.finditer(text))
    if not words:
        return text
    chosen = {number for number in range(len(words)) if chance.share() < SHARE} or {chance.below(len(words))}
    parts, at = [], 0
    for number, word in enumerate(words):
        if number in chosen:
            parts += [text[at : word.start()], _misspelt(word.group(), chance)]
            at = word.end()
    return "".join(parts) + text[at:]


def _misspelt(word: str, chance: Chance) -> str:
    place, how = 1 + chance.below(len(word) - 2), chance.below(3)
    if how == 0 and word[place] != word[place + 1]:
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    if how == 1:
        return word[: place + 1] + word[place] + word[place + 1 :]
    return word[:place] + word[place + 1 :]


@of_texts("upper", "all in capitals")
def upper(text: str, chance: Chance) -> str:  # noqa: ARG001 - nothing is left to chance
    return text.upper()


@of_texts("lower", "no capitals")
def lower(text: str, chance: Chance) -> str:  # noqa: ARG001 - nothing is left to chance
    return text.lower()
