"""One opened input: its bytes, digested as they are read, and how its columns are to be called."""

from __future__ import annotations

import codecs
import fnmatch
import hashlib
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from steelyard.errors import InputError, UsageError, printable
from steelyard.records.answers import LabelRules
from steelyard.records.cautions import Caution, Kind
from steelyard.records.declining import AbstainWhen
from steelyard.records.demand import SCORED, Demand, Want
from steelyard.records.readers.bundles import LIMITS, Bundle
from steelyard.records.readers.packed import Packed

LONGEST_LINE = 4 * 2**20
_BLOCK = 2**19  # small enough that the rows of a block stay in the processor's cache
_SIGNATURES = {
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


class Block(NamedTuple):
    """Whole lines of a text file, where they start in it, and whether nothing follows."""

    data: bytes
    offset: int
    last: bool


class Input:
    """One opened input: its bytes, digested as they are read, and how its columns are to be called.

    `bundle` is set where the input is a folder or a zip archive, for readers that take them; `packed` where `stream` is
    what a compressed file holds. Of logs, `scorers` are those asked for, and `abstain_when` says which replies mean
    declining; of a workbook, `sheet` is the one to read. A reader that counts rows, not lines, says in `row_lines`
    where each row begins: then the line that an error is given is the number of its row.
    """

    def __init__(
        self,
        name: str,
        stream: BinaryIO,
        *,
        rename: Mapping[str, str] | None = None,
        salvage: bool = False,
        bundle: Bundle | None = None,
        packed: Packed | None = None,
        demand: Demand | None = None,
        labels: LabelRules | None = None,
        scorers: Sequence[str] = (),
        abstain_when: AbstainWhen | None = None,
        sheet: str | None = None,
    ) -> None:
        self.name, self.salvage, self.bundle = name, salvage, bundle
        self.labels = labels or LabelRules()
        self.scorers, self.abstain_when = tuple(scorers), abstain_when or AbstainWhen()
        self.sheet = sheet
        self.demand = demand or Demand()
        self.scored = False  # whether the table has targets and predictions, once its first columns are known
        self.warnings = [f"{printable(name)}: {bundle.cut}"] if bundle is not None and bundle.cut else list[str]()
        self.cautions: list[Caution] = []
        self.row_lines: Sequence[int] | None = None
        self.renamed: set[str] = set()
        self.neighbours: list[Input] = []  # what `siblings` opened
        self.is_read = False  # whether any of it was
        self.mark = 0  # bytes of the mark that the text began with
        self._members: list[Input] = []
        self._is_member = False
        self._torn = False
        self._stream, self._packed = stream, packed
        self._known = {original: known for known, original in (rename or {}).items()}
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """The digest of everything read so far, as it lies on disk; of a bundle, that of all names and contents."""
        whole = self.bundle or self._packed
        return self._digest.hexdigest() if whole is None else whole.sha256

    @property
    def leaves_out(self) -> bool:
        """True if an incomplete last record was left out, here or in a member."""
        cut = self.bundle is not None and bool(self.bundle.cut)
        return self._torn or cut or any(part.leaves_out for part in (*self._members, *self.neighbours))

    def caution(self, kind: Kind, problem: str, share: float = 1.0) -> None:
        """Warn of something for which a gate is not to believe the rows as they are."""
        found = Caution(kind, f"{printable(self.name)}: {problem}", share)
        self.cautions.append(found)
        self.warnings.append(found.text)

    @property
    def all_cautions(self) -> tuple[Caution, ...]:
        """What members and neighbours are warned of, too."""
        return tuple(each for part in (self, *self._members, *self.neighbours) for each in part.cautions)

    def member(self, name: str) -> Input:
        """A member of the bundle as an input of its own: errors name it, and its columns are renamed alike."""
        if self.bundle is None:
            raise self.error("a folder or a zip archive is expected")
        member = self._part(self.bundle.place(name), self.bundle.open(name))
        member._is_member = True
        self._members.append(member)
        return member

    def _part(self, name: str, stream: BinaryIO) -> Input:
        part = Input(
            name,
            stream,
            salvage=self.salvage,
            demand=self.demand,
            labels=self.labels,
            scorers=self.scorers,
            abstain_when=self.abstain_when,
        )
        part._known, part.renamed = self._known, self.renamed
        return part

    def siblings(self, pattern: str) -> list[Input]:
        """The files next to this one whose names match, sorted; those that are read become sources with a digest.

        There are none next to standard input, and none next to a member: a bundle has `names`.
        """
        folder, own = os.path.split(self.name)
        if self.bundle is not None or self._is_member or not os.path.isfile(self.name):
            return []
        with os.scandir(folder or os.curdir) as entries:
            names = sorted(entry.name for entry in entries if entry.is_file() and entry.name != own)
        matching = [Path(folder, name) for name in fnmatch.filter(names, pattern)]
        neighbours = [self._part(str(path), path.open("rb")) for path in matching]
        self.neighbours += neighbours
        return neighbours

    def close(self) -> None:
        """Close the members and neighbours that were opened."""
        for part in (*self._members, *self.neighbours):
            part._stream.close()

    def column(self, original: str) -> str:
        """The name under which a column of the file enters the table."""
        if original in self._known:
            self.renamed.add(original)
        return self.known_as(original)

    def known_as(self, original: str) -> str:
        """The name that a column would have, if there is one."""
        return self._known.get(original, original)

    @property
    def mapped(self) -> frozenset[str]:
        """The names that the user gave to columns of the file: what the file itself says does not take their place."""
        return frozenset(self._known.values()) - self._known.keys()

    def begins_with(self, originals: Iterable[str]) -> None:
        """Say which columns the input begins with: its header, its schema, or the keys of its first record."""
        names = {self.known_as(original) for original in originals}
        self.scored = names >= SCORED
        self.demand = replace(self.demand, marked="mark" in names)

    def want(self, original: str) -> Want:
        """Whether a column is read, kept as it is, or skipped."""
        return self.demand.of(self.known_as(original), scored=self.scored)

    def goes_inside(self, original: str, keys: Iterable[str] = ()) -> bool:
        """True if an object of this name is taken apart into columns; `keys` are some of its own."""
        below = f"{original}."
        mapped = any(name.startswith(below) for name in self._known)
        return mapped or self.demand.goes_inside(original, keys, scored=self.scored)

    def error(self, problem: str, *, line: int | None = None, field: str | None = None, rows: int = 1) -> InputError:
        """A problem at a place in this input."""
        return InputError(problem, file=self.name, line=self._placed(line), field=field, rows=rows)

    def _placed(self, line: int | None) -> int | None:
        if line is None or self.row_lines is None:
            return line
        return int(self.row_lines[line - 1]) if line <= len(self.row_lines) else None  # not read yet

    def blocks(self, *, begun: Iterator[bytes] | None = None) -> Iterator[Block]:
        """The text, a piece of whole lines at a time, without its byte order mark; `begun` as for `text`.

        A line beyond `LONGEST_LINE` ends the reading: it is handed over, incomplete, as the first line of the
        last block, so that problems before it are found first.
        """
        parts: list[bytes] = []  # of a line that has not ended yet
        ready, offset = b"", 0
        for chunk in begun or self.chunks():
            offset = offset or self.mark
            cut = chunk.rfind(b"\n") + 1
            if cut:
                if ready:
                    yield Block(ready, offset, last=False)
                offset += len(ready)
                ready, parts = b"".join((*parts, chunk[:cut])), []
            parts.append(chunk[cut:])
            if sum(map(len, parts)) > LONGEST_LINE:
                break
        rest = b"".join(parts) if not self.is_cut else b""
        if ready:
            yield Block(ready, offset, last=not rest)
        if rest:
            yield Block(rest, offset + len(ready), last=True)

    @property
    def is_cut(self) -> bool:
        """True if the input is compressed, was read to its end and turned out to be cut short."""
        return self._packed is not None and self._packed.is_cut

    def whole(self) -> pa.Buffer:
        """All bytes; mapped into memory where the input is a plain file."""
        self.is_read = True
        if self._packed is not None:
            data = self._stream.read(LIMITS.member + 1)
            if len(data) > LIMITS.member:
                raise self.error(f"unpacks to more than {LIMITS.member // 2**30} GiB; unpack it first")
            if self.is_cut:
                raise self._cut()
            return pa.py_buffer(data)
        try:
            content: bytes | mmap.mmap = mmap.mmap(self._stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):  # a pipe, a buffer, or nothing at all
            content = self._stream.read()
        self._digest.update(content)
        return pa.py_buffer(content)

    def not_utf8(self, offset: int, *, line: int | None = None) -> InputError:
        """The byte at `offset` is not UTF-8."""
        return self.error(f"not UTF-8 text (byte {offset}); convert the file to UTF-8", line=line)

    def torn(self, line: int, whole: int) -> InputError:
        """The input ends inside its last record."""
        records = "one whole record" if whole == 1 else f"{whole:,} whole records"
        hint = f"; `salvage=True` keeps the {records} before it" if whole else ""
        return self.error(f"the last record is incomplete, the file ends inside it{hint}", line=line)

    def salvaged(self, line: int, whole: int) -> str:
        """The warning instead of `torn` if the user wants the rest."""
        self._torn = True
        place = f"{printable(self.name)}:{self._placed(line)}"
        kept = "1 whole record was" if whole == 1 else f"{whole:,} whole records were"
        return f"{place}: the last record is incomplete and was left out; {kept} kept"

    def taken(self, column: str) -> UsageError:
        """Two columns of the file would have the same name."""
        original = {known: original for original, known in self._known.items()}.get(column, column)
        return UsageError(
            f"cannot rename '{printable(original)}' to '{printable(column)}': "
            f"{printable(self.name)} has a column of that name already"
        )

    def text(self, most: int, *, begun: Iterator[bytes] | None = None) -> bytes:
        """The whole text, without its byte order mark; one beyond `most` bytes is refused before all of it is read.

        `begun` are its `chunks` where they were looked at before.
        """
        parts, size = [], 0
        for chunk in begun or self.chunks():
            parts.append(chunk)
            size += len(chunk)
            if size > most:
                raise self.error(f"more than {most // 2**20} MB; write the rows as JSON lines instead")
        if self.is_cut:
            raise self._cut()
        whole = b"".join(parts)
        if not whole.strip():
            raise self.error("the file is empty")
        return whole

    def chunks(self) -> Iterator[bytes]:
        """The text as it comes, without its byte order mark, whose size is in `mark` from then on."""
        self.is_read = True
        first = self._stream.read(max(_BLOCK, 4))  # so that it holds any mark
        self._digest.update(first)
        for signature, encoding in _SIGNATURES.items():
            if first.startswith(signature):
                raise self.error(f"not UTF-8 but {encoding} text (byte 0); convert the file to UTF-8")
        place = first.find(b"\x00", 0, 4)  # no text starts like that, but UTF-16 or -32 without a mark does
        if place >= 0:
            raise self.not_utf8(place)
        text = first.removeprefix(codecs.BOM_UTF8)
        self.mark = len(first) - len(text)
        yield text
        while chunk := self._stream.read(_BLOCK):
            self._digest.update(chunk)
            yield chunk
        if self.is_cut:
            self._say_cut()

    def _say_cut(self) -> None:
        if not self.salvage:
            raise self._cut("; `salvage=True` keeps the whole records before the cut")
        self._torn = True
        self.warnings.append(
            f"{printable(self.name)}: the compressed file is cut short; what is whole before the cut was kept"
        )

    def _cut(self, hint: str = "") -> InputError:
        return self.error(f"the compressed file is cut short, it ends before what it holds does{hint}")
