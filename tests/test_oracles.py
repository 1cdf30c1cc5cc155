"""Numbers of independent implementations, case by case."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from steelyard.comparison import compare
from steelyard.errors import InputError
from steelyard.evaluation import evaluate, value
from steelyard.records.table import Records

HERE = Path(__file__).parent / "oracles"
SELECTIVE, CALIBRATION, DEFERRAL, RUN = (
    json.loads((HERE / f"{name}.json").read_text()) for name in ("selective", "calibration", "deferral", "runmetrics")
)
SCALARS = {
    "cmax": "cmax",
    "aurc_full": "aurc",
    "augrc_full": "augrc",
    "aurc_optimal": "aurc_optimal",
    "augrc_optimal": "augrc_optimal",
    "eaurc": "eaurc",
    "eaugrc": "eaugrc",
    "aurc_achievable": "aurc_achievable",
}


def same(got: float | None, wanted: float | None, *, to: float = 1e-12) -> None:
    if wanted is None:
        assert got is None or math.isnan(got)
    else:
        assert got is not None
        assert got == pytest.approx(wanted, rel=to, abs=to)


def named(cases: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(case, id=str(case.get("name", i))) for i, case in enumerate(cases)]


def items(case: dict[str, Any]) -> Records:
    columns = case["items"]
    return Records.from_columns(
        {
            "item": list(range(case["n"])),
            "cluster": columns["participant_id"],
            "target": columns["gt"],
            "prediction": columns["pred"],
            "signal.c": [float(c) for c in columns["confidence"]],
        }
    )


def options(loss: str, **more: float) -> str:
    given = {"rank": "signal.c", "loss": loss, **({"range": 3} if loss == "abs_norm" else {}), **more}
    return "(" + ", ".join(f"{k}={v}" for k, v in given.items()) + ")"


@pytest.mark.parametrize("case", named(SELECTIVE["cases"]))
def test_selective_case(case: dict[str, Any]) -> None:
    if not case["n"]:
        with pytest.raises(InputError, match="no records"):
            items(case)
        return
    records = items(case)
    for loss, expected in case["expected"].items():
        for key, name in SCALARS.items():
            same(value(f"{name}{options(loss)}", records), expected[key])
        for key in ("aurc_at_c", "augrc_at_c"):
            for c, wanted in expected[key].items():
                same(value(f"{key[:-2]}{options(loss, c=float(c))}", records), _value(wanted))
        for c, wanted in expected["mae_at_coverage"].items():
            same(value(f"risk_at{options(loss, c=float(c))}", records), _value(wanted))
        curve = expected.get("curve") or {}
        if isinstance(curve.get("coverage"), list) and curve["coverage"]:
            (estimate,) = evaluate(records, [f"aurc{options(loss)}"], resamples=100)
            for key, wanted in curve.items():
                assert estimate.detail["curve"][key] == pytest.approx(wanted, abs=1e-12)


def _value(wanted: Any) -> float | None:
    return wanted["value"] if isinstance(wanted, dict) else wanted  # type: ignore[no-any-return]


def rows(listed: list[list[Any]]) -> Records:
    who, which, prediction, target, confidence = zip(*listed, strict=True)
    return Records.from_columns(
        {
            "item": [f"{p}-{i}" for p, i in zip(who, which, strict=True)],
            "cluster": list(who),
            "target": list(target),
            "prediction": list(prediction),
            "signal.c": [float(c) for c in confidence],
        }
    )


@pytest.mark.parametrize("case", named(SELECTIVE["bootstrap"]))
def test_legacy_bootstrap(case: dict[str, Any]) -> None:
    records = rows(case["rows"])
    wanted: dict[str, dict[str, Any]] = {}
    for key, result in case["results"].items():
        if key.startswith("mae_at_coverage"):
            wanted[f"risk_at{options(case['loss'], c=float(key.split()[1]))}"] = result
        elif key.endswith("_at_c"):
            wanted[f"{key[:-2]}{options(case['loss'], c=case['area_coverage'])}"] = result
        else:
            wanted[f"{SCALARS[key]}{options(case['loss'])}"] = result
    found = evaluate(records, list(wanted), resamples=case["n_resamples"], seed=case["seed"], stream="legacy")
    for estimate, result in zip(found, wanted.values(), strict=True):
        same(estimate.value, result["point"])
        assert estimate.interval is not None
        same(estimate.interval[0], result["ci95"][0])
        same(estimate.interval[1], result["ci95"][1])


@pytest.mark.parametrize("case", named(SELECTIVE["paired"]))
def test_legacy_paired(case: dict[str, Any]) -> None:
    left, right = rows(case["left"]), rows(case["right"])
    wanted = {f"{SCALARS[key]}{options(case['loss'])}": result for key, result in case["results"].items()}
    found = compare(left, right, list(wanted), resamples=case["n_resamples"], seed=case["seed"], stream="legacy")
    for delta, result in zip(found, wanted.values(), strict=True):
        same(delta.delta, result["delta"])
        assert delta.interval is not None
        same(delta.interval[0], result["ci95"][0])
        same(delta.interval[1], result["ci95"][1])


def judged(confidence: list[float], correct: list[Any]) -> dict[str, Any]:
    return {
        "target": [1] * len(confidence),
        "prediction": [int(y) for y in correct],
        "confidence": confidence,
    }


@pytest.mark.parametrize("case", named(CALIBRATION["binary"]))
def test_binary_calibration(case: dict[str, Any]) -> None:
    columns = judged(case["p"], case["y"])
    for bins, wanted in case["ece"].items():
        same(value(f"ece(bins={bins})", **columns), wanted)
    same(value("nll", **columns), case["nll"])


@pytest.mark.parametrize("case", named([c for c in RUN["calibration"] if c["conf"]]))
def test_run_calibration(case: dict[str, Any]) -> None:
    columns = judged(case["conf"], case["correct"])
    for key, name in (("ece10", "ece"), ("ece15", "ece(bins=15)"), ("mce10", "mce"), ("brier", "brier")):
        same(value(name, **columns), case[key])


@pytest.mark.parametrize("case", named(RUN["classification"]))
def test_classification(case: dict[str, Any]) -> None:
    columns = {"target": case["y_true"], "prediction": case["y_pred"], "task": {"labels": case["labels"]}}
    if not case["y_true"] or set(case["y_true"]) - set(case["labels"]):
        # a target outside the fixed labels is an input error, by definition
        with pytest.raises(InputError):
            value("f1_macro", **columns)
        return
    for name in ("f1_macro", "f1_weighted", "accuracy"):
        same(value(name, **columns), case["out"][name])
    for label, wanted in case["out"]["per_class"].items():
        for name in ("precision", "recall", "f1"):
            found = value(f'{name}."{label}"', **columns)
            same(0.0 if math.isnan(found) else found, wanted[name])
    task = columns.pop("task")
    records = Records.from_columns({"item": list(range(len(case["y_true"]))), **columns}, task=task)
    (estimate,) = evaluate(records, ["f1_macro"], resamples=100)
    assert estimate.detail["confusion_matrix"] == case["out"]["confusion_matrix"]
    assert estimate.detail["labels"] == case["out"]["labels"]


@pytest.mark.parametrize("case", named(RUN["runner_parse_failures_excluded"]))
def test_parse_failures_under_both_conventions(case: dict[str, Any]) -> None:
    columns = {
        "target": case["gold"],
        "prediction": case["parsed"],
        "outcome": [None if p else "unparsed" for p in case["parsed"]],
        "task": {"labels": ["Critical", "Major", "Minor", "Trivial"]},
    }
    runner, strict = case["runner_out"], case["if_failures_counted_wrong"]
    same(value("f1_macro(answered_only=true)", **columns), runner["f1_macro"])
    same(value("selective_accuracy", **columns), runner["accuracy"])
    same(value("parse_failure_rate", **columns), runner["parse_failure_rate"])
    same(value("f1_macro", **columns), strict["f1_macro"])
    same(value("accuracy", **columns), strict["accuracy"])


@pytest.mark.parametrize("case", named([c for c in RUN["regression"] if c["y_true"]]))
def test_regression(case: dict[str, Any]) -> None:
    columns = {"target": [float(y) for y in case["y_true"]], "prediction": [float(y) for y in case["y_pred"]]}
    for name in ("mae", "mdae", "rmse"):
        same(value(name, **columns), case["out"][name])
    for label, wanted in case["out"]["mae_by_bin"].items():
        same(value(f"mae_by_bin.{label}", **columns), wanted)


@pytest.mark.parametrize("case", named(RUN["latency"]))
def test_latency(case: dict[str, Any]) -> None:
    if not case["latency_ms"]:
        return
    for name, wanted in case["out"].items():
        same(value(f"latency.{name}", latency_ms=[float(x) for x in case["latency_ms"]]), wanted)


@pytest.mark.parametrize("case", named(RUN["throughput"]))
def test_throughput(case: dict[str, Any]) -> None:
    if not case["n"]:
        return
    columns = {"prediction": ["a"] * int(case["n"]), "task": {"facts": {"wall_seconds": case["s"]}}}
    if case["s"] <= 0:
        assert math.isnan(value("throughput", **columns)) or case["s"] < 0
        return
    same(value("throughput", **columns), case["out"])


def altered(original: list[Any], changed: list[Any], gold: list[Any] | None = None) -> dict[str, Any]:
    size = len(original)
    return {
        "item": [*range(size), *range(size)],
        "perturbation": [None] * size + ["typo"] * size,
        "prediction": [*original, *changed],
        **({"target": [*gold, *gold]} if gold else {}),
    }


@pytest.mark.parametrize("case", named(RUN["consistency_rate"]))
def test_consistency_rate(case: dict[str, Any]) -> None:
    if case["orig"]:
        same(value("consistency_rate", **altered(case["orig"], case["pert"])), case["out"])


@pytest.mark.parametrize("case", named(RUN["perturbation_disparity"]))
def test_flips(case: dict[str, Any]) -> None:
    columns = altered(case["base"], case["pert"], case["gold"])
    out = case["out"]
    same(value("flip_rate", **columns), out["flip_rate"])
    same(value("robustness_score(accuracy)", **columns), 1 - abs(out["acc_baseline"] - out["acc_perturbed"]))
    for name in ("flip_to_correct", "flip_to_incorrect"):
        same(value(name, **columns), out[name] if out["flip_rate"] else None)


@pytest.mark.parametrize("case", named(RUN["fairness"]))
def test_fairness(case: dict[str, Any]) -> None:
    if not case["y_true"]:
        return
    columns = {"target": case["y_true"], "prediction": case["y_pred"], "group.g": case["groups"]}
    records = Records.from_columns({"item": list(range(len(case["y_true"]))), **columns})
    for base, key in (("accuracy", "out"), ("f1_macro", "f1_macro_variant")):
        out = case[key]
        same(value(f"fairness_gap({base}, by=group.g)", records), out["fairness_gap"])
        (worst,) = evaluate(records, [f"worst_group({base}, by=group.g)"], resamples=100)
        assert worst.detail["group"] == out["worst_group"]
        same(worst.detail["overall"], out["global_metric"])
        for group, wanted in out["per_group"].items():
            same(worst.detail["per_group"][group], wanted)
            # signed: the oracle's f1 variant drops the sign
            found = value(f"disparity({base}, by=group.g).{group}", records)
            same(found, wanted - out["global_metric"])
            same(abs(found), abs(out["disparities"][group]))


@pytest.mark.parametrize("case", named(RUN["stability"]))
def test_stability(case: dict[str, Any]) -> None:
    values = [v for v in case["values"] if v is not None]
    columns = {
        "item": [1] * len(values),
        "repeat": list(range(len(values))),
        "score": [float(v) for v in values],
    }
    if not values:
        return
    out = case["out"]
    same(value("stability(mean(score)).mean", **columns), out["mean"])
    if len(values) < 2:
        assert math.isnan(value("stability_score(mean(score))", **columns))
        return
    same(value("stability(mean(score)).stddev", **columns), out["stddev"])
    same(value("stability_score(mean(score))", **columns), out["stability"])
    same(value("stability(mean(score)).n_seeds", **columns), out["n_seeds"])
    if out["cv"] is not None and out["mean"] > 0:
        same(value("stability(mean(score)).cv", **columns), out["cv"])


@pytest.mark.parametrize("case", named(DEFERRAL["metric_cases"]))
def test_deferral_case(case: dict[str, Any]) -> None:
    records = case["records"]
    columns = {
        "item": list(range(len(records))),
        "target": [r["ground_truth"] for r in records],
        "prediction": [r["prediction"] for r in records],
        "outcome": ["abstained" if r["abstained"] else "answered" for r in records],
        "confidence": [r["confidence"] for r in records],
        "should_abstain": [r["metadata"].get("should_abstain") for r in records],
    }
    table = Records.from_columns(columns)
    names = {
        "accuracy": "accuracy",
        "accuracy_neutral": "selective_accuracy",
        "balanced_accuracy": "balanced_accuracy",
        "selective_accuracy": "selective_accuracy",
        "abstention_rate": "abstention_rate",
        "answer_rate": "answer_rate",
        "deferral_alignment": "deferral_alignment",
        "ece15": "ece(bins=15)",
        "ece10": "ece",
        "brier_score": "brier(binary=true)",
    }
    found = evaluate(table, list(dict.fromkeys(names.values())), resamples=100)
    assert found.population["abstained"] == case["expected"]["accuracy"]["n_abstained"]
    for key, wanted in case["expected"].items():
        estimate = found[names[key]]
        same(estimate.value, wanted["value"])
        assert estimate.n == wanted["n_evaluated"], key
    cells = case["expected"]["deferral_alignment"].get("details")
    if cells:
        assert found["deferral_alignment"].detail == cells["confusion"]
        assert found["deferral_alignment"].n == cells["n_labeled"]
