"""What is kept of a run, and that it comes back as it was."""

from __future__ import annotations

import hashlib
import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from steelyard.errors import InputError, StorageError
from steelyard.records.readers import read
from steelyard.records.table import Records
from steelyard.runs import saved as keeping
from steelyard.runs.index import Index
from steelyard.runs.layout import Scope
from steelyard.runs.saved import Clock, SavedRun, compare_runs, save
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate
from tests.support.stores import (
    edit,
    kept,
    small,
    with_records,
)

# -- what is kept ------------------------------------------------------------------------------------------------------


def test_undefined_numbers_have_no_key_and_every_number_stands_under_its_flat_key(tmp_path: Path) -> None:
    columns = {
        "item": [f"q{i}" for i in range(12)],
        "target": ["a"] * 12,
        "prediction": ["a"] * 12,
        "model": ["m1", "m2"] * 6,
        "group.site": ["x", "x", "y", "y"] * 3,
    }
    records = Records.from_columns(columns)
    result = evaluate(records, ["accuracy", "balanced_accuracy"], by=["group.site"], resamples=0, keep_evidence=True)
    _, folder = save(Scope(tmp_path), result, workflow="Triage", clock=Clock())
    document = json.loads((folder / "run.json").read_text(), parse_constant=pytest.fail)
    assert sorted(document["Metrics"]) == [
        "accuracy{model=m1,group.site=x}",
        "accuracy{model=m1,group.site=y}",
        "accuracy{model=m1}",
        "accuracy{model=m2,group.site=x}",
        "accuracy{model=m2,group.site=y}",
        "accuracy{model=m2}",
        *(
            f"n_predictions{{model={model}{site}}}"
            for model in ("m1", "m2")
            for site in (",group.site=x", ",group.site=y", "")
        ),
    ]
    kinds = {key.partition("{")[0]: type(value) for key, value in document["Metrics"].items()}
    assert kinds == {"accuracy": float, "n_predictions": int}


TABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "clusters": {"patient": [f"p{i // 3}" for i in range(12)], "cluster=": "patient"},
    "a cluster column that is not the cluster": {"cluster": [f"p{i // 3}" for i in range(12)], "cluster=": "item"},
    "tasks": {"task": ["t1", "t2"] * 6},
    "numbers": {"target": list(range(12)), "prediction": [0.5, None] * 6, "task=": {"range": [0, 12]}},
    "truths": {"target": [True, False] * 6, "prediction": [True] * 12},
    "labels": {"task=": {"labels": ["yes", "no", "maybe"]}},
    "facts": {"task=": {"facts": {"wall_seconds": 3.5}}},
    "nulls": {"extra": [None] * 12, "confidence": [0.5, None] * 6, "repeat": [1] * 12},
    "lists": {"gains": [[1.0, None], [], [0.0]] * 4},
    "texts": {"item": [f"é\u2028\0\x1b[31m😀{i}" for i in range(12)]},
    "dots": {"group.site": ["x", "y"] * 6, "signal.evidence": [0.25] * 12},
    "altered": {"perturbation": ["none", "typo", "none", None] * 3, "item": [f"q{i}" for i in range(12)]},
    "failures": {"prediction": ["yes", None] * 6, "outcome": ["answered", "failed", "answered", "unparsed"] * 3},
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_records_that_were_kept_come_back_as_they_were(tmp_path: Path, name: str) -> None:
    table = dict(TABLES[name])
    cluster, task = table.pop("cluster=", None), table.pop("task=", None)
    columns = {
        "item": [f"q{i}" for i in range(12)],
        "target": ["yes", "no"] * 6,
        "prediction": ["yes", None, "no"] * 4,
        **table,
    }
    records = Records.from_columns(columns, cluster=cluster, task=task)
    result = evaluate(records, ["failure_rate"], resamples=0, keep_evidence=True)
    _, folder = save(Scope(tmp_path), result, workflow="Triage", clock=Clock(), records=records)
    assert "records.parquet" in os.listdir(folder)
    opened = SavedRun.at(folder)
    opened.verify()
    again = opened.records
    assert again is not None
    assert again.stated == records.stated
    for column in records.stated:
        assert again.column(column).type == records.column(column).type
        assert again.column(column).equals(records.column(column)), column
    assert again.task == records.task
    assert again.cluster_columns == records.cluster_columns
    assert again.cluster[0] == records.cluster[0]
    assert again.counts() == records.counts()


