"""How a reply is read whose answer is a free text; see `parsing`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from steelyard.ground.json_places import Member
from steelyard.records.labels import value_name
from steelyard.runner.reading import UNPARSED, Parsed, Reading, agreed

_SECTION = re.compile(
    r"^[^\w\n]*(?:(?:the|my|final)[ \t]+){0,3}(?P<what>answer|confidence|rationale|reasoning)(?:[ \t]+is)?"
    r"[*_`\"'’ \t]*[:=][*_`]*[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_REASONS = ("rationale", "reasoning")


@dataclass(frozen=True)
class TextReading(Reading):
    """A reply whose answer is a free text: what stands under `answer`, else all of it."""

    def result(self) -> Parsed:
        read = self._objects()
        if read is None:
            return UNPARSED
        if read[0]:
            return agreed([self._of_object(each) for each in read[0]])
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
        return self._answered(value_name(value), (start, end), "json") if plain else UNPARSED

    def _of_value(self, value: str, start: int, how: Literal["json", "line"]) -> Parsed:
        text = value.strip()
        if not text:
            return UNPARSED
        if self.answers.declines(text):
            return self._abstained("phrase" if how == "line" else how)
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
