"""Bundles: a folder or a zip archive, seen by a reader as names and bytes, and nothing that could harm.

    bundle.names()                       every member, sorted; only plain names such as samples/1.json
    bundle.read("header.json", 2**20)    all of a small member, refused beyond the limit
    bundle.open("samples.jsonl")         a stream, for a large one

Nothing is ever unpacked to disk. A name that is absolute, climbs (`..`) or holds a backslash or a control character
refuses the bundle, and so does a link that leads out of the folder or a duplicate name. Names with a part that
begins with a dot, and `__MACOSX`, are what file managers leave behind: they are not members. The same files give the
same members and the same digest as a folder and as a zip archive.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from steelyard.errors import InputError, printable
from steelyard.ground.arrays import Progress
from steelyard.ground.files import reason
from steelyard.records.readers.head import MOST_NAMES, Head, shallowest

BLOCK = 2**18
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a bundle may hold; sizes are in bytes, unpacked.

    Beyond `spared` bytes, nothing may be more than `ratio` times as large as it is packed: a bomb is, data is not.
    """

    members: int = 200_000
    member: int = 4 * 2**30
    total: int = 64 * 2**30
    ratio: int = 200
    spared: int = 64 * 2**20


LIMITS = Limits()


@dataclass(frozen=True)
class Member:
    """A file in a bundle: how large it says it is, and its bytes."""

    size: int
    chunks: Callable[[], Iterator[bytes]]


class Bundle:
    """The members of a folder or a zip archive, by their names.

    `repeated` are names that an archive lists twice, of which the last counts; `cut` says, in words, that an archive
    ended early and what was kept of it.
    """

    def __init__(
        self,
        name: str,
        members: Mapping[str, Member],
        limits: Limits = LIMITS,
        progress: Progress | None = None,
        *,
        repeated: tuple[str, ...] = (),
        cut: str = "",
    ) -> None:
        self.name, self._limits = name, limits
        self.repeated, self.cut = repeated, cut
        self._progress, self._read = progress, 0
        self._members = dict(sorted(members.items(), key=lambda item: item[0].encode()))
        self._digests: dict[str, bytes] = {}  # of the members that were read to their end
        self._total = sum(member.size for member in members.values())
        if self._total > limits.total:
            raise InputError(f"more than {limits.total // 2**20:,} MB in all", file=name)

    def names(self) -> tuple[str, ...]:
        """All members, in the order of their names' bytes."""
        return tuple(self._members)

    def open(self, name: str) -> BinaryIO:
        """The bytes of a member, as a stream that is read once."""
        if name not in self._members:
            raise InputError("there is no such member", file=self.place(name))
        if self._members[name].size > self._limits.member:
            raise self._too_large(name, self._limits.member)
        return cast(BinaryIO, io.BufferedReader(_Stream(self._chunks(name)), BLOCK))

    def read(self, name: str, limit: int) -> bytes:
        """All bytes of a member; one of more than `limit` bytes is refused."""
        with self.open(name) as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise self._too_large(name, limit)
        return data

    def place(self, name: str) -> str:
        """What a member is called in messages."""
        return f"{self.name}/{name}"

    @property
    def sha256(self) -> str:
        """The digest of all names and contents.

        It is the sha256 of, for every member in the order of `names`, the sha256 of its name in UTF-8 and the sha256
        of its content (32 bytes each).
        """
        whole = hashlib.sha256()
        for name in self._members:
            if name not in self._digests:
                for _ in self._chunks(name):
                    pass
            whole.update(hashlib.sha256(name.encode()).digest() + self._digests[name])
        return whole.hexdigest()

    def _chunks(self, name: str) -> Iterator[bytes]:
        digest, size = hashlib.sha256(), 0
        try:
            for chunk in self._members[name].chunks():
                size += len(chunk)
                if size > self._limits.member:
                    raise self._too_large(name, self._limits.member)
                digest.update(chunk)
                self._read += len(chunk)
                if self._progress is not None:
                    self._progress(min(self._read / max(self._total, 1), 1.0))
                yield chunk
        except OSError as problem:
            raise InputError(f"cannot be read: {reason(problem)}", file=self.place(name)) from None
        self._digests[name] = digest.digest()

    def _too_large(self, name: str, limit: int) -> InputError:
        return InputError(f"more than {limit:,} bytes", file=self.place(name))


class _Stream(io.RawIOBase):
    """Chunks of bytes as a stream."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def refused_name(name: str) -> str | None:
    """Why a name is not plain; None if it is."""
    if _CONTROL.search(name):
        return "its name holds a control character, or is not UTF-8"
    if "\\" in name:
        return "its name holds a backslash"
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return "its name is absolute"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "its name leads out of its folder, or is not written plainly"
    return None


def is_hidden(name: str) -> bool:
    """True if a plain name is one that file managers leave behind."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))


# -- folders -----------------------------------------------------------------------------------------------------------


def folder_head(path: str) -> Head:
    """What a reader looks at to know a folder: a bounded list of names, without following links."""
    names: list[str] = []
    level, budget = [""], MOST_NAMES
    while level and budget > 0:
        deeper: list[str] = []
        for prefix in level:
            entries = _entries(path, prefix, budget)
            budget -= len(entries)
            names += [name for name, is_file in entries if is_file]
            deeper += [f"{name}/" for name, is_file in entries if not is_file]
        level = deeper
    return Head(name=os.path.basename(os.path.normpath(path)), members=shallowest(names))


def _entries(path: str, prefix: str, most: int) -> list[tuple[str, bool]]:
    """Names of a folder's files and folders, and whether each is a file; none where it cannot be listed."""
    try:
        with os.scandir(os.path.join(path, prefix)) as entries:
            plain = (entry for entry in entries if not entry.name.startswith("."))
            return sorted((prefix + e.name, not e.is_dir(follow_symlinks=False)) for e in islice(plain, max(most, 0)))
    except OSError:
        return []


def folder_bundle(path: str, limits: Limits = LIMITS, progress: Progress | None = None) -> Bundle:
    """The files of a folder and of the folders in it; `progress` is told the share of their bytes that were read."""
    root = os.path.realpath(path)
    members: dict[str, Member] = {}
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(os.path.join(root, prefix)) as entries:
            for entry in entries:
                name = prefix + entry.name
                if problem := refused_name(name):
                    raise InputError(f"the member '{printable(name)}' is refused: {problem}", file=path)
                if is_hidden(name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{name}/")
                elif (file := _plain_file(root, entry, path, name)) is not None:
                    members[name] = Member(os.stat(file).st_size, partial(_read, file))
                if len(members) + len(waiting) > limits.members:
                    raise InputError(f"more than {limits.members:,} members", file=path)
    return Bundle(path, members, limits, progress)


def _plain_file(root: str, entry: os.DirEntry[str], path: str, name: str) -> str | None:
    """The file that an entry is, or links to; None for a link to a folder within, whose files are members already."""
    file = os.path.realpath(entry.path) if entry.is_symlink() else entry.path
    if not Path(file).is_relative_to(root) or not os.path.exists(file):
        raise InputError(
            f"the link '{printable(name)}' leads out of the folder or nowhere; put the file itself there", file=path
        )
    if os.path.isdir(file):
        return None
    if not os.path.isfile(file):
        raise InputError("cannot be read: it is no plain file", file=f"{path}/{name}")
    return file


def _read(file: str) -> Iterator[bytes]:
    handle = os.open(file, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(handle, "rb", buffering=0) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(0, "it is no plain file")
        while chunk := stream.read(BLOCK):
            yield chunk
