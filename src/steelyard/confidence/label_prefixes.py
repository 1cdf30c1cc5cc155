"""Confidence in each label where nobody said which tokens it begins with: by what the tokens spell.

A token that begins exactly one label counts for that label: `Crit` for Critical. A token that begins several, ` ` or
`Very` of "Very bad" and "Very good", decides nothing. If the model said it, the next token decides, given this one; if
it did not, the labels share it in equal parts, which is said by `at_most`. A label may have several spellings, "3" and
"Stage 3"; its probability is that of all of them. Texts are compared without leading blanks, quotes and asterisks, and
whatever their case.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.confidence.first_token import LabelMasses, alternatives, log_sum, masses_of
from steelyard.confidence.token_text import bytes_of_text, token_text
from steelyard.errors import UsageError, printable

_LEADING = re.compile(r"[\s\"'`*“”‘’▁Ġ]+")
_BLANKS = re.compile(r"\s+")
_WORD_ENDS = re.compile(r"(?![.,]?\w)")  # a label of digits does not end before a decimal


def label_masses_by_prefix(
    tokens: Sequence[Any], labels: Sequence[str], spellings: Mapping[str, str] | None = None
) -> LabelMasses:
    """The probability of each label as the answer that begins with the first token, and of everything else.

    `spellings` are other texts for labels: {"Stage 3": "3"}. `at_most` has the labels that no token of their own was
    listed for. `said` is the label that the tokens themselves lead to, if they lead to one.

    >>> very = {"token": "Very", "logprob": -0.4, "top_logprobs": [("Very", math.log(0.7)), ("Fine", math.log(0.2))]}
    >>> bad = {"token": " bad", "logprob": -0.5, "top_logprobs": [(" bad", math.log(0.6)), (" good", math.log(0.4))]}
    >>> found = label_masses_by_prefix([very, bad], ["Very bad", "Very good", "Fine"])
    >>> {label: round(mass, 4) for label, mass in found.masses.items()}, round(found.outside, 4)
    ({'Very bad': 0.42, 'Very good': 0.28, 'Fine': 0.2}, 0.1)
    """
    label_of = _by_text(labels, spellings or {})
    own: dict[str, list[float]] = {label: [] for label in labels}
    shared: dict[str, list[float]] = {label: [] for label in labels}
    at_most = dict.fromkeys(labels, 0.0)
    before, so_far, possible = b"", 0.0, set(labels)
    leads_to: str | None = None
    for place, token in enumerate(tokens):
        here, said, follow = alternatives(token, place=place), token_text(token), None
        for text, logprob in here.listed:
            fitting = _fitting(before, text, label_of)
            if len(fitting) == 1:
                own[fitting[0]].append(so_far + logprob)
                leads_to = fitting[0] if text == said else leads_to
            elif fitting and text == said and follow is None:
                follow = logprob, fitting
            else:
                for label in fitting:
                    shared[label].append(so_far + logprob - math.log(len(fitting)))
                    at_most[label] += math.exp(so_far + logprob)
        for label in possible:
            at_most[label] += math.exp(so_far) * here.left
        if follow is None:
            break
        before, so_far, possible = before + bytes_of_text(said or ""), so_far + follow[0], set(follow[1])
    else:
        for label in _fitting(before, "", label_of):
            own[label].append(so_far)
            leads_to = label
        for label in possible:  # how likely another one was to go on is not listed
            at_most[label] += math.exp(so_far)
    return masses_of(
        {label: log_sum([*own[label], *shared[label]]) for label in labels},
        at_most={label: min(most, 1.0) for label, most in at_most.items() if not own[label]},
        said=leads_to,
    )


def _by_text(labels: Sequence[str], spellings: Mapping[str, str]) -> dict[str, str]:
    """The label of each text as it is compared; what is a label is not the spelling of another."""
    label_of: dict[str, str] = {}
    for label in labels:
        key = _comparable(label)
        if not key or label_of.setdefault(key, label) != label:
            raise UsageError(
                f"label '{printable(label)}' is empty or the same as another, space and case aside; "
                "its probability cannot be told from tokens"
            )
    for spelling, label in spellings.items():
        if key := _comparable(spelling):
            label_of.setdefault(key, label)
    return label_of


def _fitting(before: bytes, text: str, label_of: Mapping[str, str]) -> list[str]:
    """The labels that what was said before, and then this token, may be the beginning of; or the one that it ends.

    A token without text ends the answer.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        spelled = _comparable(decoder.decode(before + bytes_of_text(text)))
    except UnicodeDecodeError:
        return []
    fragment = decoder.getstate()[0]
    if not text:
        return [label_of[spelled.rstrip()]] if spelled.rstrip() in label_of else []
    beginning = {
        label: None
        for key, label in label_of.items()
        if key.startswith(spelled) and key[len(spelled) :].encode().startswith(fragment)
    }
    if beginning:
        return list(beginning)
    ended = [key for key in label_of if spelled.startswith(key) and _WORD_ENDS.match(spelled, len(key))]
    return [label_of[max(ended, key=len)]] if ended else []


def _comparable(text: str) -> str:
    leading = _LEADING.match(text)
    return _BLANKS.sub(" ", text[leading.end() if leading else 0 :]).casefold()
