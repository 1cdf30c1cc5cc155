"""Specs that people write: what is wrong is said with its line, its field and what may have been meant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

from steelyard import UsageError
from steelyard.ground.specs import read_spec, spec_of


class Part(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: Annotated[str, Meta(min_length=1)]
    size: Annotated[int, Meta(ge=1, le=9)] = 1
    mode: Literal["one", "two"] | None = None
    share: Annotated[float, Meta(gt=0)] | None = None


class Whole(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    parts: Annotated[list[Part], Meta(min_length=1)]
    named: dict[str, Part] = {}
    note: str = ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("parts:\n  - name: a\n    sze: 3\n", "f.yaml:3: parts[0]: unknown key 'sze'; did you mean 'size'?"),
        (
            "parts:\n  - {name: a, zzz: 3}\n",
            "f.yaml:2: parts[0]: unknown key 'zzz'; there are: name, size, mode, share",
        ),
        ("parts:\n  - name: a\n    size: 0\n", "f.yaml:3: parts[0].size: a whole number is expected, at least 1"),
        ("parts:\n  - name: a\n    size: 10\n", "f.yaml:3: parts[0].size: a whole number is expected, at most 9"),
        ("parts:\n  - name: a\n    size: x\n", "f.yaml:3: parts[0].size: a whole number is expected, this is text"),
        ("parts:\n  - name: a\n    mode: three\n", "f.yaml:3: parts[0].mode: one of one, two is expected"),
        ("parts:\n  - name: a\n    share: 0\n", "f.yaml:3: parts[0].share: a number is expected, more than 0"),
        ("parts:\n  - name: ''\n", "f.yaml:2: parts[0].name: at least 1 characters are expected"),
        ("parts: []\n", "f.yaml:1: parts: at least 1 entries are expected"),
        ("note: x\n", "f.yaml: 'parts' is needed"),
        ("parts:\n  - size: 3\n", "f.yaml:2: parts[0]: 'name' is needed"),
        ("- 1\n", "f.yaml: a mapping is expected, this is a list"),
        ("parts: [{name: a}]\nnamed:\n  x: {name: b, siz: 1}\n", "unknown key 'siz'; did you mean 'size'?"),
    ],
)
def test_problems_with_their_places(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_spec(path, Whole)
    assert said in str(caught.value)


def test_a_spec_that_is_right(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text("\ufeffparts:\n  - {name: a, mode: two}\n")
    assert read_spec(path, Whole) == Whole([Part("a", mode="two")])


def test_mappings_have_no_lines() -> None:
    with pytest.raises(UsageError, match="spec: parts: a list is expected"):
        spec_of({"parts": 3}, Whole, source="spec")
