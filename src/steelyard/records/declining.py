"""When a reply in the log of another tool means that the model declined to answer.

`abstain_when` names the rules that hold, by default `noanswer,phrases`:

    noanswer   the tool's own mark for no answer, such as the value N of an Inspect scorer
    phrases    the answer is a phrase of declining and nothing else: "I don't know.", "Sorry, but I can't answer that
               question". Where no answer was found in the reply: the reply, its last line, or what follows "ANSWER:"
    empty      a reply in which no answer was found (without this rule it could not be read: unparsed)
    /PATTERN/  the answer, or where there is none the reply, matches a regular expression; case makes no difference
    never      none of these

What a log found right is an answer, whatever it says, and so is a text that is a target anywhere in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from steelyard.errors import UsageError, printable
from steelyard.ground.commas import listed
from steelyard.registry import closest

DEFAULT = ("noanswer", "phrases")
PHRASE = "the reply is a phrase of declining"
LONGEST = 200  # characters; a longer line says more than that somebody declines
_NAMED = ("noanswer", "phrases", "empty", "never")
_WHAT = r"(?:(?:the|an|your|this|that|any)? ?(?:answer|question|it|this|that)(?: to (?:the|this|that|your) question)?)"
_PHRASE = re.compile(
    r"(?:(?:i'm |i am )?(?:sorry|unfortunately)[,.;]? (?:but )?)?"
    r"(?:"
    rf"(?:i )?(?:really |honestly )?(?:don't|do not|dont) know(?: {_WHAT}| for (?:sure|certain))?|idk"
    rf"|(?:i'm |i am )?(?:not sure|unsure|uncertain|not certain)(?: (?:about|of) {_WHAT})?"
    rf"|(?:i )?(?:can't|cannot|can not|won't|will not) (?:answer|say|tell|determine)(?: {_WHAT})?"
    rf"|(?:i'm |i am )?(?:unable|not able) to (?:answer|say|tell|determine)(?: {_WHAT})?"
    rf"|(?:it |this |the answer )?(?:cannot|can't|can not) be (?:determined|answered)"
    rf"|(?:i )?(?:abstain|decline|defer|pass|refuse)(?:ed|s)?(?: to answer(?: {_WHAT})?| from answering(?: {_WHAT})?)?"
    rf"|(?:i'd|i would) (?:rather|prefer) not (?:to )?(?:answer|say)(?: {_WHAT})?"
    r"|(?:there is |i have )?(?:insufficient|not enough) (?:information|evidence|data)"
    r"(?: to (?:answer|say|tell|determine)(?: .{0,40})?)?"
    r"|no answer"
    r")"
)
_PREFIX = re.compile(r"(?:the |final |my )*answer(?: is)?\s*:?\s*")


def declines(text: str, *, whole: bool = False) -> bool:
    """True if a text is a phrase of declining and nothing else; its last line or what follows "answer:" unless `whole`.

    >>> [declines(text) for text in ("I don't know.", "ANSWER: unable to say", "I don't know, maybe B", "I won't pass")]
    [True, True, False, False]
    """
    folded = text.strip().casefold().replace("\u2019", "'")
    if whole:
        return _is_phrase(folded)
    last = folded.rpartition("\n")[2]
    behind = folded.rpartition("answer:")[2] if "answer:" in folded else folded
    return any(_is_phrase(part) for part in dict.fromkeys((folded, last, behind)))


def _is_phrase(text: str) -> bool:
    if len(text) > LONGEST:
        return False
    plain = _PREFIX.sub("", text.strip().strip("\"'*`()[] "), count=1) if "answer:" in text else text
    return _PHRASE.fullmatch(re.sub(r"\s+", " ", plain).strip("\"'*`()[]{}.!…-– ")) is not None


@dataclass(frozen=True)
class AbstainWhen:
    """The rules by which a reply in a log means declining."""

    rules: tuple[str, ...] = DEFAULT

    def __post_init__(self) -> None:
        for rule in self.rules:
            if rule not in _NAMED and not _is_pattern(rule):
                near = closest(rule, list(_NAMED))
                hint = f"did you mean '{near}'?" if near else f"there are: {', '.join(_NAMED)}, /PATTERN/"
                raise UsageError(f"`abstain_when={printable(rule)}` is no rule; {hint}")
        if "never" in self.rules and len(self.rules) > 1:
            raise UsageError("`abstain_when=never` stands alone")
        _ = self.patterns

    @classmethod
    def of(cls, asked: Sequence[str] | str | None) -> AbstainWhen:
        """The rules that were asked for: a text with commas, or several."""
        if not asked:
            return cls()
        texts: Iterable[str] = [asked] if isinstance(asked, str) else asked
        rules = (rule for text in texts for rule in ([text] if _is_pattern(text) else listed(text)))
        return cls(tuple(dict.fromkeys(rules)) or DEFAULT)

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """The regular expressions among the rules."""
        try:
            return tuple(re.compile(rule[1:-1], re.IGNORECASE) for rule in self.rules if _is_pattern(rule))
        except (re.error, RecursionError):
            raise UsageError("`abstain_when=`: a /PATTERN/ is no regular expression") from None

    def why(self, text: str, *, no_answer: bool = False, extracted: bool = False) -> str | None:
        """Why a reply means declining, in words; None where it does not. `extracted`: it is what a scorer found."""
        if no_answer and "noanswer" in self.rules:
            return "the tool marked it as no answer"
        if "phrases" in self.rules and declines(text, whole=extracted):
            return PHRASE
        if any(pattern.search(text) for pattern in self.patterns):
            return "the reply matches a pattern of `abstain_when=`"
        return None


def _is_pattern(rule: str) -> bool:
    return len(rule) > 2 and rule.startswith("/") and rule.endswith("/")
