"""`evaluation.json` and `comparison.json`: written, read back and described here.

Non-finite numbers are never written: they become null, and a note says why. Equal inputs and settings give equal bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from steelyard.errors import InputError, UsageError
from steelyard.ground.json import head, plain, read_strict, refusal
from steelyard.ground.structs import refused
from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import known_metric
from steelyard.naming import slice_text
from steelyard.records.cautions import Caution, Kind, each_once
from steelyard.records.declared import Declared
from steelyard.records.labels import value_name
from steelyard.records.schema import CELL
from steelyard.records.table import Source
from steelyard.study.deltas import UNEQUAL_RATES
from steelyard.study.explaining import read_row
from steelyard.study.primary import family_text
from steelyard.study.ranked_lists import Ranking
from steelyard.study.results import Comparison, Evaluation
from steelyard.uncertainty.settings import Method, Settings, Stream
from steelyard.uncertainty.weights import scheme
from steelyard.uncertainty.wire import (
    DeltaDocument,
    EstimateDocument,
    delta_document,
    estimate_document,
    read_delta,
    read_estimate,
)


def evaluation_document(evaluation: Evaluation) -> dict[str, Any]:
    """`evaluation.json`."""
    return {
        **head("evaluation"),
        "inputs": [source.to_dict() for source in evaluation.sources],
        "population": dict(evaluation.population),
        "uncertainty": {
            **evaluation.settings.to_dict(),
            "weights": scheme(evaluation.clusters, evaluation.settings.stream),
            "cluster": list(evaluation.cluster),
            "clusters": evaluation.clusters,
        },
        **({"facts": dict(evaluation.facts)} if evaluation.facts else {}),
        "estimates": [estimate_document(e) for e in evaluation],
        "warnings": list(evaluation.warnings),
        "reading": {},
        **_told(evaluation),
        **(
            {"detailed_results": [plain(row.to_dict()) for row in evaluation.explained]} if evaluation.explained else {}
        ),
    }


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """`comparison.json`."""
    return {
        **head("comparison"),
        "inputs": {side: [source.to_dict() for source in sources] for side, sources in comparison.sources.items()},
        **({"names": dict(comparison.names)} if comparison.names else {}),
        "population": plain(comparison.population),
        "unmatched": plain(comparison.unmatched),
        "uncertainty": {**comparison.settings.to_dict(), "cluster": list(comparison.cluster)},
        **({"facts": {side: dict(facts) for side, facts in comparison.facts.items()}} if comparison.facts else {}),
        "deltas": [delta_document(d) for d in comparison],
        "family": family_text(comparison.deltas),
        "warnings": list(comparison.warnings),
        **_told(comparison),
    }


def _told(result: Evaluation | Comparison) -> dict[str, Any]:
    """What keeps a gate from believing the rows, and how they were chosen and read, where there is something."""
    cautions = [each.to_dict() for each in result.cautions]
    return ({"cautions": cautions} if cautions else {}) | ({"reading": plain(result.reading)} if result.reading else {})


def ranking_document(ranked: Ranking, *, ties: str, complete: bool, relevance_level: int) -> dict[str, Any]:
    """An evaluation's document for rankings: how they were ordered, and the deltas where there are two runs."""
    about = {"ties": ties, "complete": complete, "relevance_level": relevance_level}
    document = {**ranked.evaluation.to_dict(), "ranking": about}
    if ranked.comparison is not None:
        document["comparison"] = comparison_document(ranked.comparison)
    return document


# -- read back, and described ------------------------------------------------------------------------------------------


class DeclaredNumber(msgspec.Struct):
    """A number that a log states of itself, and the same made of its rows; null where they do not tell."""

    metric: str
    stated: float | None
    recomputed: float | None


class CautionDocument(msgspec.Struct):
    """What keeps a gate from believing the rows: its kind, in words, and the share of the rows that it is about."""

    kind: Kind
    text: str
    share: float = 1.0