def two_runs(root: Path, *, rows: tuple[bool, bool]) -> tuple[list[SavedRun], list[Records]]:
    """Two runs on the same questions, four to a patient; in the second one row failed. Rows are kept where asked."""
    tables, runs = [], []
    for number, failed in enumerate((-1, 7)):
        columns = {
            "item": [f"q{i}" for i in range(32)],
            "patient": [f"p{i // 4}" for i in range(32)],
            "target": ["yes" if i % 2 else "no" for i in range(32)],
            "prediction": ["yes" if i % (3 + 2 * number) else "no" for i in range(32)],
            "outcome": ["failed" if i == failed else "answered" for i in range(32)],
            "group.site": ["x" if i < 16 else "y" for i in range(32)],
        }
        records = Records.from_columns(columns, cluster="patient")
        result = evaluate(records, ["accuracy"], by=["group.site"], resamples=200, keep_evidence=True)
        _, folder = save(
            Scope(root), result, workflow="Triage", clock=Clock(), records=records if rows[number] else None
        )
        tables.append(records)
        runs.append(SavedRun.at(folder))
    return runs, tables


def test_two_runs_with_their_records_are_compared_row_by_row(tmp_path: Path) -> None:
    (base, new), tables = two_runs(tmp_path, rows=(True, True))
    here, there = compare_runs(base, new, ["accuracy"])["accuracy"], compare(*tables, ["accuracy"])["accuracy"]
    assert here.n == 31  # the failed row left both; without rows its whole patient does
    assert (here.delta, here.interval, here.p_value) == (there.delta, there.interval, there.p_value)


@pytest.mark.parametrize("rows", [(False, False), (True, False), (False, True)])
def test_two_runs_of_which_one_kept_no_records_are_compared_by_their_evidence(
    tmp_path: Path, rows: tuple[bool, bool]
) -> None:
    (base, new), _ = two_runs(tmp_path, rows=rows)
    assert compare_runs(base, new, ["accuracy"])["accuracy"].n == 28


def test_records_take_no_slices_away_from_a_comparison(tmp_path: Path) -> None:
    slices = [
        [dict(delta.slice) for delta in compare_runs(*two_runs(tmp_path, rows=rows)[0], ["accuracy"])]
        for rows in ((False, False), (True, True))
    ]
    assert slices[0] == [{}, {"group.site": "x"}, {"group.site": "y"}]
    assert slices[1] == slices[0]


def test_records_whose_digest_is_right_and_that_are_none_are_a_storage_error(tmp_path: Path) -> None:
    folder = with_records(tmp_path)
    (folder / "records.parquet").write_bytes(b"PAR1 no")
    digest = hashlib.sha256(b"PAR1 no").hexdigest()
    edit(folder, lambda d: d["Files"].update({"records.parquet": digest}), sealed=True)
    opened = SavedRun.at(folder)
    opened.verify()
    with pytest.raises(StorageError, match="not the records of a run"):
        _ = opened.records


