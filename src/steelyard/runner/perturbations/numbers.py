"""The same numbers, written otherwise: small ones as words, thousands with commas, decimals with one zero more.

Numbers in texts and numbers in fields of their own. A field stays a number, so that a template can still reckon with
it; only how it is printed is another. Years, versions, dates, times, percentages and parts of names stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Self

from steelyard.ground.chance import Chance
from steelyard.runner.perturbations.contract import Altered, Shown, perturbation

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_YEARS = range(1900, 2100)
_NUMBER = re.compile(  # no part of a name, a sum of money, a formula, or a number in groups of three
    r"(?<![\w.,:/#+$€£=−-])(?<![0-9][ \u00a0\u202f])(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
    r"(?![\w:/%‰+-]|[.,][0-9]|[ \u00a0\u202f][0-9]{3}(?![0-9]))"
)


class WrittenFloat(float):
    """A number that prints otherwise."""

    written: str

    def __new__(cls, value: float, written: str) -> Self:
        number = super().__new__(cls, value)
        number.written = written
        return number

    def __str__(self) -> str:
        return self.written


class WrittenInt(int):
    """A whole number that prints otherwise."""

    written: str

    def __new__(cls, value: int, written: str) -> Self:
        number = super().__new__(cls, value)
        number.written = written
        return number

    def __str__(self) -> str:
        return self.written


@perturbation("number_format", "numbers are written otherwise: three for 3, 1,500 for 1500, 0.50 for 0.5")
def number_format(shown: Shown, chance: Chance) -> Altered:  # noqa: ARG001 - nothing is left to chance
    texts = {name: _NUMBER.sub(lambda match: written(match.group()), text) for name, text in shown.texts.items()}
    others = {name: _rewritten(value) for name, value in shown.fields.items() if not isinstance(value, str)}
    return Altered(fields={**texts, **others})


def written(number: str) -> str:
    """A number in digits as it is written otherwise, or as it is.

    >>> [written(each) for each in ("3", "1500", "0.5", "42", "2019")]
    ['three', '1,500', '0.50', '42', '2019']
    """
    if "." in number:
        return f"{number}0"
    value = int(number)
    if value < len(WORDS):
        return WORDS[value]
    return f"{value:,}" if value >= 1000 and value not in _YEARS else number


def _rewritten(value: Any) -> Any:
    """A number that prints otherwise; what holds numbers, with such ones in it."""
    if isinstance(value, Mapping):
        return {key: _rewritten(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_rewritten(part) for part in value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not _NUMBER.fullmatch(str(value)):
        return value
    text = written(str(value))
    return WrittenInt(value, text) if isinstance(value, int) else WrittenFloat(value, text)
