"""Replies that decline and replies that answer, written before the rules; the task that each was given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.places import ROOT
from tests.support.tasks import TextTask

FOLDER = ROOT / "tests" / "data" / "refusals"


@dataclass(frozen=True, kw_only=True)
class FreeTask(TextTask):
    """A task whose answers are free texts."""

    answers: str = "text"


def replies(half: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / f"{half}.jsonl").read_text(encoding="utf-8").splitlines()]


def task_of(row: Mapping[str, Any]) -> TextTask:
    """The task that a reply was given to."""
    kind = FreeTask if row["form"] == "text" else TextTask
    labels = tuple(row["labels"]) if row["form"] == "labels" else None
    return kind(labels=labels, may_decline=row["may_decline"])
