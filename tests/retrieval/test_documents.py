"""Documents: folders and files, pieces of texts, and what is written about their vectors."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError, UsageError
from steelyard.retrieval.documents import Documents, chunks, embedded, read_documents
from steelyard.texts.embedders import embedder

SECRET = "SECRET-PATIENT"


def folder(root: Path, **files: str | bytes) -> Path:
    place = root / "docs"
    place.mkdir()
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        (place / name.replace("__", ".")).write_bytes(data)
    return place


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_documents(path)
    assert SECRET not in str(caught.value)
    return caught.value


def written(root: Path, *objects: dict[str, Any]) -> Path:
    path = root / "docs.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    return path


def test_a_folder(tmp_path: Path) -> None:
    place = folder(
        tmp_path, b__md="two", a__txt=b"\xef\xbb\xbfone\r\n", c__d__TXT="three", __hidden__txt="x", e__pdf="y"
    )
    (place / "inner").mkdir()
    (place / "inner" / "f.txt").write_text("not read")
    found = read_documents(place)
    assert (found.ids, found.texts) == (("a", "b", "c.d"), ("one\r\n", "two", "three"))
    assert found.ignored == 3
    assert [source.name for source in found.sources] == [str(place / n) for n in ("a.txt", "b.md", "c.d.TXT")]
    assert all(source.sha256 and len(source.sha256) == 64 for source in found.sources)


def test_folders_that_are_refused(tmp_path: Path) -> None:
    for number, (files, problem) in enumerate(
        [
            ({"a__txt": "x", "A__md": "y"}, "same id"),
            ({"a__txt": "x", "a__md": "y"}, "same id"),
            ({"a__txt": " \n"}, "is empty"),
            ({"a__txt": b"\xef\xbb\xbf"}, "is empty"),
            ({"a__txt": b"\xef\xbb\xbfSECRET-PATIENT\xff"}, "byte 17"),
            ({"a__txt": "x".encode("utf-16")}, "not UTF-8"),
            ({"a__pdf": "x"}, "no .txt or .md files"),
        ]
    ):
        root = tmp_path / str(number)
        root.mkdir()
        assert problem in refused(folder(root, **files)).problem


def test_links_and_other_things(tmp_path: Path) -> None:
    place = folder(tmp_path, a__txt="one")
    (place / "b.txt").symlink_to("a.txt")
    assert read_documents(place).texts == ("one", "one")
    outside = tmp_path / "docs-outside.txt"
    outside.write_text(SECRET)
    for target, problem in (
        (outside, "out of the folder"),
        ("../docs-outside.txt", "out of the folder"),
        ("no", "no such"),
    ):
        (place / "c.txt").symlink_to(target)
        assert problem in refused(place).problem
        (place / "c.txt").unlink()
    os.mkfifo(place / "c.txt")
    assert "no plain file" in refused(place).problem
    (place / "c.txt").unlink()
    (place / "c.txt").mkdir()
    assert refused(place).file == str(place / "c.txt")
    (place / "c.txt").rmdir()
    (tmp_path / "other").symlink_to(place)
    assert len(read_documents(tmp_path / "other")) == 2


def test_a_file_of_texts(tmp_path: Path) -> None:
    rows = [
        {"docId": 5, "Content": "body", "title": "head"},
        {"ID": "b", "TEXT": "x: y", "title": None, "other": [1]},
        {"id": "c", "text": "z", "title": ""},
    ]
    found = read_documents(written(tmp_path, *rows))
    assert (found.ids, found.texts) == (("5", "b", "c"), ("head\n\nbody", "x: y", "z"))
    assert found.vectors is None
    (tmp_path / "docs.json").write_text(json.dumps(rows))
    assert read_documents(tmp_path / "docs.json").texts == found.texts


def test_a_file_of_vectors(tmp_path: Path) -> None:
    path = written(tmp_path, {"id": "a", "vector": [1, 2]}, {"id": "b", "vector": [3, 4.5]})
    found = read_documents(path)
    assert found.vectors is not None
    assert found.vectors.tolist() == [[1.0, 2.0], [3.0, 4.5]]
    vectors, ingest = embedded(found, None)
    assert vectors.ids == ("a", "b")
    assert vectors.sha256 == found.sources[0].sha256
    assert (ingest.provider, ingest.normalised, ingest.chunks, ingest.texts_sha256) == ("given", False, 2, None)
    with pytest.raises(UsageError, match="nothing to cut"):
        embedded(found, None, chunk_size=3)


@pytest.mark.parametrize(
    ("rows", "line", "field", "problem"),
    [
        ([{"id": "a", "text": "x"}, {"docid": "A", "text": "y"}], 2, "docid", "lines 1 and 2"),
        ([{"id": "a", "text": SECRET}, {"id": "b"}], 2, "text", "a text or a vector"),
        ([{"id": "a", "title": SECRET}], 1, "text", "a text or a vector"),
        ([{"id": "a", "text": SECRET, "title": 3}], 1, "title", "text is expected"),
        ([{"id": "a", "vector": [1]}, {"id": "b", "text": SECRET}], 2, "vector", "all of them or none"),
        ([{"id": "a", "vector": [1]}, {"id": "b", "vector": [1, 2]}], 2, "vector", "has 2 numbers, the first has 1"),
        ([{"id": "a", "text": "x", "content": SECRET}], 1, "content", "same as 'text'"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, rows: Any, line: int, field: str, problem: str) -> None:
    found = refused(written(tmp_path, *rows))
    assert (found.line, found.field) == (line, field)
    assert problem in found.problem


def test_paths_that_are_refused(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.jsonl").problem
    with pytest.raises(UsageError, match="documents are not read"):
        read_documents(tmp_path / "docs.csv")


def test_pieces_by_hand() -> None:
    assert chunks("a b c d e", size=2, overlap=0) == ["a b", "c d", "e"]
    assert chunks("a  b\nc d", size=3, overlap=2) == ["a  b\nc", "b\nc d"]
    assert chunks(" a b ", size=2, overlap=1) == [" a b "]
    assert chunks("", size=1) == [""]
    for size, overlap in ((0, 0), (-1, 0), (2, 2), (2, -1)):
        with pytest.raises(UsageError, match="at least one word"):
            chunks("a", size=size, overlap=overlap)


@given(st.integers(0, 60), st.integers(1, 12), st.data())
def test_pieces_cover_the_words_in_order(count: int, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    words = [str(number) for number in range(count)]
    pieces = [piece.split() for piece in chunks(" ".join(words), size=size, overlap=overlap)]
    assert pieces[0] + [word for piece in pieces[1:] for word in piece[overlap:]] == words
    for before, after in pairwise(pieces):
        assert len(before) == size
        assert before[len(before) - overlap :] == after[:overlap]
        assert len(after) > overlap


class ByText:
    """An embedder that knows its answers."""

    provider, model = "test", "by-text"

    def __init__(self, answers: dict[str, list[float]]) -> None:
        self.answers, self.cached = answers, 3

    def embed(self, ids: Sequence[str], texts: Sequence[str], *, what: str, progress: Any = None) -> Any:
        assert what == "documents"
        self.cached += 1
        return np.array([self.answers[text] for text in texts], np.float32)


def test_a_document_is_the_mean_of_its_pieces(tmp_path: Path) -> None:
    found = read_documents(written(tmp_path, {"id": "a", "text": "x y"}, {"id": "b", "text": "z"}))
    by_text = ByText({"x": [2.0, 0.0], "y": [0.0, 2.0], "z": [0.0, 5.0], "x y": [3.0, 4.0]})
    vectors, ingest = embedded(found, by_text, chunk_size=1)
    assert vectors.matrix.dtype == np.float32
    assert np.allclose(vectors.matrix, [[0.5**0.5, 0.5**0.5], [0, 1]])
    assert ingest.document() == {
        "schema_version": "1", "kind": "ingest", "documents": 2, "chunks": 3, "dimension": 2, "provider": "test",
        "model": "by-text", "normalised": True, "chunk_size": 1, "overlap": 0,
        "inputs": [{"path": str(tmp_path / "docs.jsonl"), "sha256": found.sources[0].sha256}],
        "texts_sha256": ingest.texts_sha256, "cached": 1, "ignored_files": 0,
    }  # fmt: skip
    json.dumps(ingest.document())
    whole, untouched = embedded(found, by_text)
    assert whole.matrix.tolist() == [[3.0, 4.0], [0.0, 5.0]]
    assert (untouched.normalised, untouched.chunks, untouched.texts_sha256) == (False, 2, ingest.texts_sha256)


def test_pieces_that_cancel_out(tmp_path: Path) -> None:
    found = read_documents(written(tmp_path, {"id": "a", "text": "x y"}))
    with pytest.raises(InputError, match="zero vector in the means of the chunks"):
        embedded(found, ByText({"x": [1.0], "y": [-1.0]}), chunk_size=1)


def test_the_digest_tells_texts_and_their_borders_apart() -> None:
    def digest(*pairs: tuple[str, str]) -> str | None:
        ids, texts = zip(*pairs, strict=True)
        documents = Documents(ids=ids, texts=texts, vectors=None, sources=(), name="d")
        return embedded(documents, embedder("hash:8"))[1].texts_sha256

    seen = {digest(("a", "bc")), digest(("ab", "c")), digest(("a", "b"), ("c", "d")), digest(("c", "d"), ("a", "b"))}
    assert len(seen) == 4
    assert digest(("a", "bc")) in seen


def test_requests_that_make_no_sense(tmp_path: Path) -> None:
    found = read_documents(written(tmp_path, {"id": "a", "text": "x y"}))
    with pytest.raises(UsageError, match="name an embedder"):
        embedded(found, None)
    with pytest.raises(UsageError, match="an overlap needs"):
        embedded(found, embedder("hash"), overlap=1)
    with pytest.raises(UsageError, match="at least one word"):
        embedded(found, embedder("hash"), chunk_size=2, overlap=2)
