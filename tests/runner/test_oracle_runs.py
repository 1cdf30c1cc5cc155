"""Numbers of independent implementations through whole runs: from replies that are parsed to metrics of the kept run.

Every case is a task of its own, described in a file, and its answers are recorded replies.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import InputError
from steelyard.runs.saved import SavedRun
from steelyard.uncertainty.settings import Settings
from tests.support.oracles import oracle

RUN = oracle("runmetrics")
LABELS = ("Critical", "Major", "Minor", "Trivial")
ALTERED = "{perturbation=upper}"


def named(cases: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(case, id=str(number)) for number, case in enumerate(cases)]


def said(answer: Any) -> str:
    """A reply with an answer; none has one where there is nothing to say."""
    return "Let me think about it." if answer is None else f"Answer: {answer}"


class Asked:
    """A run about some targets, to which these are the answers by perturbation and repeat."""

    def __init__(
        self,
        folder: Path,
        targets: Sequence[Any],
        answers: dict[tuple[str | None, int], Sequence[Any]],
        metrics: Iterable[str],
        *,
        labels: Sequence[str] | None = LABELS,
        groups: Sequence[str] | None = None,
    ) -> None:
        rows = [{"n": n, "text": f"question {n}", "target": target} for n, target in enumerate(targets)]
        if groups is not None:
            rows = [{**row, "g": group} for row, group in zip(rows, groups, strict=True)]
        _write(folder / "data.jsonl", rows)
        task = {"name": "case", "data": "data.jsonl", "id": "n", "question": "text", "target": "target"}
        task |= {} if labels is None else {"labels": list(labels)}
        task |= {} if groups is None else {"groups": ["g"]}
        (folder / "case.task.yaml").write_text(json.dumps(task))
        replies = [
            {"item": n, "perturbation": perturbation, "repeat": repeat, "reply": said(answer)}
            for (perturbation, repeat), each in answers.items()
            for n, answer in enumerate(each)
        ]
        _write(folder / "replies.jsonl", replies)
        spec = {
            "id": "case",
            "task": "case.task.yaml",
            "models": [{"name": "m", "backend": "replay", "options": {"file": "replies.jsonl"}}],
            "perturbations": sorted({name for name, _ in answers if name}),
            "repeat": max(repeat for _, repeat in answers),
            "metrics": list(metrics),
        }
        (folder / "spec.yaml").write_text(json.dumps(spec))
        self.run = sy.run(folder / "spec.yaml", root=folder / "store", settings=Settings(resamples=0))
        assert self.run.exit_code == 0
        assert self.run.folder is not None
        self.kept = SavedRun.at(self.run.folder).run.metrics

    def same(self, name: str, wanted: float | None, *, zero: bool = False) -> None:
        """The run's number, and that of run.json; where it is undefined and `zero`, the documents say 0."""
        found = self.run.evaluation[name].value
        if wanted is None or (zero and found is None):
            assert found is None
            assert not wanted
            return
        assert found == pytest.approx(wanted, rel=1e-12, abs=1e-12)
        assert self.kept[name] == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("case", named(RUN["classification"]))
def test_classification(tmp_path: Path, case: dict[str, Any]) -> None:
    per_class = [f"{name}.{label}" for label in case["labels"] for name in ("precision", "recall", "f1")]
    metrics = ["f1_macro", "f1_weighted", "accuracy", *per_class]
    answers: dict[tuple[str | None, int], Any] = {(None, 1): case["y_pred"]}
    if not case["y_true"] or set(case["y_true"]) - set(case["labels"]):
        # a target outside the fixed labels is an input error, by definition
        with pytest.raises(InputError):
            Asked(tmp_path, case["y_true"], answers, metrics, labels=case["labels"])
        return
    asked = Asked(tmp_path, case["y_true"], answers, metrics, labels=case["labels"])
    for name in ("f1_macro", "f1_weighted", "accuracy"):
        asked.same(name, case["out"][name])
    for label, wanted in case["out"]["per_class"].items():
        for name in ("precision", "recall", "f1"):
            asked.same(f"{name}.{label}", wanted[name], zero=True)
    detail = asked.run.evaluation["f1_macro"].detail
    assert detail is not None
    assert detail["confusion_matrix"] == case["out"]["confusion_matrix"]


@pytest.mark.parametrize("case", named(RUN["runner_parse_failures_excluded"]))
def test_parse_failures_under_both_conventions(tmp_path: Path, case: dict[str, Any]) -> None:
    runner, strict = case["runner_out"], case["if_failures_counted_wrong"]
    wanted = {
        "f1_macro(answered_only=true)": runner["f1_macro"],
        "selective_accuracy": runner["accuracy"],
        "parse_failure_rate": runner["parse_failure_rate"],
        "f1_macro": strict["f1_macro"],
        "accuracy": strict["accuracy"],
    }
    asked = Asked(tmp_path, case["gold"], {(None, 1): case["parsed"]}, wanted)
    for name, value in wanted.items():
        asked.same(name, value)


@pytest.mark.parametrize("case", named([case for case in RUN["regression"] if case["y_true"]]))
def test_regression(tmp_path: Path, case: dict[str, Any]) -> None:
    targets = [float(value) for value in case["y_true"]]
    asked = Asked(tmp_path, targets, {(None, 1): case["y_pred"]}, ["mae", "mdae", "rmse", "mae_by_bin"], labels=None)
    for name in ("mae", "mdae", "rmse"):
        asked.same(name, case["out"][name])
    for label, wanted in case["out"]["mae_by_bin"].items():
        asked.same(f"mae_by_bin.{label}", wanted)


