"""How the logs of Inspect become rows: one sample in one epoch under one scorer each.

    run.eval   a zip archive: header.json and samples/{id}_epoch_{n}.json, or, a sample in parts,
               samples/{id}_epoch_{n}/sample.json, .../metadata.json, .../attachments/{first}.json
    run.json   {"version": 2, "status": "success", "eval": {...}, "results": {...}, "samples": [{...}, ...]}

An archive of a run that has not ended has _journal/start.json instead of the header. Of members with one name the last
counts: the tool appends what is newer. `inspect_rows` says what a row is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from steelyard.errors import InputError, printable
from steelyard.ground.json import NotJsonError, parse_document
from steelyard.records.readers.bundles import Bundle
from steelyard.records.readers.contract import Certainty, Table, reader
from steelyard.records.readers.head import Head
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.inspect_rows import Log, Rows
from steelyard.records.readers.inspect_samples import Held, Refuse, Sample, sample_of, value
from steelyard.records.readers.json_elements import ELEMENT, BrokenError, Elements

_HEADER = "header.json"
_START = "_journal/start.json"
_SUMMARIES = "summaries.json"
_PLAIN = (str, int, float, bool)  # scores that the list states as they are
_LARGEST_HEADER = 64 * 2**20
_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json", re.DOTALL)
_SHELL = re.compile(r"(samples/.+_epoch_\d+)/sample\.json", re.DOTALL)
_TEXTS = re.compile(r"(samples/.+_epoch_\d+)/attachments/(\d{1,18})\.json", re.DOTALL)
_NEWEST = 2  # version of the format


def sniff(head: Head) -> Certainty:
    """An archive or a folder with the log's own files, or a document that begins with the log's own keys."""
    if head.members is not None:
        samples = any(name.startswith("samples/") for name in head.members)
        return "sure" if _START in head.members or (_HEADER in head.members and samples) else "no"
    if head.container or len(head.objects) > 1:
        return "no"
    opened = dict(zip(head.keys, head.openings, strict=True))
    return "sure" if opened.get("eval") == "{" and {"version", "status"} <= set(opened) else "no"


@reader(
    "inspect",
    about="a log of Inspect, an .eval archive or a JSON object with version, status, eval and samples",
    suffixes=(".eval", ".json"),
    sniff=sniff,
    takes="both",
    last_counts=True,
)
def load(source: Input) -> Table:
    """The rows of a log."""
    log = _of_bundle(source, source.bundle) if source.bundle is not None else _of_document(source)
    return Rows(source, log).table()


# -- archives and folders ----------------------------------------------------------------------------------------------


def _of_bundle(source: Input, bundle: Bundle) -> Log:
    names = bundle.names()
    header = next((name for name in (_HEADER, _START) if name in names), None)
    if header is None:
        raise source.error(f"neither {_HEADER} nor {_START} is there; is this a log of Inspect?")
    facts = _facts(bundle.read(header, _LARGEST_HEADER), partial(_refused, bundle.place(header)))
    facts = facts if header == _HEADER else {**facts, "status": "started"}
    held, parts, listed = Held(), _Parts(bundle), _Listed(bundle)
    for name, prefix in _samples(names):
        refuse = partial(_refused, bundle.place(name))
        sample = parts.sample(name, prefix, refuse) if prefix else sample_of(_whole(bundle, name), refuse)
        held.add(sample)
        listed.meet(sample)
    for problem, count in listed.problems():
        source.caution("contradiction", problem, min(1.0, count / max(len(held), 1)))
    remarks = []
    if bundle.repeated:
        count = len(bundle.repeated)
        members = f"{count:,} members occur" if count > 1 else "1 member occurs"
        remarks = [f"{printable(source.name)}: {members} twice in the archive; the last counts, as for Inspect"]
    return Log(facts=facts, samples=held, remarks=tuple(remarks))


def _samples(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The members that are samples, each with the prefix of its parts where it is in parts."""
    shells = {match[1] for name in names if (match := _SHELL.fullmatch(name))}
    for name in names:
        shell = _SHELL.fullmatch(name)
        if shell is not None:
            yield name, shell[1]
        elif _SAMPLE.fullmatch(name) and not any(name[:at] in shells for at in _slashes(name)):
            yield name, ""


def _slashes(name: str) -> Iterator[int]:
    return (match.start() for match in re.finditer("/", name))


def _whole(bundle: Bundle, name: str) -> bytearray:
    """All bytes of a sample, without a second copy on the way."""
    data = bytearray()
    with bundle.open(name) as stream:
        while chunk := stream.read(2**20):
            data += chunk
            if len(data) > ELEMENT:
                raise InputError(f"the sample is larger than {ELEMENT // 2**20} MB", file=bundle.place(name))
    return data


