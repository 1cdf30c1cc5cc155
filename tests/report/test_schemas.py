"""Published JSON Schemas: valid, current, and met by what is written."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema
import pytest

from steelyard.confidence.calibrators.wire import calibration_document
from steelyard.ground.json import dumps
from steelyard.records.readers import read
from steelyard.report.schemas import schemas
from steelyard.study.calibrating import calibrate
from steelyard.study.selective import selective
from steelyard.study.selective_wire import selective_document
from tests.support.places import EXAMPLES

# the documented example, key for key
EXAMPLE = {
    "schema_version": "1",
    "created_at": "2026-01-03T00:00:00Z",
    "inputs": [{"path": "...", "run_id": "...", "git_commit": "...", "mode": "few_shot"}],
    "population": {
        "participants_total": 41,
        "participants_included": 40,
        "participants_failed": 1,
        "items_total": 320,
    },
    "loss": {"name": "abs_norm", "definition": "abs(pred - gt) / 3", "raw_multiplier": 3},
    "confidence_variants": {
        "llm": {
            "cmax": 0.655,
            "aurc_full": 0.192,
            "augrc_full": 0.058,
            "aurc_optimal": 0.110,
            "augrc_optimal": 0.035,
            "eaurc": 0.082,
            "eaugrc": 0.023,
            "aurc_achievable": 0.170,
            "interpretation": {"aurc_gap_pct": 74.3, "augrc_gap_pct": 65.7, "achievable_gain_pct": 11.5},
            "aurc_at_c": {"requested": 0.5, "used": 0.5, "value": 0.123},
            "augrc_at_c": {"requested": 0.5, "used": 0.5, "value": 0.041},
            "mae_at_coverage": {"0.10": {"requested": 0.1, "achieved": 0.123, "value": 0.5}},
            "bootstrap": {
                "seed": 42,
                "n_resamples": 10000,
                "ci95": {"cmax": [0.6, 0.7], "aurc_full": [0.1, 0.2]},
            },
            "curve": {
                "coverage": [0.123, 0.234],
                "selective_risk": [0.500, 0.700],
                "generalized_risk": [0.062, 0.164],
                "threshold": [3.0, 2.0],
            },
        }
    },
    "comparison": {"enabled": False, "intersection_only": False, "deltas": None},
}


def validator(name: str) -> Any:
    schema = schemas[name]()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    folder = tmp_path_factory.mktemp("phq8")
    subprocess.run([sys.executable, EXAMPLES / "phq8/make.py", folder], check=True, capture_output=True)
    return [read(folder / "run.json", where={"strategy": mode}) for mode in ("zero_shot", "few_shot")]


def keys(document: Any, path: str = "") -> list[str]:
    """Every path of names in a document, lists left out."""
    if not isinstance(document, dict):
        return [path]
    return [p for key, value in document.items() for p in [f"{path}.{key}", *keys(value, f"{path}.{key}")]]


def test_the_documented_example_is_valid() -> None:
    validator("selective").validate(EXAMPLE)


@pytest.mark.parametrize("key", list(EXAMPLE))
def test_a_documented_key_must_be_there(key: str) -> None:
    less = {k: v for k, v in EXAMPLE.items() if k != key}
    assert list(validator("selective").iter_errors(less))


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.update(cmax=1.2),
        lambda v: v["mae_at_coverage"].update({"0.1": None}),
        lambda v: v["bootstrap"]["ci95"].update(cmax=[0.1]),
        lambda v: v.pop("interpretation"),
        lambda v: v["curve"].pop("threshold"),
    ],
)
def test_what_is_off_is_found(change: Any) -> None:
    broken = json.loads(json.dumps(EXAMPLE))
    change(broken["confidence_variants"]["llm"])
    assert list(validator("selective").iter_errors(broken))


def test_one_run_has_every_documented_key_in_the_documented_order(runs: list[Any]) -> None:
    document = selective_document(selective(runs[1], loss="abs_norm", coverage=[0.1], resamples=200))
    validator("selective").validate(document)
    written = keys(document)
    documented = keys(EXAMPLE)
    assert [k for k in written if k in documented] == documented
    assert document["inputs"][0]["run_id"] == "phq8-run"
    assert len(document["inputs"][0]["sha256"]) == 64


@pytest.mark.parametrize("confidence", [["all"], ["default", "secondary:token_msp+verbalized:average"]])
@pytest.mark.parametrize("resamples", [0, 200])
def test_every_artifact_is_valid(runs: list[Any], confidence: list[str], resamples: int) -> None:
    one = selective_document(selective(runs[0], confidence=confidence, resamples=resamples))
    validator("selective").validate(json.loads(dumps(one)))
    two = selective_document(selective(*runs, confidence=confidence, resamples=resamples))
    validator("selective").validate(json.loads(dumps(two)))


@pytest.mark.parametrize("method", ["temperature", "isotonic", "linear", "logistic"])
def test_every_calibrator_and_what_it_judges_is_valid(runs: list[Any], method: str) -> None:
    calibrator = calibrate(runs[0], method, confidence="verbalized").calibrator
    validator("calibrator").validate(json.loads(dumps(calibration_document(calibrator))))
    name = "verbalized_calibrated" if method == "temperature" else "calibrated"
    found = selective(runs[1], confidence=name, calibrators=[calibrator], resamples=200)
    document = json.loads(dumps(selective_document(found)))
    validator("selective").validate(document)
    assert set(document["confidence_variants"][name]["calibration"]) == {"ece", "ece_null", "nll", "brier", "auroc"}
    assert document["calibrators"][name]["features"] == ["verbalized"]
