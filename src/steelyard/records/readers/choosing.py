"""Which reader takes an input, and the input opened for it: the reader that recognises it, the suffix being a hint.

A reader that is sure wins over one that finds it likely; among equals the suffix decides. A reader that only cannot
exclude its format needs the suffix. Where several remain, or none, the format has to be named.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, get_args

from steelyard.errors import InputError, SteelyardError, UsageError, printable
from steelyard.ground.arrays import Progress
from steelyard.ground.files import STANDARD_INPUT, opened, reason
from steelyard.records.answers import LabelRules
from steelyard.records.declining import AbstainWhen
from steelyard.records.demand import Demand
from steelyard.records.readers.bundles import Bundle, folder_bundle, folder_head
from steelyard.records.readers.contract import Certainty, Reader, readers
from steelyard.records.readers.head import Head, shallowest
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.packed import look_inside
from steelyard.records.readers.watched import watched
from steelyard.records.readers.zips import occurs_twice, zip_bundle
from steelyard.registry import load_entry_points


@contextmanager
def entered(
    path: str,
    format: str | None,
    *,
    rename: Mapping[str, str] | None = None,
    salvage: bool = False,
    demand: Demand | None = None,
    labels: LabelRules | None = None,
    scorers: Sequence[str] = (),
    abstain_when: AbstainWhen | None = None,
    sheet: str | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Reader, Input]]:
    """The reader of a file, a folder or standard input, and the input opened for it.

    `format` names a reader; by default the content decides. What is compressed is opened as what is inside. `progress`
    is told the share of the bytes that were read.
    """
    prepared = partial(
        Input,
        rename=rename,
        salvage=salvage,
        demand=demand,
        labels=labels,
        scorers=scorers,
        abstain_when=abstain_when,
        sheet=sheet,
    )
    if os.path.isdir(path):
        try:
            reader = readers[format] if format is not None else recognised(folder_head(path), path)
            if reader.takes == "file":
                raise InputError("cannot be read: is a directory", file=path)
            with closing(prepared(path, io.BytesIO(), bundle=folder_bundle(path, progress=progress))) as source:
                yield reader, source
        except OSError as problem:
            raise InputError(f"cannot be read: {reason(problem)}", file=path) from None
        return
    with opened(path) as (name, stream):
        if progress is not None and path != STANDARD_INPUT:
            stream = watched(stream, progress)
        head, stream, packed = look_inside(path, name, stream, salvage=salvage)
        reader, bundle = _of_file(path, name, head, stream, format, salvage=salvage)
        with closing(prepared(name, stream, bundle=bundle, packed=packed)) as source:
            yield reader, source


def is_bundle(folder: str) -> bool:
    """True if some reader recognises a folder."""
    try:
        recognised(folder_head(folder), folder)
    except (SteelyardError, OSError):
        return False
    return True


def _of_file(
    path: str, name: str, head: Head, stream: BinaryIO, format: str | None, *, salvage: bool
) -> tuple[Reader, Bundle | None]:
    """The reader of an opened file, and its members if it is read as a bundle."""
    if format is not None and readers[format].takes == "file":
        return readers[format], None
    if path == STANDARD_INPUT and (head.json or not head.data.strip()):
        head = replace(head, name="-.jsonl")  # there is no suffix; a single object is a line
    bundle, refusal = None, None
    if head.container == "zip":
        try:
            if not stream.seekable() and os.path.isfile(path):
                raise InputError(
                    "a zip archive that is compressed once more cannot be read; unpack it first", file=name
                )
            bundle = zip_bundle(name, stream, salvage=salvage, repeats=True)
            head = replace(head, members=shallowest(bundle.names()))
        except InputError as problem:
            refusal = problem
        if stream.seekable():
            stream.seek(0)  # for a reader that takes the archive as a file
    try:
        reader = readers[format] if format is not None else recognised(head, name)
    except SteelyardError:
        if refusal is not None:
            raise refusal from None
        raise
    if reader.takes == "file":
        return reader, None
    if refusal is not None:
        raise refusal
    if bundle is None and reader.takes == "bundle":
        raise InputError("a folder or a zip archive is expected", file=name)
    if bundle is not None and bundle.repeated and not reader.last_counts:
        raise InputError(occurs_twice(bundle.repeated[0]), file=name)
    return reader, bundle


def recognised(head: Head, path: str) -> Reader:
    """The reader for an input that begins like this."""
    load_entry_points()  # first, so that what is read does not depend on what was loaded before
    degrees: dict[Certainty, list[Reader]] = {degree: [] for degree in get_args(Certainty)}
    for reader in readers.values():
        if _takes(reader, head):
            degrees[_certainty(reader, head)].append(reader)
    if _of_rankings(head) == "rankings" and not degrees["sure"]:
        raise _unknown(head, path)
    for degree in ("sure", "likely", "maybe"):
        named = [reader for reader in degrees[degree] if reader.has_suffix(head.name)]
        candidates = named or ([] if degree == "maybe" else degrees[degree])
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            raise UsageError(
                f"{printable(path)}: may be of several formats; name one with `format=`: {_described(candidates)}"
            )
    raise _unknown(head, path)


def _takes(reader: Reader, head: Head) -> bool:
    if head.is_folder:
        return reader.takes != "file"
    return reader.takes != "bundle" or head.container == "zip"


def _certainty(reader: Reader, head: Head) -> Certainty:
    try:
        certainty = reader.sniff(head)
    except Exception as problem:  # its message may hold data
        raise UsageError(
            f"the reader '{reader.name}' failed to look at a file ({type(problem).__name__}); name the format with "
            "`format=`"
        ) from None
    if certainty not in get_args(Certainty):
        raise UsageError(
            f"the reader '{reader.name}' answers with a certainty that is not known; name the format with `format=`"
        )
    return certainty


def _unknown(head: Head, path: str) -> SteelyardError:
    """What to say of an input that nobody recognises: what it looks like, and what was looked for."""
    unpack = " (unpack it first)" if head.container in ("gzip", "tar", "zstd") else ""
    looks = f"looks like {head.shown}{unpack}"
    if head.is_folder:
        bundles = [reader for reader in readers.values() if reader.takes != "file"]
        hint = f"; folders are read as {_described(bundles)}" if bundles else ""
        if len(head.members or ()) == 1:
            hint = f"; give the one file in it: {printable((head.members or ('',))[0])}"
        return InputError(f"cannot be read: it is a folder that no reader recognises{hint}", file=path)
    ranked = _of_rankings(head)
    if ranked:
        return UsageError(f"{printable(path)}: looks like TREC {ranked}; `steelyard rank QRELS RUN` reads such files")
    named = [reader for reader in readers.values() if reader.has_suffix(head.name)]
    if named:
        suffix = printable(Path(head.name).suffix.lower())
        return InputError(
            f"{looks}, which no reader of {suffix} files recognises. They read {_described(named)}. "
            f"Another format can be named with `format=`: {', '.join(readers)}",
            file=path,
        )
    known = ", ".join(
        f"{reader.name} ({' '.join(reader.suffixes)})" if reader.suffixes else reader.name
        for reader in readers.values()
    )
    return UsageError(
        f"{printable(path)}: {looks}, which no reader is sure of, and no format goes by this suffix; "
        f"name one with `format=`: {known}"
    )


def _of_rankings(head: Head) -> str:
    """What kind of TREC lines a text begins with, if it does."""
    words = [line.split() for line in (head.text or "").splitlines()[:2] if line.strip()]
    if words and all(len(each) == 6 and each[1].casefold() == "q0" for each in words):
        return "rankings"
    if words and all(len(each) == 4 and each[3].lstrip("-").isdecimal() for each in words):
        return "judgements"
    return ""


def _described(named: Iterable[Reader]) -> str:
    return "; ".join(f"{reader.name}: {reader.about}" for reader in named)
