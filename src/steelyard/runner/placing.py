"""Where an answer's value stands among the tokens of a reply, and how sure the model was when it said it.

A reply is text, and its tokens spell it: perhaps after thoughts that the text is without, with white space that the
text has lost, and with marks of the model's own at the end. The value of the answer is a part of the text; the tokens
that spell it are found by counting bytes. Signals are taken from these tokens alone: what surrounds the value, braces
or a page of reasoning, says nothing of how sure the model was of it.

    token_msp, token_pe, token_energy    of the tokens that spell the value
    label_confidence                     how likely the label that was said is, among the labels
    label.Critical                       how likely this label is, among the labels
    label_outside                        how likely was something that is no label
    label_at_most.Critical               so likely is a label, of all there is, that the server did not list, at most
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, Protocol

from steelyard.confidence.first_token import LabelMasses, label_masses
from steelyard.confidence.label_prefixes import label_masses_by_prefix
from steelyard.confidence.token_text import bytes_of_text, text_of_bytes
from steelyard.confidence.tokens import token_energy, token_msp, token_pe

Missing = Literal[
    "",
    "the server gave no logprobs",
    "there is no answer",
    "the answer was not found among the tokens",
    "the server listed no alternatives",
    "no label is among the alternatives",
    "the tokens do not spell the label",
]
_AROUND = " \t\r\n\"'`*"


class SaidToken(Protocol):
    """A token of a reply, and the likeliest ones in its place."""

    @property
    def text(self) -> str: ...
    @property
    def logprob(self) -> float: ...
    @property
    def top(self) -> tuple[tuple[str, float], ...]: ...


class Said(Protocol):
    """What a model said."""

    @property
    def text(self) -> str | None: ...
    @property
    def reasoning(self) -> str | None: ...
    @property
    def tokens(self) -> Sequence[SaidToken] | None: ...


class Read(Protocol):
    """What was read of it: the answer, and where in the text its value stands."""

    @property
    def prediction(self) -> str | int | float | None: ...
    @property
    def value_at(self) -> tuple[int, int] | None: ...


@dataclass(frozen=True, kw_only=True)
class ReplySignals:
    """Signals of one reply by name, those that there are, and why others are missing, in one of a few ways."""

    values: Mapping[str, float] = field(default_factory=dict)
    missing: Missing = ""

    @property
    def confidence(self) -> float | None:
        """How likely the label that was said is, among the labels."""
        return self.values.get("label_confidence")


@dataclass(frozen=True, kw_only=True)
class _Token:
    text: str
    logprob: float
    top: tuple[tuple[str, float], ...]


def signals_of(
    reply: Said,
    parsed: Read,
    labels: Sequence[str | int | float] | None,
    spellings: Mapping[str, str | int | float] | None = None,
    *,
    label_tokens: Mapping[str, Sequence[str]] | None = None,
) -> ReplySignals:
    """How sure a model was of the value that it said, and of the other labels.

    `labels` is None where the answer is a number of any size: then there are signals of tokens only. Without
    `label_tokens`, a token counts for the label that it begins in one of its `spellings`. Where a label was read of
    what no spelling of it begins, such as `\\u0063kd`, how likely it was cannot be told.
    """
    if not reply.tokens:
        return ReplySignals(missing="the server gave no logprobs")
    if reply.text is None or parsed.value_at is None:
        return ReplySignals(missing="there is no answer")
    tokens = value_tokens(reply.text, reply.tokens, parsed.value_at, after_reasoning=bool(reply.reasoning))
    if tokens is None:
        return ReplySignals(missing="the answer was not found among the tokens")
    spelling, following = tokens
    values = {"token_msp": token_msp([{"logprob": token.logprob} for token in spelling])}
    if not all(token.top for token in spelling):
        return ReplySignals(values=values, missing="the server listed no alternatives")
    places = [{"top_logprobs": [{"logprob": logprob} for _, logprob in token.top]} for token in spelling]
    values |= {"token_pe": token_pe(places), "token_energy": token_energy(places)}
    if labels is None:
        return ReplySignals(values=values)
    alike = (*spelling, *(token for token in following if token.top))
    masses = (
        label_masses(alike, label_tokens)
        if label_tokens
        else label_masses_by_prefix(
            alike,
            [str(label) for label in labels],
            {spelling: str(label) for spelling, label in (spellings or {}).items()},
        )
    )
    return _of_labels(values, masses, parsed.prediction)


def value_tokens(
    text: str, tokens: Sequence[SaidToken], value_at: tuple[int, int], *, after_reasoning: bool = False
) -> tuple[list[SaidToken], list[SaidToken]] | None:
    """The tokens that spell the value at this place of the text, and those that follow; None if they cannot be found.

    Quotes and asterisks around the value are no part of it. What else stands in the value's first token is cut off, of
    the alternatives to it as well.
    """
    pieces = [bytes_of_text(token.text) for token in tokens]
    starts = list(accumulate((len(piece) for piece in pieces), initial=0))
    begins = _beginning(text, b"".join(pieces), starts, after_reasoning=after_reasoning)
    first, last = value_at
    value = text[first:last].lstrip(_AROUND)
    if begins is None or not value:
        return None
    first += len(text[first:last]) - len(value)
    start = begins + len(text[len(text) - len(text.lstrip()) : first].encode())
    end = start + len(value.rstrip().encode())
    at, until = bisect_right(starts, start) - 1, bisect_right(starts, end - 1)
    return [_without(tokens[at], pieces[at][: start - starts[at]]), *tokens[at + 1 : until]], list(tokens[until:])


def _beginning(text: str, said: bytes, starts: Sequence[int], *, after_reasoning: bool) -> int | None:
    """The byte at which the text begins in what the tokens spell: at its beginning, else at the last token that fits.

    After reasoning the last one comes first: thoughts may begin as the answer does.
    """
    wanted = text.strip().encode()
    if not wanted:
        return None
    blank = len(said) - len(said.lstrip())
    if not after_reasoning and said.startswith(wanted, blank):
        return blank
    at = said.rfind(wanted)
    while at >= 0:
        token_start = starts[bisect_right(starts, at) - 1]
        if not said[token_start:at].strip():
            return at
        at = said.rfind(wanted, 0, at + len(wanted) - 1)
    return None


def _without(token: SaidToken, lead: bytes) -> SaidToken:
    top = tuple((_cut(text, lead), logprob) for text, logprob in token.top)
    return _Token(text=_cut(token.text, lead), logprob=token.logprob, top=top)


def _cut(text: str, lead: bytes) -> str:
    spelled = bytes_of_text(text)
    return text_of_bytes(spelled.removeprefix(lead)) if lead and spelled.startswith(lead) else text


def _of_labels(values: Mapping[str, float], masses: LabelMasses, prediction: str | int | float | None) -> ReplySignals:
    values = {**values, "label_outside": masses.outside}
    values |= {f"label_at_most.{label}": most for label, most in masses.at_most.items()}
    if any(math.isnan(confidence) for confidence in masses.confidences.values()):
        return ReplySignals(values=values, missing="no label is among the alternatives")
    if prediction is not None and masses.said != str(prediction):
        return ReplySignals(values=values, missing="the tokens do not spell the label")
    values |= {f"label.{label}": confidence for label, confidence in masses.confidences.items()}
    if prediction is not None:
        values["label_confidence"] = masses.confidences[str(prediction)]
    return ReplySignals(values=values)
