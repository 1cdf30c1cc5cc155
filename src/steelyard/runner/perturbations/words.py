"""Fewer words, and more: a text that ends early, and one with words that say nothing."""

from __future__ import annotations

import re
from math import ceil

from steelyard.ground.chance import Chance
from steelyard.runner.perturbations.contract import of_texts

KEPT = 0.6  # of the words
SHORTEST = 4  # words; a text that has fewer is not cut
FILLERS = ("actually", "basically", "you know", "well", "sort of", "honestly", "by the way", "as it were", "I guess")
SHARE = 0.12  # of the words, after which a filler stands
_WORD = re.compile(r"\S+")


@of_texts("truncation", "texts end after 60% of their words, where they have four or more")
def truncation(text: str, chance: Chance) -> str:  # noqa: ARG001 - nothing is left to chance
    words = list(_WORD.finditer(text))
    return text if len(words) < SHORTEST else text[: words[ceil(KEPT * len(words)) - 1].end()]


@of_texts("noise_words", "words that say nothing stand between the others, after about one in eight, at least once")
def noise_words(text: str, chance: Chance) -> str:
    words = list(_WORD.finditer(text))
    if not words:
        return text
    chosen = {number for number in range(len(words)) if chance.share() < SHARE} or {chance.below(len(words))}
    parts, at = [], 0
    for number in sorted(chosen):
        end = words[number].end()
        parts += [text[at:end], f" {chance.pick(FILLERS)}"]
        at = end
    return "".join(parts) + text[at:]
