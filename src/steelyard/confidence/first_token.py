"""Confidence in each label, from the log-probabilities of the first token of an answer and of its alternatives.

A token is what servers and their client libraries give, as a mapping or an object: `token` (or `text`), `logprob`, and
`top_logprobs` (or `top`), the likeliest tokens at its place, each such a token itself or a pair of text and
log-probability. Texts are compared without leading space and whatever their case: `" Yes"`, `"yes"` and `"YES"` are
one token.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.confidence.token_text import field, token_text
from steelyard.errors import InputError, UsageError, printable

# how tokenizers write the space before a word, where a server hands their pieces on as they are
_LEADING_SPACE = re.compile(r"[\s▁Ġ]+")

# JSON has no −∞; llama.cpp writes the smallest number of its kind, −3.4e38
_IMPOSSIBLE = -1e30


@dataclass(frozen=True, kw_only=True)
class LabelMasses:
    """The probability of each label as the first thing said, what is left, and how much may have been missed.

    `confidences` are the masses as shares of their sum, NaN if no label is among the alternatives. `outside` is the
    probability of everything that is no label. `at_most` has the labels that are not among the alternatives: so
    likely may each be at most, and by so much may `outside` be too large. `said` is the label that was said, None if
    it cannot be told.
    """

    masses: Mapping[str, float]
    confidences: Mapping[str, float]
    outside: float
    at_most: Mapping[str, float]
    said: str | None = None


@dataclass(frozen=True, kw_only=True)
class Alternatives:
    """The texts listed at one place with their log-probabilities; `left` is the probability of all that are not
    listed, and `least` the most that one of them can have.
    """

    listed: tuple[tuple[str, float], ...]
    left: float
    least: float


def class_confidence_from_logprobs(
    logprobs: Sequence[object], label_tokens: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Confidence in each label: softmax over the first token's alternatives, summed over the tokens of each label,
    and divided by the sum of all labels.

    The first element of `logprobs` is read: pass the tokens from the answer's first one. `label_tokens` has for each
    label the tokens that it may begin with; a token of two labels is a usage error. The confidences sum to 1. If no
    label is among the alternatives they are undefined: NaN for every label.

    >>> token = {
    ...     "token": " Yes",
    ...     "logprob": -0.2,
    ...     "top_logprobs": [
    ...         {"token": " Yes", "logprob": -0.2},
    ...         {"token": " No", "logprob": -2.0},
    ...         {"token": "yes", "logprob": -4.0},
    ...     ],
    ... }
    >>> found = class_confidence_from_logprobs([token], {"yes": ["Yes"], "no": ["No"]})
    >>> {label: round(confidence, 4) for label, confidence in found.items()}
    {'yes': 0.8608, 'no': 0.1392}
    """
    return dict(label_masses(logprobs, label_tokens).confidences)


def label_masses(logprobs: Sequence[object], label_tokens: Mapping[str, Sequence[str]]) -> LabelMasses:
    """The probability of each label by its first token, of everything else, and bounds for labels that are not listed.

    A token that is not listed is at most as likely as the least likely that is, and all of them together have what the
    listed ones leave of 1; a label that is not listed has as many tokens as `label_tokens` names for it.

    >>> token = {"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "A", "logprob": -0.1}]}
    >>> found = label_masses([token], {"a": ["A"], "b": ["B"]})
    >>> round(found.masses["a"], 4), round(found.outside, 4), round(found.at_most["b"], 4)
    (0.9048, 0.0952, 0.0952)
    """
    if not _is_list(logprobs):
        raise InputError("a list with at least one token is expected", field="logprobs")
    label_of = _claims(label_tokens)
    place = alternatives(logprobs[0])
    parts: dict[str, list[float]] = {label: [] for label in label_tokens}
    for text, logprob in place.listed:
        if (label := label_of.get(folded(text))) is not None:
            parts[label].append(logprob)
    return masses_of(
        {label: log_sum(found) for label, found in parts.items()},
        at_most={
            label: min(place.left, place.least * len(set(label_tokens[label])))
            for label, found in parts.items()
            if not found
        },
        said=label_of.get(folded(token_text(logprobs[0]) or "")),
    )


