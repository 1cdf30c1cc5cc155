"""Several samples as one answer: the rules by a naive count, and a whole run of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.errors import BackendError, UsageError
from steelyard.ground.journal import Journal, Rows
from steelyard.runner.samples import combined
from steelyard.uncertainty.settings import Settings

FEW = Settings(resamples=100)


def row(answer: str | None, outcome: str = "answered", **more: Any) -> dict[str, Any]:
    if outcome == "failed":
        return {"reply": {"failure": "no answer", "retries": 2}, "parsed": None, "cost": None}
    reply = {"latency_ms": 10.0, "input_tokens": 5, "output_tokens": 2}
    parsed = {"outcome": outcome, "prediction": answer, "confidence": more.pop("confidence", None)}
    return {"reply": reply, "parsed": parsed, "cost": 0.5, **more}


kinds = st.sampled_from(["a", "b", "c", "abstained", "unparsed", "failed"])


@given(st.lists(kinds, min_size=2, max_size=9))
def test_the_commonest_answer_counts(samples: list[str]) -> None:
    rows = [row(each) if len(each) == 1 else row(None, each) for each in samples]
    found = combined(rows)
    voting = [each for each in samples if each != "failed"]
    if not voting:
        assert found["reply"]["failure"] == "no answer"
        return
    counts = Counter(each if len(each) == 1 else None for each in voting)
    most = max(counts.values())
    winner = None if counts[None] == most else min(each for each in counts if each and counts[each] == most)
    assert found["parsed"]["prediction"] == winner
    expected = "answered"
    if winner is None:
        expected = "abstained" if voting.count("abstained") > voting.count("unparsed") else "unparsed"
    assert found["parsed"]["outcome"] == expected
    assert found["signals"]["consistency_modal_count"] == most
    assert found["signals"]["consistency_modal_confidence"] == pytest.approx(most / len(voting))
    assert found["signals"]["consistency_na_rate"] == pytest.approx(counts[None] / len(voting))
    assert found["signals"]["consistency_modal_score"] == winner
    assert found["reply"]["input_tokens"] == 5 * len(voting)
    assert found["reply"]["latency_ms"] == 10.0 * len(voting)
    assert found["cost"] == 0.5 * len(voting)
    assert "failure" not in found["reply"]


def test_confidence_and_signals_are_those_of_the_samples_that_agree() -> None:
    rows = [
        row("a", confidence=0.9, signals={"token_msp": 0.8, "label_confidence": 0.6}),
        row("a", confidence=0.7, signals={"token_msp": 0.6}),
        row("b", confidence=0.1, signals={"token_msp": 0.1, "token_pe": 2.0}),
    ]
    found = combined(rows)
    assert found["parsed"]["confidence"] == pytest.approx(0.8)
    assert found["signals"]["token_msp"] == pytest.approx(0.7)
    assert found["signals"]["label_confidence"] == pytest.approx(0.6)
    assert "token_pe" not in found["signals"]


MODELS = """
from random import Random

def model(item, prompt, *, seed):
    sure = item["n"] % 10 / 10
    answer = "yes" if Random(f"{seed}-{item['n']}").random() < sure else "no"
    return {"text": f"Answer: {answer}", "input_tokens": 10, "output_tokens": 3}
