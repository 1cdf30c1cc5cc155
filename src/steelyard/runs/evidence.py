"""Kept evidence on disk: arrays in one compressed file, everything else in a JSON header inside it.

Evidence is made of frozen dataclasses that hold arrays, labels and each other; this walks them. Nothing is pickled, and
only the classes named here are made again.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from io import BytesIO
from typing import Any

import numpy as np

from steelyard.errors import StorageError
from steelyard.metrics.calibration import Signed
from steelyard.metrics.combined import Groups, Parts, Rows
from steelyard.metrics.curve import CurveReading
from steelyard.metrics.evidence import Sums
from steelyard.metrics.sorted_rows import SortedReading, SortedRows
from steelyard.records.labels import Labels
from steelyard.uncertainty.kept import Kept

VERSION = 1
LARGEST = 2**33  # bytes of one array, unpacked
_KINDS = {kind.__name__: kind for kind in (Kept, Sums, SortedRows, Rows, Groups, Parts, Signed)}
_READINGS = {kind.__name__: kind for kind in (SortedReading, CurveReading)}


def packed(parts: Sequence[Kept]) -> bytes:
    """Kept evidence as bytes."""
    writer = _Writer()
    header = {"version": VERSION, "parts": [writer.take(part) for part in parts]}
    buffer = BytesIO()
    arrays = {f"a{i}": array for i, array in enumerate(writer.arrays)}
    text = np.frombuffer(json.dumps(header).encode("utf-8", "surrogatepass"), np.uint8)
    np.savez_compressed(buffer, allow_pickle=False, header=text, **arrays)
    return buffer.getvalue()


def unpacked(data: bytes) -> list[Kept]:
    """Kept evidence from bytes; anything that is not as it was written is an error."""
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            if any(member.file_size > LARGEST for member in archive.infolist()):
                raise StorageError("the evidence is larger than this program reads")
        with np.load(BytesIO(data), allow_pickle=False) as loaded:
            header = json.loads(loaded["header"].tobytes().decode("utf-8", "surrogatepass"))
            if header["version"] != VERSION:
                raise StorageError(f"the evidence has version {header['version']}; this program reads {VERSION}")
            reader = _Reader(loaded)
            return [reader.make(part) for part in header["parts"]]
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, OSError, EOFError) as problem:
        raise StorageError(f"the evidence cannot be read ({type(problem).__name__})") from None


class _Writer:
    """Values as JSON, arrays by number; what is shared is written once."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self._seen: dict[int, Any] = {}
        self._held: list[Any] = []  # so that an id is not used again

    def take(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        key = id(value)
        if key in self._seen:
            return {"again": self._seen[key]}
        made = self._made(value)
        self._seen[key] = len(self._held)
        self._held.append(value)
        return {"new": made}

    def _made(self, value: Any) -> Any:
        if isinstance(value, np.generic):
            return {"scalar": value.item()}
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, bytes):
            return {"bytes": value.hex()}
        if isinstance(value, Labels):
            return {"labels": [self.take(value.codes), self.take(value.values)]}
        if isinstance(value, type):
            return {"type": value.__name__}
        if isinstance(value, Mapping):
            return {"map": [[self.take(k), self.take(v)] for k, v in value.items()]}
        if isinstance(value, tuple | list):
            return {"tuple": [self.take(v) for v in value]}
        if is_dataclass(value) and type(value).__name__ in _KINDS:
            return {
                "kind": type(value).__name__,
                "fields": {f.name: self.take(getattr(value, f.name)) for f in fields(value)},
            }
        return {
            "sparse": [self.take(part) for part in (value.data, value.indices, value.indptr, np.array(value.shape))]
        }

    def _array(self, value: Any) -> Any:
        if value.dtype == object:
            return {"objects": [self.take(v) for v in value.tolist()]}
        self.arrays.append(value)
        return {"array": len(self.arrays) - 1}


class _Reader:
    """The reverse of `_Writer`, in the same order."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded
        self._held: list[Any] = []

    def make(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "again" in value:
            return self._held[value["again"]]
        made = self._made(value["new"])
        self._held.append(made)
        return made

    def _made(self, value: dict[str, Any]) -> Any:
        ((what, inside), *_) = value.items()
        if what == "scalar":
            return inside
        if what == "array":
            return self._loaded[f"a{inside}"]
        if what == "objects":
            found = np.empty(len(inside), dtype=object)
            found[:] = [self.make(v) for v in inside]
            return found
        if what == "bytes":
            return bytes.fromhex(inside)
        if what == "labels":
            return Labels(*(self.make(v) for v in inside))
        if what == "type":
            return _READINGS[inside]
        if what == "map":
            return {self.make(k): self.make(v) for k, v in inside}
        if what == "tuple":
            return tuple(self.make(v) for v in inside)
        if what == "sparse":
            from scipy import sparse

            data, indices, indptr, shape = (self.make(v) for v in inside)
            return sparse.csr_array((data, indices, indptr), shape=tuple(shape))
        return _KINDS[inside](**{name: self.make(v) for name, v in value["fields"].items()})
