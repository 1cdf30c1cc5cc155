"""Vectors, one per row: which arrays may enter, and how they are read from NumPy's files.

    refs = read_vectors("refs.npz")   # vectors under any name; as text `ids` and `gold` where there are any
    refs.matrix.shape                 # (documents, dimension)

A vector without a direction (all zeros) or with a NaN has no similarity to anything, so neither passes the door. Files
are not trusted: nothing is unpickled, and memory is taken only for as many bytes as the file really holds.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError, UsageError, counted, printable
from steelyard.ground.files import reason

Matrix = npt.NDArray[np.float32] | npt.NDArray[np.float64]

LARGEST_MEMBER = 64 * 2**30  # bytes of one array in an archive
MOST_RATIO = 1000  # decompressed to compressed size, of arrays beyond `SUSPICIOUS` bytes
SUSPICIOUS = 2**30
_LONGEST_HEADER = 10_000
_NAMES = ("vectors", "embeddings")
_BLOCK = 2**24
_ROWS = 10_000
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, OverflowError)


@dataclass(frozen=True, eq=False, kw_only=True)
class Vectors:
    """Vectors of one dimension. `ids` names the rows; `gold` is the id of the document that each row should find.

    `arrays` are the names of all arrays in the archive; a `.npy` file has none.
    """

    name: str
    matrix: Matrix
    ids: tuple[str, ...] | None
    gold: tuple[str | None, ...] | None = None
    sha256: str | None = None
    arrays: tuple[str, ...] = ()

    @property
    def dimension(self) -> int:
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.matrix)


def checked(matrix: npt.ArrayLike, name: str) -> Matrix:
    """`matrix` as float32 or float64 rows, if each row has a direction; `name` says in errors which array it is.

    >>> checked([[3, 4]], "queries")
    array([[3., 4.]])
    """
    array = np.asarray(matrix)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise InputError(f"{name}: an array of numbers is expected (float32 or float64)")
    if array.ndim != 2 or 0 in array.shape:
        shape = " × ".join(map(str, array.shape)) or "a single number"
        raise InputError(f"{name}: rows of numbers are expected, one vector a row; the shape is {shape}")
    small = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    vectors: Matrix = np.ascontiguousarray(array, np.float32) if small else np.ascontiguousarray(array, np.float64)
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", vectors, vectors)
    # squares of finite numbers may overflow or vanish: only the numbers themselves decide
    doubtful = np.flatnonzero(~(np.isfinite(squares) & (squares > 0)))
    for start in range(0, len(doubtful), _ROWS):
        rows = doubtful[start : start + _ROWS]
        finite, any_number = np.isfinite(vectors[rows]).all(1), vectors[rows].any(1)
        for row in rows[~(finite & any_number)][:1]:
            if not np.isfinite(vectors[row]).all():
                raise InputError(f"NaN or infinite number in {name}, row {row}; rows are counted from 0")
            raise InputError(f"zero vector in {name}, row {row}: it has no direction; rows are counted from 0")
    return vectors


def same_dimension(a: Vectors, b: Vectors) -> None:
    """Refuse two sets of vectors that cannot be compared."""
    if a.dimension != b.dimension:
        raise InputError(
            f"the vectors of {printable(a.name)} have {a.dimension} numbers each and those of {printable(b.name)} "
            f"{b.dimension}; embed both with the same model"
        )


def directions(matrix: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Every row with length 1, without overflow on the way; a zero row stays 0."""
    rows = matrix.astype(np.float64)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)
    norm = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return np.divide(rows, norm, out=np.zeros_like(rows), where=norm > 0)


def folded(id: str) -> str:
    """What two ids have in common that are taken for one."""
    return id.casefold()


def first_repeat(ids: Sequence[str]) -> tuple[int, int] | None:
    """The places of the first two ids that are one, capital letters aside."""
    seen: dict[str, int] = {}
    for place, id in enumerate(ids):
        first = seen.setdefault(folded(id), place)
        if first != place:
            return first, place
    return None


def read_vectors(path: str | os.PathLike[str]) -> Vectors:
    """The vectors in a `.npz` archive or a `.npy` file.

    An archive may have them under any name: `vectors` or `embeddings`, else its only array with rows of numbers. Their
    ids are in `ids`, else in the only list of different texts that has one for each vector. `gold` is a list of text
    too; an empty one says that no document is right.
    """
    name = os.fspath(path)
    suffix = Path(name).suffix.lower()
    if suffix not in (".npz", ".npy"):
        raise UsageError(f"{printable(name)}: vectors are read from .npz and .npy files")
    with opened(name) as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type, unused-ignore]
        file.seek(0)
        if suffix == ".npz":
            return _archive(name, file, sha256)
        array = _Array(printable(name), os.fstat(file.fileno()).st_size, file)
        return Vectors(name=name, matrix=checked(array.read(file), printable(name)), ids=None, gold=None, sha256=sha256)


