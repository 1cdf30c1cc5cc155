"""Steelyard: how good a model's answers are, how sure we are, and whether it may pass.

import steelyard as sy
records = sy.read("run.jsonl", cluster="patient")
result = sy.evaluate(records, ["accuracy", "ece(bins=15)", "aurc"], by=["group.site"])
result["aurc"].value, result["aurc"].interval
sy.compare(old, new, ["accuracy", "aurc"])["aurc"].delta
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steelyard.ground.showing import presented_by

if TYPE_CHECKING:
    from steelyard import retrieval as retrieval
    from steelyard import runs as runs
    from steelyard.confidence.calibrators import Calibrator as Calibrator
    from steelyard.confidence.first_token import class_confidence_from_logprobs as class_confidence_from_logprobs
    from steelyard.decide.gate import Gate as Gate
    from steelyard.errors import BackendError as BackendError
    from steelyard.errors import InputError as InputError
    from steelyard.errors import SteelyardError as SteelyardError
    from steelyard.errors import StorageError as StorageError
    from steelyard.errors import UsageError as UsageError
    from steelyard.metrics.contract import across as across
    from steelyard.metrics.contract import compose as compose
    from steelyard.metrics.contract import evidence as evidence
    from steelyard.metrics.contract import metric as metric
    from steelyard.metrics.contract import over as over
    from steelyard.metrics.evidence.sums import row_score as row_score
    from steelyard.metrics.evidence.sums import sums as sums
    from steelyard.records.readers import read as read
    from steelyard.records.table import Records as Records
    from steelyard.records.task import Task as Task
    from steelyard.runner.backends.ollama import parse_ollama_timings as parse_ollama_timings
    from steelyard.runner.reparsing import reparse as reparse
    from steelyard.runner.run import Run as Run
    from steelyard.runner.run import run as run
    from steelyard.study.benchmark import Benchmark as Benchmark
    from steelyard.study.benchmark import benchmark as benchmark
    from steelyard.study.benchmark_report import BenchmarkReport as BenchmarkReport
    from steelyard.study.calibrating import calibrate as calibrate
    from steelyard.study.comparison import compare as compare
    from steelyard.study.evaluation import evaluate as evaluate
    from steelyard.study.evaluation import value as value
    from steelyard.study.evaluation import values as values
    from steelyard.study.explaining import explain as explain
    from steelyard.study.results import Comparison as Comparison
    from steelyard.study.results import Evaluation as Evaluation
    from steelyard.study.selection import Selection as Selection
    from steelyard.study.selective import selective as selective
    from steelyard.study.wire import load as load
    from steelyard.uncertainty.number import Delta as Delta
    from steelyard.uncertainty.number import Estimate as Estimate

presented_by("steelyard.report.showing")  # rooms below `report` name none above them

__version__ = "0.12.0"

_HOMES = {
    "BackendError": "steelyard.errors",
    "Benchmark": "steelyard.study.benchmark",
    "BenchmarkReport": "steelyard.study.benchmark_report",
    "Calibrator": "steelyard.confidence.calibrators",
    "Comparison": "steelyard.study.results",
    "Delta": "steelyard.uncertainty.number",
    "Estimate": "steelyard.uncertainty.number",
    "Evaluation": "steelyard.study.results",
    "Gate": "steelyard.decide.gate",
    "InputError": "steelyard.errors",
    "Records": "steelyard.records.table",
    "Run": "steelyard.runner.run",
    "Selection": "steelyard.study.selection",
    "SteelyardError": "steelyard.errors",
    "StorageError": "steelyard.errors",
    "Task": "steelyard.records.task",
    "UsageError": "steelyard.errors",
    "across": "steelyard.metrics.contract",
    "benchmark": "steelyard.study.benchmark",
    "calibrate": "steelyard.study.calibrating",
    "class_confidence_from_logprobs": "steelyard.confidence.first_token",
    "compare": "steelyard.study.comparison",
    "compose": "steelyard.metrics.contract",
    "evaluate": "steelyard.study.evaluation",
    "evidence": "steelyard.metrics.contract",
    "explain": "steelyard.study.explaining",
    "load": "steelyard.study.wire",
    "metric": "steelyard.metrics.contract",
    "over": "steelyard.metrics.contract",
    "parse_ollama_timings": "steelyard.runner.backends.ollama",
    "read": "steelyard.records.readers",
    "reparse": "steelyard.runner.reparsing",
    "row_score": "steelyard.metrics.evidence.sums",
    "run": "steelyard.runner.run",
    "selective": "steelyard.study.selective",
    "sums": "steelyard.metrics.evidence.sums",
    "value": "steelyard.study.evaluation",
    "values": "steelyard.study.evaluation",
}

_ROOMS = ("retrieval", "runs")  # modules with functions of their own

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    # PEP 562: importing steelyard costs nothing until a name is used
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"steelyard.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'steelyard' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # a submodule of the same name must not shadow the function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_ROOMS})
