"""How a reply is read whose answer is a label or a number: objects, lines, labels, phrases; see `parsing`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from steelyard.ground.json_places import Member, members_at
from steelyard.records.declining import declines
from steelyard.records.labels import value_name
from steelyard.runner.answers import AROUND, Answers, Span, only_number, whole_number

Outcome = Literal["answered", "abstained", "unparsed"]


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """What a reply says."""

    outcome: Outcome
    prediction: str | int | float | None = None
    confidence: float | None = None
    verbalized: int | None = None
    confidence_refused: bool = False  # one was stated that is none
    how: Literal["json", "line", "label", "phrase", "pattern", "field", "filter", ""] = ""
    value_at: Span | None = None  # where the answer's value stands in the text
    reasoning_chars: int = 0
    rationale: str | None = None  # why, where the answer is a free text and a reason was given


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
UNPARSED = Parsed(outcome="unparsed")


@dataclass(frozen=True)
class Reading:
    """A reply without its reasoning, and how it is to be read."""

    text: str
    answers: Answers
    verbalized: bool
    is_cut: bool

    def result(self) -> Parsed:
        read = self._objects()
        if read is None:
            return UNPARSED
        objects, others = read[0], read[1].translate(_AS_NEWLINES)
        if not objects:
            return replace(self, text=others)._of_lines()
        if _MARK.search(others):
            return UNPARSED
        return agreed([self._of_object(each) for each in objects])

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
            return UNPARSED
        elif any(line["what"].casefold() == "answer" for line in lines):
            each = (self._of_line(line) for line in lines if line["what"].casefold() == "answer")
            parsed = agreed([one for one in each if one is not None])
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
            return UNPARSED
        left_open = "answer" in members and answer.value is None and "abstain" not in members
        if declined or (left_open and self.answers.may_decline):
            parsed = self._abstained("json")
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
            return UNPARSED
        if self.answers.numbers:
            plain = isinstance(value, int | float) and not isinstance(value, bool)
            return self._answered(float(value), (start, end), "json") if plain else UNPARSED
        label = self.answers.named(value_name(value))
        return UNPARSED if label is None else self._answered(label, (start, end), "json")

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
            return UNPARSED
        if stated is not None:
            answer, (first, last) = stated
            return self._answered(answer, (start + first, start + last), how)
        return self._abstained(how) if self.answers.declines(value) else UNPARSED

    def _free(self) -> Parsed:
        """What a reply says that keeps to no form, if it came to its end."""
        if self.is_cut:
            return UNPARSED
        declined, refused = declines(self.text), self.answers.declines(self.text)
        stated: tuple[str | int | float, Span] | None
        stated = whole_number(self.text) if self.answers.numbers else self.answers.whole(self.text)
        if stated is None and not declined:
            stated = None if refused else self.answers.mentioned(self.text)
        if stated is not None:
            return self._answered(stated[0], stated[1], "label")
        if declined and not self.answers.mentions(self.text):
            return self._abstained("phrase")
        return self._abstained("phrase") if refused else UNPARSED

    def _abstained(self, how: Literal["json", "line", "phrase"]) -> Parsed:
        return Parsed(outcome="abstained", how=how)

    def _answered(self, value: str | int | float, span: Span, how: Literal["json", "line", "label"]) -> Parsed:
        return Parsed(outcome="answered", prediction=value, how=how, value_at=span)

    def _with_confidence(self, parsed: Parsed, stated: object) -> Parsed:
        """The same with the confidence that was stated."""
        if parsed.outcome == "unparsed":
            return parsed
        if self.verbalized:
            value = _of_most(stated, 5)
            whole = int(value) if value in (1, 2, 3, 4, 5) else None
            return replace(parsed, verbalized=whole, confidence_refused=whole is None)
        inside = _share(stated)
        return replace(parsed, confidence=inside, confidence_refused=inside is None)


def agreed(several: Sequence[Parsed]) -> Parsed:
    """The last of several answers, if all are the same."""
    if not several:
        return UNPARSED
    last = several[-1]
    same = all((each.outcome, each.prediction) == (last.outcome, last.prediction) for each in several)
    return last if same else UNPARSED


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


_PERCENT = re.compile(r"[\s*_`']*(\d{1,3}(?:\.\d+)?)\s?(?:%|percent|per cent)[\s*_`'.]*", re.ASCII | re.IGNORECASE)
_FRACTION = re.compile(
    r"[\s*_`']*(\d{1,3}(?:\.\d+)?)\s?(?:/|out of|of)\s?(\d{1,3}(?:\.\d+)?)\W*", re.ASCII | re.IGNORECASE
)
_CERTAIN = 100.0  # percent
_NO_PERCENT = 10.0  # up to here a number may also be one of ten


def _of_most(stated: object, most: float) -> float | None:
    """A number on a scale that ends at `most`, perhaps written with the end: 4, "4/5"."""
    match = _FRACTION.fullmatch(stated) if isinstance(stated, str) else None
    if match is None:
        return _plain_number(stated)
    return float(match[1]) if float(match[2]) == most else None


def _share(stated: object) -> float | None:
    """A confidence from 0 to 1, also as a percentage or a fraction; None where it may mean two things, as 5 may.

    >>> [_share(each) for each in (0.9, "90%", 95, "0.9/1", "9 out of 10", 5)]
    [0.9, 0.9, 0.95, 0.9, 0.9, None]
    """
    value: float | None = None
    text = stated if isinstance(stated, str) else ""
    if match := _PERCENT.fullmatch(text):
        value = float(match[1]) / _CERTAIN
    elif match := _FRACTION.fullmatch(text):
        value = float(match[1]) / float(match[2]) if float(match[2]) else None
    else:
        value = _plain_number(stated)
        if value is not None and _NO_PERCENT < value <= _CERTAIN:
            value /= _CERTAIN
    return value if value is not None and 0 <= value <= 1 else None


def _truth(value: object) -> bool | None:
    """Whether `abstain` says so; None where it says neither."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().casefold())
    return False if value is None else value if isinstance(value, bool) else None
