"""The aggregate record of Every Eval Ever: one file per model, one result per estimate, each with its interval.

A folder gets the path that its validator asks for, data/<benchmark>/<developer>/<model>/<id>.json; a target that ends
in .json is the file itself. Ids follow from what was evaluated and how, so that the same evaluation is the same file.
Of the inputs their names and digests are told, not where they lie. Estimates without a value have no place there; they
are counted and named.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from steelyard.errors import UsageError
from steelyard.exports.contract import Exported, Place, Subject, exporter
from steelyard.ground.json import dumps, plain
from steelyard.metrics.definition import Bounds, Metric
from steelyard.metrics.options import option_text
from steelyard.naming import slice_text
from steelyard.records.labels import value_name
from steelyard.study.wire import flat_key
from steelyard.uncertainty.number import Estimate

SCHEMA_VERSION = "0.3.0"
UNKNOWN = "unknown"
_RELATIONSHIPS = ("first_party", "third_party", "collaborative", "other")
_DEPLOYMENTS = ("self_deployed", "externally_managed", UNKNOWN)
_AVAILABILITY = ("open_weights", "closed_weights", UNKNOWN)
_RESAMPLED = ("bca", "percentile", "ball")
_NOT_IN_NAMES = re.compile(r'[<>:"/\\|?*\x00-\x1f\x7f-\x9f]')
_RESERVED = re.compile(r"(con|prn|aux|nul|com[1-9]|lpt[1-9]|data|)(\..*)?", re.IGNORECASE)
_LONGEST = 100  # bytes of a folder's name


@exporter(
    "every-eval-ever",
    about="one JSON file per model in the schema of Every Eval Ever, each number with its interval",
    target="a folder, or a file that ends in .json",
    facts={
        "model": "the model that answered, where the evaluation does not say",
        "developer": "who made the model",
        "benchmark": "what it was asked; by default the task, else the name of the file",
        "organization": "who evaluated it",
        "relationship": f"of the evaluator to the model: {', '.join(_RELATIONSHIPS)}",
        "deployment": ", ".join(_DEPLOYMENTS),
        "availability": ", ".join(_AVAILABILITY),
    },
    aliases=("eee",),
)
def every_eval_ever(subject: Subject, place: Place, facts: Mapping[str, str]) -> Exported:
    """The records of an evaluation, and where they go."""
    for name, known in (
        ("relationship", _RELATIONSHIPS),
        ("deployment", _DEPLOYMENTS),
        ("availability", _AVAILABILITY),
    ):
        if facts.get(name, known[-1]) not in known:
            raise UsageError(f"`about={name}=…` is one of {', '.join(known)}")
    models = _by_model(subject, facts)
    single = place.path.suffix.lower() == ".json"
    if single and len(models) > 1:
        raise UsageError(f"there are {len(models)} models, and a file for each; name a folder instead of a file")
    records = [_Record(subject, model, estimates, facts) for model, estimates in models.items()]
    files = {place.path if single else place.path / record.path: dumps(record.document()) for record in records}
    empty = [e for estimates in models.values() for e in estimates if e.value is None]
    said = [f"{len(empty):,} of {len(subject.evaluation):,} numbers have no value, and are left out"] if empty else []
    for name, lacking in (("developer", any(r.developer == UNKNOWN for r in records)), ("organization", True)):
        if lacking and name not in facts:
            said.append(f"the {name} is not known; name it with `about={name}=…`")
    return Exported(files=files, numbers=len(subject.evaluation) - len(empty), said=tuple(said))


def _by_model(subject: Subject, facts: Mapping[str, str]) -> dict[str, list[Estimate]]:
    """The estimates of each model: by their slices, else all of the one that is known."""
    models: dict[str, list[Estimate]] = {}
    for estimate in subject.evaluation:
        named = "model" in estimate.slice
        models.setdefault(value_name(estimate.slice["model"]) if named else "", []).append(estimate)
    if not any(e.value is not None for e in subject.evaluation):
        raise UsageError("no number of this evaluation has a value; there is nothing to export")
    if "" not in models:
        if "model" in facts:
            raise UsageError("the evaluation names its models itself; leave `about=model=…` out")
        return models
    told = {source.about.get("model", "") for source in subject.evaluation.sources}
    stated = facts.get("model") or subject.labels.get("model") or (told.pop() if len(told) == 1 else "")
    if not stated:
        raise UsageError("the evaluation does not say which model answered; name it with `about=model=…`")
    return {stated if model == "" else model: estimates for model, estimates in models.items()}


class _Record:
    """The record of one model."""

    def __init__(self, subject: Subject, model: str, estimates: Sequence[Estimate], facts: Mapping[str, str]) -> None:
        self.subject, self.model, self.facts = subject, model, facts
        self.estimates = [estimate for estimate in estimates if estimate.value is not None]
        self.is_part = len(estimates) < len(subject.evaluation)  # there are other models
        self.empty = [estimate for estimate in estimates if estimate.value is None]
        prefix, slash, _ = self.model.partition("/")
        self.developer = facts.get("developer") or (prefix if slash and prefix else UNKNOWN)
        known = not slash and self.developer != UNKNOWN
        self.model_id = f"{self.developer}/{self.model}" if known else self.model
        self.benchmark = facts.get("benchmark") or self._asked()

    def _asked(self) -> str:
        sources = [source for source in self.subject.evaluation.sources if source.rows]
        tasks = {source.about.get("task", "") for source in sources}
        task = tasks.pop() if len(tasks) == 1 else ""
        stem = Path(sources[0].name).name.partition(".")[0] if sources else ""
        return task or stem.strip("<>") or "evaluation"

    @property
    def path(self) -> Path:
        """Where the record lies in a collection of them."""
        model = self.model_id.partition("/")[2] if "/" in self.model_id else self.model_id
        folders = (self.benchmark, self.developer, model)
        return Path("data", *map(_folder, folders), f"{self._id}.json")

    @property
    def _id(self) -> uuid.UUID:
        """An id that depends on what was evaluated and how; on the values too where an input has no digest."""
        evaluation = self.subject.evaluation
        digests = [source.sha256 for source in evaluation.sources]
        parts = [
            *(self.model, self.benchmark, digests, evaluation.settings.to_dict(), list(evaluation.cluster)),
            [flat_key(e.metric, e.slice) for e in self.estimates],
            [e.n for e in self.estimates],
            None if all(digests) and digests else [e.value for e in self.estimates],
        ]
        digest = hashlib.sha256(json.dumps(plain(parts)).encode()).digest()
        return uuid.UUID(bytes=digest[:16], version=4)  # the form that its validator asks for

    def document(self) -> dict[str, Any]:
        """The record as its schema has it."""
        created = str(int(self.subject.created.timestamp()))
        evaluation = self.subject.evaluation
        about = {
            "run_id": self.subject.run_id,
            **({} if self.is_part else {f"rows.{name}": n for name, n in evaluation.population.items()}),
            "without_value": ", ".join(flat_key(e.metric, e.slice) for e in self.empty),
        }
        availability = {
            "deployment_type": self.facts.get("deployment", UNKNOWN),
            "model_availability": self.facts.get("availability", UNKNOWN),
        }
        developer = {} if self.developer == UNKNOWN else {"developer": self.developer}
        document = {
            "schema_version": SCHEMA_VERSION,
            "evaluation_id": f"{self.benchmark}/{self.model_id}/{created}",
            "retrieved_timestamp": created,
            "source_metadata": {
                "source_name": "steelyard",
                "source_type": "evaluation_run",
                "source_organization_name": self.facts.get("organization", UNKNOWN),
                "evaluator_relationship": self.facts.get("relationship", "other"),
                "additional_details": _texts(about),
            },
            "eval_library": {
                "name": "steelyard",
                "version": self.subject.version,
                "additional_details": _texts(evaluation.settings.to_dict()),
            },
            "model_info": {
                "name": self.model,
                "id": self.model_id,
                **developer,
                "additional_details": availability,
            },
            "evaluation_results": [self._result(estimate) for estimate in self.estimates],
        }
        return dict(plain(document))

    def _result(self, estimate: Estimate) -> dict[str, Any]:
        slice_ = {column: value for column, value in estimate.slice.items() if column != "model"}
        rest = {column: value_name(value) for column, value in slice_.items() if column != "task"}
        asked = value_name(slice_["task"]) if "task" in slice_ else self.benchmark
        return {
            "evaluation_result_id": flat_key(estimate.metric, slice_),
            "evaluation_name": asked + slice_text(rest),
            "source_data": {
                "dataset_name": asked,
                "source_type": "other",
                "additional_details": self._inputs(),
            },
            "metric_config": _metric_config(estimate),
            "score_details": {
                "score": _within(estimate.value, _bounds(estimate.of)),
                "details": self._details(estimate, {**rest, **({"task": asked} if "task" in slice_ else {})}),
                "uncertainty": self._uncertainty(estimate),
            },
        }

    def _inputs(self) -> dict[str, str]:
        """Every input's name and digest, and what it says of its run."""
        told: dict[str, Any] = {}
        for number, source in enumerate(self.subject.evaluation.sources, 1):
            about = {f"about.{name}": text for name, text in source.about.items()}
            facts = {"name": Path(source.name).name, "sha256": source.sha256, "rows": source.rows, **about}
            told |= {f"input.{number}.{name}": fact for name, fact in facts.items()}
            if source.excerpt:
                told[f"input.{number}.excerpt"] = source.excerpt
        return _texts(told)

    def _details(self, estimate: Estimate, slice_: Mapping[str, str]) -> dict[str, str]:
        counts = {name: getattr(estimate, name) for name in ("n", "clusters", "n_predictions", "n_abstained")}
        told = {
            **counts,
            "cluster": ", ".join(self.subject.evaluation.cluster),
            **{f"slice.{column}": value for column, value in slice_.items()},
            **{f"left_out.{reason}": n for reason, n in estimate.excluded.items()},
            "interval": _open_interval(estimate),
            "note": estimate.note,
            "cautions": ", ".join(estimate.cautions),
            "better": "neither" if estimate.better is None else estimate.better,
        }
        return _texts(told)

    def _uncertainty(self, estimate: Estimate) -> dict[str, Any]:
        told: dict[str, Any] = {"num_samples": estimate.n}
        if estimate.se is not None and isfinite(estimate.se):
            told["standard_error"] = {"value": estimate.se}
        if estimate.interval is not None and all(map(isfinite, estimate.interval)):
            told["confidence_interval"] = {
                "lower": estimate.interval[0],
                "upper": estimate.interval[1],
                "confidence_level": estimate.level,
                "method": estimate.shown_method,
            }
            if estimate.method in _RESAMPLED:
                told["num_bootstrap_samples"] = self.subject.evaluation.settings.resamples
        return told


