"""Vectors at the door: what numbers may enter, and files that lie."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from steelyard.errors import InputError, SteelyardError, UsageError
from steelyard.texts import vectors as module
from steelyard.texts.vectors import Vectors, checked, lacks, read_vectors, same_dimension

ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def archive(folder: Path, **arrays: Any) -> Path:
    path = folder / "refs.npz"
    np.savez_compressed(path, **arrays)
    return path


def refused(path: str | Path) -> str:
    with pytest.raises(InputError) as caught:
        read_vectors(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given_type", "kept"),
    [("i2", "f8"), ("u8", "f8"), ("f2", "f4"), ("f4", "f4"), ("f8", "f8"), (">f8", "f8"), (">f4", "f4")],
)
def test_numbers_become_floats_of_this_machine(given_type: str, kept: str) -> None:
    found = checked(ROWS.astype(given_type), "x")
    assert found.dtype == np.dtype(kept)
    assert found.dtype.isnative
    assert found.tolist() == ROWS.tolist()


@pytest.mark.parametrize(
    "wrong",
    [
        np.ones((2, 2), bool), np.ones((2, 2), complex), np.array([["a"]]), np.array([[None]]), np.ones(3),
        np.ones((0, 3)), np.ones((3, 0)), np.float64(1), np.ones((1, 1, 1)), np.ones((1, 1), "M8[s]"),
    ],
)  # fmt: skip
def test_what_is_no_matrix_of_numbers(wrong: Any) -> None:
    with pytest.raises(InputError, match="queries"):
        checked(wrong, "queries")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_the_row_of_a_number_that_is_none(bad: float, kind: str) -> None:
    matrix = np.ones((5, 3), kind)
    matrix[3, 1] = bad
    with pytest.raises(InputError, match="NaN or infinite number in queries, row 3"):
        checked(matrix, "queries")


def test_the_row_of_a_zero_vector() -> None:
    matrix = np.ones((5, 3))
    matrix[4] = -0.0
    with pytest.raises(InputError, match="zero vector in queries, row 4: it has no direction"):
        checked(matrix, "queries")


@pytest.mark.parametrize("factor", [1e38, 1e-45])
def test_squares_that_overflow_or_vanish_are_no_problem(factor: float) -> None:
    matrix = np.full((30_000, 2), factor, np.float32)
    assert (checked(matrix, "x") == matrix).all()
    matrix[25_000] = 0
    with pytest.raises(InputError, match="row 25000"):
        checked(matrix, "x")


@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=2, max_dims=2), elements=st.floats(width=32)))
def test_it_agrees_with_looking_at_every_number(matrix: Any) -> None:
    good = [all(map(np.isfinite, row)) and any(row) for row in matrix.tolist()]
    if all(good):
        assert checked(matrix, "x") is matrix or (checked(matrix, "x") == matrix).all()
    else:
        with pytest.raises(InputError, match=f"row {good.index(False)}[;:]"):
            checked(matrix, "x")


@pytest.mark.parametrize("name", ["vectors", "embeddings", "anything"])
def test_an_archive(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path, **{name: ROWS.astype("f4")}, ids=np.array(["a", "b", "ć"]), gold=np.array(["d1", "", " "]))
    found = read_vectors(path)
    assert found.matrix.dtype == np.float32
    assert found.matrix.tolist() == ROWS.tolist()
    assert (found.ids, found.gold) == (("a", "b", "ć"), ("d1", None, None))
    assert found.sha256 is not None
    assert len(found.sha256) == 64
    assert (len(found), found.dimension, found.name) == (3, 2, str(path))


def test_other_forms_of_the_same(tmp_path: Path) -> None:
    assert read_vectors(archive(tmp_path, vectors=ROWS, ids=np.array([b"a", b"b", b"c"]))).ids == ("a", "b", "c")
    assert read_vectors(archive(tmp_path, vectors=ROWS, ids=np.arange(3), meta=np.ones(4))).ids == ("0", "1", "2")
    assert read_vectors(archive(tmp_path, vectors=ROWS, other=ROWS)).ids is None
    unread = np.array([{}], object)
    assert (
        read_vectors(archive(tmp_path, vectors=np.asfortranarray(ROWS), meta=unread)).matrix.tolist() == ROWS.tolist()
    )
    np.save(tmp_path / "refs.NPY".lower(), np.asfortranarray(ROWS))
    found = read_vectors(tmp_path / "refs.npy")
    assert found.matrix.tolist() == ROWS.tolist()
    assert found.ids is found.gold is None


def test_archives_that_are_refused(tmp_path: Path) -> None:
    def problem(**arrays: Any) -> str:
        return refused(archive(tmp_path, **arrays))

    assert "has no array with one vector a row" in problem(a=np.ones(3))
    assert "several arrays" in problem(a=ROWS, b=ROWS)
    assert "several arrays" in problem(vectors=ROWS, embeddings=ROWS)
    assert "never unpickled" in problem(vectors=ROWS.astype(object))
    assert "never unpickled" in problem(vectors=ROWS, ids=np.array(["a", "b", "c"], object))
    assert "2 entries for 3 vectors" in problem(vectors=ROWS, ids=np.array(["a", "b"]))
    assert "4 entries for 3 vectors" in problem(vectors=ROWS, gold=np.array(list("abcd")))
    assert "the id 'A' appears twice" in problem(vectors=ROWS, ids=np.array(["a", "b", "A"]))
    assert "rows 0 and 2" in problem(vectors=ROWS, ids=np.array(["a", "b", "A"]))
    assert "empty id" in problem(vectors=ROWS, ids=np.array(["a", "", "c"]))
    assert "a list of text" in problem(vectors=ROWS, ids=np.ones(3))
    assert "a list of text" in problem(vectors=ROWS, ids=np.array([["a"], ["b"], ["c"]]))
    assert "not valid Unicode" in problem(vectors=ROWS, ids=np.array(["a", "\ud800", "c"]))
    assert "not valid Unicode" in problem(vectors=ROWS, ids=np.array([b"a", b"\xff", b"c"]))
    assert "not valid Unicode" in problem(vectors=ROWS, ids=np.full(3, 0x7FFFFFFF, "<u4").view("<U1"))
    found = problem(vectors=np.array([[1.0], [np.nan]]))
    assert f"NaN or infinite number in array 'vectors' of {tmp_path / 'refs.npz'}, row 1" in found


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert "no such file" in refused(tmp_path / "none.npz")
    (tmp_path / "folder.npz").mkdir()
    assert "folder.npz: cannot be read" in refused(tmp_path / "folder.npz")
    os.mkfifo(tmp_path / "pipe.npy")
    assert "not a plain file" in refused(tmp_path / "pipe.npy")
    assert "no such name" in refused("a\0.npz")
    with pytest.raises(UsageError, match=r"\.npz and \.npy"):
        read_vectors(tmp_path / "refs.csv")


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\x93NUMPY", b"PK\x03\x04", header("{"), header("-" * 9_000 + "1"), header("(" * 9_000),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2), }\n"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 1000), }\n"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }\n") + b"\x00" * 31,
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }\n") + b"\x00" * 33,
        header("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000, 1), }\n"),
        header("{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }\n") + b"cos\nsystem\n(S'true'\ntR.",
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff", b"\x93NUMPY\x07\x00aa",
    ],
)  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_damaged_and_hostile_arrays(tmp_path: Path, content: bytes, packed: bool) -> None:
    path = tmp_path / ("a.npz" if packed else "a.npy")
    if packed:
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("vectors.npy", content)
    else:
        path.write_bytes(content)
    assert "a.np" in refused(path)


@given(st.data())
def test_an_archive_with_changed_bytes_is_read_or_refused(tmp_path_factory: Any, data: st.DataObject) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, vectors=ROWS, ids=np.array(["a", "b", "c"]))
    content = bytearray(buffer.getvalue())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("changed") / "refs.npz"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    try:
        found = read_vectors(path)
    except SteelyardError:
        return
    assert found.matrix.tolist() == ROWS.tolist()


def test_archives_that_would_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive(tmp_path, vectors=np.ones((2_000, 500)))
    monkeypatch.setattr(module, "SUSPICIOUS", 2**20)
    monkeypatch.setattr(module, "MOST_RATIO", 100)
    assert "when unpacked" in refused(path)
    monkeypatch.setattr(module, "MOST_RATIO", 10_000)
    assert len(read_vectors(path)) == 2_000
    monkeypatch.setattr(module, "LARGEST_MEMBER", 2**20)
    assert "when unpacked" in refused(path)


def test_an_array_that_stands_twice(tmp_path: Path) -> None:
    path = archive(tmp_path, vectors=ROWS)
    data = io.BytesIO()
    np.save(data, ROWS)
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("vectors.npy", data.getvalue())
    assert "appears twice" in refused(path)


def test_dimensions_that_differ() -> None:
    a, b = Vectors(name="docs", matrix=ROWS, ids=None), Vectors(name="queries", matrix=np.ones((1, 3)), ids=None)
    same_dimension(a, a)
    with pytest.raises(InputError, match="docs have 2 numbers each and those of queries 3"):
        same_dimension(a, b)


# -- arrays of any name ------------------------------------------------------------------------------------------------


def test_vectors_are_found_by_their_shape(tmp_path: Path) -> None:
    names = np.array(["a", "b", "c"])
    found = read_vectors(archive(tmp_path, emb=ROWS, doc_names=names, lengths=np.ones(3), title=np.array("policies")))
    assert found.matrix.tolist() == ROWS.tolist()
    assert found.ids == ("a", "b", "c")
    assert found.arrays == ("emb", "doc_names", "lengths", "title")
    table = np.array([["x", "y"], ["x", "y"], ["x", "y"]])
    assert read_vectors(archive(tmp_path, table=table, numbers=ROWS)).matrix.tolist() == ROWS.tolist()


def test_names_that_may_be_something_else_are_no_ids(tmp_path: Path) -> None:
    for other in (["x", "y", "X"], ["x", "", "y"]):
        assert read_vectors(archive(tmp_path, emb=ROWS, label=np.array(other))).ids is None
    one, two = np.array(["a", "b", "c"]), np.array(["d", "e", "f"])
    assert read_vectors(archive(tmp_path, emb=ROWS, one=one, two=two)).ids is None
    found = read_vectors(archive(tmp_path, emb=ROWS, names=one, gold=two))
    assert (found.ids, found.gold) == (("a", "b", "c"), ("d", "e", "f"))
    found = read_vectors(archive(tmp_path, emb=ROWS, names=one, ids=np.array([3, 4, 5])))
    assert found.ids == ("3", "4", "5")


def test_errors_name_the_arrays_that_there_are(tmp_path: Path) -> None:
    assert refused(archive(tmp_path, a=np.ones(3), b=np.ones(3))).endswith("it has: a, b")
    assert "(one, two)" in refused(archive(tmp_path, one=ROWS, two=ROWS))
    texts = np.array(["a", "b", "c"])
    problem = lacks(read_vectors(archive(tmp_path, ids=texts, embeddings=ROWS, relevant=texts)), "gold", "It is needed")
    assert str(problem).startswith(
        f"{tmp_path / 'refs.npz'} has no array gold; it has: ids, embeddings, relevant. It is needed"
    )
    np.save(tmp_path / "refs.npy", ROWS)
    assert "a .npy file has vectors only" in str(lacks(read_vectors(tmp_path / "refs.npy"), "gold", ""))
