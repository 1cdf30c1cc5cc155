"""What the readers of logs share, seen through a reader of two lines: outcomes by rule, excerpts, declared numbers."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard import UsageError
from steelyard.decide.gate import Gate
from steelyard.decide.subject import of_records
from steelyard.records.declared import Declared
from steelyard.records.declining import LONGEST
from steelyard.records.readers import Head, Input, Table, reader, readers
from steelyard.records.readers.logged import Samples, chosen
from tests.support.commands import command

REPLIES = ["A", "B", "", None, "I don't know", "ANSWER: A", "nothing of use", "----"]


def sniff(head: Head) -> Any:
    return "sure" if "toy_log" in head.keys else "no"


def load(source: Input) -> Table:
    document = json.loads(source.text(2**20))
    samples = Samples(source)
    sites = document.get("sites", "yx")
    (scorer,) = chosen(source, ["toy", "other"])[:1]
    for number, reply in enumerate(document["replies"]):
        found = reply if reply in ("A", "B") else "A" if reply == "ANSWER: A" else None
        outcome = samples.outcome(answer=found, completion=reply, target="A", no_answer=reply == "----")
        prediction = found if outcome == "answered" else None
        samples.add(
            {
                "item": number,
                "task": scorer,
                "target": "A",
                "prediction": prediction,
                "outcome": outcome,
                "mark": None if prediction is None else prediction == "A",
                "metadata": {"site": sites[number % 2], "huge": 2**70, "odd": float("nan")},
            }
        )
    stated = document.get("accuracy")
    declared = [Declared(name="accuracy", stated=stated, recomputed=0.25)] if stated is not None else []
    planned = document.get("planned", len(samples))
    excerpt = f"{len(samples)} of {planned} samples that were to be run" if planned > len(samples) else ""
    return samples.table(about={"tool": "toy"}, declared=declared, excerpt=excerpt)


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    reader("toy", about="a toy", suffixes=(".toy",), sniff=sniff)(load)
    yield
    readers.remove("toy")


def log(folder: Path, name: str = "a.toy", **more: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps({"toy_log": 1, "replies": REPLIES, **more}))
    return path


def outcomes(path: Path, **options: Any) -> list[str]:
    return list(sy.read(path, **options).column("outcome").to_pylist())


def test_outcomes_by_their_rules(tmp_path: Path) -> None:
    path = log(tmp_path)
    plain = ["answered", "answered", "failed", "failed", "abstained", "answered", "unparsed", "abstained"]
    assert outcomes(path) == plain
    for asked, changed in {
        "noanswer": {4: "unparsed"},
        "phrases": {7: "unparsed"},
        "never": {4: "unparsed", 7: "unparsed"},
        "phrases,noanswer,empty": {6: "abstained"},
        "/of use/": {4: "unparsed", 6: "abstained", 7: "unparsed"},
    }.items():
        assert outcomes(path, abstain_when=asked) == [changed.get(i, each) for i, each in enumerate(plain)]
    assert outcomes(path, abstain="nothing of use")[6] == "abstained"
    assert outcomes(path, unparsed="I don't know")[4] == "unparsed"


def test_rules_are_counted_and_named_as_they_are_typed(tmp_path: Path) -> None:
    done = command("evaluate", log(tmp_path), "-m", "accuracy", "--resamples", 0, "--format", "json")
    said = done.json["warnings"]
    assert any("2 of 8 samples count as failed: there is no reply" in each for each in said)
    shown = command("evaluate", log(tmp_path), "-m", "accuracy", "--resamples", 0)
    assert "1 of 8 samples counts as abstained: the tool marked it as no answer; --abstain-when changes that" in (
        shown.out + shown.err
    )
    assert done.json["inputs"][0]["about"] == {"tool": "toy"}


def test_a_reply_that_is_the_target_is_an_answer() -> None:
    samples = Samples(Input("x", io.BytesIO()))
    assert samples.outcome(answer="I don't know", completion="I don't know", target="I don't know") == "answered"
    assert samples.outcome(answer="I don't know", completion="I don't know", target="B") == "abstained"


def test_what_was_found_right_is_an_answer_whatever_it_says() -> None:
    samples = Samples(Input("x", io.BytesIO()))
    for text in ("I don't know", "Reasoning.\nNot sure."):
        assert samples.outcome(answer=None, completion=text, right=True) == "answered"
        assert samples.outcome(answer=None, completion=text) == "abstained"
    assert samples.outcome(answer="It is Paris.\nNot sure.", completion="?") == "answered"
    assert samples.outcome(answer="", completion="", right=True) == "failed"
    assert samples.outcome(answer=None, completion="Pass", no_answer=True, right=True) == "abstained"


def test_a_phrase_that_is_a_label_of_the_log_is_an_answer() -> None:
    samples = Samples(Input("x", io.BytesIO()))
    replies = [("pass", "fail"), ("fail", "PASS "), ("uncertain", "fail"), ("I don't know", "fail"), ("fail", "fail")]
    for number, (reply, target) in enumerate(replies):
        outcome = samples.outcome(answer=reply, completion=reply, target=target)
        row = {"item": number, "target": target, "prediction": reply if outcome == "answered" else None}
        samples.add({**row, "outcome": outcome, "mark": int(reply == target)})
    table = samples.table()
    assert table.columns["outcome"].to_pylist() == ["answered", "answered", "abstained", "abstained", "answered"]
    assert table.columns["prediction"].to_pylist() == ["pass", "fail", None, None, "fail"]
    assert [each for each in table.warnings if "count" in each] == [
        "x: 2 of 5 samples count as abstained: the reply is a phrase of declining; `abstain_when=` changes that"
    ]


def test_an_escape_in_a_phrase_that_is_a_label_is_kept() -> None:
    half = "\\ud800\npass"
    assert retold([(half, "fail"), ("fail", half)]) == (["answered", "answered"], [half, "fail"])


def test_a_reply_longer_than_any_phrase_is_no_label_and_is_not_held() -> None:
    for length, outcome in ((LONGEST, "answered"), (LONGEST + 1, "abstained")):
        reply = "reasoning\npass".rjust(length, ".")
        assert retold([(reply, "fail"), ("fail", reply)])[0] == [outcome, "answered"]


def retold(replies: Sequence[tuple[str, str]]) -> tuple[list[Any], list[str | None]]:
    """The outcomes and predictions of a log of replies without answers, each with its target."""
    samples = Samples(Input("x", io.BytesIO()))
    for number, (reply, target) in enumerate(replies):
        answer = reply if reply == "fail" else None
        outcome = samples.outcome(answer=answer, completion=reply, target=target)
        samples.add({"item": number, "target": target, "prediction": answer, "outcome": outcome, "mark": 0})
    columns = samples.table().columns
    return columns["outcome"].to_pylist(), columns["prediction"].to_pylist()


def test_metadata_stands_where_groups_may(tmp_path: Path) -> None:
    path = log(tmp_path)
    done = command("evaluate", path, "-m", "accuracy", "--by", "metadata.site", "--cluster", "metadata.site",
                   "--resamples", 0, "--format", "json")  # fmt: skip
    assert done.code == 0, done.err
    assert {e["slice"].get("metadata.site") for e in done.json["estimates"]} == {None, "x", "y"}
    kept = sy.read(path)
    assert kept.column("metadata.huge").to_pylist()[0] == str(2**70)
    assert kept.column("metadata.odd").null_count == len(kept)
    lean = sy.read(path, columns=[])
    assert "metadata.site" not in lean


def test_groups_of_two_logs_must_agree(tmp_path: Path) -> None:
    one, two = log(tmp_path), log(tmp_path, "b.toy", replies=[*REPLIES, "A"])
    asked = ("-m", "accuracy", "--align", "intersection")
    assert command("compare", one, two, *asked, "--by", "metadata.site").code == 0
    done = command("compare", one, log(tmp_path, "c.toy", sites="zzzz"), *asked, "--by", "metadata.site")
    assert done.code == 3
    assert "metadata.site" in done.err


def test_scorers_are_chosen_by_name(tmp_path: Path) -> None:
    assert sy.read(log(tmp_path), scorer="other").only("task") == "other"
    with pytest.raises(UsageError, match="has no scorer 'othr'; did you mean 'other'"):
        sy.read(log(tmp_path), scorer="othr")


def test_an_excerpt_cannot_pass(tmp_path: Path) -> None:
    path = log(tmp_path, planned=10)
    records = sy.read(path)
    assert any("an excerpt, 8 of 10 samples that were to be run" in w for w in records.warnings)
    decision = Gate.parse("accuracy >= 0").check(of_records(Gate.parse("accuracy >= 0"), records, None))
    assert decision.verdict == "fail"
    assert any("8 of 10 samples" in note for note in decision.notes)
    done = command("gate", "--run", path, "--rule", "accuracy >= 0", "--format", "json")
    assert done.code == 1, done.err
    whole = command("gate", "--run", log(tmp_path, "b.toy", planned=8), "--rule", "accuracy >= 0")
    assert whole.code == 0, whole.err


def test_a_saved_run_of_an_excerpt_is_not_complete(tmp_path: Path) -> None:
    done = command("evaluate", log(tmp_path, planned=10), "-m", "accuracy", "--save", "--run-id", "r", root=tmp_path)
    assert done.code == 0, done.err
    (run,) = command("runs", "list", "--format", "json", root=tmp_path).json["runs"]
    assert run["complete"] is False


def test_declared_numbers_are_kept_and_a_disagreement_is_said(tmp_path: Path) -> None:
    right = sy.evaluate(log(tmp_path, accuracy=0.25), ["accuracy"], resamples=0)
    assert not [w for w in right.warnings if "states" in w]
    wrong = sy.evaluate(log(tmp_path, "b.toy", accuracy=0.5), ["accuracy"], resamples=0)
    assert [w for w in wrong.warnings if "the log states accuracy = 0.5, its rows give 0.25" in w]
    document = wrong.to_dict()
    assert document["inputs"][0]["declared"] == [{"metric": "accuracy", "stated": 0.5, "recomputed": 0.25}]
    (tmp_path / "evaluation.json").write_text(json.dumps(document))
    assert sy.load(tmp_path / "evaluation.json").to_dict()["inputs"] == document["inputs"]


def test_reading_tells_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"item": i, "target": "a", "prediction": "a"}) + "\n" for i in range(40_000)))
    told: list[float] = []
    sy.read([path, log(tmp_path)], progress=told.append, map=None, drop="x")
    assert len(told) > 3
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert 0 < told[0] < 0.5
