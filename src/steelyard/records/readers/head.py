"""What a reader looks at to know its format: the first bytes of a file, or the names in a bundle.

Everything here is cheap, bounded by `SIZE` and `MOST_NAMES`, and never raises, whatever the bytes are.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, Literal

from steelyard.ground.json import Flaw, NotJsonError, parse_line
from steelyard.halves import whole_text

SIZE = 2**16
MOST_NAMES = 1_000
_ROWS = 3  # lines that are parsed to see whether there is one object per line
_FAR = 1_000  # characters in which a value begins behind its key
_TABLE_ROWS = 8  # lines whose cells are counted
_SEPARATORS: tuple[Literal["\t"], Literal[","]] = ("\t", ",")

Container = Literal["arrow", "feather", "gzip", "parquet", "tar", "zip", "zstd"]
_MARKS: dict[Container, re.Pattern[bytes]] = {
    "arrow": re.compile(rb"ARROW1|\xff\xff\xff\xff"),
    "feather": re.compile(rb"FEA1"),
    "gzip": re.compile(rb"\x1f\x8b"),
    "parquet": re.compile(rb"PAR1"),
    "tar": re.compile(rb".{257}ustar", re.DOTALL),
    "zip": re.compile(rb"PK(?:\x03\x04|\x05\x06|\x07\x08)"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),  # the second: a frame to be skipped
}
_SHOWN: dict[Container, str] = {
    "arrow": "Arrow data",
    "feather": "a Feather file",
    "gzip": "data compressed with gzip",
    "parquet": "a Parquet file",
    "tar": "a tar archive",
    "zip": "a zip archive",
    "zstd": "data compressed with zstd",
}
# A string that the text ends in matches too, so that no quote is tried twice.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}\[\]:]', re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Head:
    """The beginning of an input: its name without folders, its first bytes, and what they show.

    `complete` says that `data` is all there is. `members` are the names in a folder or a zip archive, those nearest to
    its top first, at most `MOST_NAMES`; None for a plain file. A folder has no `data`.
    """

    name: str
    data: bytes = b""
    complete: bool = True
    members: tuple[str, ...] | None = None

    @property
    def is_folder(self) -> bool:
        return self.members is not None and not self.data

    @cached_property
    def container(self) -> Container | None:
        """The binary format whose mark the bytes begin with."""
        return next((name for name, mark in _MARKS.items() if mark.match(self.data)), None)

    @cached_property
    def text(self) -> str | None:
        """The bytes as text without a byte order mark; None if they are not UTF-8."""
        if b"\x00" in self.data[:4]:  # no text starts like that, but UTF-16 or -32 without a mark does
            return None
        try:
            decoder = codecs.getincrementaldecoder("utf-8")()
            return decoder.decode(self.data.removeprefix(codecs.BOM_UTF8), final=self.complete)
        except UnicodeDecodeError:
            return None

    @cached_property
    def json(self) -> Literal["object", "array"] | None:
        """What the first character opens, if it is one that JSON documents begin with."""
        first = self.data.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
        return "object" if first == b"{" else "array" if first == b"[" else None

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys of the JSON object that the text begins with, as far as they are in sight."""
        return tuple(key for key, _ in self._pairs)

    @cached_property
    def openings(self) -> tuple[str, ...]:
        """The first character of each value that `keys` name: `[`, `{`, or that of a plain value; empty if unseen."""
        return tuple(opening for _, opening in self._pairs)

    @cached_property
    def _pairs(self) -> tuple[tuple[str, str], ...]:
        return tuple(_pairs(self.text or "")) if self.json == "object" else ()

    @cached_property
    def objects(self) -> tuple[dict[str, Any], ...]:
        """The JSON objects on the first lines; none if one of these lines is not one object, or is not in sight."""
        lines = self.data.removeprefix(codecs.BOM_UTF8).split(b"\n")
        whole = [line for line in (lines if self.complete else lines[:-1]) if line.strip()]
        try:
            rows = [parse_line(line) for line in whole[:_ROWS]]
        except NotJsonError:
            return ()
        return tuple({} if isinstance(row, Flaw) else row for row in rows)

    @cached_property
    def separator(self) -> Literal[",", "\t"] | None:
        """What separates the cells of a table: the first lines have equally many, at least two, and are not JSON."""
        lines = (self.text or "").splitlines()
        lines = [line for line in (lines if self.complete else lines[:-1]) if line.strip()][:_TABLE_ROWS]
        if len(lines) < 2 or self.container or self.json:
            return None
        return next((mark for mark in _SEPARATORS if _is_table(lines, mark)), None)

    @property
    def shown(self) -> str:
        """What the input looks like, in words; never a part of it."""
        if self.is_folder:
            return "a folder"
        if self.container:
            return _SHOWN[self.container]
        if not self.data.strip():
            return "an empty file"
        if len(self.objects) > 1:
            return "JSON objects, one per line"
        if self.json:
            return f"a JSON {self.json}"
        return "binary data, or text that is not UTF-8" if self.text is None else "text of no known form"


def look(path: str, stream: BinaryIO) -> tuple[Head, BinaryIO]:
    """The head of a stream, and a stream that still has all of it: what a pipe gave is given again."""
    if stream.seekable():
        place = stream.tell()
        data = stream.read(SIZE)
        stream.seek(place)
        rest = stream
    else:
        data = stream.read(SIZE)
        rest = io.BufferedReader(_Replayed(data, stream))
    return Head(name=os.path.basename(path), data=data, complete=len(data) < SIZE), rest


def shallowest(names: Iterable[str]) -> tuple[str, ...]:
    """The names of members as a head has them."""
    return tuple(sorted(names, key=lambda name: (name.count("/"), name))[:MOST_NAMES])


class _Replayed(io.RawIOBase):
    """Bytes that were read from a stream, and then the rest of it."""

    def __init__(self, first: bytes, rest: BinaryIO) -> None:
        self._first, self._rest = first, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = len(buffer)
        data, self._first = (self._first[:size], self._first[size:]) if self._first else (self._rest.read(size), b"")
        buffer[: len(data)] = data
        return len(data)


def _is_table(lines: list[str], separator: str) -> bool:
    """True if the lines have equally many cells, at least two, under names that are not empty."""
    try:
        header, *rows = csv.reader(lines, delimiter=separator, strict=True)
    except (csv.Error, ValueError):
        return False
    return len(header) > 1 and all(map(str.strip, header)) and all(len(row) == len(header) for row in rows)


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    """The keys of the object that a text begins with, each with the first character of its value."""
    depth, last = 0, ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            depth += 1
        elif token in "]}":
            depth -= 1
            if not depth:
                return
        elif token == ":" and depth == 1 and last[:1] == '"':
            try:
                yield whole_text(json.loads(last, strict=False)), text[match.end() : match.end() + _FAR].lstrip()[:1]
            except ValueError:
                return
        last = token
