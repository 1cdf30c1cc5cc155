"""A whole run-spec against a real llama.cpp server, with a model whose answers and probabilities are known."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

import steelyard as sy
from steelyard.runner.plan import planned
from steelyard.runner.spec import load_spec
from steelyard.uncertainty.settings import Settings
from tests.support.known_model import DECLINED, EVIDENCE, LABELS, answer_of, label_confidences, write_known_model
from tests.support.llama_server import LlamaServer, serving

pytestmark = pytest.mark.slow

WORDS = [*EVIDENCE] * 6


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    with serving(write_known_model(tmp_path_factory.mktemp("known") / "known.gguf")) as running:
        yield running


@pytest.fixture(scope="module")
def run(server: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> sy.Run:
    folder = tmp_path_factory.mktemp("run")
    wrong = {"crash": "Major", "typo": "Minor"}  # every third report of these was sorted by somebody else
    rows = []
    for number, word in enumerate(WORDS):
        label = EVIDENCE[word][0] if EVIDENCE[word][0] != DECLINED else "Minor"
        label = wrong.get(word, label) if number % 3 == 0 else label
        report = f"Report {number}: there is a {word} in the program."
        rows.append({"id": f"r{number}", "report": report, "label": label, "unclear": EVIDENCE[word][0] == DECLINED})
    (folder / "reports.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {
        "name": "bugs", "data": "reports.jsonl", "id": "id", "question": "report", "target": "label",
        "labels": list(LABELS), "should_abstain": "unclear",
    }  # fmt: skip
    (folder / "bugs.task.yaml").write_text(json.dumps(task))
    model = {"name": server.model, "base_url": server.url, "api_key_env": "LLAMA_KEY"}
    spec = {
        "id": "bugs",
        "task": "bugs.task.yaml",
        "models": [model],
        "inference": {"logprobs": True, "top_logprobs": 20, "format": "text", "max_tokens": 16},
        "confidence": "logprobs",
        "metrics": ["selective_accuracy", "answer_rate", "deferral_alignment", "ece", "aurc", "brier"],
    }
    (folder / "spec.yaml").write_text(json.dumps(spec))
    return sy.run(
        folder / "spec.yaml",
        root=folder / "store",
        environment={"LLAMA_KEY": server.key},
        settings=Settings(resamples=200),
    )


def expected(run: sy.Run) -> list[tuple[str, dict[str, float]]]:
    """By item, the reply and how likely every label is among the labels, from the messages that were sent."""
    plan = planned(load_spec(run.journal.parents[5] / "spec.yaml"))
    messages = [[m.content for m in plan.messages(plan.strategies[0], item)] for item in plan.items]
    return [(answer_of(*each), label_confidences(*each)) for each in messages]


def test_every_answer_is_the_known_one(run: sy.Run) -> None:
    assert run.exit_code == 0
    frame = run.records.to_pandas()
    for (reply, _), outcome, prediction in zip(expected(run), frame.outcome, frame.prediction, strict=True):
        answer = reply.removeprefix("Answer: ")
        assert outcome == ("abstained" if answer == DECLINED else "answered")
        if outcome == "answered":
            assert prediction.casefold() == answer.casefold()


def test_confidences_are_the_designed_ones(run: sy.Run) -> None:
    frame = run.records.to_pandas()
    answered = frame.outcome == "answered"
    designed = [
        known[p] if ok else np.nan for (_, known), p, ok in zip(expected(run), frame.prediction, answered, strict=True)
    ]
    assert answered.sum() == 36
    np.testing.assert_allclose(frame.confidence[answered], np.array(designed)[answered], atol=1e-4)
    for label in LABELS:
        every = [known[label] for _, known in expected(run)]
        np.testing.assert_allclose(frame[f"signal.label.{label}"][answered], np.array(every)[answered], atol=1e-4)


def test_accuracy_and_calibration_are_those_of_the_design(run: sy.Run) -> None:
    frame = run.records.to_pandas()
    answered = [
        (max(known, key=known.__getitem__) == target, max(known.values()))
        for (reply, known), target in zip(expected(run), frame.target, strict=True)
        if DECLINED not in reply
    ]
    right = np.mean([ok for ok, _ in answered])
    assert 0.8 < right < 1
    assert run.evaluation["selective_accuracy"].value == pytest.approx(right)
    assert run.evaluation["answer_rate"].value == pytest.approx(36 / 42)
    assert run.evaluation["deferral_alignment"].value == 1
    naive = sum(
        abs(sum(ok - confidence for ok, confidence in answered if low < confidence <= low + 0.1))
        for low in np.arange(10) / 10
    ) / len(answered)
    assert run.evaluation["ece"].value == pytest.approx(naive, abs=1e-4)


def test_signals_suit_selective_prediction(run: sy.Run) -> None:
    assert {"signal.token_msp", "signal.token_pe", "signal.token_energy", "signal.label_outside"} <= set(
        run.records.stated
    )
    frame = run.records.to_pandas()
    assert frame["signal.token_msp"][frame.outcome == "answered"].between(0, 1).all()
