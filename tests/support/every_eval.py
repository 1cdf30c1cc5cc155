"""Runs in the format of Every Eval Ever, small and invented."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

UUID = "0e6a1c1e-7c3b-4b51-9d7e-2f3a4b5c6d7e"
RUN = "triage/acme/small/1700000000"


def sample(
    name: str = "q1", answer: str = "urgent", reference: Sequence[str] = ("urgent",), **changed: Any
) -> dict[str, Any]:
    """A line of samples; by default right where the answer is one of the references."""
    correct = answer in reference
    return {
        "schema_version": "0.3.0",
        "evaluation_id": RUN,
        "model_id": "acme/small",
        "evaluation_name": "triage",
        "evaluation_result_id": "match:accuracy",
        "sample_id": name,
        "sample_hash": hashlib.sha256(name.encode()).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": f"Invented message {name}", "reference": list(reference)},
        "output": {"raw": [f"ANSWER: {answer}"]},
        "messages": None,
        "answer_attribution": [attribution(answer)],
        "evaluation": {"score": float(correct), "is_correct": correct},
        "token_usage": {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12},
        "performance": {"latency_ms": 12.5, "generation_time_ms": 10.0},
        "metadata": {"site": "north", "patient": "p1"},
    } | changed


def attribution(value: str, *, terminal: bool = True) -> dict[str, Any]:
    return {
        "turn_idx": 0,
        "source": "output.raw",
        "extracted_value": value,
        "extraction_method": "regex",
        "is_terminal": terminal,
    }


def result(score: float, *, count: int | None = None, metric: str = "accuracy", **changed: Any) -> dict[str, Any]:
    """A metric of the aggregate."""
    uncertainty = {"uncertainty": {"num_samples": count}} if count is not None else {}
    return {
        "evaluation_result_id": f"match:{metric}",
        "evaluation_name": "triage",
        "source_data": {"dataset_name": "triage", "source_type": "hf_dataset"},
        "metric_config": {
            "metric_name": metric,
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0,
            "max_score": 1,
        },
        "score_details": {"score": score} | uncertainty,
        "generation_config": {"generation_args": {"temperature": 0.5}},
    } | changed


def aggregate(*results: dict[str, Any], **detailed: Any) -> dict[str, Any]:
    """The document of a run, that names its samples."""
    details = {"format": "jsonl", "file_path": f"data/triage/acme/small/{UUID}_samples.jsonl"} | detailed
    return {
        "schema_version": "0.3.0",
        "evaluation_id": RUN,
        "evaluation_timestamp": "1700000000",
        "retrieved_timestamp": "1700000000",
        "source_metadata": {
            "source_type": "evaluation_run",
            "source_organization_name": "Acme",
            "evaluator_relationship": "first_party",
        },
        "eval_library": {"name": "inspect_ai", "version": "0.3"},
        "model_info": {
            "name": "small",
            "id": "acme/small",
            "additional_details": {"deployment_type": "self_deployed", "model_availability": "open_weights"},
        },
        "evaluation_results": list(results),
        "detailed_evaluation_results": details,
    }


def lines(samples: Sequence[Any]) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in samples)


def written(folder: Path, samples: Sequence[Any] | None, document: Any = None, *, name: str = UUID) -> Path:
    """The files of a run; the path is that of the aggregate, or of the samples where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}_samples.jsonl"
    if samples is not None:
        path.write_text(lines(samples))
    if document is not None:
        path = folder / f"{name}.json"
        path.write_text(json.dumps(document))
    return path
