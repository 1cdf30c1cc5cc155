"""The answers that a task knows, as they are found in text: labels by their spellings, numbers by themselves."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import isfinite

from steelyard.records.declining import declines
from steelyard.records.refusals import refuses
from steelyard.runner.tasks.contract import Label, Task, answers_are

Span = tuple[int, int]

AROUND = " \t\r\n\f\v\xa0\"'`*_()[]{}.,;:!“”‘’«»"
_NUMBER = re.compile(r"(?<![\w.,])[-+−]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?(?!\w|[.,]\d|\s?[%‰])", re.ASCII)
_NUMERALS = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundreds?|thousands?|(?:m|b|tr|quadr)illions?|milliards?|dozens?"
)
_SCALES = (
    r"grand|lakhs?|crores?|half|halves|quarters?|thirds?|(?:fif|ten|hundred|thousand)ths?|squared|cubed|per ?cent\w*"
    r"|pct|per ?mille?|ppm|ppb|mn|mln|mio|bn|bln|tn|mrd"
)
_BEFORE_NUMBER = re.compile(
    rf"(?:[-–—−<>≤≥±√×÷/^]|\b(?:minus|negative|than|least|most|up to|over|under|above|below|beyond|exceed(?:s|ing)?"
    rf"|between|minimum|maximum|min|max|half|twice|double|triple|{_NUMERALS})\b)[\s*_-]*(?:(?:an?|of|and)\s+)?$",
    re.IGNORECASE,
)
_NEXT_TO = 60  # characters before a number in which such a word is looked for
_AFTER_NUMBER = re.compile(
    rf"[\s*_-]*(?:[?+±×÷/^<>≤≥]|(?:(?:and|or)\s+)?(?:an?\s+|one\s+)?(?:{_SCALES}|{_NUMERALS})\b|(?-i:[kKMB])\b"
    r"|(?:and|or)\s+(?:more|less|fewer|greater|higher|lower|above|below|over|under)\b|at (?:most|least)\b|plus\b)",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[,;(\n]|[.!](?=\s|$)")
_AFTER_LABEL = re.compile(r"\s*(?:[,:;)\]*—–]|\.(?!\d)|\s[-(]|\n)")
_SENTENCE_END = re.compile(r"[.!;](?=\s|$)|\?|\n")
_DENIED = (
    r"not|no|none|non|never|neither|nor|nothing|nobody|without|cannot|can't|exclud(?:e[sd]?|ing)|exclusion|except"
    r"|rul(?:e[sd]?|ing)|rather than|instead of|other than|anything but|far from|opposite|against|den(?:y|ies|ied|ying)"
    r"|reject(?:s|ed|ing)?|refut(?:e[sd]?|ing)|disagree[sd]?|contradict\w*|contrary|false|wrong|incorrect|mistaken?"
    r"|untrue|negative|absen(?:t|ce)|lack(?:s|ed|ing)?|free (?:of|from)|cleare?d? of|inconsistent|incompatible"
    r"|too little|hardly|barely|scarcely|abst(?:ain\w*|ention)"
    r"|kein\w*|nicht|nie|ohne|pas|sans|aucun\w*|sin|ning[uú]n\w*|senza|nessun\w*|geen|niet|ikke|inte|n[aã]o|sem"
)
_DOUBTED = (
    r"unlikely|improbable|implausible|impossible|doubt(?:s|ed|ful|ing)?|dubious|questionable|whether|if|unless|unclear"
    r"|unsure|uncertain|undecided|suspicion|family history|(?:assess|evaluat|screen|check|test|examin|look)\w* for"
)
_UNSETTLED = re.compile(
    rf"\b(?:{_DENIED}|{_DOUBTED})\b".replace(" ", r"\s{1,9}")
    + r"|n['’]t\b|[✗✘❌🚫👎≠¬]|!=|~~|\(\s?[-−–]\s?\)|[:=]\W{0,3}(?:0|n|f)\b(?![.,]\d)",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
_UNKNOWN = {
    "unknown",
    "unclear",
    "undetermined",
    "unbekannt",
    "unklar",
    "inconnu",
    "desconocido",
    "sconosciuto",
    "未知",
}
_DECLINING = re.compile(
    r"declin|refus|rechaz|rifiut|ablehn|verweiger|拒绝|recus|abst|defer|not sure|don't know|unknown|unclear|uncertain"
    r"|determine|insufficient|unbekannt|unklar|inconnu|desconocid|sconosciut|未知|不确定|无法"
)
_FIRST = re.compile(r"\b(?:i|i['’]m|abstain\w*|decline|idk)\b", re.IGNORECASE)
_COMMON = {"yes", "no", "ja", "nein", "sí", "si", "oui", "non", "sì", "sim", "não", "none"}
MOST_WORDS = 15  # of a sentence that states a label, besides the label: a longer one may say anything of it


@dataclass(frozen=True)
class Answers:
    """How answers are found in text."""

    by_key: Mapping[str, Label]
    words: re.Pattern[str] | None  # labels and spellings that can be told from other words
    every: re.Pattern[str] | None
    may_decline: bool
    numbers: bool
    texts: bool = False  # the answer is whatever the text says

    @staticmethod
    def of(task: Task) -> Answers:
        kind = answers_are(task)
        return _answers(task.labels, tuple(task.spellings.items()), task.may_decline, kind == "text")

    def named(self, text: str) -> Label | None:
        """The label that a text is, whatever its case and what stands around it."""
        label = self.by_key.get(_key(text))
        return self.by_key.get(_key(text.strip(AROUND))) if label is None else label

    def stated(self, text: str) -> tuple[Label | float, Span] | None:
        """The one answer that a short text gives, and where; None where it gives none, or more than one."""
        if self.numbers:
            return only_number(text)
        return self.whole(text) or self._leading(text) or self.mentioned(text)

    def whole(self, text: str) -> tuple[Label, Span] | None:
        """The label that a text is, and where."""
        label = self.named(text)
        if label is None:
            return None
        start, end = len(text) - len(text.lstrip(AROUND)), len(text.rstrip(AROUND))
        return label, (start, end) if start < end else (0, len(text))

    def _leading(self, text: str) -> tuple[Label, Span] | None:
        """A label that begins a text, and is told from what follows: "B. Because", "3 (G3a)"."""
        match = None if self.every is None else self.every.match(text, len(text) - len(text.lstrip(AROUND)))
        if self.every is None or match is None or not _AFTER_LABEL.match(text, match.end()):
            return None
        end = _SENTENCE_END.search(text, match.end())
        first, rest = text[: end.start() if end else len(text)], text[end.end() :] if end else ""
        found = {self._meant(each) for each in self.every.finditer(first) if _is_meant(each)}
        found |= {label for part in _SENTENCE_END.split(rest) if (label := self.named(part)) is not None}
        found |= {self._meant(each) for each in self.words.finditer(rest)} if self.words else set()
        return None if _UNSETTLED.search(first, match.end()) else self._one(found, match)

    def mentioned(self, text: str) -> tuple[Label, Span] | None:
        """The one label that a text states, in its first sentence or its last."""
        matches = [] if self.words is None else list(self.words.finditer(text))
        if not matches or not _is_stated(text, matches):
            return None
        return self._one({self._meant(match) for match in matches}, matches[-1])

    def _meant(self, match: re.Match[str]) -> Label | None:
        return self.by_key.get(_key(match[0]))

    def _one(self, found: set[Label | None], match: re.Match[str]) -> tuple[Label, Span] | None:
        """The label, if it is the only one."""
        label = self._meant(match)
        return None if label is None or found != {label} else (label, match.span())

    def declines(self, text: str) -> bool:
        """True if a text declines to answer, as a phrase and nothing else or as prose."""
        labels = None if self.every is None else self.count
        first = self.every.match(text, len(text) - len(text.lstrip(AROUND))) if self.every else None
        if first is not None and _is_meant(first) and _AFTER_LABEL.match(text, first.end()):
            return False
        alone = text.strip(AROUND)
        if declines(alone) and not self.count(text) and (self.may_decline or not self.texts or _FIRST.search(alone)):
            return True
        if self.may_decline and alone.casefold() in _UNKNOWN:
            return True
        return refuses(text, labels, mask=self.declining, numbers=self.numbers, texts=self.texts)

    @property
    def declining(self) -> re.Pattern[str] | None:
        """The labels that read like declining themselves: "no answer", "refuse treatment"."""
        return _declining(tuple(self.by_key))

    def count(self, text: str) -> int:
        """How many different labels a text names; "yes" and "no" are words like others but at the beginning."""
        found = list(self.every.finditer(text)) if self.every else []
        meant = [each for each in found if _is_meant(each) and (_key(each[0]) not in _COMMON or each.start() == 0)]
        return len({self._meant(each) for each in meant})

    def mentions(self, text: str) -> bool:
        """True if any label is in a text."""
        return self.words is not None and self.words.search(text) is not None


@lru_cache(maxsize=256)
def _answers(
    labels: tuple[Label, ...] | None, spellings: tuple[tuple[str, Label], ...], may_decline: bool, texts: bool
) -> Answers:
    known = dict(spellings) | {str(label): label for label in labels or ()}
    return Answers(
        by_key={_key(spelling): label for spelling, label in known.items()},
        words=_pattern([each for each in known if len(_key(each)) > 1 and any(map(str.isalpha, each))]),
        every=_pattern(list(known)),
        may_decline=may_decline,
        numbers=labels is None and not texts,
        texts=texts,
    )


@lru_cache(maxsize=256)
def _declining(spellings: tuple[str, ...]) -> re.Pattern[str] | None:
    return _pattern([each for each in spellings if declines(each) or refuses(each) or _DECLINING.search(each)])


def _pattern(spellings: list[str]) -> re.Pattern[str] | None:
    """Any of these as words of their own, the longest first."""
    if not spellings:
        return None
    spelt = sorted({form for each in spellings for form in (" ".join(each.split()), _key(each))}, key=len, reverse=True)
    forms = "|".join(
        (r"(?<![-−+])" if each[:1].isdigit() else "") + r"\s+".join(map(re.escape, each.split(" "))) for each in spelt
    )
    return re.compile(rf"(?<!\w)(?<!\w-)(?<!\d[.,])(?:{forms})(?!\w)(?!-\w)(?![.,]\d)", re.IGNORECASE)


def _key(text: str) -> str:
    """What makes two texts one label."""
    return " ".join(text.casefold().split())


def _is_meant(match: re.Match[str]) -> bool:
    """False for the article, where A is a label."""
    return not (len(match[0]) == 1 and match[0].islower())


def _is_stated(text: str, matches: list[re.Match[str]]) -> bool:
    """True if every sentence that a label stands in is short, and neither denies it, doubts it, nor asks; and one of
    them is the first or the last.
    """
    waiting, first = deque(matches), 0
    labelled: list[bool] = []
    for end in (*_SENTENCE_END.finditer(text), None):
        last = len(text) if end is None else end.start()
        here = []
        while waiting and waiting[0].start() < last:
            here.append(waiting.popleft())
        if here:
            around = _between(text, first, here, last)
            if (end is not None and end[0] == "?") or _UNSETTLED.search(around) or _is_long(around):
                return False
        if here or _WORD.search(text, first, last):
            labelled.append(bool(here))
        first = last
    return labelled[0] or labelled[-1]


def _is_long(text: str) -> bool:
    return sum(1 for _ in islice(_WORD.finditer(text), MOST_WORDS + 1)) > MOST_WORDS


def _between(text: str, first: int, matches: list[re.Match[str]], last: int) -> str:
    """A part of a text without some matches."""
    places = [first, *(place for match in matches for place in match.span()), max(last, matches[-1].end())]
    return " ".join(text[start:end] for start, end in zip(places[::2], places[1::2], strict=True))


def only_number(text: str) -> tuple[float, Span] | None:
    """The one number in a text, and where; None where what stands next to it scales, bounds, denies or asks for it."""
    matches = list(_NUMBER.finditer(text))
    if len(matches) != 1:
        return None
    match = matches[0]
    before, behind = text[: match.start()], text[match.end() :]
    if any(character.isnumeric() for character in before + behind):
        return None
    sentence, clause = _SENTENCE_END.search(behind), _CLAUSE_END.search(behind)
    if sentence is not None and sentence[0] == "?":
        return None
    is_said = before[_last_end(before) :] + " " + behind[: clause.start() if clause else len(behind)]
    if _BEFORE_NUMBER.search(before[-_NEXT_TO:]) or _AFTER_NUMBER.match(behind) or _UNSETTLED.search(is_said):
        return None
    value = float(match[0].replace("−", "-"))
    return (value, match.span()) if isfinite(value) else None


def _last_end(text: str) -> int:
    """Where the last sentence of a text begins."""
    return max((end.end() for end in _SENTENCE_END.finditer(text)), default=0)


def whole_number(text: str) -> tuple[float, Span] | None:
    """The number that a text is, whatever stands around it."""
    number = only_number(text)
    alone = number is not None and not (text[: number[1][0]] + text[number[1][1] :]).strip(AROUND)
    return number if alone else None