def masses_of(log_masses: Mapping[str, float], *, at_most: Mapping[str, float], said: str | None) -> LabelMasses:
    """Labels by the logarithm of their mass, −∞ for none."""
    largest = max(log_masses.values())
    # shares of the likeliest label, not of 1: a mass may be too small for a float where its share is not
    shares = {
        label: math.exp(mass - largest) if largest > -math.inf else math.nan for label, mass in log_masses.items()
    }
    return LabelMasses(
        masses={label: math.exp(mass) for label, mass in log_masses.items()},
        confidences={label: share / math.fsum(shares.values()) for label, share in shares.items()},
        outside=max(0.0, -math.expm1(log_sum(log_masses.values()))),
        at_most=dict(at_most),
        said=said,
    )


def alternatives(token: Any, *, place: int = 0) -> Alternatives:
    """What might have been said at a token's place: its likeliest tokens, and itself if it is none of them.

    The texts of alternatives of probability 0 are left out.
    """
    where = f"logprobs[{place}]"
    top = field(token, "top_logprobs", "top")
    if not _is_list(top):
        raise InputError(
            "a list with at least one entry is expected; ask the server for `top_logprobs=`",
            field=f"{where}.top_logprobs",
        )
    listed = [_entry(entry, f"{where}.top_logprobs[{i}]") for i, entry in enumerate(top)]
    least = min(logprob for _, logprob in listed)
    itself = _entry(token, where)
    if itself[0] not in {text for text, _ in listed}:
        listed.append(itself)
    total = log_sum(logprob for _, logprob in listed)
    if total == -math.inf:
        raise InputError("at least one token of a probability above 0 is expected", field=f"{where}.top_logprobs")
    over = max(0.0, total)  # what sums to more than 1 are no log-probabilities, but softmax makes them such
    return Alternatives(
        listed=tuple((text, logprob - over) for text, logprob in listed if logprob > -math.inf),
        left=max(0.0, -math.expm1(total - over)),
        least=math.exp(least - over),
    )


def folded(text: str) -> str:
    """A token's text as it is compared: without leading space, whatever its case.

    >>> folded(" Yes"), folded("▁YES")
    ('yes', 'yes')
    """
    leading = _LEADING_SPACE.match(text)
    return text[leading.end() if leading else 0 :].casefold()


def log_sum(logarithms: Iterable[float]) -> float:
    """log Σ exp(x), without overflow or underflow on the way; −∞ of nothing."""
    listed = list(logarithms)
    largest = max(listed, default=-math.inf)
    if largest == -math.inf:
        return largest
    return largest + math.log(math.fsum(math.exp(x - largest) for x in listed))


def _claims(label_tokens: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The label of each token as it is compared."""
    if not label_tokens:
        raise UsageError("`label_tokens=` maps each label to a list of its tokens; at least one label is expected")
    label_of: dict[str, str] = {}
    for label, tokens in label_tokens.items():
        shown = printable(label)
        if not _is_list(tokens):
            raise UsageError(f"`label_tokens=`: a list with at least one token is expected for label '{shown}'")
        for token in tokens:
            key = folded(token)
            if not key:
                raise UsageError(f"`label_tokens=`: a token of label '{shown}' is nothing but space")
            if label_of.setdefault(key, label) != label:
                other = printable(label_of[key])
                raise UsageError(
                    f"`label_tokens=`: labels '{other}' and '{shown}' have a token in common, space and case aside; "
                    "leave it out of one of them"
                )
    return label_of


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0


def _entry(entry: Any, where: str) -> tuple[str, float]:
    if isinstance(entry, tuple | list) and len(entry) == 2:
        text, logprob = entry
    else:
        text, logprob = token_text(entry), field(entry, "logprob")
    if not isinstance(text, str):
        raise InputError("a text is expected", field=f"{where}.token")
    if isinstance(logprob, bool) or not isinstance(logprob, int | float) or not logprob < math.inf:
        raise InputError("a number is expected", field=f"{where}.logprob")
    return text, float(logprob) if logprob > _IMPOSSIBLE else -math.inf
