"""From the text of a reply to an answer, an abstention, or neither: nothing is guessed.

Read in this order; what is found first decides:

    pattern the reply is one of the texts, or matches one of the patterns, that the task or the spec lists as declining
            (`abstain:`, see `records.patterns`)
    json    an object with `answer` or `abstain`, alone, in a code fence or among prose. Several that agree are one, and
            several that do not are none. `abstain: true` is an abstention whatever the answer says. A text in which an
            object begins and is not valid JSON, as where it was cut off, is unparsed; so is one with an object that has
            these keys further down
    line    a line `Answer: …`, perhaps with `Abstain: …` and `Confidence: …`. Two that answer differently are none
    label   the reply is a label or, where answers are numbers, a number, and nothing else; or it states one label, once
            or more, in short sentences that neither deny, doubt nor ask, one of which is the first or the last (of
            labels that are words: "B" and "3" are too short)
    phrase  the reply declines: it is a phrase of declining and nothing else (`records.declining`), or prose that
            declines and gives no answer besides (`records.refusals`); an answer with a caveat is an answer

Two different labels are unparsed. A reply is an abstention, whether declining was offered or not, by `abstain: true`
and by an answer that declines ("abstain", "I cannot decide, the labs are missing"); where it was offered, also by an
answer that is null or "unknown". "I will not abstain" is none. `abstain: true` where it is neither in an object nor a
line of its own, as in `{answer: ckd, abstain: true}`, leaves nothing that could be read. Labels are compared without
case and white space; `spellings` of the task are labels too. Numbers keep sign and decimals; one with a separator of
thousands, a percent sign or a second number next to it, or a word that scales, bounds or denies it ("5 million", "at
least 5"), is unparsed: it may mean two things. Reasoning in `<think>` is passed over and counted; without an end, all
is.

A reply that ran into the limit of tokens may have gone on: of it, a whole object is read, or an `Answer:` line whose
value is followed by the end of its sentence or of the line.

Where answers are free texts, the answer is the text under `answer`, of an object or after `Answer:` up to the next
heading, or without either all of the reply; what stands under `rationale` (or `reasoning`) is kept as the reason.

Confidence is a number from 0 to 1, or where it was asked for so, a whole number from 1 to 5. It is also read where it
can mean one thing only: "85%", 85, "0.85/1" and "17 out of 20" on the one scale, "4/5" on the other. Anything else,
such as 5 on a scale to 1, is no confidence, which `confidence_refused` says.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

from steelyard.records.patterns import matches
from steelyard.runner.answers import Answers
from steelyard.runner.free_text import TextReading
from steelyard.runner.reading import Parsed, Reading
from steelyard.runner.tasks.contract import Task

__all__ = ["Parsed", "parse", "rendered", "without_reasoning"]

_CUT = ("length", "max_tokens")  # how servers say that the limit of tokens was reached


def parse(text: str, task: Task, *, verbalized: bool = False, finish: str | None = None) -> Parsed:
    """What a reply to a task says; `verbalized` if confidence was asked for from 1 to 5, `finish` is why it ended."""
    visible, reasoning = without_reasoning(text)
    if visible is None:
        return Parsed(outcome="unparsed", reasoning_chars=reasoning)
    answers = Answers.of(task)
    if matches(getattr(task, "abstain", ()), visible):
        return Parsed(outcome="abstained", how="pattern", reasoning_chars=reasoning)
    kind = TextReading if answers.texts else Reading
    reading = kind(visible, answers, verbalized, is_cut=finish in _CUT)
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