def lacks(vectors: Vectors, name: str, meaning: str) -> InputError:
    """What to say of a file without an array that is needed: its name, what it means, and which arrays there are."""
    there = f"it has: {', '.join(map(printable, vectors.arrays))}" if vectors.arrays else "a .npy file has vectors only"
    return InputError(f"{printable(vectors.name)} has no array {name}; {there}. {meaning}")


def packed(vectors: Vectors) -> bytes:
    """The archive that `read_vectors` reads."""
    arrays: dict[str, npt.NDArray[Any]] = {"vectors": vectors.matrix}
    if vectors.ids is not None:
        arrays["ids"] = np.array(vectors.ids)
    if vectors.gold is not None:
        arrays["gold"] = np.array([gold or "" for gold in vectors.gold])
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def read_row(path: str | os.PathLike[str]) -> npt.NDArray[np.float64]:
    """The one vector in a `.npy` file, or in an archive with a single array."""
    name = os.fspath(path)
    with opened(name) as file:
        if Path(name).suffix.lower() == ".npz":
            arrays = _only(name, file)
        else:
            array = _Array(printable(name), os.fstat(file.fileno()).st_size, file)
            arrays = [array.read(file)]
    vector = arrays[0] if len(arrays) == 1 else np.zeros((0, 0))
    if vector.dtype.kind not in "iuf" or vector.ndim > 2 or (vector.ndim == 2 and len(vector) != 1):
        raise InputError("one vector of numbers is expected", file=name)
    return vector.reshape(-1).astype(np.float64)


