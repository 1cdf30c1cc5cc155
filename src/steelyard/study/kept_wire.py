"""Kept evidence on disk: arrays in one compressed file, everything else in a JSON header inside it.

Evidence is made of objects that hold arrays, labels and each other; this walks them. Nothing is pickled, and only kinds
that registered themselves (`metrics.evidence.codec`) are made again. A field that an older version did not write has
its default.

version 1   the first edition
version 2   also, of every slice: digests of the columns that metrics read, and of the rows that lack a value
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np

from steelyard.errors import StorageError
from steelyard.halves import mended
from steelyard.metrics.evidence.codec import kind, kind_named, kind_of, reading_name, reading_named
from steelyard.records.clusters import Clusters
from steelyard.records.labels import Labels
from steelyard.study.kept import KeptSlice

VERSION = 2
VERSIONS = (1, 2)  # that are read; only the newest is written
LARGEST = 2**33  # bytes of one array, unpacked


kind(
    "Kept",
    "slice ids asked failed answered counts asked_rows answered_rows constants evidence columns lacking lacking_rows",
)(KeptSlice)


def packed(parts: Sequence[KeptSlice]) -> bytes:
    """Kept evidence as bytes."""
    writer = _Writer()
    header = {"version": VERSION, "parts": [writer.take(part) for part in parts]}
    buffer = BytesIO()
    arrays = {f"a{i}": array for i, array in enumerate(writer.arrays)}
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    # numpy before 2.1 takes allow_pickle for the name of an array; `_Writer` gives it none that holds objects
    np.savez_compressed(buffer, header=text, **arrays)
    return buffer.getvalue()


def unpacked(data: bytes) -> list[KeptSlice]:
    """Kept evidence from bytes; anything that is not as it was written is an error."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            if any(member.file_size > LARGEST for member in archive.infolist()):
                raise StorageError("the evidence is larger than this program reads")
        with np.load(BytesIO(data), allow_pickle=False) as loaded:
            header = json.loads(mended(loaded["header"].tobytes()))
            if header["version"] not in VERSIONS:
                raise StorageError(
                    f"the evidence has version {header['version']}; this program reads {VERSIONS[0]} to {VERSIONS[-1]}"
                )
            reader = _Reader(loaded)
            return [reader.make(part) for part in header["parts"]]
    except (
        zipfile.BadZipFile,
        zlib.error,
        LookupError,
        AttributeError,
        ValueError,
        TypeError,
        OSError,
        EOFError,
    ) as problem:
        raise StorageError(f"the evidence cannot be read ({type(problem).__name__})") from None


class _Writer:
    """Values as JSON, arrays by number; what is shared is written once."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self._seen: dict[int, Any] = {}
        self._values: list[Any] = []  # so that an id is not used again

    def take(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, Clusters):
            value = value.ids
        key = id(value)
        if key in self._seen:
            return {"again": self._seen[key]}
        document = self._packed(value)
        self._seen[key] = len(self._values)
        self._values.append(value)
        return {"new": document}

    def _packed(self, value: Any) -> Any:
        if isinstance(value, np.generic):
            return {"scalar": value.item()}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, Labels):
            return {"labels": [self.take(value.codes), self.take(value.values)]}
        if isinstance(value, type):
            return {"type": reading_name(value)}
        if isinstance(value, Mapping):
            return {"map": [[self.take(k), self.take(v)] for k, v in value.items()]}
        if isinstance(value, tuple | list):
            return {"tuple": [self.take(v) for v in value]}
        if hasattr(value, "indptr"):
            parts = (value.data, value.indices, value.indptr, np.array(value.shape))
            return {"sparse": [self.take(part) for part in parts]}
        known = kind_of(value)
        return {"kind": known.name, "fields": {name: self.take(part) for name, part in known.pack(value).items()}}

    def _array(self, value: Any) -> Any:
        if value.dtype.hasobject:
            return {"objects": [self.take(v) for v in value.tolist()]}
        self.arrays.append(value)
        return {"array": len(self.arrays) - 1}


class _Reader:
    """The reverse of `_Writer`, in the same order."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded
        self._values: list[Any] = []
        self._lists: dict[int, Clusters] = {}

    def make(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "again" in value:
            return self._values[value["again"]]
        entry = self._unpacked(value["new"])
        self._values.append(entry)
        return entry

    def _unpacked(self, value: dict[str, Any]) -> Any:
        ((what, inside), *_) = value.items()
        if what == "scalar":
            return inside
        if what == "array":
            return self._loaded[f"a{inside}"]
        if what == "objects":
            objects = np.empty(len(inside), dtype=object)
            objects[:] = [self.make(v) for v in inside]
            return objects
        if what == "bytes":
            return bytes.fromhex(inside)
        if what == "labels":
            return Labels(*(self.make(v) for v in inside))
        if what == "type":
            return reading_named(inside)
        if what == "map":
            return {self.make(k): self.make(v) for k, v in inside}
        if what == "tuple":
            return tuple(self.make(v) for v in inside)
        if what == "sparse":
            from scipy import sparse

            data, indices, indptr, shape = (self.make(v) for v in inside)
            return sparse.csr_array((data, indices, indptr), shape=tuple(shape))
        fields = {name: self.make(part) for name, part in value["fields"].items()}
        if isinstance(fields.get("ids"), tuple):
            fields["ids"] = self._clusters(fields["ids"])
        return kind_named(inside).unpack(fields)

    def _clusters(self, ids: tuple[Any, ...]) -> Clusters:
        """The list of these clusters, one for all that refers to it."""
        if id(ids) not in self._lists:
            self._lists[id(ids)] = Clusters.of(ids)
        return self._lists[id(ids)]
