"""Queries: every form in which they come, and what is refused with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError, UsageError
from steelyard.retrieval.queries import embedded, read_queries
from steelyard.texts.embedders import embedder

SECRET = "SECRET-PATIENT"


def written(folder: Path, content: str | bytes, name: str = "queries.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
    return path


def lines(*objects: dict[str, Any]) -> str:
    return "".join(json.dumps(each) + "\n" for each in objects)


def refused(folder: Path, content: str | bytes, name: str = "queries.jsonl") -> InputError:
    path = written(folder, content, name)
    with pytest.raises(InputError) as caught:
        read_queries(path)
    assert caught.value.file == str(path)
    assert SECRET not in str(caught.value)
    return caught.value


ROWS = [
    {"queryId": "q1", "query": "a: b", "relevantDocId": "d1", "cluster": 4},
    {"ID": 7, "Text": "c", "GOLD": ["d2"], "Cluster": "x", "other": {"a": 1}},
    {"id": "q3", "text": "ć", "gold": " ", "cluster": 1.5},
    {"id": "q4", "text": "d", "gold": [], "cluster": "x"},
    {"id": "q5", "text": "e", "query": None, "gold": [None], "cluster": "x"},
    {"id": "q6", "text": "f", "gold": 12, "cluster": "x"},
]


@pytest.mark.parametrize("form", ["lines", "list", "object"])
def test_every_spelling(tmp_path: Path, form: str) -> None:
    content = lines(*ROWS) if form == "lines" else json.dumps(ROWS if form == "list" else {"Queries": ROWS}, indent=1)
    found = read_queries(written(tmp_path, "\ufeff" + content, "q.jsonl" if form == "lines" else "q.json"))
    assert found.ids == ("q1", "7", "q3", "q4", "q5", "q6")
    assert found.texts == ("a: b", "c", "ć", "d", "e", "f")
    assert found.gold == ("d1", "d2", None, None, None, "12")
    assert found.clusters == ("4", "x", "1.5", "x", "x", "x")
    assert found.vectors is None
    assert len(found.sha256) == 64


def test_vectors_may_differ_in_length_until_they_are_embedded(tmp_path: Path) -> None:
    rows = [{"id": "a", "vector": [1, 2.5]}, {"id": "b", "vector": [3.0]}]
    found = read_queries(written(tmp_path, lines(*rows)))
    assert found.vectors is not None
    assert [vector.tolist() for vector in found.vectors] == [[1.0, 2.5], [3.0]]
    with pytest.raises(InputError, match="query 'b' has 1 numbers, that of the first 2"):
        embedded(found, None)


def test_an_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "q.npz", vectors=np.eye(2, dtype="f4"), gold=np.array(["d", ""]))
    found = read_queries(tmp_path / "q.npz")
    assert (found.ids, found.gold, found.texts, found.clusters) == (("0", "1"), ("d", None), None, None)
    vectors = embedded(found, None)
    assert vectors.matrix.dtype == np.float32
    assert vectors.matrix.tolist() == np.eye(2).tolist()
    assert (vectors.ids, vectors.gold, vectors.sha256) == (found.ids, found.gold, found.sha256)


def test_texts_become_vectors(tmp_path: Path) -> None:
    found = read_queries(written(tmp_path, lines(*ROWS)))
    told: list[float] = []
    vectors = embedded(found, embedder("hash:32"), progress=told.append)
    assert vectors.matrix.shape == (6, 32)
    assert vectors.gold == found.gold
    assert told[-1] == 1.0
    with pytest.raises(UsageError, match="name an embedder"):
        embedded(found, None)


@pytest.mark.parametrize(
    ("content", "line", "field", "problem"),
    [
        (lines({"id": "a", "text": "x"}, {"id": "A", "text": "y"}), 2, "id", "lines 1 and 2"),
        (lines({"id": 1, "text": "x"}) + "\n" + lines({"id": "1", "text": "y"}), 3, "id", "lines 1 and 3"),
        (lines({"text": SECRET}), 1, "id", "is missing"),
        (lines({"id": " ", "text": SECRET}), 1, "id", "is missing"),
        (lines({"id": True, "text": SECRET}), 1, "id", "text or a number"),
        (lines({"id": "a"}), 1, "text", "a text or a vector"),
        (lines({"id": "a", "text": " "}), 1, "text", "is empty"),
        (lines({"id": "a", "text": [SECRET]}), 1, "text", "text is expected"),
        (lines({"id": "a", "text": SECRET, "query": SECRET}), 1, "query", "same as 'text'"),
        (lines({"id": "a", "text": SECRET, "Text": SECRET}), 1, "Text", "same as 'text'"),
        (lines({"id": "a", "text": SECRET}, {"id": "b", "vector": [1]}), 1, "vector", "all of them or none"),
        (lines({"id": "a", "text": "x", "cluster": 1}, {"id": "b", "text": "x"}), 2, "cluster", "all of them or none"),
        (lines({"id": "a", "text": "x", "gold": [SECRET, "d"]}), 1, "gold", "judgements: `qrels=`"),
        (lines({"id": "a", "text": "x", "gold": {"a": SECRET}}), 1, "gold", "text or a number"),
        (lines({"id": "a", "vector": []}), 1, "vector", "a list of numbers"),
        (lines({"id": "a", "vector": [1, True]}), 1, "vector", "a list of numbers"),
        (lines({"id": "a", "vector": [1, SECRET]}), 1, "vector", "a list of numbers"),
        (lines({"id": "a", "vector": [[1]]}), 1, "vector", "a list of numbers"),
        (lines({"id": "a", "vector": [0, 0.0]}), 1, "vector", "no direction"),
        ('{"id": "a", "vector": [NaN]}', 1, "vector[0]", "finite"),
        ('{"id": "a", "vector": [1e999]}', 1, "vector[0]", "finite"),
        ('{"id": 99999999999999999999999, "text": "x"}', 1, "id", "too large|this large"),
        ('{"id": "a", "text": "x", "text": "SECRET-PATIENT"}', 1, "text", "twice"),
        ('{"id": "a", "text": "x", "note": {"b": 1, "b": 1}}', 1, "note.b", "twice"),
        ('{"id": "a", "text": "SECRET-PATIENT"', 1, None, "not valid JSON"),
        ('{"id": "a"} {"id": "b"}', 1, None, "more follows"),
        ('["SECRET-PATIENT"]', 1, None, "an array"),
        ("\n \n", None, None, "no queries"),
        ("", None, None, "no queries"),
        (b'{"id": "a", "text": "\xff"}', 1, None, "not UTF-8"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: Any, line: int | None, field: str | None, problem: str) -> None:
    found = refused(tmp_path, content)
    assert (found.line, found.field) == (line, field)
    assert any(each in found.problem for each in problem.split("|"))


@pytest.mark.parametrize(
    ("content", "line", "field", "problem"),
    [
        ('[{"id": "a", "text": "x"},\n\n {"id": "A", "text": "x"}]', 3, "id", "lines 1 and 3"),
        (
            '{"queries": [{"id": "a", "text": "x"},\n {"id": "b", "vector": [Infinity]}]}',
            2,
            "queries[1].vector[0]",
            "fin",
        ),
        ('[{"id": "a", "text": "x"},\n {"id": "b", "id": "c"}]', 2, "[1].id", "twice"),
        ('{"queries": [{"id": "a", "text": "x"}], "note": NaN}', None, "note", "finite"),
        ('[{"id": "a", "text": "x"},\n 3]', 2, None, "an object"),
        ('{"rows": []}', None, None, "a list `queries`"),
        ("3", None, None, "a list of objects"),
        ("[]", None, None, "no queries"),
        ('[{"id":', 1, None, "ends early"),
    ],
)
def test_what_is_refused_in_a_document(
    tmp_path: Path, content: str, line: int | None, field: str | None, problem: str
) -> None:
    found = refused(tmp_path, content, "q.json")
    assert (found.line, found.field) == (line, field)
    assert problem in found.problem


def test_other_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="queries are not read"):
        read_queries(written(tmp_path, "", "q.csv"))
    with pytest.raises(InputError, match="no such file"):
        read_queries(tmp_path / "none.jsonl")
    assert "longer than" in refused(tmp_path, lines({"id": "a", "text": "x" * 5 * 2**20})).problem


@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1).filter(any), min_size=1))
def test_numbers_are_read_exactly(tmp_path_factory: Any, vectors: list[list[float]]) -> None:
    rows = [{"id": str(place), "vector": vector} for place, vector in enumerate(vectors)]
    folder = tmp_path_factory.mktemp("exact")
    for path in (written(folder, lines(*rows)), written(folder, json.dumps(rows), "q.json")):
        found = read_queries(path).vectors
        assert found is not None
        assert [vector.tolist() for vector in found] == vectors


def test_vectors_alone_are_queries_too(tmp_path: Path) -> None:
    np.save(tmp_path / "q.npy", np.eye(3))
    found = read_queries(tmp_path / "q.npy")
    assert found.ids == ("0", "1", "2")
    assert found.gold == (None, None, None)
    assert "q.npy has no array gold; a .npy file has vectors only" in str(found.lacking)
    np.savez(tmp_path / "q.npz", ids=np.arange(3), embeddings=np.eye(3), relevant=np.array(["a", "b", "c"]))
    assert "q.npz has no array gold; it has: ids, embeddings, relevant" in str(read_queries(tmp_path / "q.npz").lacking)
    np.savez(tmp_path / "q.npz", embeddings=np.eye(3), gold=np.array(["a", "b", "c"]))
    assert read_queries(tmp_path / "q.npz").lacking is None
