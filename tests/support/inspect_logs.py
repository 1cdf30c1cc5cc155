"""Small logs as Inspect writes them, put together by hand."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

JSON = dict[str, Any]


def sample(
    id: int | str = 1,
    epoch: int = 1,
    *,
    value: Any = "C",
    answer: str | None = "A",
    completion: str = "ANSWER: A",
    target: str | list[str] = "A",
    scorer: str = "match",
    **more: Any,
) -> JSON:
    """A sample with one score; `more` replaces or adds parts."""
    message = {"role": "assistant", "content": completion}
    score = {"value": value, **({} if answer is None else {"answer": answer})}
    whole = {
        "id": id,
        "epoch": epoch,
        "input": "Which?",
        "target": target,
        "messages": [{"role": "user", "content": "Which?"}, message],
        "output": {"model": "m", "choices": [{"message": message, "stop_reason": "stop"}], "completion": completion},
        "scores": {scorer: score},
        "metadata": {},
        "events": [{"event": "score", "score": score}],
        "model_usage": {"m": {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}},
        "total_time": 2.0,
        "working_time": 1.5,
        "attachments": {},
    }
    return {key: part for key, part in (whole | more).items() if part is not ...}


def header(samples: Sequence[JSON] = (), *, status: str = "success", metrics: JSON | None = None, **facts: Any) -> JSON:
    """What a log says of its run; `metrics` are those of the scorer match."""
    ids = list(dict.fromkeys(each["id"] for each in samples))
    scores = [
        {"name": "match", "scorer": "match", "metrics": {k: {"name": k, **v} for k, v in (metrics or {}).items()}}
    ]
    epochs = max((each["epoch"] for each in samples), default=1)
    run = {
        "run_id": "r1",
        "created": "2026-01-01T00:00:00+00:00",
        "task": "triage",
        "dataset": {"samples": len(ids), "sample_ids": ids},
        "model": "m",
        "config": {"epochs": epochs},
        "packages": {"inspect_ai": "0.3.285"},
    }
    results = {"total_samples": len(samples), "completed_samples": len(samples), "scores": scores}
    return {
        "version": 2,
        "status": status,
        "eval": run,
        "plan": {"config": {"temperature": 0.5}},
        "results": results,
    } | facts


def document(samples: Sequence[JSON], **facts: Any) -> bytes:
    """A log as one JSON text."""
    return json.dumps(header(samples, **facts) | {"samples": list(samples)}).encode()


def members(
    samples: Sequence[JSON], *, header_too: bool = True, parts: Iterable[Any] = (), **facts: Any
) -> dict[str, bytes]:
    """The members of an archive; samples whose ids are in `parts` are in parts, with indexed attachments."""
    whole = header(samples, **facts)
    start = {key: whole[key] for key in ("version", "eval", "plan")}
    files = {"_journal/start.json": start} | ({"header.json": whole} if header_too else {})
    for each in samples:
        name = f"samples/{each['id']}_epoch_{each['epoch']}"
        if each["id"] in parts:
            shell = {
                key: part for key, part in each.items() if key not in ("messages", "events", "metadata", "attachments")
            }
            files |= {f"{name}/sample.json": shell, f"{name}/metadata.json": each.get("metadata", {})}
            files |= {f"{name}/events/0.json": each.get("events", []), f"{name}/messages/0.json": each["messages"]}
            texts = list(each.get("attachments", {}).values())
            files |= {f"{name}/attachments/{at}.json": texts[at : at + 2] for at in range(0, len(texts), 2)}
        else:
            files[f"{name}.json"] = each
    return {name: json.dumps(content).encode() for name, content in files.items()}


def archive(files: Mapping[str, bytes] | Sequence[tuple[str, bytes]]) -> bytes:
    """A zip archive; pairs may repeat a name."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as packed:
        warnings.simplefilter("ignore")
        for name, content in files.items() if isinstance(files, Mapping) else files:
            packed.writestr(name, content)
    return buffer.getvalue()


def written(folder: Path, samples: Sequence[JSON], *, name: str = "run.eval", **facts: Any) -> Path:
    """A log on disk: an archive, or a JSON text where the name says so."""
    path = folder / name
    path.write_bytes(document(samples, **facts) if name.endswith(".json") else archive(members(samples, **facts)))
    return path
