"""From the text of a reply to an answer, an abstention, or neither: nothing is guessed.

Read in this order; what is found first decides:

    json    an object with `answer` or `abstain`, alone, in a code fence or among prose. Several that agree are one, and
            several that do not are none. `abstain: true` is an abstention whatever the answer says. A text in which an
            object begins and is not valid JSON, as where it was cut off, is unparsed
    line    the last line `Answer: …`, and the last `Confidence: …`
    label   the reply is a label or, where answers are numbers, a number, and nothing else; or it states one label, once
            or more, in short sentences that neither deny, doubt nor ask, one of which is the first or the last (of
            labels that are words: "B" and "3" are too short)
    phrase  the reply is a phrase of declining and nothing else (`records.declining`)

Two different labels are unparsed. A reply is an abstention only where the task says that models may decline: by
`abstain: true`, or an answer that is a phrase of declining ("abstain", "I don't know"). "I will not abstain" is none;
neither is a null answer. Labels are compared without case and white space; `spellings` of the task are labels too.
Numbers keep sign and decimals; one with a separator of thousands, a percent sign or a second number next to it, or a
word that scales, bounds or denies it ("5 million", "at least 5"), is unparsed: it may mean two things. Reasoning in
`<think>` is passed over and counted; without an end, all is.

Where answers are free texts, the answer is the text under `answer`, of an object or after `Answer:` up to the next
heading, or without either all of the reply; what stands under `rationale` (or `reasoning`) is kept as the reason.

Confidence is a number from 0 to 1, or where it was asked for so, a whole number from 1 to 5. Anything else, such as 85
or "85%", is no confidence, which `confidence_refused` says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from steelyard.ground.json_places import Member, members_at
from steelyard.records.declining import declines
from steelyard.records.labels import value_name
from steelyard.runner.answers import AROUND, Answers, Span, only_number, whole_number
from steelyard.runner.tasks.contract import Task

Outcome = Literal["answered", "abstained", "unparsed"]


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """What a reply says."""

    outcome: Outcome
    prediction: str | int | float | None = None
    confidence: float | None = None
    verbalized: int | None = None
    confidence_refused: bool = False  # one was stated that is none
    how: Literal["json", "line", "label", "phrase", ""] = ""
    value_at: Span | None = None  # where the answer's value stands in the text
    reasoning_chars: int = 0
    rationale: str | None = None  # why, where the answer is a free text and a reason was given


def parse(text: str, task: Task, *, verbalized: bool = False) -> Parsed:
    """What a reply to a task says; `verbalized` if confidence was asked for from 1 to 5."""
    visible, reasoning = without_reasoning(text)
    if visible is None:
        return Parsed(outcome="unparsed", reasoning_chars=reasoning)
    answers = Answers.of(task)
    reading = (_TextReading if answers.texts else _Reading)(visible, answers, verbalized)
    return replace(reading.result(), reasoning_chars=reasoning)


def rendered(
    answer: str | int | float | None, *, abstain: bool | None = None, confidence: float | int | None = None
) -> str:
    """A reply in the form that models are asked for."""
    stated = {"answer": answer, "abstain": abstain, "confidence": confidence}
    return json.dumps(
        {key: value for key, value in stated.items() if key == "answer" or value is not None}, ensure_ascii=False
    )


# -- reasoning ---------------------------------------------------------------------------------------------------------

_THINK = re.compile(r"<(?P<end>/?)think(?:ing)?>", re.IGNORECASE)


def without_reasoning(text: str) -> tuple[str | None, int]:
    """The text with blanks for its reasoning, and how many characters that is; None where reasoning does not end.

    An end without a beginning ends reasoning that began with the prompt.

    >>> without_reasoning("<think>A?</think>B")
    ('                 B', 2)
    """
    parts: list[str] = []
    since, depth, opened, counted = 0, 0, 0, 0
    for tag in _THINK.finditer(text):
        if not tag["end"]:
            if depth == 0:
                parts.append(text[since : tag.start()])
                since = tag.start()
                opened = tag.end()
            depth += 1
            continue
        if depth == 0:  # all so far was reasoning
            counted, opened = 0, 0
            parts, since = [], 0
        depth = max(depth - 1, 0)
        if depth == 0:
            counted += tag.start() - opened
            parts.append(" " * (tag.end() - since))
            since = tag.end()
    if depth:
        return None, counted + len(text) - opened
    return "".join(parts) + text[since:], counted


# -- reading -----------------------------------------------------------------------------------------------------------

_OPENING = re.compile(r"\{\s*(?P<quote>[\"'])")
_LINE = re.compile(
    r"^[^\w\n]*(?:(?:the|my|final)\s+)*(?P<what>answer|confidence)(?:[ \t]+is)?[*_`\"'’ \t]*[:=][*_`]*"
    r"(?P<rest>[^\n]*)$",
    re.IGNORECASE | re.MULTILINE,
)
_NEXT_LINE = re.compile(r"\s*(?P<rest>[^\n]*)")
_KEYS = ("answer", "abstain", "confidence")
_NOTHING = Member(None, (0, 0))


@dataclass(frozen=True)
class _Reading:
    """A reply without its reasoning, and how it is to be read."""

    text: str
    answers: Answers
    verbalized: bool

    def result(self) -> Parsed:
        objects = self._objects()
        if objects is None:
            return Parsed(outcome="unparsed")
        if objects:
            return self._agreed([self._of_object(each) for each in objects])
        lines = list(_LINE.finditer(self.text))
        line = next((each for each in reversed(lines) if each["what"].casefold() == "answer"), None)
        parsed = self._free() if line is None else self._of_line(line)
        stated = next((each["rest"] for each in reversed(lines) if each["what"].casefold() == "confidence"), None)
        return parsed if stated is None else self._with_confidence(parsed, stated)

    def _objects(self) -> list[dict[str, Member]] | None:
        """The JSON objects in the text that answer; None where one begins and is no JSON."""
        found = []
        at = 0
        while (opening := _OPENING.search(self.text, at)) is not None:
            read = members_at(self.text, opening.start()) if opening["quote"] == '"' else None
            if read is None:
                return None
            members, at = {key.strip().casefold(): member for key, member in read[0].items()}, read[1]
            if len(members) < len(read[0]):
                return None
            if "answer" in members or "abstain" in members:
                found.append(members)
        return found

    def _of_object(self, members: Mapping[str, Member]) -> Parsed:
        answer, abstain, confidence = (members.get(key, _NOTHING) for key in _KEYS)
        declined = _truth(abstain.value)
        if declined is None:
            parsed = Parsed(outcome="unparsed")
        elif declined:
            parsed = Parsed(outcome="abstained", how="json") if self.answers.may_decline else Parsed(outcome="unparsed")
        else:
            parsed = self._of_member(answer)
        return parsed if confidence.value is None else self._with_confidence(parsed, confidence.value)

    def _of_member(self, answer: Member) -> Parsed:
        """What the value of `answer` says."""
        value, (start, end) = answer.value, answer.span
        if isinstance(value, str):
            raw = self.text[start + 1 : end - 1]
            parsed = self._of_value(value, start + 1, "json")
            is_whole = parsed.value_at is None or raw == value
            return parsed if is_whole else replace(parsed, value_at=(start + 1, end - 1))
        if value is None or isinstance(value, list | dict):
            return Parsed(outcome="unparsed")
        if self.answers.numbers:
            plain = isinstance(value, int | float) and not isinstance(value, bool)
            return self._answered(float(value), (start, end), "json") if plain else Parsed(outcome="unparsed")
        label = self.answers.named(value_name(value))
        return Parsed(outcome="unparsed") if label is None else self._answered(label, (start, end), "json")

    def _of_line(self, line: re.Match[str]) -> Parsed:
        """What an `Answer:` line says; the value may stand on the next."""
        if line["rest"].strip(AROUND):
            return self._of_value(line["rest"], line.start("rest"), "line")
        below = _NEXT_LINE.match(self.text, line.end())
        if below is None or _LINE.match(below["rest"]):
            return Parsed(outcome="unparsed")
        return self._of_value(below["rest"], below.start("rest"), "line")

    def _of_value(self, value: str, start: int, how: Literal["json", "line"]) -> Parsed:
        """What a text that is meant as an answer says."""
        stated = self.answers.stated(value)
        if stated is not None:
            answer, (first, last) = stated
            return self._answered(answer, (start + first, start + last), how)
        if self.answers.may_decline and declines(value.strip(AROUND)):
            return Parsed(outcome="abstained", how=how)
        return Parsed(outcome="unparsed")

    def _free(self) -> Parsed:
        """What a reply says that keeps to no form."""
        declined = self.answers.may_decline and declines(self.text)
        stated: tuple[str | int | float, Span] | None
        stated = whole_number(self.text) if self.answers.numbers else self.answers.whole(self.text)
        if stated is None and not declined:
            stated = self.answers.mentioned(self.text)
        if stated is not None:
            return self._answered(stated[0], stated[1], "label")
        if declined and not self.answers.mentions(self.text):
            return Parsed(outcome="abstained", how="phrase")
        return Parsed(outcome="unparsed")

    def _answered(self, value: str | int | float, span: Span, how: Literal["json", "line", "label"]) -> Parsed:
        return Parsed(outcome="answered", prediction=value, how=how, value_at=span)

    def _with_confidence(self, parsed: Parsed, stated: object) -> Parsed:
        """The same with the confidence that was stated."""
        if parsed.outcome == "unparsed":
            return parsed
        value = _plain_number(stated)
        if self.verbalized:
            whole = int(value) if value in (1, 2, 3, 4, 5) else None
            return replace(parsed, verbalized=whole, confidence_refused=whole is None)
        inside = value if value is not None and 0 <= value <= 1 else None
        return replace(parsed, confidence=inside, confidence_refused=inside is None)

    def _agreed(self, several: list[Parsed]) -> Parsed:
        """The last of several answers, if all are the same."""
        last = several[-1]
        same = all((each.outcome, each.prediction) == (last.outcome, last.prediction) for each in several)
        return last if same else Parsed(outcome="unparsed")


_SECTION = re.compile(
    r"^[^\w\n]*(?:(?:the|my|final)\s+)*(?P<what>answer|confidence|rationale|reasoning)(?:[ \t]+is)?[*_`\"'’ \t]*[:=]"
    r"[*_`]*[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_REASONS = ("rationale", "reasoning")


@dataclass(frozen=True)
class _TextReading(_Reading):
    """A reply whose answer is a free text: what stands under `answer`, else all of it."""

    def result(self) -> Parsed:
        objects = self._objects()
        if objects is None:
            return Parsed(outcome="unparsed")
        if objects:
            return self._agreed([self._of_object(each) for each in objects])
        return self._of_sections(list(_SECTION.finditer(self.text)))

    def _of_object(self, members: Mapping[str, Member]) -> Parsed:
        given = [members[key].value for key in _REASONS if key in members]
        reason = next((value.strip() for value in given if isinstance(value, str) and value.strip()), None)
        return replace(super()._of_object(members), rationale=reason)

    def _of_member(self, answer: Member) -> Parsed:
        value, (start, end) = answer.value, answer.span
        if isinstance(value, str):
            return replace(self._of_value(value, start + 1, "json"), value_at=(start + 1, end - 1))
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        return self._answered(value_name(value), (start, end), "json") if plain else Parsed(outcome="unparsed")

    def _of_value(self, value: str, start: int, how: Literal["json", "line"]) -> Parsed:
        text = value.strip()
        if not text:
            return Parsed(outcome="unparsed")
        if self.answers.may_decline and declines(text.strip(AROUND)):
            return Parsed(outcome="abstained", how=how)
        first = start + len(value) - len(value.lstrip())
        return self._answered(text, (first, first + len(text)), how)

    def _of_sections(self, heads: list[re.Match[str]]) -> Parsed:
        """What a reply in prose says: under `Answer:` up to the next heading; without one, before the first heading."""
        ends = [*(head.start() for head in heads[1:]), len(self.text)][: len(heads)]
        by_what: dict[str, list[tuple[str, int]]] = {}
        for head, end in zip(heads, ends, strict=True):
            by_what.setdefault(head["what"].casefold(), []).append((self.text[head.end() : end], head.end()))
        answer = by_what.get("answer", [(self.text[: heads[0].start()] if heads else self.text, 0)])[-1]
        parsed = self._of_value(*answer, "line")
        reasons = [text.strip() for what in _REASONS for text, _ in by_what.get(what, ()) if text.strip()]
        parsed = replace(parsed, rationale="\n".join(reasons) or None)
        stated = by_what.get("confidence")
        return parsed if stated is None else self._with_confidence(parsed, stated[-1][0].strip())


def _plain_number(value: object) -> float | None:
    """A number, or the one in a text."""
    if isinstance(value, str):
        stated = only_number(value)
        return None if stated is None else stated[0]
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _truth(value: object) -> bool | None:
    """Whether `abstain` says so; None where it says neither."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().casefold())
    return False if value is None else value if isinstance(value, bool) else None