class InputFile(msgspec.Struct):
    """A file that was read: `about` is what it says of its run, `excerpt` of how much its rows are a part.

    `torn` says that its end could not be read.
    """

    path: str
    sha256: str | None
    rows: int
    about: dict[str, str] = {}
    torn: bool = False
    excerpt: str = ""
    declared: list[DeclaredNumber] = []

    @property
    def source(self) -> Source:
        numbers = [each for each in self.declared if each.stated is not None]
        return Source(
            self.path,
            self.sha256,
            self.rows,
            about=self.about,
            torn=self.torn,
            excerpt=self.excerpt,
            declared=tuple(
                Declared(name=each.metric, stated=each.stated or 0.0, recomputed=each.recomputed) for each in numbers
            ),
        )


class UncertaintySettings(msgspec.Struct):
    """How uncertainty was computed."""

    resamples: int
    seed: int
    level: float
    method: Method
    stream: Stream
    cluster: list[str]
    edition: int = 1
    clusters: int = 0
    weights: str = "multinomial"

    @property
    def settings(self) -> Settings:
        return Settings(
            resamples=self.resamples, seed=self.seed, level=self.level, method=self.method, stream=self.stream
        )


class Tool(msgspec.Struct):
    """What wrote a document."""

    name: str
    version: str


class EvaluationFile(msgspec.Struct):
    """`evaluation.json`: every estimate of one table."""

    schema_version: str
    kind: str
    tool: Tool
    inputs: list[InputFile]
    population: dict[str, int]
    uncertainty: UncertaintySettings
    estimates: list[EstimateDocument]
    warnings: list[str]
    cautions: list[CautionDocument] | None = None
    reading: dict[str, Any] = {}
    facts: dict[str, float] = {}
    detailed_results: list[dict[str, Any]] = []


class ComparedInputs(msgspec.Struct):
    """The files of both runs."""

    base: list[InputFile]
    new: list[InputFile]


class ComparedPopulation(msgspec.Struct, omit_defaults=True):
    """The rows of both runs by outcome, and the pairs."""

    base: dict[str, int]
    new: dict[str, int]
    paired: int | None = None
    clusters: int | None = None  # that hold the pairs


class UnmatchedCounts(msgspec.Struct):
    """What found no partner in the other run."""

    cells: list[dict[str, Any]]
    base_rows: int
    new_rows: int


class ComparisonFile(msgspec.Struct):
    """`comparison.json`: every paired delta of two runs."""

    schema_version: str
    kind: str
    tool: Tool
    inputs: ComparedInputs
    population: ComparedPopulation
    unmatched: UnmatchedCounts
    uncertainty: UncertaintySettings
    deltas: list[DeltaDocument]
    warnings: list[str]
    cautions: list[CautionDocument] | None = None
    reading: dict[str, dict[str, Any]] = {}
    facts: dict[str, dict[str, float]] = {}
    names: dict[str, str] = {}  # of base and new, where a column tells them apart
    family: str = ""  # what decides, and over how many comparisons p-values were adjusted


def load(path: str | os.PathLike[str]) -> Evaluation | Comparison:
    """The evaluation or comparison in a file that `evaluate` or `compare` wrote.

    It holds every number with its interval; what needs the rows (an interval at another level, evidence) it does not.

    >>> import tempfile
    >>> import steelyard as sy
    >>> result = sy.evaluate([{"item": 1, "target": "a", "prediction": "a"}], "accuracy", resamples=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(result.save(f"{folder}/evaluation.json"))["accuracy"].value
    1.0
    """
    name = os.fspath(path)
    return document_of(read_strict(name)[0], name)


