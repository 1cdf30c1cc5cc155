"""Run directories as HELM writes them, of questions that we invented."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LETTERS = {"A": "red", "B": "green", "C": "blue"}


def instance(item: str, right: str = "red", *, split: str = "test", perturbation: Any = None) -> dict[str, Any]:
    """A question about lamps."""
    texts = list(LETTERS.values())
    return {
        "id": item,
        "split": split,
        "input": {"text": "Which lamp?"},
        "references": [{"output": {"text": text}, "tags": ["correct"] if text == right else []} for text in texts],
        **({} if perturbation is None else {"perturbation": perturbation}),
    }


def altered(name: str, **more: Any) -> dict[str, Any]:
    """The description of a perturbation."""
    return {"name": name, "robustness": True, "fairness": False, "computed_on": "perturbed", **more}


def state(asked: Mapping[str, Any], *completions: tuple[str, float], trial: int = 0, **more: Any) -> dict[str, Any]:
    """A request and its result."""
    replies = [{"text": text, "logprob": log, "tokens": []} for text, log in completions]
    return {
        "instance": asked,
        "train_trial_index": trial,
        "output_mapping": LETTERS,
        "request": {"prompt": "Which lamp?"},
        "result": {"success": True, "completions": replies, "request_time": 0.25, "request_datetime": 1762354922},
        **more,
    }


def scores(one: Mapping[str, Any], **values: float) -> dict[str, Any]:
    """What the metrics found for a request."""
    asked = one["instance"]
    context = {key: asked[key] for key in ("split", "perturbation") if key in asked}
    return {
        "instance_id": asked["id"],
        "train_trial_index": one["train_trial_index"],
        **({"perturbation": asked["perturbation"]} if "perturbation" in asked else {}),
        "stats": [stat(name, value, **context) for name, value in values.items()],
    }


def stat(name: str, value: float, **context: Any) -> dict[str, Any]:
    """A statistic of one value."""
    return {"name": {"name": name, **context}, "count": 1, "sum": value, "min": value, "max": value, "mean": value}


def run(
    folder: Path,
    states: Sequence[Mapping[str, Any]],
    stats: Sequence[Mapping[str, Any]] | None,
    means: Sequence[Mapping[str, Any]] = (),
    *,
    name: str = "lamps:room=hall,model=acme_tiny",
    **adapter: Any,
) -> Path:
    """A run directory."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = {"method": "multiple_choice_joint", "model": "acme/tiny", "num_train_trials": 1, **adapter}
    files: dict[str, Any] = {
        "run_spec.json": {"name": name, "adapter_spec": spec},
        "scenario_state.json": {"adapter_spec": spec, "request_states": states},
        "stats.json": means,
        **({} if stats is None else {"per_instance_stats.json": stats}),
    }
    for file, content in files.items():
        (folder / file).write_text(json.dumps(content, indent=2))
    return folder
