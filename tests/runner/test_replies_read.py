"""What a backend says of a reply, and what the task says of its labels, reaches those who read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import steelyard as sy
from steelyard.uncertainty.settings import Settings

MODELS = """
import math

def cut(item, prompt):
    return {"text": "Answer: 3", "finish": "length" if int(item["age"]) % 2 else "stop"}

def spelled(item, prompt):
    def token(text):
        listed = [{"token": other, "logprob": math.log(p)} for other, p in {text: 0.8, "1": 0.2}.items()]
        return {"token": text, "logprob": math.log(0.8), "top_logprobs": listed}
    return {"text": "Answer: Stage 3", "logprobs": [token("Answer: "), token("Stage "), token("3")]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    return tmp_path


def run(folder: Path, function: str, **more: object) -> sy.Run:
    models = [{"name": function, "backend": "callable", "options": {"function": f"models.py:{function}"}}]
    spec = {"id": "s", "task": "ckd_staging", "sample_size": 30, "models": models, **more}
    (folder / "spec.yaml").write_text(json.dumps(spec))
    return sy.run(folder / "spec.yaml", root=folder / "store", settings=Settings(resamples=100))


def test_a_reply_that_was_cut_is_not_read_as_if_it_were_whole(folder: Path) -> None:
    assert set(run(folder, "cut").records.column("outcome").to_pylist()) == {"answered", "unparsed"}


def test_an_answer_in_another_spelling_has_a_confidence(folder: Path) -> None:
    inference = {"logprobs": True, "top_logprobs": 2}
    records = run(folder, "spelled", inference=inference, confidence="logprobs").records
    confidences = records.column("confidence").to_pylist()
    assert confidences == pytest.approx([0.8 * 0.8] * 30)  # stage 1 has the rest: 1, and Stage 1
