"""From the text of a reply to an answer, an abstention, or neither: nothing is guessed.

Read in this order; what is found first decides:

    json    an object with `answer` or `abstain`, alone, in a code fence or among prose. Several that agree are one, and
            several that do not are none. `abstain: true` is an abstention whatever the answer says. A text in which an
            object begins and is not valid JSON, as where it was cut off, is unparsed; so is one with an object that has
            these keys further down
    line    a line `Answer: …`, perhaps with `Abstain: …` and `Confidence: …`. Two that answer differently are none
    label   the reply is a label or, where answers are numbers, a number, and nothing else; or it states one label, once
            or more, in short sentences that neither deny, doubt nor ask, one of which is the first or the last (of
            labels that are words: "B" and "3" are too short)
    phrase  the reply is a phrase of declining and nothing else (`records.declining`)

Two different labels are unparsed. A reply is an abstention only where the task says that models may decline: by
`abstain: true`, or an answer that is a phrase of declining ("abstain", "I don't know"). "I will not abstain" is none;
neither is a null answer. `abstain: true` where it is neither in an object nor a line of its own, as in `{answer: ckd,
abstain: true}`, leaves nothing that could be read. Labels are compared without case and white space; `spellings` of the
task are labels too. Numbers keep sign and decimals; one with a separator of thousands, a percent sign or a second
number next to it, or a word that scales, bounds or denies it ("5 million", "at least 5"), is unparsed: it may mean two
things. Reasoning in `<think>` is passed over and counted; without an end, all is.

A reply that ran into the limit of tokens may have gone on: of it, a whole object is read, or an `Answer:` line whose
value is followed by the end of its sentence or of the line.

Confidence is a number from 0 to 1, or where it was asked for so, a whole number from 1 to 5. Anything else, such as 85
or "85%", is no confidence, which `confidence_refused` says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
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


def parse(text: str, task: Task, *, verbalized: bool = False, finish: str | None = None) -> Parsed:
    """What a reply to a task says; `verbalized` if confidence was asked for from 1 to 5, `finish` is why it ended."""
    visible, reasoning = without_reasoning(text)
    if visible is None:
        return Parsed(outcome="unparsed", reasoning_chars=reasoning)
    reading = _Reading(visible, Answers.of(task), verbalized, is_cut=finish in _CUT)
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

_CUT = ("length", "max_tokens")  # how servers say that the limit of tokens was reached
_OPENING = re.compile(r"\{\s*(?P<quote>[\"'])")
_ABSTAIN = r"abstain(?:s|ed|ing)?|abstention"
_LINE = re.compile(
    rf"^[^\w\n]*(?:(?:the|my|final)[ \t]+){{0,3}}(?P<what>answer|confidence|(?P<abstain>{_ABSTAIN}))(?:[ \t]+is)?"
    r"[*_`\"'’ \t]*[:=][*_`]*(?P<rest>[^\n]*)$",
    re.IGNORECASE | re.MULTILINE,
)
_NEXT_LINE = re.compile(r"\s*(?P<rest>[^\n]*)")
_MARK = re.compile(  # `abstain: true` where a key may stand
    rf"(?:^|[{{\[(,;|])[^\w\n]{{0,8}}(?:{_ABSTAIN})[^\w\n]{{0,8}}[:=][^\w\n]{{0,8}}(?:true|yes)\b",
    re.IGNORECASE | re.MULTILINE,
)
_TRUTH = re.compile(r"\b(?:(?P<true>true|yes)|false|no)\b", re.IGNORECASE)
_END = re.compile(r"\n|[.!;](?=\s)")
_AS_NEWLINES = dict.fromkeys(map(ord, "\r\v\f\x85\u2028\u2029"), "\n")
_KEYS = ("answer", "abstain", "confidence")
_NOTHING = Member(None, (0, 0))
_UNPARSED = Parsed(outcome="unparsed")


@dataclass(frozen=True)
class _Reading:
    """A reply without its reasoning, and how it is to be read."""

    text: str
    answers: Answers
    verbalized: bool
    is_cut: bool

    def result(self) -> Parsed:
        read = self._objects()
        if read is None:
            return _UNPARSED
        objects, others = read[0], read[1].translate(_AS_NEWLINES)
        if not objects:
            return replace(self, text=others)._of_lines()
        if _MARK.search(others):
            return _UNPARSED
        return _agreed([self._of_object(each) for each in objects])

    def _objects(self) -> tuple[list[dict[str, Member]], str] | None:
        """The JSON objects in the text that answer, and the text with blanks for them; None where an object begins and
        is no JSON, or has an answer further down.
        """
        found = []
        parts: list[str] = []
        at, since = 0, 0
        while (opening := _OPENING.search(self.text, at)) is not None:
            read = members_at(self.text, opening.start()) if opening["quote"] == '"' else None
            if read is None:
                return None
            members, at = {_folded(key): member for key, member in read[0].items()}, read[1]
            if len(members) < len(read[0]) or _has_answer(member.value for member in members.values()):
                return None
            if "answer" in members or "abstain" in members:
                found.append(members)
                parts += self.text[since : opening.start()], " " * (at - opening.start())
                since = at
        return found, "".join(parts) + self.text[since:]

    def _of_lines(self) -> Parsed:
        """What a reply without objects says."""
        lines = list(_LINE.finditer(self.text))
        declined = {self._truth_of(line) for line in lines if line["abstain"]}
        if declined == {True}:
            parsed = self._abstained("line")
        elif declined - {False} or _MARK.search(self.text):
            return _UNPARSED
        elif any(line["what"].casefold() == "answer" for line in lines):
            each = (self._of_line(line) for line in lines if line["what"].casefold() == "answer")
            parsed = _agreed([one for one in each if one is not None])
        else:
            parsed = replace(self, text=_blanked(self.text, lines))._free()
        stated = next((line for line in reversed(lines) if line["what"].casefold() == "confidence"), None)
        if stated is None:
            return parsed
        return self._with_confidence(parsed, stated["rest"] if self._has_ended(stated.end()) else None)

    def _truth_of(self, line: re.Match[str]) -> bool | None:
        """What an `Abstain:` line says, None where that is neither true nor false."""
        said = {bool(each["true"]) for each in _TRUTH.finditer(line["rest"])}
        begins = _TRUTH.match(line["rest"].lstrip(AROUND)) is not None
        return said.pop() if len(said) == 1 and begins and self._has_ended(line.end()) else None

    def _has_ended(self, at: int) -> bool:
        """True if nothing that was cut off can belong to what ends here."""
        return not self.is_cut or _END.search(self.text, at) is not None

    def _of_object(self, members: Mapping[str, Member]) -> Parsed:
        answer, abstain, confidence = (members.get(key, _NOTHING) for key in _KEYS)
        declined = _truth(abstain.value)
        if declined is None:
            return _UNPARSED
        parsed = self._abstained("json") if declined else self._of_member(answer)
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
            return _UNPARSED
        if self.answers.numbers:
            plain = isinstance(value, int | float) and not isinstance(value, bool)
            return self._answered(float(value), (start, end), "json") if plain else _UNPARSED
        label = self.answers.named(value_name(value))
        return _UNPARSED if label is None else self._answered(label, (start, end), "json")

    def _of_line(self, line: re.Match[str]) -> Parsed | None:
        """What an `Answer:` line says; the value may stand on the next. None where there is no value."""
        if line["rest"].strip(AROUND):
            return self._of_value(line["rest"], line.start("rest"), "line")
        below = _NEXT_LINE.match(self.text, line.end())
        if below is None or not below["rest"] or _LINE.match(below["rest"]):
            return None
        return self._of_value(below["rest"], below.start("rest"), "line")

    def _of_value(self, value: str, start: int, how: Literal["json", "line"]) -> Parsed:
        """What a text that is meant as an answer says."""
        stated = self.answers.stated(value)
        last = len(value.rstrip(AROUND)) if stated is None else stated[1][1]
        if how == "line" and not self._has_ended(start + last):
            return _UNPARSED
        if stated is not None:
            answer, (first, last) = stated
            return self._answered(answer, (start + first, start + last), how)
        return self._abstained(how) if declines(value.strip(AROUND)) else _UNPARSED

    def _free(self) -> Parsed:
        """What a reply says that keeps to no form, if it came to its end."""
        if self.is_cut:
            return _UNPARSED
        declined = self.answers.may_decline and declines(self.text)
        stated: tuple[str | int | float, Span] | None
        stated = whole_number(self.text) if self.answers.numbers else self.answers.whole(self.text)
        if stated is None and not declined:
            stated = self.answers.mentioned(self.text)
        if stated is not None:
            return self._answered(stated[0], stated[1], "label")
        return self._abstained("phrase") if declined and not self.answers.mentions(self.text) else _UNPARSED

    def _abstained(self, how: Literal["json", "line", "phrase"]) -> Parsed:
        return Parsed(outcome="abstained", how=how) if self.answers.may_decline else _UNPARSED

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


def _agreed(several: Sequence[Parsed]) -> Parsed:
    """The last of several answers, if all are the same."""
    if not several:
        return _UNPARSED
    last = several[-1]
    same = all((each.outcome, each.prediction) == (last.outcome, last.prediction) for each in several)
    return last if same else _UNPARSED


def _has_answer(values: Iterable[object]) -> bool:
    """True if an object in these values, however deep, has one of the keys of an answer."""
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if {"answer", "abstain"} & {_folded(key) for key in value}:
                return True
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return False


def _blanked(text: str, matches: Iterable[re.Match[str]]) -> str:
    """A text with blanks for some parts of it."""
    parts: list[str] = []
    since = 0
    for match in matches:
        parts += text[since : match.start()], " " * (match.end() - match.start())
        since = match.end()
    return "".join(parts) + text[since:]


def _folded(key: str) -> str:
    return key.strip().casefold()


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