@pytest.mark.slow
def test_robustness(tmp_path: Path) -> None:
    """All cases in one run: a thousand items, and a model per case that is right as often as the case says."""
    _write(tmp_path / "data.jsonl", ({"n": n, "text": f"question {n}", "target": "yes"} for n in range(1000)))
    task = {
        "name": "t",
        "data": "data.jsonl",
        "id": "n",
        "question": "text",
        "target": "target",
        "labels": ["yes", "no"],
    }
    (tmp_path / "t.task.yaml").write_text(json.dumps({**task, "prompt": "{{ n }} {{ question }}"}))
    (tmp_path / "models.py").write_text(
        "async def model(item, prompt, *, orig, pert):\n"
        "    right = 1000 * (pert if item['question'].isupper() else orig)\n"
        "    return 'Answer: yes' if item['n'] < round(right) else 'Answer: no'\n"
    )
    models = [
        {"name": f"m{number}", "backend": "callable",
         "options": {"function": "models.py:model", "orig": case["orig"], "pert": case["pert"]}}
        for number, case in enumerate(RUN["robustness"])
    ]  # fmt: skip
    spec = {"id": "robustness", "task": "t.task.yaml", "models": models, "perturbations": ["upper"],
            "metrics": ["accuracy", "robustness_score(accuracy)"]}  # fmt: skip
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    run = sy.run(tmp_path / "spec.yaml", root=tmp_path / "store", settings=Settings(resamples=0))
    for number, case in enumerate(RUN["robustness"]):
        cell = f"{{model=m{number},perturbation=upper}}"
        assert run.evaluation[f"accuracy{cell}"].value == pytest.approx(case["pert"], abs=1e-12)
        assert run.evaluation[f"robustness_score(accuracy){cell}"].value == pytest.approx(case["out"], abs=1e-12)


@pytest.mark.parametrize("case", named([case for case in RUN["consistency_rate"] if case["orig"]]))
def test_consistency_rate(tmp_path: Path, case: dict[str, Any]) -> None:
    orig, pert = ([each or "abstain" for each in case[side]] for side in ("orig", "pert"))  # null is no prediction
    answers: dict[tuple[str | None, int], Any] = {(None, 1): orig, ("upper", 1): pert}
    asked = Asked(tmp_path, ["Major"] * len(case["orig"]), answers, ["consistency_rate"])
    asked.same(f"consistency_rate{ALTERED}", case["out"])


@pytest.mark.parametrize("case", named([case for case in RUN["perturbation_disparity"] if case["base"]]))
def test_flips(tmp_path: Path, case: dict[str, Any]) -> None:
    metrics = ["accuracy", "robustness_score(accuracy)", "flip_rate", "flip_to_correct", "flip_to_incorrect"]
    answers: dict[tuple[str | None, int], Any] = {(None, 1): case["base"], ("upper", 1): case["pert"]}
    asked = Asked(tmp_path, case["gold"], answers, metrics)
    out = case["out"]
    asked.same("accuracy{perturbation=none}", out["acc_baseline"])
    asked.same(f"accuracy{ALTERED}", out["acc_perturbed"])
    asked.same(f"robustness_score(accuracy){ALTERED}", 1 - abs(out["acc_baseline"] - out["acc_perturbed"]))
    asked.same(f"flip_rate{ALTERED}", out["flip_rate"])
    for name in ("flip_to_correct", "flip_to_incorrect"):  # shares of flips: of none, undefined
        asked.same(f"{name}{ALTERED}", out[name] if out["flip_rate"] else None)


@pytest.mark.parametrize("case", named([case for case in RUN["fairness"] if case["y_true"]]))
def test_fairness(tmp_path: Path, case: dict[str, Any]) -> None:
    out = case["out"]
    disparities = [f"disparity(accuracy, by=group.g).{group}" for group in out["per_group"]]
    metrics = [
        "fairness_gap(accuracy, by=group.g)",
        "worst_group(accuracy, by=group.g)",
        "disparity(accuracy, by=group.g)",
    ]
    labels = sorted({*case["y_true"], *case["y_pred"], "another"})
    answers: dict[tuple[str | None, int], Any] = {(None, 1): case["y_pred"]}
    asked = Asked(tmp_path, case["y_true"], answers, metrics, labels=labels, groups=case["groups"])
    asked.same(metrics[0], out["fairness_gap"] if len(out["per_group"]) > 1 else None)
    detail = asked.run.evaluation[metrics[1]].detail
    assert detail is not None
    assert detail["group"] == out["worst_group"]
    assert detail["per_group"] == pytest.approx(out["per_group"])
    for name, group in zip(disparities, out["per_group"], strict=True):
        asked.same(name, out["disparities"][group])


@pytest.mark.parametrize("case", named([case for case in RUN["stability"] if case["values"]]))
def test_stability(tmp_path: Path, case: dict[str, Any]) -> None:
    """The bias of one answer whose target is 0 is the answer."""
    values = [value for value in case["values"] if value is not None]
    answers: dict[tuple[str | None, int], Any] = {(None, repeat): [value] for repeat, value in enumerate(values, 1)}
    asked = Asked(tmp_path, [0.0], answers, ["stability(bias)", "stability_score(bias)"], labels=None)
    out = case["out"]
    asked.same("stability(bias).mean", out["mean"])
    if len(values) < 2:
        assert asked.run.evaluation["stability_score(bias)"].value is None
        return
    asked.same("stability(bias).stddev", out["stddev"])
    asked.same("stability(bias).n_seeds", out["n_seeds"])
    asked.same("stability_score(bias)", out["stability"])
    if out["cv"] is not None and out["mean"] > 0:
        asked.same("stability(bias).cv", out["cv"])
