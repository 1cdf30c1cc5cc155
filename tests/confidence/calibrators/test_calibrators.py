"""Calibrators: fits against second opinions, artifacts that survive the disk, rows and scales that are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression, Ridge

from steelyard.confidence.calibrators import Calibrator, methods
from steelyard.confidence.calibrators.wire import calibration_document, read_calibrator
from steelyard.errors import InputError, StorageError, UsageError
from steelyard.ground.json import dumps
from steelyard.records.table import Records
from steelyard.records.task import Task
from steelyard.report.calibration import calibrator_report
from steelyard.report.document import Note
from steelyard.study.calibrating import FOLDS, calibrate, reliability_of, scores, target_values
from steelyard.uncertainty.folds import fold_of


def rows(seed: int = 0, people: int = 40, *, shift: int = 0, **changed: Any) -> Records:
    rng = np.random.default_rng(seed)
    size = people * 4
    truth = rng.integers(0, 4, size)
    skill = rng.random(size)
    said = np.where(rng.random(size) < skill, truth, np.clip(truth + rng.integers(-2, 3, size), 0, 3))
    columns: dict[str, Any] = {
        "strategy": ["few_shot"] * size,
        "item": [f"{shift + i // 4}/{i % 4}" for i in range(size)],
        "cluster": [shift + i // 4 for i in range(size)],
        "target": truth,
        "prediction": [None if rng.random() < 0.2 else int(p) for p in said],
        "signal.token_msp": skill,
        "signal.verbalized_confidence": np.clip(np.round(1 + 4 * skill + rng.normal(0, 0.7, size)), 1, 5).astype(int),
        "signal.noise": rng.normal(50, 10, size),
    }
    return Records.from_columns({**columns, **changed}, task={"range": 3})


def fitted(method: str, records: Records | None = None, **how: Any) -> Calibrator:
    how = how or {"features": ["token_msp"]}
    return calibrate(records or rows(), method, **how).calibrator


def test_logistic_and_linear_agree_with_scikit_learn() -> None:
    records = rows()
    answered = records.take(records.array("answered") == 1)
    raw = np.column_stack([answered.array("signal.token_msp"), answered.array("signal.noise")])
    scaled = (raw - raw.mean(0)) / raw.std(0)
    y = np.asarray(answered.array("correct"))
    found = fitted("logistic", records, features=["token_msp", "noise"])
    theirs = LogisticRegression(C=1.0, tol=1e-10, max_iter=1000).fit(scaled, y)
    assert found.parameters["coefficients"] == pytest.approx(theirs.coef_[0], abs=1e-5)
    ours = found.confidence(answered)
    assert ours == pytest.approx(theirs.predict_proba(scaled)[:, 1], abs=1e-5)
    loss = target_values(answered, "loss")
    line = fitted("linear", records, features=["token_msp", "noise"], target="loss")
    ridge = Ridge(alpha=1.0).fit(scaled, loss)
    assert line.confidence(answered) == pytest.approx(np.clip(ridge.predict(scaled), 0, 1), abs=1e-9)


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=30))
def test_isotonic_agrees_with_scikit_learn_and_never_falls(pairs: list[tuple[int, bool]]) -> None:
    x, y = np.array([p[0] for p in pairs], float), np.array([p[1] for p in pairs], float)
    parameters = methods["isotonic"].fit(x[:, None], y)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(x, y)
    query = np.linspace(-4, 4, 33)
    found = methods["isotonic"].apply(parameters, query[:, None])
    assert found == pytest.approx(theirs.predict(query), abs=1e-9)
    assert (np.diff(found) >= -1e-12).all()


@pytest.mark.parametrize(("p", "right", "limit"), [(0.999999, 0.5, 10.0), (0.501, 1.0, 0.05)])
def test_a_temperature_stays_within_its_range(p: float, right: float, limit: float) -> None:
    y = (np.arange(100) < 100 * right).astype(float)
    found = methods["temperature"].fit(np.full((100, 1), p), y)["temperature"]
    assert found == pytest.approx(limit)
    assert 0.05 <= found <= 10  # type: ignore[operator]


def test_a_temperature_is_explained_by_held_out_rows_only() -> None:
    def said(people: int, confidence: Any, **more: Any) -> str:
        rng = np.random.default_rng(5)
        right = rng.random(people) < 0.7
        columns = {"item": np.arange(people), "target": ["a"] * people, "prediction": np.where(right, "a", "b")}
        records = Records.from_columns({**columns, "mine": confidence(rng, right), **more})
        note = calibrator_report(calibrate(records, "temperature", confidence="mine").calibrator)[1]
        assert isinstance(note, Note)
        return note.text.partition(": ")[2]

    assert said(400, lambda rng, right: np.where(rng.random(400) < 0.8, 0.99, 0.01)) == "confidences were too extreme"
    assert said(400, lambda rng, right: np.where(right, 0.6, 0.45)).startswith("at the limit of its range")
    timid = said(400, lambda rng, right: np.where(right ^ (rng.random(400) < 0.05), 0.6, 0.4))
    assert timid == "confidences were too timid"
    calibrated = said(60, lambda rng, right: np.where(rng.random(60) < 0.5, 0.69, 0.71))
    assert calibrated.startswith("no temperature helps on held-out rows (NLL ")
    alone = said(60, lambda rng, right: np.where(rng.random(60) < 0.8, 0.99, 0.01), cluster=["p1"] * 60)
    assert alone == "fitted in sample; no held-out rows say whether it helps"


def test_a_near_constant_feature_is_left_alone() -> None:
    flat = np.full(160, 4.2)
    flat[::2] += 1e-15
    found = fitted("logistic", rows(**{"signal.flat": flat}), features=["token_msp", "flat"])
    alone = fitted("logistic", features=["token_msp"])
    assert found.features[1].scale == 1.0
    assert found.parameters["coefficients"] == pytest.approx([*alone.parameters["coefficients"], 0.0], abs=1e-6)  # type: ignore[misc]


@pytest.mark.parametrize("target", ["correctness", "near_correct", "loss"])
def test_targets_by_definition(target: str) -> None:
    records = rows()
    answered = records.take(records.array("answered") == 1)
    errors = [abs(p - t) for p, t in zip(answered.array("prediction"), answered.array("target"), strict=True)]
    wanted = {
        "correctness": [float(e == 0) for e in errors],
        "near_correct": [float(e <= 1) for e in errors],
        "loss": [1 - e / 3 for e in errors],
    }[target]
    assert target_values(answered, target) == pytest.approx(wanted)
    found = fitted("isotonic", records, features=["token_msp"], target=target)
    assert found.target == target
    whole = rows(prediction=rows().column("target"))
    whole.task = Task(range=1)
    assert set(fitted("linear", whole, features=["token_msp"], target="loss").metrics.in_sample) == {"mae", "mse"}
    assert set(found.metrics.in_sample) == ({"mae", "mse"} if target == "loss" else {"ece", "nll", "brier", "auroc"})


def test_cross_fitting_leaves_whole_clusters_out_and_flatters_less() -> None:
    folds = fold_of(41, FOLDS, 7)
    assert sorted(np.bincount(folds).tolist()) == [8, 8, 8, 8, 9]
    assert (fold_of(41, FOLDS, 7) == folds).all()
    assert (fold_of(41, FOLDS, 8) != folds).any()
    found = fitted("isotonic", rows(3)).metrics
    assert found.cross_fitted is not None
    assert found.in_sample["ece"] == pytest.approx(0, abs=1e-9)  # an isotonic fit is calibrated on its own rows
    assert found.cross_fitted["nll"] > found.in_sample["nll"]  # type: ignore[operator]


def test_cross_fitting_by_hand() -> None:
    records = rows(5)
    answered = records.take(records.array("answered") == 1)
    ids, cluster = answered.cluster
    fold = fold_of(len(ids), FOLDS, 42)[cluster]
    y, x = np.asarray(answered.array("correct")), np.asarray(answered.array("signal.token_msp"))
    p = np.empty(len(y))
    for k in range(FOLDS):
        inside = IsotonicRegression(out_of_bounds="clip").fit(x[fold != k], y[fold != k])
        p[fold == k] = inside.predict(x[fold == k])
    found = fitted("isotonic", records).metrics.cross_fitted
    assert found == pytest.approx(scores(p, y), abs=1e-9)


@pytest.mark.parametrize(("people", "note"), [(1, "one cluster only"), (3, "")])
def test_few_clusters(people: int, note: str) -> None:
    found = fitted("isotonic", rows(2, people)).metrics
    assert note in found.note
    assert bool(note) == bool(found.note)
    assert (found.cross_fitted is None) == bool(note)


def test_refusals_of_the_request() -> None:
    for how, problem in (
        ({"features": []}, "either features or one confidence"),
        ({"features": ["token_msp"], "confidence": "token_msp"}, "either features or one confidence"),
        ({"features": ["token_msp", "token_msp"]}, "named twice"),
        ({"features": ["token_msp"], "target": "luck"}, "target is one of"),
        ({"features": ["token_msp"], "fill": {"noise": 1}}, "not among the features"),
    ):
        with pytest.raises(UsageError, match=problem):
            calibrate(rows(), "logistic", **how)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="is a finite number"):
        calibrate(rows(), "logistic", features=["token_msp"], fill={"token_msp": float("nan")})
    with pytest.raises(UsageError, match="seed is a whole number"):
        calibrate(rows(), "logistic", features=["token_msp"], seed=-1)
    with pytest.raises(InputError, match="too large to be standardised"):
        calibrate(rows(**{"signal.huge": np.full(160, 1e308)}), "isotonic", features=["huge"])
    with pytest.raises(UsageError, match="takes one feature, not 2"):
        calibrate(rows(), "isotonic", features=["token_msp", "noise"])
    with pytest.raises(UsageError, match="right or wrong"):
        calibrate(rows(), "logistic", features=["token_msp"], target="loss")
    with pytest.raises(UsageError, match="unknown calibration method 'platt'"):
        calibrate(rows(), "platt", features=["token_msp"])
    with pytest.raises(UsageError, match="calibrated already"):
        calibrate(rows(), "isotonic", confidence="verbalized_calibrated")
    with pytest.raises(InputError, match=r"beyond \[0, 1\]"):
        calibrate(rows(), "temperature", confidence="signal.noise")
    with pytest.raises(InputError, match=r"signal\.nothing, which is not there; signals here: token_msp"):
        calibrate(rows(), "logistic", features=["nothing"])
    right = rows()
    right = right.with_columns({"prediction": right.column("target")})
    with pytest.raises(InputError, match="one class only"):
        calibrate(right, "logistic", features=["token_msp"])


def test_a_missing_feature_is_an_error_unless_a_fill_is_declared() -> None:
    holes = [None if i % 5 == 0 else 0.5 + i / 400 for i in range(160)]
    records = rows(**{"signal.token_msp": holes, "signal.retrieval_similarity_mean": holes})
    with pytest.raises(InputError, match=r"row 1: signal\.token_msp: .* `fill=`"):
        calibrate(records, "logistic", features=["token_msp"])
    assert fitted("logistic", records, features=["token_msp"], fill={"token_msp": 0.25}).features[0].fill == 0.25
    assert fitted("logistic", records, features=["retrieval_similarity_mean"]).features[0].fill == 0.0


# -- applying ----------------------------------------------------------------------------------------------------------


def test_rows_that_trained_are_recognised_however_they_come() -> None:
    records = rows()
    found = fitted("logistic", records)
    trained = found.provenance.n
    assert found.seen_rows(records) == trained
    assert found.seen_rows(records.take(np.arange(len(records))[::-1])) == trained
    assert 0 < found.seen_rows(records.take(np.arange(40))) < trained
    assert found.seen_rows(rows(1, shift=1000)) == 0
    found_columns = {name: records.column(name) for name in records.stated}
    added = Records.from_columns({**found_columns, "signal.more": np.arange(160)})
    fewer = Records.from_columns({name: c for name, c in found_columns.items() if name != "signal.noise"})
    assert found.seen_rows(added) == found.seen_rows(fewer) == trained
    decimal = {name: records.column(name) for name in records.stated if name != "strategy"}
    decimal |= {name: decimal[name].cast("double") for name in ("target", "prediction", "signal.verbalized_confidence")}
    assert found.seen_rows(Records.from_columns({"model": ["m"] * len(records), **decimal})) == trained
    again = rows(1)  # the same participants, other answers
    assert found.seen_rows(again) < 5
    assert found.seen_participants(again) == 40
    assert found.seen_participants(rows(1, shift=1000)) == 0


@pytest.mark.parametrize(
    "values",
    [
        lambda x: 100 * x,
        lambda x: x / 100,
        lambda x: x / 100 - 3,
        lambda x: x + 2,
    ],
)
def test_another_scale_is_an_error_not_a_collapsed_curve(values: Any) -> None:
    found = fitted("logistic")
    other = rows(1, shift=500)
    moved = rows(1, shift=500, **{"signal.token_msp": values(np.asarray(other.array("signal.token_msp")))})
    with pytest.raises(InputError, match=r"token_msp: .* was trained on another scale; .* one scale"):
        found.check_scale(moved)
    found.check_scale(other)
    assert np.isfinite(found.confidence(other)[other.array("answered") == 1]).all()


def test_fractions_where_training_saw_whole_numbers_are_an_error() -> None:
    found = fitted("logistic", features=["verbalized_confidence"])
    other = rows(1, shift=500)
    scaled = (np.asarray(other.array("signal.verbalized_confidence")) - 1) / 4
    with pytest.raises(InputError, match="a whole number from 1 to 5 is expected"):
        found.check_scale(rows(1, shift=500, **{"signal.verbalized_confidence": scaled}))
    counts = fitted("logistic", rows(**{"signal.count": np.arange(160) % 9}), features=["count"])
    with pytest.raises(InputError, match="fractions, where training saw whole numbers"):
        counts.check_scale(rows(1, shift=500, **{"signal.count": (np.arange(160) % 9) / 9}))


def test_narrow_or_odd_values_within_the_training_range_are_no_other_scale() -> None:
    found = fitted("logistic", rows(**{"signal.count": np.arange(160) % 9}), features=["token_msp", "count"])
    half = (np.arange(160) % 9).astype(float)
    half[3] = 2.5
    for msp, count in ((np.full(160, 0.97), np.full(160, 8)), (np.linspace(0.4, 0.5, 160), half)):
        found.check_scale(rows(1, shift=500, **{"signal.token_msp": msp, "signal.count": count}))


def test_a_filled_feature_is_judged_by_the_values_that_are_there() -> None:
    percent = [None if i % 5 == 0 else 50 + i % 40 for i in range(160)]
    found = fitted(
        "logistic", rows(**{"signal.retrieval_similarity_mean": percent}), features=["retrieval_similarity_mean"]
    )
    unit = [None if x is None else x / 100 for x in percent]
    with pytest.raises(InputError, match=r"fractions|times larger or smaller"):
        found.check_scale(rows(1, shift=500, **{"signal.retrieval_similarity_mean": unit}))


def test_reliability_before_and_after_counts_every_row() -> None:
    test = rows(4, shift=900)
    found = fitted("isotonic", confidence="token_msp")
    before, after = reliability_of(found, test)
    answered = int(test.array("answered").sum())
    assert before.n == after.n == answered == sum(b.n for b in before.bins) == sum(b.n for b in after.bins)
    for b in after.bins:
        assert b.low <= b.confidence <= b.high
        assert b.interval is None or b.interval[0] <= b.accuracy <= b.interval[1]


@pytest.mark.parametrize("method", ["temperature", "logistic", "linear", "isotonic"])
def test_an_artifact_survives_the_disk_and_is_applied_without_the_fitting_libraries(
    tmp_path: Path, method: str
) -> None:
    how: dict[str, Any] = {"confidence": "token_msp"}
    found = fitted(method, rows(), **how)
    path = tmp_path / "calibration.json"
    path.write_text(dumps(calibration_document(found)))
    again = read_calibrator(path)
    assert again == found
    code = (
        "import sys, numpy as np; from pathlib import Path\n"
        "from steelyard.confidence.calibrators.wire import read_calibrator\n"
        "from steelyard.confidence.calibrators.calibrator import applied\n"
        f"c = read_calibrator(Path({str(path)!r}))\n"
        "print(applied(c.method, c.features, c.parameters, np.array([[0.7]]))[0])\n"
        "print([m for m in ('sklearn', 'scipy.optimize') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    value, loaded = done.stdout.splitlines()
    assert 0 <= float(value) <= 1
    assert loaded == "[]"


@pytest.mark.parametrize(
    ("change", "error", "problem"),
    [
        (
            lambda d: d.update(schema_version="2"),
            StorageError,
            "version 2; this program reads 1",
        ),
        (lambda d: d.update(kind="run"), UsageError, "not a calibrator artifact"),
        (lambda d: d.update(method="magic"), StorageError, "method is one of "),
        (
            lambda d: d.update(parameters={"temperature": 1}),
            StorageError,
            "parameters of logistic: one coefficient a feature",
        ),
        (
            lambda d: d["parameters"].update(coefficients=[1, 2]),
            StorageError,
            "one coefficient a feature and one intercept",
        ),
        (lambda d: d["features"][0].update(scale=0), StorageError, "scale is above 0"),
        (
            lambda d: d["features"][0].update(mean="a secret"),
            StorageError,
            r"Expected `float`, got `str` - at `\$\.features",
        ),
        (lambda d: d.pop("target"), StorageError, "missing required field `target`"),
        (lambda d: d.update(features=[]), StorageError, "does not take 0 features"),
        (lambda d: d["provenance"].update(rows="???"), StorageError, r"base64|rows"),
        (lambda d: d.pop("digest"), StorageError, "was changed after it was written"),
        (lambda d: d["parameters"].update(intercept=[1, 2]), StorageError, "one intercept"),
        (lambda d: d["provenance"].update(n=3), StorageError, "one digest a training row"),
        (lambda d: d["parameters"].update(intercept=0.5), StorageError, "was changed after it was written"),
    ],
)
def test_a_spoilt_artifact_is_refused_by_field(tmp_path: Path, change: Any, error: type, problem: str) -> None:
    document = json.loads(dumps(calibration_document(fitted("logistic"))))
    change(document)
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(document))
    with pytest.raises(error, match=problem) as caught:
        read_calibrator(path)
    assert "secret" not in str(caught.value)


def test_files_that_are_no_artifact(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*no such file"):
        read_calibrator(tmp_path / "none.json")
    path = tmp_path / "bad.json"
    for text in ("", "{", '{"a": NaN}', "\x00"):
        path.write_text(text)
        with pytest.raises(StorageError, match="not valid JSON"):
            read_calibrator(path)
    for text in ("[1]", "null", "{}"):
        path.write_text(text)
        with pytest.raises(UsageError, match="not a calibrator artifact"):
            read_calibrator(path)
