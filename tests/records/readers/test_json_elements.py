"""What follows a long array: held as far as it is small, else checked to be closed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.records.readers import json_elements
from steelyard.records.readers.json_elements import BrokenError, Elements

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(max_size=4), part, max_size=3),
    max_leaves=8,
)


def pieces(text: bytes, size: int) -> list[bytes]:
    return [text[at : at + size] for at in range(0, len(text), size)]


@given(st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=2), max_size=3), VALUES, st.integers(1, 40))
def test_what_follows_is_left_out_beyond_the_limit(rows: list[Any], behind: Any, size: int) -> None:
    text = json.dumps({"a": 1, "rows": rows, "behind": behind}).encode() + b" \n"
    before = text.index(b'"rows"')
    for limit in (before + 10, len(text) + 1):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(json_elements, "AROUND", limit)
            document = Elements(pieces(text, size), ("rows",))
            try:
                assert [json.loads(row) for row in document] == rows
            except BrokenError as problem:
                assert "beside its rows" in problem.problem  # noqa: PT017 - a piece is larger than the limit
                continue
        around = json.loads(document.rest)
        assert around in ({"a": 1, "rows": []}, {"a": 1, "rows": [], "behind": behind})
        assert "behind" in around or limit < len(text)


@pytest.mark.parametrize(
    ("tail", "problem"),
    [('"x"]', "ends early"), ('"x', "ends early"), ("1}}", "more follows"), ("1} x", "more follows")],
)
def test_what_is_left_out_must_be_closed(tail: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_elements, "AROUND", 30)
    text = f'{{"rows": [{{}}], "behind": {" " * 40}[{tail}'.replace("[1", "1").encode()
    with pytest.raises(BrokenError, match=problem):
        list(Elements(pieces(text, 8), ("rows",)))


@given(st.lists(st.dictionaries(st.text('a"\\ {}[],', max_size=6), VALUES, max_size=3), max_size=4), st.integers(1, 30))
def test_elements_come_however_the_text_is_divided(rows: list[Any], size: int) -> None:
    text = json.dumps({"a": {"rows": [1]}, "rows": rows, "b": "\\"}, ensure_ascii=False).encode(
        "utf-8", "surrogatepass"
    )
    document = Elements(pieces(text, size), ("rows",))
    assert [json.loads(row) for row in document] == rows
    assert document.found
    assert json.loads(document.rest) == {"a": {"rows": [1]}, "rows": [], "b": "\\"}


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("{}, 1", "a list of objects"),
        ("[{}]", "a list of objects"),
        ('"x"', "a list of objects"),
        ("{},, {}", "one comma"),
        ("{} {}", "one comma"),
        (", {}", "one comma"),
        ("{}, ", "one comma"),
        ("{}}", "not closed"),
    ],
)
def test_what_is_no_array_of_objects(rows: str, problem: str) -> None:
    for size in (1, 3, 100):
        with pytest.raises(BrokenError, match=problem):
            list(Elements(pieces(f'{{"rows": [{rows}]}}'.encode(), size), ("rows",)))


def test_an_element_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_elements, "ELEMENT", 50)
    text = json.dumps({"rows": [{"a": "x" * 30}, {"a": "x" * 60}]}).encode()
    for size in (7, 1_000):
        with pytest.raises(BrokenError, match="is larger than"):
            list(Elements(pieces(text, size), ("rows",)))