def _metric_config(estimate: Estimate) -> dict[str, Any]:
    """What the registry knows of a metric; of one that it does not know, its name and direction."""
    metric = estimate.of
    low, high = _bounds(metric)
    config: dict[str, Any] = {
        "metric_id": estimate.metric if metric is None else metric.definition.name,
        "metric_name": estimate.metric,
        "lower_is_better": estimate.better == "lower",
        "score_type": "continuous",
        "min_score": "-Infinity" if low is None else low,
        "max_score": "Infinity" if high is None else high,
    }
    if estimate.unit:
        config["metric_unit"] = estimate.unit
    if metric is None:
        return config
    kinds = {param.name: param for param in metric.definition.params}
    options = {
        name: value if isinstance(value, int | float | bool | None) else option_text(kinds[name], value)
        for name, value in metric.options
    }
    if metric.label is not None:
        options["label"] = metric.label
    return {
        "evaluation_description": metric.definition.doc.partition("\n")[0],
        "metric_kind": metric.definition.name,
        **config,
        **({"metric_parameters": options} if options else {}),
    }


def _bounds(metric: Metric | None) -> Bounds:
    return (None, None) if metric is None else metric.bounds


def _within(value: float | None, bounds: Bounds) -> float | None:
    """The value, on its bound where rounding alone put it beyond: a validator has no patience with that."""
    near = (end for end in bounds if end is not None and value is not None and abs(value - end) < 1e-12)
    return next(near, value)


def _open_interval(estimate: Estimate) -> str:
    """An interval of which one end is not known, which the schema has no place for."""
    if estimate.interval is None or all(map(isfinite, estimate.interval)):
        return ""
    low, high = ("open" if not isfinite(end) else repr(end) for end in estimate.interval)
    return f"{low} to {high}"


def _texts(told: Mapping[str, Any]) -> dict[str, str]:
    """Facts as texts, which is all that the schema takes there; without those that are not known."""
    known = {name: value for name, value in told.items() if value is not None and value != ""}
    return {name: value if isinstance(value, str) else str(value) for name, value in known.items()}


def _folder(name: str) -> str:
    """A name that any file system takes for one folder; one that had to be cut ends in digits of its own."""
    safe = _NOT_IN_NAMES.sub("_", name).rstrip(". ")
    cut = safe.encode()[:_LONGEST].decode(errors="ignore")
    if cut == safe and not _RESERVED.fullmatch(safe) and safe.strip(" .") == safe:
        return safe
    return f"_{cut.strip(' .')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
