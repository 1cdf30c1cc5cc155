"""What a server writes with an error, for people: its own words, cut, without keys and without what it was sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from steelyard.errors import printable
from steelyard.ground.keys import without_keys
from steelyard.halves import mended

LONGEST = 200  # characters
TAKEN_OUT = "[…]"
FILTERED = "content_filter"  # how servers call it that a filter refused a prompt
_SAYS = ("message", "detail", "error", "msg")  # keys under which servers say what is wrong
_WORD = re.compile(r"\w+")
_TOGETHER = 3  # words in a row that also stand in the prompt are its words
_GAP = re.compile(rf"{re.escape(TAKEN_OUT)}(?:[\W_]*{re.escape(TAKEN_OUT)})+")


def complaint(body: bytes, prompt: str) -> str:
    """What a server wrote with an error to a prompt, "" where it is no text for people.

    >>> complaint(b'{"error": {"message": "Anna Meyer, aged 61 is too long: 9000 tokens"}}', "Anna Meyer, aged 61")
    '[…] is too long: 9000 tokens'
    """
    said = next((text for text in _texts(_document(body)) if text.strip()), "")
    if said.lstrip().startswith("<"):  # a page
        return ""
    return printable(without_keys(_without(said, prompt)).strip(), limit=LONGEST)


def is_filtered(body: bytes) -> bool:
    """True if a server says that a content filter refused the prompt."""
    document = _document(body)
    error = document.get("error", document) if isinstance(document, dict) else None
    return isinstance(error, dict) and error.get("code") == FILTERED


def _document(body: bytes) -> object:
    text = mended(body).decode(errors="replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _texts(value: object) -> Iterator[str]:
    """The texts in which a document may say what is wrong, the likeliest first."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key in _SAYS:
            yield from _texts(value.get(key))
    elif isinstance(value, list):
        for each in value[:1]:
            yield from _texts(each)


def _without(said: str, prompt: str) -> str:
    """A text without the words of a prompt: several in a row, and what may be a name or a number."""
    sent = [word.casefold() for word in _WORD.findall(prompt)]
    known, rows = set(sent), {tuple(sent[i : i + _TOGETHER]) for i in range(len(sent) - _TOGETHER + 1)}
    words = list(_WORD.finditer(said))
    folded = [word[0].casefold() for word in words]
    taken = {i for i, word in enumerate(words) if folded[i] in known and not word[0].islower()}
    for i in range(len(words) - _TOGETHER + 1):
        if tuple(folded[i : i + _TOGETHER]) in rows:
            taken |= {i, i + 1, i + 2}
    parts: list[str] = []
    since = 0
    for i in sorted(taken):
        parts += said[since : words[i].start()], TAKEN_OUT
        since = words[i].end()
    return _GAP.sub(TAKEN_OUT, "".join(parts) + said[since:])