def _only(name: str, file: BinaryIO) -> list[npt.NDArray[Any]]:
    """The array of an archive that has just one."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = list(_members(name, archive).values())
            return [member.from_archive(archive) for member in members] if len(members) == 1 else []
    except _BROKEN:
        raise InputError("is not a whole .npz archive; write it again with numpy.savez", file=name) from None


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """A plain file to read; what the system refuses, now or while it is read, is an error with the file's name."""
    if "\0" in name:
        raise InputError("cannot be read: there is no such name for a file", file=name)
    try:
        with open(name, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError("cannot be read: it is not a plain file", file=name)
            yield file
    except OSError as problem:
        raise InputError(f"cannot be read: {reason(problem)}", file=name) from None


def _without_waiting(name: str, flags: int) -> int:
    """Open without waiting for whoever writes to a pipe."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


def _archive(name: str, file: BinaryIO, sha256: str) -> Vectors:
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(name, archive)
            vectors_name = _vectors_name(name, members)
            other = None if "ids" in members else _other_ids(members, members[vectors_name].shape[:1])
            wanted = [key for key in (vectors_name, other, "ids", "gold") if key is not None and key in members]
            arrays = {key: members[key].from_archive(archive) for key in wanted}
    except _BROKEN:
        raise InputError("is not a whole .npz archive; write it again with numpy.savez", file=name) from None
    matrix = checked(arrays[vectors_name], members[vectors_name].what)
    ids = _ids(arrays["ids"], members["ids"].what, len(matrix)) if "ids" in arrays else None
    if other is not None:
        texts = _texts(arrays[other], members[other].what, len(matrix))
        ids = texts if all(map(str.strip, texts)) and first_repeat(texts) is None else None
    gold = _texts(arrays["gold"], members["gold"].what, len(matrix)) if "gold" in arrays else None
    answers = None if gold is None else tuple(text if text.strip() else None for text in gold)
    return Vectors(name=name, matrix=matrix, ids=ids, gold=answers, sha256=sha256, arrays=tuple(members))


def _ids(array: npt.NDArray[Any], what: str, rows: int) -> tuple[str, ...]:
    """The texts of an array that says whose vector is whose: none is empty, none stands twice."""
    ids = _texts(array, what, rows)
    if not all(map(str.strip, ids)):
        row = next(row for row, id in enumerate(ids) if not id.strip())
        raise InputError(f"empty id in {what}, row {row}")
    if repeat := first_repeat(ids):
        raise InputError(
            f"the id '{printable(ids[repeat[1]])}' appears twice in {what}, in rows {repeat[0]} and "
            f"{repeat[1]}; capital letters make no difference"
        )
    return ids


def _members(name: str, archive: zipfile.ZipFile) -> dict[str, _Array]:
    """The arrays of an archive by name, with what their headers say."""
    arrays: dict[str, _Array] = {}
    for info in archive.infolist():
        key = info.filename.removesuffix(".npy")
        what = f"array '{printable(key)}' of {printable(name)}"
        if key == info.filename:
            continue
        if key in arrays:
            raise InputError(f"{what}: appears twice in the archive")
        bomb = info.file_size > SUSPICIOUS and info.file_size > MOST_RATIO * info.compress_size
        if info.file_size > LARGEST_MEMBER or bomb:
            raise InputError(f"{what}: {info.file_size / 2**30:,.0f} GB when unpacked, which is refused")
        with archive.open(info) as stream:
            arrays[key] = _Array(what, info.file_size, stream, info)
    return arrays


def _vectors_name(name: str, members: dict[str, _Array]) -> str:
    """Which array has the vectors."""
    candidates = [key for key in _NAMES if key in members]
    if not candidates:
        candidates = [key for key, array in members.items() if len(array.shape) == 2 and array.kind in "iufO"]
    shown = ", ".join(map(printable, candidates or members)) or "nothing"
    if not candidates:
        raise InputError(f"has no array with one vector a row; it has: {shown}", file=name)
    if len(candidates) > 1:
        raise InputError(f"several arrays could be the vectors ({shown}); keep one, named `vectors`", file=name)
    return candidates[0]


def _other_ids(members: dict[str, _Array], rows: tuple[int, ...]) -> str | None:
    """The only list of text with an entry for each vector, whatever it is called; None where that is not clear."""
    texts = [key for key, array in members.items() if array.shape == rows and array.kind in "US" and key != "gold"]
    return texts[0] if len(texts) == 1 else None


def _texts(array: npt.NDArray[Any], what: str, rows: int) -> tuple[str, ...]:
    if array.dtype.kind not in "USiu" or array.ndim != 1:
        raise InputError(f"{what}: a list of text is expected; numpy.array(…, dtype=str) makes one")
    if len(array) != rows:
        raise InputError(
            f"{what}: has {counted(len(array), 'entry')} for {counted(rows, 'vector')}; one each is expected"
        )
    try:
        texts = tuple(value.decode() if isinstance(value, bytes) else str(value) for value in array.tolist())
        for text in texts:
            text.encode()
    except (ValueError, SystemError):  # the latter for code points beyond all characters
        raise InputError(f"{what}: holds text that is not valid Unicode") from None
    return texts


class _Array:
    """One array of NumPy's format in a file or an archive: what its header says, held against the bytes there are."""

    def __init__(self, what: str, size: int, stream: IO[bytes], info: zipfile.ZipInfo | None = None) -> None:
        self.what, self._info = what, info
        start = stream.read(8)
        width = {b"\x01\x00": 2, b"\x02\x00": 4}.get(start[6:8])
        if start[:6] != b"\x93NUMPY" or width is None:
            raise InputError(f"{what}: is not an array as numpy.save writes it")
        length = stream.read(width)
        if int.from_bytes(length, "little") > _LONGEST_HEADER:
            raise InputError(f"{what}: the header is too long; only plain arrays are read")
        header = length + stream.read(int.from_bytes(length, "little"))
        read = np.lib.format.read_array_header_1_0 if width == 2 else np.lib.format.read_array_header_2_0
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # an array of Python 2 is as good
                self.shape, self._fortran, self._dtype = read(io.BytesIO(header))
        except Exception:  # a hostile header meets a parser of Python's literals, which fails in many ways
            raise InputError(f"{what}: the header is damaged") from None
        self._start = 8 + len(header)
        if self._dtype.hasobject:  # refused when it is read: another array of the archive may be wanted
            return
        if not self._dtype.itemsize or any(length < 0 for length in self.shape):
            raise InputError(f"{what}: the header is damaged")
        if self._start + prod(self.shape) * self._dtype.itemsize != size:
            raise InputError(f"{what}: has not as many bytes as its header says; it was cut off or damaged")

    @property
    def kind(self) -> str:
        """The letter that NumPy has for its type: f for floats, U for text, O for Python objects."""
        return str(self._dtype.kind)

    def from_archive(self, archive: zipfile.ZipFile) -> npt.NDArray[Any]:
        assert self._info is not None
        with archive.open(self._info) as stream:
            stream.read(self._start)
            return self.read(stream)

    def read(self, stream: IO[bytes]) -> npt.NDArray[Any]:
        """The array, from a stream that stands behind its header."""
        if self._dtype.hasobject:
            raise InputError(f"{self.what}: holds Python objects, which are never unpickled; save numbers or text")
        try:
            flat = np.empty(prod(self.shape), self._dtype)
        except (MemoryError, ValueError):
            raise InputError(f"{self.what}: does not fit into memory") from None
        rest = flat.view(np.uint8).data
        while rest:
            got = stream.readinto(rest[:_BLOCK])  # type: ignore[attr-defined]
            if not got:
                raise InputError(f"{self.what}: the file ends early")
            rest = rest[got:]
        stream.read(1)  # at its end, an archive compares checksums
        return flat.reshape(self.shape, order="F" if self._fortran else "C")
