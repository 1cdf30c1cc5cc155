"""YAML: strict, and refused with its line."""

from __future__ import annotations

import pytest

from steelyard.errors import UsageError
from steelyard.ground.yaml import parse_yaml


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("labels: [NO, YES]", "quotes"),
        ("labels: [012, 013]", "quotes"),
        ("labels: [a, b]\nlabels: [c, d]", "twice"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("labels: [a, b", "expected"),
        ("? [a]\n: b", "plain words"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
        ("range: 1:30", "quotes"),
    ],
)
def test_yaml_surprises_are_refused_with_the_line(document: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        parse_yaml(document, source="x.yaml")
    assert "x.yaml" in str(caught.value)


def test_half_a_character_is_its_escape_and_two_halves_are_one_character() -> None:
    document = parse_yaml(r'{"a\ud800": ["\udfff", "\ud83e\udd94", \ud800]}', source="x.yaml")
    assert document == {"a\\ud800": ["\\udfff", "🦔", "\\ud800"]}
