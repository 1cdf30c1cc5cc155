"""Random tables with every column, and one instance or more of every registered metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import Definition, Metric, metric_of
from steelyard.records.table import Records
from steelyard.study.cells import joined
from steelyard.study.defaults import choose, listed_metrics
from steelyard.study.evaluation import expanded

OPTIONS: dict[str, tuple[str, ...]] = {
    "mean": ("mean(score)", "mean(score, better=higher)"),
    "relative_change": ("relative_change(nll)", "relative_change(mae)"),
    "aurc": (
        "aurc",
        "aurc(ties=exact)",
        "aurc(rank=signal.s)",
        "aurc(loss=abs)",
        "aurc(loss=abs_norm, range=3)",
    ),
    "sensitivity": ("sensitivity(positive=b)", "sensitivity(positive=b, answered_only=true)"),
    **{name: (f"{name}(positive=b)",) for name in ("specificity", "fpr", "fnr", "ppv", "npv", "selection_rate")},
    "net_benefit": ("net_benefit(pt=0.3, positive=a)", "net_benefit(pt=0.5, positive=b, score=score)"),
    "kappa": ("kappa", "kappa(labels=[a, b, c], weights=linear)", "kappa(labels=[c, a, b], weights=quadratic)"),
    "equalized_odds": ("equalized_odds(by=group.site, positive=b)",),
    "krippendorff_alpha": (
        "krippendorff_alpha(raters=[target, prediction])",
        "krippendorff_alpha(raters=[input_tokens, output_tokens, signal.s], level=interval)",
        "krippendorff_alpha(raters=[input_tokens, output_tokens], level=ordinal)",
        "krippendorff_alpha(raters=[input_tokens, output_tokens], level=ratio)",
    ),
    "gwet_ac1": ("gwet_ac1(raters=[target, prediction])", "gwet_ac1(raters=[target, prediction, note])"),
    "auprc": ("auprc", "auprc(positive=b, score=score)"),
    "auroc": ("auroc", "auroc(positive=b, score=score)"),
    "f1_macro": ("f1_macro", "f1_macro(labels=[a, b, c, d, e])", "f1_macro(answered_only=true)"),
    "ece": ("ece", "ece(bins=3)", "ece(positive=b)"),
    "calibration_error2": ("calibration_error2", "calibration_error2(bins=3, positive=b)"),
    "brier": ("brier", "brier(binary=true)", "brier(positive=b)"),
    "ndcg": ("ndcg", "ndcg@3", "ndcg@3(gain=exponential)"),
    "mrr": ("mrr", "mrr@2", "mrr(level=2)"),
    "map": ("map", "map@3", "map@3(level=2)"),
    "precision@": ("precision@3", "precision@3(level=2)"),
    "recall@": ("recall@3", "recall@3(level=2)"),
    "hit": ("hit@2", "hit@2(level=2)"),
    "rprec": ("rprec", "rprec(level=2)"),
    "judged": ("judged", "judged@3"),
    "bpref": ("bpref", "bpref(level=2)"),
    "rbp": ("rbp", "rbp(p=0.5, level=2)"),
    "err": ("err", "err@3", "err@3(max_grade=3)"),
    "aurc_at": ("aurc_at", "aurc_at(c=0.25)", "aurc_at(c=1)"),
}
NUMERIC = {"mae", "mdae", "rmse", "bias", "r2", "pearson", "spearman", "mae_by_bin", "gco2_per_mae_unit"}


def is_numeric(metric: Metric) -> bool:
    if metric.base is not None:
        return is_numeric(metric.base)
    return metric.definition.name in NUMERIC or "loss=abs" in metric.name


def table(rng: np.random.Generator, *, rows: int = 60, clusters: int = 7, numeric: bool = False) -> Records:
    """Originals and one alteration of every item, three repeats, four outcomes, ties everywhere."""
    labels = np.array(["a", "b", "c"], dtype=object)
    pick = rng.integers(0, 3, rows)
    near = np.clip(pick + rng.integers(-1, 2, rows), 0, 2)
    outcome = rng.choice(["answered", "abstained", "unparsed", "failed"], rows, p=[0.7, 0.15, 0.1, 0.05])
    answered = outcome == "answered"
    values: dict[str, Any] = {
        "item": [int(i) // 2 for i in range(rows)],
        "patient": [f"p{c}" for c in np.arange(rows) // 2 % clusters],
        "repeat": (np.arange(rows) // 2 % 3).tolist(),
        "perturbation": [None, "typo"] * (rows // 2),
        "outcome": outcome.tolist(),
        "confidence": [float(c) if a else None for c, a in zip(rng.integers(0, 6, rows) / 5, answered, strict=True)],
        "signal.s": [float(s) for s in np.round(rng.normal(size=rows), 1)],
        "score": [float(s) for s in np.round(rng.random(rows), 2)],
        "latency_ms": [float(x) for x in np.round(rng.gamma(2, 100, rows), 0)],
        "input_tokens": rng.integers(1, 50, rows).tolist(),
        "output_tokens": rng.integers(1, 50, rows).tolist(),
        "cost": [float(c) for c in np.round(rng.gamma(2, 0.01, rows), 3)],
        "should_abstain": [None if rng.random() < 0.1 else bool(rng.random() < 0.4) for _ in range(rows)],
        "note": rng.choice(["a b", "b", "c fever", "no fever"], rows).tolist(),
        "group.site": rng.choice(["x", "y", "z"], rows).tolist(),
    }
    values["gains"], values["judged"] = rankings(rng, rows)
    truth, guess = (pick * 1.5, near * 1.5) if numeric else (labels[pick], labels[near])
    values["target"] = truth.tolist()
    values["prediction"] = [p if a else None for p, a in zip(guess.tolist(), answered, strict=True)]
    # a repeat belongs to its item: the key must stay unique
    values["item"] = [f"{i}-{r}" for i, r in zip(values["item"], values["repeat"], strict=True)]
    measured = {"tasks": {"": {"accuracy": "diagnostics", "f1_macro": "safety", "answer_rate": "safety"}}}
    plan = {**measured, "weights": {"diagnostics": 0.6, "safety": 0.4}}
    about = {"facts": {"wall_seconds": 30.0, "kwh": 0.4, "co2_kg": 0.15}, "benchmark": plan}
    return Records.from_columns(values, cluster="patient", task=about)


def rankings(rng: np.random.Generator, rows: int) -> tuple[list[Any], list[Any]]:
    """Grades in ranked order and all judged grades; a few queries have no ranking, and a few nobody judged."""
    gains: list[Any] = []
    judged: list[Any] = []
    for row in range(rows):
        grades = rng.integers(-1, 4, rng.integers(0, 6)).tolist()
        ranked = [*grades[: len(grades) // 2 + 1], *[None] * int(rng.integers(0, 5))]
        gains.append([ranked[i] for i in rng.permutation(len(ranked))] if row % 11 else None)
        judged.append(grades if row % 13 != 5 else None)
    return gains, judged


def instances(definition: Definition, records: Records) -> list[Metric]:
    """The metric with options it needs, families as their members."""
    if definition.name in OPTIONS:
        asked = [metric_of(text) for text in OPTIONS[definition.name]]
    elif any(p.kind == "metric" for p in definition.params):
        base = ("accuracy", "f1_macro") if definition.name != "relative_change" else ("nll",)
        by = ", by=group.site" if any(p.name == "by" for p in definition.params) else ""
        asked = [metric_of(f"{definition.name}({b}{by})") for b in base]
    else:
        asked = [definition()]
    return expanded(asked, records)


def every_instance() -> list[str]:
    """The text of every instance of every registered metric."""
    records = table(np.random.default_rng(0))
    numeric = table(np.random.default_rng(0), numeric=True)
    found = []
    for definition in registry.values():
        names = instances(definition, numeric if definition.name in NUMERIC else records)
        found += [m.name for m in names]
    return found


def fitting(metric: Metric, rng: np.random.Generator, **size: int) -> Records:
    """A table this metric can read: altered rows with their partners joined where it compares them."""
    records = table(rng, numeric=is_numeric(metric), **size)
    if metric.perturbed_only:
        records = joined(records, [metric])
        return records.take(~records.is_unperturbed())
    return records


def other(records: Records, seed: int) -> Records:
    """Another run on the same questions: some answers, confidences and scores differ, none failed anew."""
    rng = np.random.default_rng(seed)
    changed: dict[str, Any] = {}
    for name in ("prediction", "confidence", "score", "latency_ms", "signal.s", "output_tokens"):
        column = records.column(name)
        given = np.flatnonzero(column.is_valid())
        moved = np.arange(len(records))
        moved[given] = np.where(rng.random(len(given)) < 0.4, rng.permutation(given), given)
        changed[name] = column.take(pa.array(moved))
    gains = records.column("gains")
    changed["gains"] = pa.array([g[::-1] if g and rng.random() < 0.4 else g for g in gains.to_pylist()], gains.type)
    return records.with_columns(changed)


def default_stack(records: Records) -> list[str]:
    """The metrics that suit a table, by name."""
    return [metric.name for metric in listed_metrics(choose(records))]


def tables_apart(records: Records, part: np.ndarray) -> list[Records]:
    """The parts of a table, each a table of its own that knows nothing of the others."""
    found = []
    for p in np.unique(part):
        rows = records.take(part == p)
        columns = {name: rows.column(name) for name in rows.stated}
        found.append(Records.from_columns(columns, cluster="patient", task=records.task))
    return found
