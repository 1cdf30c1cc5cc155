"""Logs as lm-eval writes them, of questions that we invented."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

TIME = "2026-11-15T18-02-22.160045"
CHOICES = ("red", "the green lamp", "été")


def choice(
    doc_id: int,
    logs: Sequence[float],
    gold: int,
    *,
    choices: Sequence[str] = CHOICES,
    alone: Sequence[float] = (),
    delimiter: str = " ",
    **more: Any,
) -> dict[str, Any]:
    """A sample of a multiple choice, marked as lm-eval marks it."""
    given = np.array(logs, float)
    marks = {
        "acc": np.argmax(given) == gold,
        "acc_norm": np.argmax(given / [len(text) for text in choices]) == gold,
        "acc_bytes": np.argmax(given / [len(text.encode()) for text in choices]) == gold,
        **({"acc_mutual_info": np.argmax(given - np.array(alone)) == gold} if alone else {}),
    }
    shares = np.exp(given) / np.exp(given).sum()
    pairs = [[str(log), "False"] for log in (*logs, *alone)]
    texts = [f"{delimiter}{text}" for text in (*choices, *(choices if alone else ()))]
    prompts = [f"Which lamp in room {doc_id}?"] * len(choices) + [""] * len(alone)
    return sample(
        doc_id,
        arguments=[{"arg_0": prompt, "arg_1": text} for prompt, text in zip(prompts, texts, strict=True)],
        resps=[[pair] for pair in pairs],
        filtered_resps=pairs,
        metrics={**{name: float(mark) for name, mark in marks.items()}, "brier_score": [gold, str(shares)]},
        **{"target": str(gold), **more},
    )


def reply(doc_id: int, text: str, filtered: str, target: str, *, right: float = 0.0, **more: Any) -> dict[str, Any]:
    """A sample of a reply, and what a filter made of it."""
    return sample(
        doc_id,
        arguments=[{"arg_0": f"Which lamp in room {doc_id}?", "arg_1": {"until": ["\n"]}}],
        target=target,
        resps=[[text]],
        filtered_resps=[filtered],
        **{"metrics": {"exact_match": right}, **more},
    )


def sample(doc_id: int, *, arguments: Sequence[Any], metrics: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    doc = {"question": f"Which lamp in room {doc_id}?", "patient": f"p{doc_id // 2}", "site": "ab"[doc_id % 2]}
    return {
        "doc_id": doc_id,
        "doc": doc,
        "arguments": {f"gen_args_{place}": each for place, each in enumerate(arguments)},
        "filter": "none",
        "metrics": list(metrics),
        "doc_hash": hashlib.sha256(json.dumps(doc).encode()).hexdigest(),
        "prompt_hash": hashlib.sha256(str(doc_id).encode()).hexdigest(),
        "target_hash": "0" * 64,
        **metrics,
        **more,
    }


def written(folder: Path, samples: Sequence[Mapping[str, Any]], task: str = "lamps", time: str = TIME) -> Path:
    """A samples file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}_{time}.jsonl"
    path.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in samples), encoding="utf-8")
    return path


def results(
    folder: Path,
    stated: Mapping[str, Any],
    *,
    task: str = "lamps",
    time: str = TIME,
    counts: tuple[int, int] | None = None,
    config: Mapping[str, Any] | None = None,
    **more: Any,
) -> Path:
    """A results file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"results_{time}.json"
    document = {
        "results": {task: {"alias": task, **stated}},
        "configs": {task: {"target_delimiter": " ", **(config or {})}},
        "versions": {task: 1.0},
        "n-shot": {task: 0},
        **({} if counts is None else {"n-samples": {task: dict(zip(("original", "effective"), counts, strict=True))}}),
        "config": {"model": "hf", "model_args": "pretrained=acme/tiny,dtype=float32", "limit": None, "random_seed": 7},
        "lm_eval_version": "0.4.13",
        "model_name": "acme/tiny",
        "date": 1794765741.8,
        **more,
    }
    path.write_text(json.dumps(document, indent=2))
    return path


def softmax(scores: Sequence[float]) -> list[float]:
    parts = [math.exp(score) for score in scores]
    return [part / sum(parts) for part in parts]
