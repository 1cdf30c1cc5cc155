"""Which files of Every Eval Ever belong together: an aggregate names its samples, and both bear the same name."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePosixPath

from steelyard.errors import InputError, printable
from steelyard.ground.json import NotJsonError
from steelyard.records.readers.every_eval_rows import Aggregate, Detailed
from steelyard.records.readers.head import SIZE, Head
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.log_rows import Shape

TOOL = "Every Eval Ever"
SAMPLES = "_samples.jsonl"
LARGEST = 256 * 2**20  # bytes of an aggregate


@dataclass
class Run:
    """A file of samples, whatever was read of it before, and the aggregate that belongs to it."""

    samples: Input
    aggregate: Aggregate | None = None
    begun: Iterator[bytes] | None = None
    others: tuple[Input, ...] = ()
    rows: int = 0
    strangers: int = 0  # rows that name another evaluation than the aggregate does

    @property
    def detailed(self) -> Detailed:
        return (self.aggregate and self.aggregate.detailed_evaluation_results) or Detailed()


def run_of_file(source: Input) -> Run:
    """The run of a file: an aggregate with its samples, or samples with their aggregate."""
    chunks = source.chunks()
    first = next(chunks, b"")
    begun = chain([first], chunks)
    if {"sample_id", "evaluation_name"} <= set(Head(name="", data=first[:SIZE], complete=False).keys):
        stem = aggregate_name(os.path.basename(source.name))
        beside = source.siblings(glob.escape(stem)) if stem else []
        return Run(source, _found(beside[0]) if beside else None, begun, tuple(beside))
    aggregate = _aggregate(source, source.text(LARGEST, begun=begun))
    names = _names_of_samples(aggregate, os.path.basename(source.name))
    beside = [each for name in names for each in source.siblings(glob.escape(name))]
    if not beside:
        raise source.error(_without_samples(names))
    return Run(beside[0], aggregate, others=tuple(beside))


def runs_in_bundle(source: Input) -> Iterator[Run]:
    """All runs in a folder or a zip archive that have samples."""
    assert source.bundle is not None
    names = source.bundle.names()
    documents = {name: found for name in names if name.endswith(".json") and (found := _found(source.member(name)))}
    samples = {name: None for name in names if name.endswith(".jsonl")}
    owners: dict[str, Aggregate] = {}
    bare: list[str] = []
    for name, aggregate in documents.items():
        folder = PurePosixPath(name).parent
        near = [str(folder / each) for each in _names_of_samples(aggregate, PurePosixPath(name).name)]
        own = next((each for each in near if each in samples and each not in owners), None)
        if own is None:
            bare.append(name)
        else:
            owners[own] = aggregate
    if not samples:
        nothing = "there are no samples: a file of JSON lines is expected"
        raise source.error(_without_samples([]) if documents else nothing)
    if bare:
        source.warnings.append(
            f"{printable(source.name)}: {len(bare):,} of {len(documents):,} aggregates have no samples next to them, "
            "and are left out"
        )
    for name in samples:
        yield Run(source.member(name), owners.get(name))


def _names_of_samples(aggregate: Aggregate, own: str) -> list[str]:
    """What the samples of an aggregate may be called: only names, in the folder of the aggregate."""
    stated = (aggregate.detailed_evaluation_results or Detailed()).file_path or ""
    names = (re.split(r"[/\\]", stated)[-1], own.removesuffix(".json") + SAMPLES)
    return [name for name in dict.fromkeys(names) if name and name != own]


def aggregate_name(name: str) -> str:
    """What the aggregate of a file of samples is called; nothing if it cannot be told."""
    return f"{name.removesuffix(SAMPLES)}.json" if name.endswith(SAMPLES) else ""


def _without_samples(names: list[str]) -> str:
    sought = f" ({printable(names[0])} is not next to it)" if names else ""
    return f"this holds aggregate scores only, and no samples{sought}; there is nothing to evaluate without them"


def _aggregate(source: Input, text: bytes) -> Aggregate:
    try:
        return Shape(source, Aggregate, tool=TOOL).of(text)
    except NotJsonError as problem:
        if problem.byte is not None:
            raise source.not_utf8(problem.byte + source.mark) from None
        what = "the text ends early" if problem.torn else "not valid JSON"
        raise source.error(f"{what}; an aggregate of {TOOL} is expected", line=problem.line) from None


def _found(source: Input) -> Aggregate | None:
    """The aggregate in a file, None if it holds something else."""
    try:
        aggregate = _aggregate(source, source.text(LARGEST))
    except InputError:
        return None
    return aggregate if aggregate.evaluation_results else None
