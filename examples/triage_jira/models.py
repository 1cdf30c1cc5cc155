"""Two ways to sort issues by rules, which a run-spec can name as models (backend `callable`).

Each is given the fields of the item that the prompt shows, the prompt as it is sent, and the seed of the request, and
replies as models are asked to, in JSON. Neither can see a label.

    keywords   looks for words, as they are spelt; it does not notice capitals or misspelt words
    reader     folds capitals, forgives a wrong letter, and knows the team's rules once the prompt states them; but it
               listens to the tone, and now and then changes its mind
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from random import Random
from typing import Any

GRAVE = ("gone", "overwrites", "without signing in", "charges", "nobody", "stopped answering")
LOOKS = ("spelling", "pixels", "blue", "full stop", "white space")
SPARED = ("helps", "still works", "avoided", "instead", "only", "notice nothing")
WORDS = {word for phrase in (*GRAVE, *LOOKS, *SPARED) for word in phrase.split()}


def keywords(item: Mapping[str, Any], prompt: str, *, seed: int) -> dict[str, Any]:
    """Sorts by words as they are spelt, whatever the prompt says of the team's rules."""
    return _reply(_priority(_text(item)), 0.8, prompt, seed, wavering=0.0)


def reader(item: Mapping[str, Any], prompt: str, *, seed: int) -> dict[str, Any]:
    """Sorts by what is meant, more surely where the rules or examples are in the prompt."""
    text = _forgiven(_text(item).lower())
    priority = _priority(text)
    told = "This is how the team sorts" in prompt
    shown = prompt.count("The right answer:")
    if "urgent for us!" in text and not told and priority == "Minor":
        priority = "Major"
    wavering = 0.04 if told else max(0.05, 0.14 - 0.03 * shown)
    return _reply(priority, 0.95 if told else 0.85, prompt, seed, wavering=wavering)


def _text(item: Mapping[str, Any]) -> str:
    return f"{item['title']}. {item['description']}"


def _priority(text: str) -> str:
    if any(phrase in text for phrase in GRAVE):
        return "Critical"
    if any(phrase in text for phrase in LOOKS):
        return "Trivial"
    return "Minor" if any(phrase in text for phrase in SPARED) else "Major"


def _forgiven(text: str) -> str:
    """The text with words that are nearly known as the known ones."""

    def known(match: re.Match[str]) -> str:
        near = get_close_matches(match.group(), WORDS, n=1, cutoff=0.84)
        return near[0] if near else match.group()

    return re.sub(r"[a-z]{4,}", known, text)


def _reply(priority: str, confidence: float, prompt: str, seed: int, *, wavering: float) -> dict[str, Any]:
    """A reply in JSON, which now and then is another one."""
    chance = Random(f"{seed} {prompt}")
    if chance.random() < wavering:
        priority = chance.choice(["Critical", "Major", "Minor", "Trivial"])
        confidence -= 0.2
    text = json.dumps({"answer": priority, "confidence": round(confidence + chance.uniform(-0.05, 0.05), 2)})
    return {"text": text, "input_tokens": len(prompt) // 4, "output_tokens": len(text) // 4}
