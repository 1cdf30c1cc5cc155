"""The same in the words of a chat: contractions, abbreviations, small letters where a sentence begins."""

from __future__ import annotations

import re

from steelyard.ground.chance import Chance
from steelyard.runner.perturbations.contract import of_texts

INFORMAL = {
    "are not": "aren't", "cannot": "can't", "can not": "can't", "could not": "couldn't", "did not": "didn't",
    "do not": "don't", "does not": "doesn't", "has not": "hasn't", "have not": "haven't", "is not": "isn't",
    "should not": "shouldn't", "was not": "wasn't", "were not": "weren't", "will not": "won't", "would not": "wouldn't",
    "going to": "gonna", "want to": "wanna", "it is": "it's", "there is": "there's", "that is": "that's", "I am": "I'm",
    "we are": "we're", "they are": "they're", "because": "cuz", "please": "pls", "people": "folks", "without": "w/o",
    "with": "w/", "about": "abt", "approximately": "like", "information": "info", "application": "app",
    "administrator": "admin", "administrators": "admins", "configuration": "config", "documentation": "docs",
    "you": "u", "your": "ur", "thanks": "thx", "thank you": "thx", "very": "super", "repeatedly": "again and again",
    "however": "but", "therefore": "so", "immediately": "right away", "several": "a bunch of", "yes": "yep",
}  # fmt: skip
_FORMAL = re.compile(
    rf"\b(?:{'|'.join(re.escape(each) for each in sorted(INFORMAL, key=len, reverse=True))})\b", re.IGNORECASE
)
_BY_KEY = {formal.casefold(): informal for formal, informal in INFORMAL.items()}
_BEGINNING = re.compile(r"(?:^|(?<=[.!?]\s))[A-Z](?=[a-z])")
_LAST_STOP = re.compile(r"(?<=\w)\.(?=\s*$)")


@of_texts("informal", "contractions, abbreviations, no capitals where sentences begin, no full stop at the end")
def informal(text: str, chance: Chance) -> str:  # noqa: ARG001 - nothing is left to chance
    said = _FORMAL.sub(lambda match: _BY_KEY[match.group().casefold()], text)
    return _LAST_STOP.sub("", _BEGINNING.sub(lambda match: match.group().lower(), said))
