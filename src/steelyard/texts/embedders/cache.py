"""Vectors that cost a request are kept: one file per model, to which records are only ever added.

A record is a line: the digest of model and text, the kind of number, the vector's bytes as base64, and a checksum.

    3f9a…  f8  AAAAAAAA8D8…  5d0c41b2

Texts are never written, only their digests. Several processes may add at once, each record in one piece; what a crash
or a disk has damaged fails its checksum, counts as not there, and stays where it is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from steelyard.errors import BackendError, InputError, StorageError, printable
from steelyard.texts.embedders.contract import Embedder, Progress
from steelyard.texts.vectors import Matrix, opened

LONGEST = 2**24  # bytes of a record
_KINDS: dict[bytes, str] = {b"f4": "<f4", b"f8": "<f8"}
_OPEN = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


class Batched(Embedder, Protocol):
    """An embedder that can hand over its vectors a few rows at a time, as they come."""

    def batches(self, ids: Sequence[str], texts: Sequence[str], *, what: str) -> Iterator[Matrix]: ...


class Cached:
    """An embedder that asks another one only for texts which were not asked before.

    `identity` is everything besides the text on which a vector depends: provider, address, model, dimension.
    `cached` counts the vectors that came from the file so far, `damaged` the records that the last reading passed over.
    """

    def __init__(self, inner: Batched, folder: str | os.PathLike[str], *, identity: Sequence[str]) -> None:
        self._inner = inner
        self._identity = b"".join(map(_framed, identity))
        self.path = Path(folder) / f"{hashlib.sha256(self._identity).hexdigest()[:32]}.vectors"
        if os.path.exists(folder) and not os.path.isdir(folder):
            raise StorageError(f"{printable(folder)} is a file; vectors are kept in a folder")
        self.cached = self.damaged = 0

    @property
    def provider(self) -> str:
        return self._inner.provider

    @property
    def model(self) -> str:
        return self._inner.model

    def embed(self, ids: Sequence[str], texts: Sequence[str], *, what: str, progress: Progress | None = None) -> Matrix:
        digests = [hashlib.sha256(self._identity + _framed(text)).hexdigest() for text in texts]
        first = {digest: row for row, digest in reversed(list(enumerate(digests)))}
        vectors = self._kept(set(first))
        self.cached += sum(digest in vectors for digest in digests)
        missing = [row for digest, row in sorted(first.items(), key=lambda item: item[1]) if digest not in vectors]
        done = 0
        if missing:
            fresh = self._inner.batches([ids[row] for row in missing], [texts[row] for row in missing], what=what)
            for part in fresh:  # each is kept at once: a failure later must not cost it
                rows = missing[done : done + len(part)]
                added = {digests[row]: vector for row, vector in zip(rows, part, strict=True)}
                self._add(added)
                vectors |= added
                done += len(rows)
                if progress is not None:
                    progress(done / len(missing))
        elif progress is not None:
            progress(1.0)
        if len({len(vector) for vector in vectors.values()}) > 1:
            raise BackendError(
                f"{printable(self.model)} answers with vectors of another size than before; "
                f"it has changed under its name: give another cache folder than {printable(self.path.parent)}"
            )
        stacked: Matrix = np.array([vectors[digest] for digest in digests])
        return stacked

    def _kept(self, wanted: set[str]) -> dict[str, Matrix]:
        """Those of the wanted vectors that the file has, the oldest of each."""
        vectors: dict[str, Matrix] = {}
        self.damaged = 0
        if not os.path.lexists(self.path):
            return vectors
        try:
            with opened(os.fspath(self.path)) as file:
                while line := file.readline(LONGEST):
                    if line == b"\n":
                        continue
                    record = _record(line, wanted)
                    if record is None:
                        self.damaged += 1
                    elif record[0] in wanted and record[0] not in vectors:
                        vectors[record[0]] = record[1]
        except InputError as problem:
            raise StorageError(f"the cache {printable(self.path)} {problem.problem}; give another folder") from None
        return vectors

    def _add(self, vectors: Mapping[str, Matrix]) -> None:
        data = b"".join(_line(digest, vector) for digest, vector in vectors.items())
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, _OPEN, 0o600)
            try:
                written = os.write(handle, data)
            finally:
                os.close(handle)
        except OSError as problem:
            reason = problem.strerror or type(problem).__name__
            raise StorageError(f"cannot write the cache {printable(self.path)}: {reason}") from None
        if written < len(data):
            raise StorageError(f"cannot write the cache {printable(self.path)}: the disk took a part only")


def _framed(text: str) -> bytes:
    """A part of a digest that no neighbour can imitate."""
    data = text.encode()
    return len(data).to_bytes(8, "little") + data


def _line(digest: str, vector: Matrix) -> bytes:
    kind = b"f4" if vector.dtype == np.float32 else b"f8"
    body = b" ".join((digest.encode(), kind, base64.b64encode(vector.astype(_KINDS[kind]).tobytes())))
    # it begins with a line end too, so that a torn record before it stays alone
    return b"\n%s %08x\n" % (body, zlib.crc32(body))


def _record(line: bytes, wanted: set[str]) -> tuple[str, Matrix] | None:
    """Digest and vector of a record, None where it is damaged; the vector of one that is not wanted stays unread."""
    body, checksum = line[:-10], line[-10:]
    if checksum != b" %08x\n" % zlib.crc32(body):
        return None
    try:
        digest, kind, data = body.split(b" ")
        name = digest.decode("ascii")
        vector: Matrix = np.frombuffer(base64.b64decode(data, validate=True) if name in wanted else b"", _KINDS[kind])
    except (ValueError, KeyError, binascii.Error):
        return None
    return name, vector
