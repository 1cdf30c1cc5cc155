"""Zip archives as bundles: stored, deflated or zstd members, checked against what the archive says of them."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa

from steelyard.errors import InputError, printable
from steelyard.records.readers.bundles import BLOCK, LIMITS, Bundle, Limits, Member, is_hidden, refused_name

ZSTD = 93  # the method's number; zipfile lists such members and cannot read them before Python 3.14
_READ = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTD)
_ENCRYPTED = 1
_LOCAL_HEADER = 30  # bytes before the name, which the last two fields give the length of
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    OverflowError,
    ValueError,
)


def zip_bundle(name: str, stream: BinaryIO, limits: Limits = LIMITS) -> Bundle:
    """The members of a zip archive; one that is cut short, damaged, encrypted or a bomb is refused."""
    if not stream.seekable():
        raise InputError("a zip archive cannot be read from a pipe; save it as a file", file=name)
    try:
        archive = zipfile.ZipFile(stream)
        infos = archive.infolist()
    except _BROKEN:
        raise InputError(
            "not a readable zip archive: it is cut short or damaged, its list of members is missing", file=name
        ) from None
    if len(infos) > limits.members:
        raise InputError(f"more than {limits.members:,} members", file=name)
    members: dict[str, Member] = {}
    for info in infos:
        member = info.orig_filename.removesuffix("/")  # zipfile's own name ends at a NUL
        if problem := refused_name(member):
            raise InputError(f"the member '{printable(member)}' is refused: {problem}", file=name)
        if member in members:
            raise InputError(f"the member '{printable(member)}' occurs twice", file=name)
        if info.is_dir() or is_hidden(member):
            continue
        if problem := _refused_member(info, limits):
            raise InputError(problem, file=f"{name}/{member}")
        members[member] = Member(info.file_size, partial(_chunks, archive, stream, info, f"{name}/{member}"))
    packed = stream.seek(0, os.SEEK_END)
    total = sum(member.size for member in members.values())
    if _is_bomb(total, packed, limits):
        raise InputError(f"unpacks to more than {limits.ratio:,} times its size; this is no data", file=name)
    return Bundle(name, members, limits)


def _refused_member(info: zipfile.ZipInfo, limits: Limits) -> str | None:
    if info.flag_bits & _ENCRYPTED:
        return "the member is encrypted; unpack the archive first"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "the member is a link; pack the file itself"
    if info.compress_type not in _READ:
        return f"the member is compressed by a method that is not read ({info.compress_type}); pack it with deflate"
    if info.file_size > limits.member:
        return f"more than {limits.member:,} bytes"
    if _is_bomb(info.file_size, info.compress_size, limits):
        return f"unpacks to more than {limits.ratio:,} times its size; this is no data"
    return None


def _is_bomb(size: int, packed: int, limits: Limits) -> bool:
    return size > limits.spared and size > limits.ratio * packed


def _chunks(archive: zipfile.ZipFile, stream: BinaryIO, info: zipfile.ZipInfo, place: str) -> Iterator[bytes]:
    """The bytes of a member, which are as many and have the checksum that the archive says."""
    size = checksum = 0
    try:
        source: Any = _zstd(stream, info) if info.compress_type == ZSTD else archive.open(info)
        with source:
            while chunk := source.read(BLOCK):
                size += len(chunk)
                checksum = zlib.crc32(chunk, checksum)
                if size > info.file_size:
                    break
                yield chunk
    except _BROKEN:
        raise InputError("the member is damaged or cut short", file=place) from None
    if (size, checksum) != (info.file_size, info.CRC):
        raise InputError("the member is not as large as the archive says, or its checksum differs", file=place)


def _zstd(stream: BinaryIO, info: zipfile.ZipInfo) -> Any:
    """A member that is compressed with zstd, as a stream of what it holds."""
    stream.seek(info.header_offset)
    header = stream.read(_LOCAL_HEADER)
    if header[:4] != b"PK\x03\x04":
        raise zipfile.BadZipFile
    name, extra = struct.unpack("<HH", header[-4:])
    packed = _Part(stream, info.header_offset + _LOCAL_HEADER + name + extra, info.compress_size)
    return pa.CompressedInputStream(pa.PythonFile(packed, mode="r"), "zstd")


class _Part(io.RawIOBase):
    """Some bytes of a stream that others read too."""

    def __init__(self, stream: BinaryIO, start: int, size: int) -> None:
        self._stream, self._next, self._end = stream, start, start + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._stream.seek(self._next)
        data = self._stream.read(min(len(buffer), self._end - self._next))
        self._next += len(data)
        buffer[: len(data)] = data
        return len(data)
