"""The elements of an array inside a JSON document, one at a time, however large the document is.

    document = Elements(chunks, ("results", "results"))
    for raw in document:             # the bytes of one element of {"results": {"results": [{...}, {...}]}}
        ...
    document.rest                    # the bytes of the document without them: an empty list stands in their place

Only some elements, and what is around the array, are ever held in memory; both have limits. Where too much follows
the array, it is checked to be closed and not held: `rest` ends with the array then. An empty path is an array that is
the whole document.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from steelyard.records.readers.json import Scan

AROUND = 64 * 2**20  # bytes around the array
ELEMENT = 256 * 2**20  # bytes of an element
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)|[{}\[\],:]', re.DOTALL)  # a text that is not closed matches too
_MARK = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*("|\\?\Z)|[{}\[\]]', re.DOTALL)
_COMMA, _BRACE, _BRACKET = b",{]"


class BrokenError(ValueError):
    """The text is no JSON document with such an array. `torn`: it ends before the array does."""

    def __init__(self, problem: str, *, torn: bool = False) -> None:
        super().__init__(problem)
        self.problem, self.torn = problem, torn


class Elements:
    """The elements at a path, read once. `rest` is what is around them; `found` says if there is such an array."""

    def __init__(self, chunks: Iterable[bytes], path: Sequence[str]) -> None:
        self._chunks, self._path = iter(chunks), [key.encode() for key in path]
        self._around = bytearray()
        self.found = False

    @property
    def rest(self) -> bytes:
        return bytes(self._around)

    def __iter__(self) -> Iterator[bytes]:
        behind = self._seek()
        if behind is not None:
            before = len(self._around)
            behind = yield from self._elements(behind)
            follows = chain([behind], self._chunks)
            for chunk in follows:
                self._around += chunk
                if len(self._around) > AROUND:
                    follows = chain([bytes(self._around[before:])], follows)
                    del self._around[before:]
                    self._around += b"]" + b"}" * len(self._path)
                    self._skip(follows)

    def _keep(self, text: bytes) -> None:
        self._around += text
        if len(self._around) > AROUND:
            raise BrokenError(f"more than {AROUND // 2**20} MB beside its rows")

    def _skip(self, chunks: Iterable[bytes]) -> None:
        """Go to the end of the document, from the end of the array."""
        depth, text = len(self._path) + 1, b""
        for chunk in chunks:
            text += chunk
            done = 0
            for token in _MARK.finditer(text) if depth else ():
                if token[0][:1] == b'"' and token[1] != b'"':
                    break  # the rest of the text is still to come
                done = token.end()
                depth += (token[0] in b"{[") - (token[0] in b"}]")
                if not depth:
                    break
            text = text[done:]
            if not depth and text.strip():
                raise BrokenError("not valid JSON, more follows the document")
        if depth:
            raise BrokenError("the text ends early", torn=True)

    def _seek(self) -> bytes | None:
        """Go to the array; what was read of it already, None where there is none."""
        keys: list[bytes | None] = []  # under which each open object or list stands
        last: bytes | None = None
        key: bytes | None = None
        start = 0
        for chunk in self._chunks:
            self._keep(chunk)
            for token in _TOKEN.finditer(self._around, start):
                mark = token[0][:1]
                if mark == b'"' and token[1] != b'"':
                    break  # the rest of the text is still to come
                start = token.end()
                if mark == b'"':
                    last = token[0][1:-1]
                elif mark == b":":
                    key = last
                elif mark in b"{[":
                    keys.append(key)
                    if mark == b"[" and keys[1:] == self._path:
                        break
                    key = None
                else:
                    keys[-1:] = [] if mark in b"}]" else keys[-1:]
                    key = None
            else:
                continue
            if mark == b"[":
                self.found = True
                behind = bytes(self._around[start:])
                del self._around[start:]
                return behind
        return None

    def _elements(self, first: bytes) -> Generator[bytes, None, bytes]:
        """The elements; returns what follows the last of them."""
        open_parts: list[bytes] = []  # of an element that has not ended
        size = begun = commas = depth = 0
        inside, escaping = False, b""
        for chunk in chain([first], self._chunks):
            text, escaping = _divided(escaping + chunk)
            scan = Scan.of(text, inside=inside, depth=depth)
            _check(scan, np.frombuffer(text, np.uint8), begun, commas)
            starts = [0] * bool(depth) + scan.starts.tolist()
            for start, end in zip(starts, scan.ends.tolist(), strict=False):
                _check_size(size + end - start)
                yield b"".join((*open_parts, text[start:end]))
                open_parts, size = [], 0
            if scan.close is not None:
                return text[scan.close :] + escaping
            if len(starts) > len(scan.ends):
                open_parts.append(text[starts[-1] :])
                size += len(open_parts[-1])
                _check_size(size)
            begun += len(scan.starts)
            commas += len(scan.between)
            inside, depth = scan.inside, scan.depth
        raise BrokenError("the text ends early", torn=True)


def _divided(text: bytes) -> tuple[bytes, bytes]:
    """A text, and the backslash at its end that escapes what is still to come."""
    escaping = (len(text) - len(text.rstrip(b"\\"))) % 2
    return text[: len(text) - escaping], text[len(text) - escaping :]


def _check(scan: Scan, letters: npt.NDArray[np.uint8], begun: int, commas: int) -> None:
    """Refuse what no array of objects holds; so many of them began before, between so many commas."""
    if (letters[scan.between] != _COMMA).any() or (letters[scan.starts] != _BRACE).any():
        raise BrokenError("a list of objects is expected")
    due = np.arange(len(scan.starts)) + begun  # commas in front of each
    wrong = (np.searchsorted(scan.between, scan.starts) + commas != due).any()
    if scan.close is not None and letters[scan.close] != _BRACKET:
        raise BrokenError("not valid JSON, a list is not closed")
    last = scan.close is not None and len(scan.between) + commas != max(len(scan.starts) + begun - 1, 0)
    if wrong or last:
        raise BrokenError("not valid JSON, one comma is expected between two objects")


def _check_size(size: int) -> None:
    if size > ELEMENT:
        raise BrokenError(f"one of its rows is larger than {ELEMENT // 2**20} MB")
