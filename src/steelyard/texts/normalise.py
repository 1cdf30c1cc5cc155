"""A text as comparable words: lower case, one spelling, hyphens as spaces, other punctuation dropped.

Beyond that: a decimal point stays (7.5 mg is not 75 mg), a slash separates words like a hyphen, letters with full stops
are one word (t.i.d. is tid), accents are dropped, and a word has one spelling (oedema is edema). A dash with spaces
around it, or an arrow, is no hyphen: a statement ends there.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib import resources
from itertools import pairwise

MARKS = frozenset(".;:!?,()\n—")  # what stays of punctuation among tokens: where a statement may end

_SHORT_LINE = 40  # characters: a shorter line was not wrapped, it ends there
# each begins with the mark itself, which a search finds much faster than what may stand before it
_THOUSANDS = re.compile(r",(?<=\d,)(?=\d{3}(?!\d))")
_LETTERS = re.compile(r"\.(?:(?<=\b[a-z]\.)(?=[a-z]\b)|(?<=\.[a-z]\.))")  # t.i.d.
_SPECIES = re.compile(r"\.(?<=\b[a-z]\.)\s?(?=diff|coli\b|aureus|pylori|pneumoniae|pyogenes|trachomatis|jirovecii)")
_SLASHED = re.compile(r"(?<![a-z/])(?:[a-z]/[a-z]|n/v/d|c/w|w/out)(?![a-z/])")
_TOKEN = re.compile(r"\d+\.\d+|[^\W_]+|[.;:!?,()\n—]")
_DASH = re.compile(r"(?<=[^\s\d]) +(?:[-–—]+|-*>|=>|→) +(?=[^\s\d])|(?<=[^\s\d])—(?=[^\s\d])|→")  # no hyphen, no range
_FOLDED = str.maketrans(
    {
        **dict.fromkeys("-‐‑‒–—―−/_\t\r\f\v\N{NO-BREAK SPACE}\x1c\x1d\x1e\x1f\x85\u2028\u2029", " "),
        **dict.fromkeys("'’‘ʼ`", ""),
        "&": " and ",
        "\x02": "—",  # a dash between statements, see _DASH
        "α": "alpha",
        "β": "beta",
        "γ": "gamma",
        "µ": "u",
        "μ": "u",
        "ß": "ss",
    }
)
# two letters with a slash are words of their own in notes
_SHORT = {
    "w/o": "without",
    "w/out": "without",
    "h/o": "history of",
    "s/p": "status post",
    "c/o": "complains of",
    "r/o": "rule out",
    "d/t": "due to",
    "p/w": "presents with",
    "c/w": "consistent with",
    "a/w": "associated with",
    "n/v": "nausea and vomiting",
    "n/v/d": "nausea and vomiting and diarrhea",
    "f/c": "fever and chills",
    "d/c": "discontinue",
    "y/o": "year old",
    "f/u": "follow up",
    "b/l": "bilateral",
    "h/a": "headache",
}


def tokens(text: str) -> list[str]:
    """The words of a text in one spelling, with the marks between them at which a statement may end."""
    spelling = spellings()
    return [spelling.get(token, token) for token in _TOKEN.findall(_folded(text))]


def words(text: str) -> list[str]:
    """The words of a text in one spelling.

    >>> words("Acute  Oedema, follow-up in 7.5 days.")
    ['acute', 'edema', 'follow', 'up', 'in', '7.5', 'days']
    """
    return [token for token in tokens(text) if token not in MARKS]


def normalised(text: str) -> str:
    """The words of a text with one space between them."""
    return " ".join(words(text))


def _folded(text: str) -> str:
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in text if not unicodedata.combining(c))
    if "\n" in text:
        text = _unwrapped(text)
    text = text.lower().replace("(-)", " absent ").replace("(+)", " present ")
    if "/" in text:
        text = _SLASHED.sub(lambda match: _SHORT.get(match[0], match[0]), text)
    if " -" in text or "> " in text or not text.isascii():
        text = _DASH.sub(" \x02 ", text)
    text = text.translate(_FOLDED)
    return _LETTERS.sub("", _SPECIES.sub(" ", _THOUSANDS.sub("", text)))


def _unwrapped(text: str) -> str:
    """The text with only those ends of lines at which a statement ends: not where a long line goes on in the next."""
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    joined = lines[:1]
    for line, after in pairwise(lines):
        joined += [" " if len(line) >= _SHORT_LINE and after[0].islower() else "\n", after]
    return "".join(joined)


@cache
def spellings() -> dict[str, str]:
    """The one spelling of every word that has several, from `lexicons/spellings.tsv`."""
    table = resources.files("steelyard.texts.lexicons").joinpath("spellings.tsv").read_text(encoding="utf-8")
    pairs = (line.split("\t") for line in table.splitlines() if line and not line.startswith("#"))
    return {variant: spelling for spelling, variants in pairs for variant in variants.split("|")}
