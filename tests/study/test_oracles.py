"""Numbers of independent implementations, case by case."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from steelyard.confidence import signals
from steelyard.confidence.calibrators import Input, methods, temperature
from steelyard.confidence.calibrators.calibrator import applied, described, standardised
from steelyard.confidence.repeats import consistency
from steelyard.confidence.tokens import token_energy, token_msp, token_pe
from steelyard.errors import InputError, UsageError
from steelyard.metrics.evidence.curve import hull_corners
from steelyard.records.table import Records
from steelyard.study.calibrating import scores
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate, value
from steelyard.study.selective import selective
from steelyard.study.selective_wire import selective_document
from tests.support.oracles import oracle

SELECTIVE, CALIBRATION, DEFERRAL, RUN = (
    oracle(name) for name in ("selective", "calibration", "deferral", "runmetrics")
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


def items(case: dict[str, Any], task: dict[str, Any] | None = None) -> Records:
    columns = case["items"]
    return Records.from_columns(
        {
            "item": list(range(case["n"])),
            "cluster": columns["participant_id"],
            "target": columns["gt"],
            "prediction": columns["pred"],
            "signal.c": [float(c) for c in columns["confidence"]],
        },
        task=task,
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


@pytest.mark.parametrize("case", named([c for c in SELECTIVE["cases"] if c["n"]]))
@pytest.mark.parametrize("loss", ["abs", "abs_norm"])
def test_selective_artifact(case: dict[str, Any], loss: str) -> None:
    """The whole documented artifact of every case, from records to JSON."""
    expected = case["expected"][loss]
    records = items(case, task={"range": 3})
    grid = [float(c) for c in expected["mae_at_coverage"]]
    document = selective_document(
        selective(records, confidence=["signal.c"], loss=loss, coverage=grid, resamples=0, area_coverage=0.6)
    )
    variant = document["confidence_variants"]["signal.c"]
    for key in SCALARS:
        same(variant[key], expected[key])
    for key, wanted in expected["interpretation"].items():
        optimal = key.replace("_gap_pct", "_optimal")
        same(variant["interpretation"][key], None if expected.get(optimal) == 0 else wanted, to=1e-9)
    for key in ("aurc_at_c", "augrc_at_c"):
        wanted = expected[key]["0.6"]
        same(variant[key]["value"], _value(wanted))
        same(variant[key]["used"], wanted and wanted["used"])
    assert set(variant["mae_at_coverage"]) == set(expected["mae_at_coverage"])
    for c, wanted in expected["mae_at_coverage"].items():
        assert (variant["mae_at_coverage"][c] is None) == (wanted is None)
        if wanted is not None:
            assert variant["mae_at_coverage"][c] == pytest.approx(wanted, abs=1e-12)
    curve = {key: np.array(values) for key, values in variant["curve"].items()}
    corners = hull_corners(curve["coverage"], curve["selective_risk"])
    if "curve" in expected:
        for key, values in expected["curve"].items():
            assert curve[key] == pytest.approx(np.array(values), abs=1e-12)
        assert corners.tolist() == np.flatnonzero(expected["hull_mask"]).tolist()
        return
    digest = expected["curve_digest"]
    assert len(curve["coverage"]) == digest["n_points"]
    assert len(corners) == digest["n_hull"]
    for key in ("coverage", "selective_risk", "generalized_risk"):
        assert curve[key].sum() == pytest.approx(digest[f"sum_{key}"], rel=1e-12)
    points = np.column_stack([curve[k] for k in ("coverage", "selective_risk", "generalized_risk", "threshold")])
    assert points[:3] == pytest.approx(np.array(digest["first3"]), abs=1e-12)
    assert points[-3:] == pytest.approx(np.array(digest["last3"]), abs=1e-12)


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


@pytest.mark.parametrize("case", named(CALIBRATION["binary"]))
def test_temperature(case: dict[str, Any]) -> None:
    p, y, wanted = np.array(case["p"]), np.array(case["y"], float), case["temperature"]
    fitted = methods["temperature"].fit(p[:, None], y)
    after = temperature.scaled(p, float(fitted["temperature"]))
    assert fitted["temperature"] == pytest.approx(wanted["T"], rel=2e-3)  # the published grid is good to 0.2%
    assert temperature.nll(after, y) <= wanted["nll_after"] + 1e-12
    assert temperature.nll(after, y) == pytest.approx(wanted["reference_nll"], abs=1e-12)
    if wanted["T"] != 1.0 and wanted["reference_nll"] < wanted["nll_after"]:
        assert fitted["temperature"] == pytest.approx(wanted["reference_T_golden_section"], rel=1e-6)


@pytest.mark.parametrize("case", named(CALIBRATION["temperature_apply"]))
def test_temperature_applied(case: dict[str, Any]) -> None:
    p = np.array([case["p"]], float)
    if isinstance(case["out"], dict):
        with pytest.raises(UsageError, match="above 0"):
            temperature.scaled(p, case["T"])
        return
    assert temperature.scaled(p, case["T"])[0] == pytest.approx(case["out"], rel=1e-9)


@pytest.mark.parametrize("case", named(CALIBRATION["supervised"]))
def test_supervised_calibrators(case: dict[str, Any]) -> None:
    raw, y = np.array(case["X"], float), np.array(case["y"], float)
    features = [described(Input(f"f{i}", "signal", None), raw[:, i]) for i in range(raw.shape[1])]

    def fitted(method: str, columns: Any, target: Any) -> tuple[dict[str, Any], Any]:
        chosen = methods[method]
        kept = features[: columns.shape[1]]
        parameters = dict(chosen.fit(standardised(kept, columns) if chosen.scaled else columns, target))
        return parameters, applied(method, kept, parameters, columns)

    wanted = case["logistic"]
    if "error" in wanted:
        with pytest.raises(InputError, match="one class only"):
            fitted("logistic", raw, y)
    else:
        parameters, p = fitted("logistic", raw, y)
        assert parameters["coefficients"] == pytest.approx(wanted["coefficients"], abs=1e-3)
        assert parameters["intercept"] == pytest.approx(wanted["intercept"], abs=1e-3)
        assert p[:10] == pytest.approx(np.array(wanted["p_first10"]), abs=1e-3)
        found = scores(p, y)
        assert found["auroc"] == pytest.approx(wanted["train_metrics"]["auc_roc"], abs=1e-3)
        assert found["brier"] == pytest.approx(wanted["train_metrics"]["brier_score"], abs=1e-3)
        exact = case.get("reference_logistic_exact")
        if exact:
            assert parameters["coefficients"] == pytest.approx(exact["coefficients"], abs=1e-6)
    wanted = case["ridge_loss_target"]
    target = np.array(wanted["y_loss_target"])
    parameters, p = fitted("linear", raw, target)
    assert parameters["coefficients"] == pytest.approx(wanted["coefficients"], abs=1e-9)
    assert p[:10] == pytest.approx(np.array(wanted["pred_first10_clipped01"]), abs=1e-9)
    assert np.abs(p - target).mean() == pytest.approx(wanted["train_metrics"]["mae"], abs=1e-9)
    wanted = case["isotonic_on_feature0"]
    parameters, p = fitted("isotonic", raw[:, :1], y)
    assert parameters["x"] == pytest.approx(wanted["x_thresholds"], abs=1e-12)
    assert parameters["y"] == pytest.approx(wanted["y_thresholds"], abs=1e-12)
    query = np.array(wanted["query_x"], float)[:, None]
    assert applied("isotonic", features[:1], parameters, query) == pytest.approx(np.array(wanted["query_y"]), abs=1e-12)


@pytest.mark.parametrize("case", named(CALIBRATION["isotonic_small"]))
def test_isotonic(case: dict[str, Any]) -> None:
    chosen = methods["isotonic"]
    parameters = chosen.fit(np.array(case["x"], float)[:, None], np.array(case["y"], float))
    assert parameters == {"x": case["x_thresholds"], "y": case["y_thresholds"]}
    query = np.array(case["query_x"])[:, None]
    assert chosen.apply(parameters, query) == pytest.approx(np.array(case["query_y"]), abs=1e-12)


@pytest.mark.parametrize("case", named(CALIBRATION["csf"]))
def test_confidence_variants(case: dict[str, Any]) -> None:
    row = {"item": ["q"], "cluster": [7], "target": [1], "prediction": [1]}
    given = {f"signal.{name}": [value] for name, value in case["signals"].items()}
    records = Records.from_columns({**row, **given})
    asked = {name for c in CALIBRATION["csf"] for name in c["out"]}
    assert set(signals.variants) <= asked
    for name in asked:
        if name in case["out"]:
            assert signals.uncalibrated(records, name)[0] == pytest.approx(case["out"][name], abs=1e-12)
        else:
            with pytest.raises(InputError):
                signals.uncalibrated(records, name)


@pytest.mark.parametrize("case", named(CALIBRATION["consistency"]))
def test_consistency(case: dict[str, Any]) -> None:
    found = asdict(consistency(case["samples"]))
    assert found == pytest.approx(case["out"], abs=1e-12)


@pytest.mark.parametrize("case", named(CALIBRATION["token_csfs"]))
def test_token_signals(case: dict[str, Any]) -> None:
    for key, function in (("msp", token_msp), ("pe", token_pe), ("energy", token_energy)):
        if isinstance(case[key], dict):
            with pytest.raises(InputError, match=r"logprobs\[0\]\.top_logprobs"):
                function(case["logprobs"])
        else:
            assert function(case["logprobs"]) == pytest.approx(case[key], abs=1e-10)
    assert token_pe(CALIBRATION["token_csfs"][0]["logprobs"]) >= 0


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


@pytest.mark.parametrize("case", named(RUN["ranking"]))
def test_ranking(case: dict[str, Any]) -> None:
    """`true` are the relevant documents of every query, `pred` the ranked ones."""
    columns, out = {"target": case["true"], "prediction": case["pred"]}, case["out"]
    assert set(out) == {f"ndcg_at_{case['k']}", "mrr", "n_queries"}
    same(value(f"ndcg@{case['k']}", **columns), out[f"ndcg_at_{case['k']}"])
    same(value("mrr", **columns), out["mrr"])
    found = evaluate(Records.from_columns({"item": list(range(len(case["true"]))), **columns}), ["mrr"], resamples=100)
    assert found["mrr"].n == out["n_queries"]


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
        # fewer than two groups have no gap; the oracle calls it 0
        wanted_gap = out["fairness_gap"] if len(out["per_group"]) > 1 else None
        same(value(f"fairness_gap({base}, by=group.g)", records), wanted_gap)
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