"""


def spec(folder: Path, **more: Any) -> Path:
    rows = [{"n": n, "text": f"is {n} large?", "label": "yes" if n % 10 > 4 else "no"} for n in range(30)]
    (folder / "data.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    task = {"name": "large", "data": "data.jsonl", "id": "n", "question": "text", "target": "label",
            "labels": ["yes", "no"], "prompt": "{{ n }}: {{ question }}"}  # fmt: skip
    (folder / "large.task.yaml").write_text(json.dumps(task))
    (folder / "models.py").write_text(MODELS)
    document = {
        "id": "large",
        "task": "large.task.yaml",
        "models": [{"name": "m", "backend": "callable", "options": {"function": "models.py:model"}}],
        "adaptation": {"strategy": ["self-consistency-5", "zero-shot"]},
        "inference": {"temperature": 0.7, "seed": 3},
        **more,
    }
    (folder / "spec.yaml").write_text(json.dumps(document))
    return folder / "spec.yaml"


def test_every_sample_is_a_row_of_the_journal_and_an_answer_is_one_record(tmp_path: Path) -> None:
    path = spec(tmp_path, repeat=2, confidence="consistency", metrics=["accuracy", "ece"])
    run = sy.run(path, root=tmp_path / "store", settings=FEW)
    frame = run.records.filter({"strategy": "self-consistency-5"}).to_pandas()
    rows = [each for each in Rows(run.journal) if each["strategy"] == "self-consistency-5"]
    assert len(frame) == 60
    assert len(rows) == 300
    for _, record in frame.iterrows():
        mine = [each for each in rows if (each["item"], each["repeat"]) == (record["item"], record["repeat"])]
        assert sorted(each["sample"] for each in mine) == [1, 2, 3, 4, 5]
        counts = Counter(each["parsed"]["prediction"] for each in mine)
        most = max(counts.values())
        assert record["prediction"] == min(each for each in counts if counts[each] == most)
        assert record["confidence"] == pytest.approx(most / 5)
        assert record["signal.consistency_modal_confidence"] == record["confidence"]
        assert (record["input_tokens"], record["output_tokens"]) == (50, 15)
    plain = run.records.filter({"strategy": "zero-shot"}).to_pandas()
    assert plain.confidence.isna().all()
    assert (
        run.evaluation["accuracy{strategy=self-consistency-5}"].value
        > run.evaluation["accuracy{strategy=zero-shot}"].value
    )  # type: ignore[operator]


def test_the_variants_of_confidence_can_be_asked_of_it(tmp_path: Path) -> None:
    run = sy.run(spec(tmp_path), root=tmp_path / "store", settings=FEW)
    sampled = run.records.filter({"strategy": "self-consistency-5"})
    found = sy.selective(sampled, confidence="consistency", resamples=100)
    assert found is not None


def test_an_answer_whose_samples_are_missing_is_none_yet(tmp_path: Path) -> None:
    path = spec(tmp_path, metrics=["accuracy"])
    whole = sy.run(path, root=tmp_path / "store", settings=FEW)
    rows = list(Rows(whole.journal))
    (whole.journal.parent / "finished").unlink()
    assert whole.folder is not None
    whole.folder.rename(tmp_path / "elsewhere")
    whole.journal.unlink()
    with Journal(whole.journal) as journal:
        for each in rows[:53]:
            journal.append(each)
    again = sy.run(path, root=tmp_path / "store", settings=FEW, resume=True)
    assert again.run_id == whole.run_id
    assert again.records.to_arrow().drop(["latency_ms"]).equals(whole.records.to_arrow().drop(["latency_ms"]))


@pytest.mark.parametrize(("most", "records"), [(13, 2), (5, 1), (4, 0)])
def test_a_run_that_stops_early_has_the_answers_whose_samples_have_ended(
    tmp_path: Path, most: int, records: int
) -> None:
    model = {"name": "m", "backend": "callable", "options": {"function": "models.py:model"}}
    model |= {"price": {"input": 100_000, "output": 0}}  # 1 per request
    path = spec(tmp_path, models=[model], limits={"max_cost": most, "concurrency": 1}, metrics=["accuracy"])
    if not records:
        with pytest.raises(BackendError, match="the limit of cost, 4, is reached"):
            sy.run(path, root=tmp_path / "store", settings=FEW)
        return
    run = sy.run(path, root=tmp_path / "store", settings=FEW)
    assert not run.is_complete
    assert run.tallies["m"].done == most
    assert len(run.records) == records


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"inference": {"temperature": 0}}, "samples that may differ"),
        ({"adaptation": {"strategy": ["zero-shot"]}, "confidence": "consistency"}, "a strategy that takes samples"),
        ({"adaptation": {"strategy": ["self-consistency"], "examples": 3}}, "is a part of its name"),
        ({"adaptation": {"strategy": ["few-shot-2"], "embedder": "hash"}}, "no strategy compares questions"),
        ({"adaptation": {"strategy": ["few-shot-similar-2"], "embedder": "openai:m"}}, "so offline: hash or wordllama"),
        ({"adaptation": {"strategy": ["few-shot-similar-2"], "embedder": "hash:x"}}, "embedder"),
        ({"adaptation": {"strategy": ["contextual"]}}, "large has none"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, more: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        sy.run(spec(tmp_path, **more), root=tmp_path / "store", settings=FEW)
    assert not (tmp_path / "store").exists()


def test_a_sum_of_which_a_part_is_unknown_is_unknown() -> None:
    parsed = {"outcome": "answered", "prediction": "yes"}
    whole = {"reply": {"text": "yes", "input_tokens": 5, "output_tokens": 1}, "parsed": parsed, "cost": 0.5}
    silent = {"reply": {"text": "yes", "output_tokens": 1}, "parsed": parsed, "cost": None}
    failed = {"reply": {"failure": "no answer", "retries": 2}, "parsed": None, "cost": None}
    assert combined([whole, whole, failed])["reply"] == {"input_tokens": 10, "output_tokens": 2, "retries": 2}
    assert combined([whole, whole, failed])["cost"] == 1.0
    part = combined([whole, silent])
    assert (part["reply"].get("input_tokens"), part["reply"]["output_tokens"], part["cost"]) == (None, 2, None)
