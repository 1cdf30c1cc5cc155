"""Very many labels: the cost stays near rows × resamples, the numbers stay the same, and texts are refused."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InputError
from steelyard.metrics.collector import Collector
from steelyard.metrics.definition import metric_of
from steelyard.metrics.evidence import confusion
from steelyard.metrics.evidence import sums as evidence_module
from steelyard.metrics.evidence.clusters import Merger
from steelyard.metrics.evidence.sums import Draw
from steelyard.records.table import Records
from steelyard.study.evaluation import evaluate, value

KIN = ("f1_macro", "f1_weighted", "balanced_accuracy")


def answers(rows: int, labels: int, seed: int = 0, *, declined: float = 0.1, **more: Any) -> Records:
    rng = np.random.default_rng(seed)
    target = rng.permutation(np.arange(rows) % labels)
    said = np.where(rng.random(rows) < 0.6, target, rng.integers(0, labels, rows))
    columns: dict[str, Any] = {
        "item": np.arange(rows),
        "target": [f"label{i}" for i in target],
        "prediction": [None if rng.random() < declined else f"label{i}" for i in said],
    }
    return Records.from_columns({**columns, **more})


@pytest.mark.parametrize("labels", [3, 60])
@pytest.mark.parametrize("task", [None, {"labels": [f"label{i}" for i in range(61)]}])
def test_every_way_to_add_up_gives_the_same(labels: int, task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = answers(300, labels, cluster=np.arange(300) // 3)
    records = Records.from_columns({name: table.column(name) for name in table.stated}, task=task)

    def read() -> dict[str, Any]:
        found = evaluate(records, [*KIN, "f1.label2"], resamples=400)
        return {e.metric: (e.value, e.se, e.interval) for e in found}

    usual = read()
    monkeypatch.setattr(confusion, "_SMALL_CHOICE", 0)
    assert read() == usual
    monkeypatch.setattr(evidence_module, "_ANY_SHARE", 0)
    monkeypatch.setattr(evidence_module, "_FULL_SHARE", 1.0)
    for name, (value_, se, interval) in read().items():
        assert value_ == usual[name][0]
        assert (se, *(interval or ())) == pytest.approx((usual[name][1], *(usual[name][2] or ())), rel=1e-12)


@pytest.mark.parametrize("name", KIN)
def test_nothing_is_held_for_every_pair_of_a_row_and_a_label(name: str) -> None:
    """All labels differ: 4,000 rows × 4,000 labels would be 128 MB, sixteen resamples of rows and labels are 2 MB."""
    records = answers(4000, 4000)
    metric = metric_of(name)
    constants = metric.constants([records])
    evidence = Collector(records).evidence(metric, constants)
    draw = Draw(np.ones((16, len(evidence.ids)), np.uint8))
    tracemalloc.start()
    values = metric.finished(draw.read(evidence), constants)
    metric.present(draw.read(evidence), constants)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert values == pytest.approx(value(name, records))
    assert peak < 20e6


def test_nearly_empty_cells_are_kept_sparse() -> None:
    few, many = (Collector(answers(2000, n)).evidence(metric_of("balanced_accuracy"), {}) for n in (5, 2000))
    assert isinstance(few.cells, np.ndarray)
    assert many.cells.nnz <= 2 * 2000
    assert (Merger(many.ids, many.ids).merged(many, many).cells != 2 * many.cells).nnz == 0


@pytest.mark.parametrize("name", [*KIN, "f1.label2"])
def test_above_five_thousand_labels_are_no_classes(name: str) -> None:
    said = r"over 5,001 labels: above 5,000 these are no classes; accuracy counts exact matches"
    with pytest.raises(InputError, match=said):
        value(name, answers(5001, 5001, declined=0))
    assert value(name, answers(5000, 5000, declined=0)) > 0


def test_the_confusion_matrix_is_left_out_where_it_would_be_large() -> None:
    (found,) = evaluate(answers(400, 201), ["f1_macro"], resamples=0)
    assert found.detail["confusion_matrix"] is None
    assert len(found.detail["labels"]) == len(found.detail["no_answer"]) == 201
    assert sum(found.detail["no_answer"]) == answers(400, 201).counts()["abstained"]
