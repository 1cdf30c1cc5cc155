"""The examples in docstrings are true, and every public function and class has one."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from importlib import import_module

import pytest

import steelyard
from steelyard.ground.showing import Shows
from steelyard.metrics import metrics

WITHOUT = {
    "BackendError": "raised where a model's server gives up",
    "Benchmark": "needs a suite and a folder of answers: docs/benchmark.md runs one",
    "Calibrator": "its docstring is the description in a published JSON Schema; `calibrate` shows one",
    "Run": "needs a model to ask: docs/running.md runs one",
    "StorageError": "raised where a disk or a kept file is damaged",
    "benchmark": "needs a suite and a folder of answers: docs/benchmark.md runs one",
    "reparse": "needs a kept run: docs/running.md reads one again",
    "run": "needs a model to ask: docs/running.md runs one",
}
PUBLIC = [name for name in steelyard.__all__ if callable(getattr(steelyard, name))]


@pytest.fixture(autouse=True)
def _no_metric_stays() -> Iterator[None]:
    """Examples that define metrics leave none behind."""
    before = set(metrics)
    yield
    for name in set(metrics) - before:
        metrics.remove(name)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example_that_is_true(name: str) -> None:
    known = getattr(steelyard, name)
    within = vars(import_module(known.__module__))
    (shown,) = doctest.DocTestFinder(recurse=False).find(known, name, globs=dict(within))
    assert bool(shown.examples) != (name in WITHOUT)
    told: list[str] = []
    doctest.DocTestRunner().run(shown, out=told.append)
    assert told == []


def test_what_has_no_example_is_public() -> None:
    assert set(WITHOUT) <= set(PUBLIC)


SHOWN = {
    Shows: ("to_pandas", "to_polars", "to_markdown", "to_latex", "save", "plot"),
    steelyard.Records: ("from_columns", "take", "filter", "split", "with_columns", "counts", "only", "labels"),
    steelyard.Gate: ("parse", "profile", "by", "check"),
    steelyard.BenchmarkReport: ("add", "add_combined_score", "save"),
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in SHOWN.items() for name in names])
def test_a_method_that_people_call_has_an_example_that_is_true(kind: type, name: str) -> None:
    within = vars(import_module(kind.__module__))
    (shown,) = doctest.DocTestFinder(recurse=False).find(getattr(kind, name), name, globs=dict(within))
    assert shown.examples
    told: list[str] = []
    doctest.DocTestRunner().run(shown, out=told.append)
    assert told == []


@pytest.mark.parametrize("module", ["records.table", "runs.metric_frames", "study.comparison", "study.evaluation"])
def test_examples_in_docstrings(module: str) -> None:
    outcome = doctest.testmod(import_module(f"steelyard.{module}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0
