"""What a text mentions: names, synonyms, plurals, misspellings, short forms, and their context."""

from __future__ import annotations

import pytest

from steelyard.texts.entities import extractor


def mentioned(text: str) -> str:
    return ", ".join(f"{mention.context} {mention.entry.name}" for mention in extractor().findings(text).mentions)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Pneumonia, afebrile", "asserted pneumonia, negated fever"),
        ("No evidence of pneumonia or stroke, but asthma.", "negated pneumonia, negated stroke, asserted asthma"),
        ("Mother had asthma. Patient has a stroke", "family asthma, asserted stroke"),
        ("History of stroke", "historical stroke"),
        ("Return if fever occurs", "hypothetical fever"),
        ("Possible pneumonia", "uncertain pneumonia"),
        ("Pneumonia was ruled out", "negated pneumonia"),
        ("pnuemonia", "asserted pneumonia"),
        ("pneumonias", "asserted pneumonia"),
    ],
)
def test_mentions_and_their_context(text: str, wanted: str) -> None:
    assert mentioned(text) == wanted
