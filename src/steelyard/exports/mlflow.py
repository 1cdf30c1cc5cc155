"""A run of MLflow: numbers as metrics, inputs and settings as params, evaluation.json as an artifact.

Names of metrics are made legal (see `plain_names`); metric-names.json, an artifact too, says what each stands for. An
estimate with an interval has `NAME.low` and `NAME.high`, and `NAME.n` is what it counts; what has no value is left out.
Needs mlflow-skinny (the extra `mlflow`). A folder is MLflow's file store, which needs nothing more; a database needs
the whole of MLflow, a server neither.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

from steelyard.errors import StorageError, UsageError, printable
from steelyard.exports.contract import Exported, Place, Subject, exporter
from steelyard.exports.plain_names import plain_names
from steelyard.ground.json import dumps, plain
from steelyard.halves import whole_text
from steelyard.records.labels import value_name
from steelyard.study.wire import flat_key
from steelyard.uncertainty.number import Estimate

EXPERIMENT = "steelyard"
NAMES = "metric-names.json"
ENDINGS = (".low", ".high", ".n")
_INPUTS = 20  # whose digests are params; evaluation.json has all
_LONGEST_PARAM, _LONGEST_TAG = 500, 5000  # characters that older servers take
_METRICS_AT_ONCE, _PARAMS_AT_ONCE = 1000, 100  # MLflow's own limits
_QUIETLY = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ALLOW_FILE_STORE": "true",  # else the store that needs no database is refused
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # else a server that is not there is waited for, for minutes
    "GIT_PYTHON_REFRESH": "quiet",
}


@exporter(
    "mlflow",
    about="a run of MLflow with params, metrics and artifacts",
    target="a folder for MLflow's file store, or the address of a tracking server",
    facts={"experiment": f"its name; by default {EXPERIMENT}", "run_name": "the name of the run in MLflow"},
)
def mlflow(subject: Subject, place: Place, facts: Mapping[str, str]) -> Exported:
    """Log a run, all of it or nothing."""
    numbers = metrics_of(subject.evaluation.estimates)
    if not numbers:
        raise UsageError("no number of this evaluation has a value; there is nothing to export")
    experiment = facts.get("experiment", EXPERIMENT)
    with _quiet():
        client = _client(place)
        with _as_storage(place):
            experiment_id = _experiment(client, experiment)
            begun = int(subject.created.timestamp() * 1000)
            name = facts.get("run_name") or subject.run_id or whole_text(Path(subject.name).stem)
            run = client.create_run(experiment_id, start_time=begun, tags=_tags(subject), run_name=name)
            try:
                _log(client, run.info.run_id, subject, numbers, begun)
                client.set_terminated(run.info.run_id, "FINISHED", end_time=begun)
            except BaseException:
                with suppress(Exception):  # the server may be gone
                    client.delete_run(run.info.run_id)
                raise
    lost = sum(estimate.value is None for estimate in subject.evaluation)
    total = len(subject.evaluation)
    said = (f"{lost:,} of {total:,} numbers have no value, and are left out",) if lost else ()
    about = {"run_id": run.info.run_id, "experiment": experiment}
    return Exported(numbers=total - lost, said=said, about=about)


def metrics_of(estimates: Sequence[Estimate]) -> dict[str, float]:
    """Every number that MLflow can hold, by its legal name."""
    numbers: dict[str, float] = {}
    for name, estimate in _named(estimates).items():
        low, high = estimate.interval or (None, None)
        for ending, value in zip(("", *ENDINGS), (estimate.value, low, high, estimate.n), strict=True):
            if value is not None and isfinite(value):
                numbers[f"{name}{ending}"] = float(value)
    return numbers


def names_document(estimates: Sequence[Estimate]) -> dict[str, Any]:
    """metric-names.json: what the name of each metric stands for."""
    return {
        name: {"metric": e.metric, "slice": {column: value_name(value) for column, value in e.slice.items()}}
        for name, e in _named(estimates).items()
    }


def _named(estimates: Sequence[Estimate]) -> dict[str, Estimate]:
    """The estimates that have a value, by the legal names of their metrics."""
    by_key = {flat_key(e.metric, e.slice): e for e in estimates if e.value is not None}
    return {name: by_key[key] for key, name in plain_names(list(by_key), ENDINGS).items()}


def _params(subject: Subject) -> dict[str, str]:
    evaluation = subject.evaluation
    told: dict[str, Any] = {
        **evaluation.settings.to_dict(),
        "cluster": ", ".join(evaluation.cluster),
        "clusters": evaluation.clusters,
        "version": subject.version,
        **{f"rows.{name}".removesuffix(".rows"): n for name, n in evaluation.population.items()},
        "inputs": len(evaluation.sources),
    }
    for number, source in enumerate(evaluation.sources[:_INPUTS], 1):
        facts = {"path": source.name, "sha256": source.sha256, "rows": source.rows, "excerpt": source.excerpt}
        told |= {f"input.{number}.{name}": fact for name, fact in facts.items()}
    return _texts(told, _LONGEST_PARAM)


def _tags(subject: Subject) -> dict[str, str]:
    labels = plain_names([f"label.{name}" for name in subject.labels])
    told = {
        "mlflow.source.name": "steelyard",
        "mlflow.source.type": "LOCAL",
        "steelyard.version": subject.version,
        "steelyard.run_id": subject.run_id,
        **{labels[f"label.{name}"]: text for name, text in subject.labels.items()},
    }
    return _texts(told, _LONGEST_TAG)


def _texts(told: Mapping[str, Any], longest: int) -> dict[str, str]:
    known = {name: value for name, value in told.items() if value is not None and value != ""}
    texts = {name: str(value) for name, value in known.items()}
    return {name: text if len(text) <= longest else f"{text[: longest - 1]}…" for name, text in texts.items()}


# -- MLflow ------------------------------------------------------------------------------------------------------------


@contextmanager
def _quiet() -> Iterator[None]:
    """MLflow that calls nobody but its store, and keeps its warnings to itself; what the user set stays."""
    added = {name: value for name, value in _QUIETLY.items() if name not in os.environ}
    os.environ.update(added)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _client(place: Place) -> Any:
    try:
        from mlflow import MlflowClient
    except ImportError:
        raise UsageError('mlflow-skinny is not installed; pip install "steelyard[mlflow]"') from None
    with _as_storage(place):
        return MlflowClient(tracking_uri=place.text if place.is_address else place.path.absolute().as_uri())


@contextmanager
def _as_storage(place: Place) -> Iterator[None]:
    """What MLflow refuses or lacks, as an error that names the place: its own words may hold data, or a password."""
    from mlflow.exceptions import MlflowException

    whole = UsageError(
        f"this MLflow cannot write to {place.shown}; databases and some stores of artifacts need the whole of it: "
        "pip install mlflow"
    )
    try:
        yield
    except ImportError:
        raise whole from None
    except MlflowException as problem:
        if place.is_address and not place.text.lower().startswith(("http", "databricks")):
            raise whole from None
        raise StorageError(f"MLflow cannot write to {place.shown} ({printable(problem.error_code)})") from None
    except OSError as problem:
        raise StorageError(f"cannot write to {place.shown}: {problem.strerror or type(problem).__name__}") from None


def _experiment(client: Any, name: str) -> str:
    known = client.get_experiment_by_name(name)
    if known is None:
        return str(client.create_experiment(name))
    if known.lifecycle_stage != "active":
        raise UsageError(f"the experiment '{printable(name)}' was deleted in MLflow; restore it or name another one")
    return str(known.experiment_id)


def _log(client: Any, run_id: str, subject: Subject, numbers: Mapping[str, float], time: int) -> None:
    from mlflow.entities import Metric, Param

    for some in _batches([Param(name, text) for name, text in _params(subject).items()], _PARAMS_AT_ONCE):
        client.log_batch(run_id, params=some)
    for some in _batches([Metric(name, value, time, 0) for name, value in numbers.items()], _METRICS_AT_ONCE):
        client.log_batch(run_id, metrics=some)
    client.log_text(run_id, dumps(plain(names_document(subject.evaluation.estimates))), NAMES)
    client.log_text(run_id, subject.text, "evaluation.json")


def _batches(all_: Sequence[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(all_)
    while some := list(islice(rest, size)):
        yield some