class _Listed:
    """The samples by the archive's own list, to be met one by one."""

    def __init__(self, bundle: Bundle) -> None:
        listed: Any = None
        if _SUMMARIES in bundle.names():
            listed = value(bytes(_whole(bundle, _SUMMARIES)), partial(_refused, bundle.place(_SUMMARIES)))
        entries = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        self._waiting = {(str(each.get("id")), each.get("epoch")): each for each in entries}
        self._is_listed, self._strangers, self._rescored = bool(entries), 0, 0

    def meet(self, sample: Sample) -> None:
        entry = self._waiting.pop((str(sample.id), sample.epoch), None)
        self._strangers += entry is None
        scores = entry.get("scores") if entry is not None else None
        stated = {name: each.get("value") for name, each in scores.items()} if isinstance(scores, dict) else {}
        self._rescored += any(
            name in stated and isinstance(score.value, _PLAIN) and isinstance(stated[name], _PLAIN)
            and score.value != stated[name] and str(score.value) != str(stated[name])
            for name, score in sample.scores.items()
        )  # fmt: skip

    def problems(self) -> Iterator[tuple[str, int]]:
        """What the list and the samples do not have in common, and how many samples that is."""
        found = {
            "of its own list of samples are not in the archive": len(self._waiting),
            "samples are not in its own list of samples": self._strangers if self._is_listed else 0,
            "samples have another score than its own list of samples says": self._rescored,
        }
        yield from ((f"{count:,} {what}", count) for what, count in found.items() if count)


class _Parts:
    """Samples whose metadata and attachments are members of their own."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle, self._names = bundle, frozenset(bundle.names())
        self._firsts: dict[str, list[int]] = {}  # prefix of a sample -> numbers of the first attachments in its members
        for match in filter(None, map(_TEXTS.fullmatch, bundle.names())):
            self._firsts.setdefault(match[1], []).append(int(match[2]))
        for firsts in self._firsts.values():
            firsts.sort()

    def sample(self, name: str, prefix: str, refuse: Refuse) -> Sample:
        apart = f"{prefix}/metadata.json"
        metadata = bytes(_whole(self._bundle, apart)) if apart in self._names else None
        attached = partial(self._attached, prefix, refuse)
        return sample_of(_whole(self._bundle, name), refuse, metadata=metadata, attached=attached)

    def _attached(self, prefix: str, refuse: Refuse, reference: str) -> str | None:
        """The text of an attachment by its number."""
        firsts = self._firsts.get(prefix, [])
        place = int(reference) if reference.isdecimal() and len(reference) < 19 else -1
        at = bisect_right(firsts, place) - 1
        name = f"{prefix}/attachments/{firsts[at]}.json" if at >= 0 else ""
        texts = value(bytes(_whole(self._bundle, name)), refuse) if name in self._names else None
        text = texts[place - firsts[at]] if isinstance(texts, list) and place - firsts[at] < len(texts) else None
        return text if isinstance(text, str) else None


# -- documents ---------------------------------------------------------------------------------------------------------


def _of_document(source: Input) -> Log:
    document = Elements(source.chunks(), ("samples",))
    held = Held()
    before = b""  # the document up to its samples
    try:
        for place, raw in enumerate(document, 1):
            before = before or document.rest
            held.add(sample_of(raw, partial(_refused_row, source, place)))
    except BrokenError as problem:
        if not problem.torn:
            raise source.error(problem.problem) from None
        return _salvaged(source, before, held)
    if not document.rest.strip():
        raise source.error("the file is empty")
    if _is_torn(document.rest):  # behind its samples
        return _salvaged(source, before, held)
    return Log(facts=_facts(document.rest, partial(_refused, source.name)), samples=held)


def _salvaged(source: Input, before: bytes, held: Held) -> Log:
    """What a log that is cut says before its samples, and those that are whole, if that is wanted."""
    if not source.salvage or not before:
        raise source.torn(len(held) + 1, len(held)) from None
    if not source.is_cut:  # which the input says
        source.warnings.append(source.salvaged(len(held) + 1, len(held)))
    return Log(facts=_facts(before + b"]}", partial(_refused, source.name)), samples=held)


def _is_torn(text: bytes) -> bool:
    try:
        parse_document(text)
    except NotJsonError as problem:
        return problem.torn
    return False


def _refused(place: str, problem: str, field: str | None) -> InputError:
    return InputError(problem, file=place, field=field)


def _refused_row(source: Input, row: int, problem: str, field: str | None) -> InputError:
    return source.error(problem, line=row, field=field)


def _facts(raw: bytes, refuse: Refuse) -> dict[str, Any]:
    """What a log says of its run."""
    facts = value(raw, refuse)
    if not isinstance(facts, dict) or not isinstance(facts.get("eval"), dict):
        raise refuse("an object with what was run is expected; is this a log of Inspect?", "eval")
    version = facts.get("version")
    if isinstance(version, int) and version > _NEWEST:
        raise refuse(f"a log of a format that is not known; versions up to {_NEWEST} are read", "version")
    return facts
