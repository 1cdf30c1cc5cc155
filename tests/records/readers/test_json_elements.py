"""Elements of an array inside a document: the same as parsing it whole, wherever the chunks end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.records.readers import json_elements
from steelyard.records.readers.json_elements import BrokenError, Elements

ODD = '}]{["\\\\" \\" , : \u00e9\u2028'
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "samples", ODD, '"samples":[']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["samples", "a", ODD]), inner),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["id", "samples", "t"]), VALUES, max_size=3)


def pieces(raw: bytes, size: int) -> list[bytes]:
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def read_torn(raw: bytes, size: int, path: Sequence[str]) -> tuple[list[Any], bool, Elements]:
    """What was read before the end, and whether that came too early."""
    reading = Elements(pieces(raw, size), path)
    got: list[Any] = []
    try:
        got.extend(json.loads(each) for each in reading)
    except BrokenError as problem:
        return got, problem.torn, reading
    return got, False, reading


@given(
    before=st.dictionaries(st.sampled_from(["a", "b", ODD]), VALUES, max_size=2),
    elements=st.lists(OBJECTS, max_size=5),
    after=VALUES,
    size=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
    depth=st.integers(0, 2),
)
def test_any_document_in_any_chunks(
    before: dict[str, Any], elements: list[Any], after: Any, size: int, indent: int | None, depth: int
) -> None:
    path = ("outer", "samples")[2 - depth :] if depth else ()
    document: Any = elements
    rest: Any = []
    for key in reversed(path):
        document, rest = ({**before, key: inner, "z": after} for inner in (document, rest))
    raw = json.dumps(document, indent=indent).encode()
    reading = Elements(pieces(raw, size), path)
    assert [json.loads(each) for each in reading] == elements
    assert reading.found
    assert json.loads(reading.rest) == rest
    for cut in range(1, len(raw), max(len(raw) // 7, 1)):
        got, torn, reading = read_torn(raw[:cut], size, path)
        assert torn or got == (elements if reading.found else [])
        assert got == elements[: len(got)]


def test_a_document_without_such_an_array() -> None:
    for raw in (b'{"a": {"samples": [{}]}}', b'{"samples": {"samples": [{}]}}', b"{}", b'"samples"', b""):
        reading = Elements([raw], ("samples",))
        assert list(reading) == []
        assert not reading.found
        assert reading.rest == raw


@pytest.mark.parametrize("size", [1, 100])
@pytest.mark.parametrize("raw", [b"[{} {}]", b"[{},,{}]", b"[1]", b"[{},1]", b"[{}}", b"[,{}]", b"[{},]", b"[[]]"])
def test_what_is_no_list_of_objects(raw: bytes, size: int) -> None:
    with pytest.raises(BrokenError) as caught:
        list(Elements(pieces(raw, size), ()))
    assert not caught.value.torn


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_elements, "ELEMENT", 1_000)
    monkeypatch.setattr(json_elements, "AROUND", 1_000)
    large = json.dumps({"t": "x" * 2_000})
    for raw in (f"[{large}]", f"[{{}},{large}]"):
        with pytest.raises(BrokenError, match="larger"):
            list(Elements(pieces(raw.encode(), 100), ()))
    with pytest.raises(BrokenError, match="beside its rows"):
        list(Elements(pieces(f'{{"a": {large}, "samples": [{{}}]}}'.encode(), 100), ("samples",)))
    assert len(list(Elements(pieces(json.dumps([{"t": "x" * 500}] * 40).encode(), 100), ()))) == 40


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