def test_half_characters_that_earlier_versions_kept(tmp_path: Path) -> None:
    """They stood in JSON as they were, under a digest of that; in the rows as bytes that are no UTF-8."""
    folder = with_records(tmp_path)
    written = pa.array([b"\xed\xa0\x80"])
    column = pa.Array.from_buffers(pa.string(), 1, written.buffers())
    metadata = pq.read_schema(folder / "records.parquet").metadata
    pq.write_table(pa.table({"item": column}).replace_schema_metadata(metadata), folder / "records.parquet")
    evidence = dict(np.load(folder / "evidence.npz"))
    header = bytes(evidence["header"]).replace(b'"q1"', b'"q1\\ud800"')
    np.savez(folder / "evidence.npz", **{**evidence, "header": np.frombuffer(header, np.uint8)})
    document = json.loads((folder / "run.json").read_text())
    document["Labels"] = {"half\ud800": "\udfff"}
    document["Files"] = {n: hashlib.sha256((folder / n).read_bytes()).hexdigest() for n in document["Files"]}
    del document["Digest"]
    digest = hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()
    (folder / "run.json").write_text(json.dumps({**document, "Digest": digest}))
    run = SavedRun.at(folder)
    assert run.run.labels == {"half\\ud800": "\\udfff"}
    assert header != bytes(evidence["header"])
    assert any(("q1\\ud800",) in tuple(part.ids) for part in run.kept)
    with pytest.raises(StorageError, match="its texts are not UTF-8"):
        _ = run.records
    document["Labels"] = {"half\ud801": "\udfff"}
    (folder / "run.json").write_text(json.dumps({**document, "Digest": digest}))
    with pytest.raises(StorageError, match="was changed after it was written"):
        SavedRun.at(folder)


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + bytes(18), b"noise" * 100])
def test_evidence_whose_digest_is_right_and_that_is_none_is_a_storage_error(tmp_path: Path, content: bytes) -> None:
    folder = kept(tmp_path, "run")
    (folder / "evidence.npz").write_bytes(content)
    edit(folder, lambda d: d["Files"].update({"evidence.npz": hashlib.sha256(content).hexdigest()}), sealed=True)
    with pytest.raises(StorageError, match="evidence"):
        _ = SavedRun.at(folder).kept


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_clock_that_steps_back_makes_no_run_end_before_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter(datetime(2026, 1, 3, 12, tzinfo=UTC) - timedelta(hours=i) for i in range(100))

    def now(zone: Any = None) -> datetime:
        return next(moments)

    stepping = type("stepping", (datetime,), {"now": staticmethod(now)})
    monkeypatch.setattr(keeping, "datetime", stepping)
    for i in range(3):
        clock = Clock()
        time.sleep(0.002)
        run, folder = save(Scope(tmp_path), small(), workflow="Triage", clock=clock, run_id=f"run{i}")
        document = json.loads((folder / "run.json").read_text())
        assert document["StartedAtUtc"] == f"2026-01-03T{12 - i}:00:00.000000Z"
        assert document["StartedAtUtc"] < document["CompletedAtUtc"] < f"2026-01-03T{12 - i}:30"
        assert run.complete
    with Index(tmp_path) as index:
        assert [run.run_id for run in index.runs()] == ["run0", "run1", "run2"]


def test_columns_that_nobody_can_read_are_kept_with_the_rows(tmp_path: Path) -> None:
    rows = [
        {"item": i, "target": "a", "prediction": "a", "messages": [{"n": i}], "mixed": i if i % 2 else "x"}
        for i in range(6)
    ]
    records = read(rows)
    evaluation = evaluate(records, ["accuracy"], resamples=0, keep_evidence=True)
    run, folder = save(Scope(tmp_path), evaluation, workflow="w", clock=Clock(), records=records)
    kept = SavedRun.at(folder).records
    assert kept is not None
    assert kept.extras == records.extras == ("messages", "mixed")
    assert kept.to_arrow().equals(records.to_arrow())
    assert kept.extra("messages").is_json
    with pytest.raises(InputError, match="mixed: text is expected"):
        kept.column("mixed")
    assert run.files


def test_facts_are_in_a_comparison_of_runs_that_kept_no_records(tmp_path: Path) -> None:
    columns = {"item": list(range(12)), "target": ["a", "b"] * 6, "prediction": ["a"] * 12}
    runs = []
    for facts in ({"wall_seconds": 3.5, "kwh": 0.25}, {}):
        result = evaluate(Records.from_columns(columns, task={"facts": facts}), ["accuracy"], keep_evidence=True)
        _, folder = save(Scope(tmp_path), result, workflow="Triage", clock=Clock())
        runs.append(SavedRun.at(folder))
    assert compare_runs(*runs, ["accuracy"]).facts == {"base": {"wall_seconds": 3.5, "kwh": 0.25}}
