"""Evaluations to export: small, of every metric, and with names that would like to be more than names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steelyard.exports import Subject
from steelyard.ground.json import dumps
from steelyard.metrics.definition import known_metric
from steelyard.records.sources import Source
from steelyard.study.results import Evaluation
from steelyard.uncertainty.number import Estimate
from steelyard.uncertainty.settings import Settings

CREATED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def estimate(metric: str = "accuracy", value: float | None = 0.75, **more: Any) -> Estimate:
    """An estimate with an interval, unless told otherwise."""
    usual: dict[str, Any] = {"interval": (0.5, 0.9), "se": 0.1, "method": "wilson", "n": 40, "clusters": 10}
    known = {"metric": metric, "of": known_metric(metric), "value": value, "better": "higher"}
    return Estimate(**{**known, **usual, **more})


def evaluation(estimates: Sequence[Estimate], *, about: dict[str, str] | None = None) -> Evaluation:
    """An evaluation of one file."""
    return Evaluation(
        estimates=tuple(estimates),
        settings=Settings(resamples=100),
        population={"rows": 40, "answered": 38, "abstained": 2, "unparsed": 0, "failed": 0},
        cluster=("patient",),
        clusters=10,
        sources=(Source("folder/answers.jsonl", "0" * 64, 40, about=about or {}),),
        warnings=(),
    )


def subject(estimates: Sequence[Estimate], *, about: dict[str, str] | None = None, **more: Any) -> Subject:
    """What is exported."""
    whole = evaluation(estimates, about=about)
    return Subject(
        evaluation=whole,
        text=dumps(whole.to_dict()),
        name="out/evaluation.json",
        version="0.0.1",
        created=CREATED,
        **more,
    )


def written(folder: Path, estimates: Sequence[Estimate], **more: Any) -> Path:
    """An evaluation.json."""
    path = folder / "evaluation.json"
    path.write_text(json.dumps(json.loads(subject(estimates, **more).text)))
    return path