def document_of(document: Any, name: str) -> Evaluation | Comparison:
    """The evaluation or comparison that a document holds; `name` is where it came from, for messages."""
    kind = document.get("kind") if isinstance(document, dict) else None
    if kind not in ("evaluation", "comparison"):
        raise InputError("neither evaluation.json nor comparison.json: its kind is another", file=name, field="kind")
    future = refusal(document)
    if future:
        raise InputError(future, file=name, field="schema_version")
    try:
        return read_evaluation(document) if kind == "evaluation" else read_comparison(document)
    except msgspec.ValidationError as problem:
        raise refused(problem, name) from None
    except UsageError as problem:
        raise InputError(str(problem), file=name, field="uncertainty") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"not a valid {kind} document", file=name) from None


def read_evaluation(document: Mapping[str, Any]) -> Evaluation:
    """The evaluation that a document holds; a ValueError, KeyError or TypeError where it holds none."""
    file = msgspec.convert(dict(document), EvaluationFile)
    metrics = {name: known_metric(name) for name in dict.fromkeys(e.metric for e in file.estimates)}
    sources = tuple(each.source for each in file.inputs)
    return Evaluation(
        estimates=tuple(read_estimate(each, metrics[each["metric"]]) for each in document["estimates"]),
        settings=file.uncertainty.settings,
        population=file.population,
        cluster=tuple(file.uncertainty.cluster),
        clusters=file.uncertainty.clusters,
        sources=sources,
        warnings=tuple(file.warnings),
        cautions=_cautions(file.cautions, sources),
        reading=file.reading,
        is_told="reading" in document,
        facts=file.facts,
        explained=tuple(map(read_row, file.detailed_results)),
    )


def read_comparison(document: Mapping[str, Any]) -> Comparison:
    """The comparison that a document holds; a ValueError, KeyError or TypeError where it holds none."""
    file = msgspec.convert(dict(document), ComparisonFile)
    metrics = {name: known_metric(name) for name in dict.fromkeys(d.metric for d in file.deltas)}
    sources = {
        side: tuple(each.source for each in getattr(file.inputs, side)) for side in file.inputs.__struct_fields__
    }
    return Comparison(
        deltas=tuple(
            read_delta(each, metrics[each["metric"]], level=file.uncertainty.level, read_from=_read_from(each))
            for each in document["deltas"]
        ),
        settings=file.uncertainty.settings,
        population=msgspec.to_builtins(file.population),
        cluster=tuple(file.uncertainty.cluster),
        sources=sources,
        unmatched=msgspec.to_builtins(file.unmatched),
        warnings=tuple(file.warnings),
        cautions=_cautions(file.cautions, [source for side in sources.values() for source in side]),
        reading=file.reading,
        facts=file.facts,
        names=file.names,
    )


def _cautions(stated: list[CautionDocument] | None, sources: Iterable[Source]) -> tuple[Caution, ...]:
    """The cautions that a document states; of one written before there were any, those of its inputs."""
    if stated is None:
        return each_once(caution for source in sources for caution in source.cautions)
    return tuple(Caution(each.kind, each.text, each.share) for each in stated)


def _read_from(delta: Mapping[str, Any]) -> str:
    """The form of a delta that rules read: what its verdict rests on, or, where that is a twin, what the twin is of."""
    verdict_from, companions = str(delta["verdict_from"]), delta["companions"]
    if verdict_from not in registry:
        return verdict_from
    rates = companions.get("answer_rate") or {"base": 1.0, "new": 1.0}
    unequal = abs(rates["base"] - rates["new"]) > UNEQUAL_RATES
    return "answered_by_both" if unequal and "answered_by_both" in companions else "delta"


# -- flat keys ---------------------------------------------------------------------------------------------------------


def documented_names() -> dict[str, str]:
    """The metric that each documented key means, where the key is not the metric's own name."""
    return {known.names.documented_as: known.name for known in registry.values() if known.names.documented_as}


def flat_key(metric: str, slice_: Mapping[str, Any]) -> str:
    """The key of a number in `run.json` and the index: the metric, and its slice where it has one."""
    known = [c for c in CELL if c in slice_]
    rest = [c for c in slice_ if c not in known]
    return metric + slice_text({c: value_name(slice_[c]) for c in (*known, *sorted(rest))})
