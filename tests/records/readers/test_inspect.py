"""The logs of Inspect: what of a sample becomes a row, by which rule, and what is refused."""

from __future__ import annotations

import copy
import gzip
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.errors import InputError, SteelyardError, UsageError
from steelyard.records.readers import inputs, json_elements
from steelyard.records.readers.inspect_scores import number
from tests.support.commands import command
from tests.support.inspect_logs import JSON, archive, document, header, members, sample, written
from tests.support.places import ROOT
from tests.support.tables import default_stack

REAL = ROOT / "tests" / "data" / "inspect"
SHAPES = ("run.eval", "run.json")


def rows(records: sy.Records, *names: str) -> list[Any]:
    columns = [records.column(name).to_pylist() for name in names]
    return columns[0] if len(names) == 1 else list(zip(*columns, strict=True))


# -- rows --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
def test_a_sample_becomes_a_row(tmp_path: Path, name: str) -> None:
    likely = [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -3.0}]
    tokens = [{"token": "A", "logprob": -0.1, "top_logprobs": likely}]
    given_sample = sample(
        "q1",
        2,
        value="I",
        answer="B",
        metadata={"patient": 7, "site": {"name": "north"}, "should_abstain": True},
        output={"completion": "ANSWER: B", "choices": [{"message": {}, "logprobs": {"content": tokens}}]},
    )
    records = sy.read(written(tmp_path, [sample("q1", 1), given_sample], name=name))
    assert {name: records.column(name).to_pylist()[1] for name in records.stated} == {
        "item": "q1",
        "repeat": 2,
        "task": "triage",
        "model": "m",
        "target": "A",
        "prediction": "B",
        "outcome": "answered",
        "mark": 0,
        "score": 0.0,
        "should_abstain": True,
        "latency_ms": 1500.0,
        "input_tokens": 5,
        "output_tokens": 3,
        "signal.token_msp": pytest.approx(0.904837, abs=1e-6),
        "signal.token_pe": pytest.approx(0.204808, abs=1e-6),
        "signal.token_energy": pytest.approx(-0.046437, abs=1e-6),
        "metadata.patient": 7,
        "metadata.site.name": "north",
        "metadata.should_abstain": True,
    }
    about = records.sources[0].about
    assert about["tool"] == "inspect_ai"
    assert (about["run_id"], about["temperature"], about["tool_version"]) == ("r1", "0.5", "0.3.285")
    assert records.sources[0].is_whole


def test_what_a_sample_does_not_say_is_no_column(tmp_path: Path) -> None:
    bare = {"id": 1, "epoch": 1, "input": "?", "target": "A", "scores": {"match": {"value": "C"}}}
    records = sy.read(written(tmp_path, [bare]))
    assert set(records.stated) == {
        "item",
        "repeat",
        "task",
        "model",
        "target",
        "prediction",
        "outcome",
        "mark",
        "score",
    }
    assert rows(records, "outcome", "mark") == [("answered", 1)]


@pytest.mark.parametrize(("target", "shown"), [("A", "A"), (["A"], "A"), (["A", "B"], "A, B"), ([], None), (..., None)])
def test_several_targets_are_written_as_several_answers(tmp_path: Path, target: Any, shown: str | None) -> None:
    assert rows(sy.read(written(tmp_path, [sample(target=target)])), "target") == [shown]


def test_ids_that_are_numbers_and_texts_become_texts(tmp_path: Path) -> None:
    assert rows(sy.read(written(tmp_path, [sample(1), sample(2)])), "item") == [1, 2]
    assert rows(sy.read(written(tmp_path, [sample(1), sample("b/c")])), "item") == ["1", "b/c"]


def test_the_same_sample_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(document([sample(1), sample(2), sample("1")]))
    with pytest.raises(InputError, match=r"run\.json:3: .*(twice|duplicate|same)"):
        sy.read(path)


@pytest.mark.parametrize(
    ("value", "converted"),
    [
        *[("C", 1), ("I", 0), ("P", 0.5), ("N", 0), (True, 1), (False, 0), (3, 3), (0.25, 0.25), ("yes", 1)],
        *[("No", 0), ("TRUE", 1), ("0.5", 0.5), ("1e1", 10), ("c", None), ("nan", None), ("inf", None)],
        *[("rude", None), (None, None)],
    ],
)
def test_values_are_numbers_as_the_tool_takes_them(value: Any, converted: float | None) -> None:
    assert number(value) == converted


# -- outcomes ----------------------------------------------------------------------------------------------------------

JUDGED = [
    ({}, "answered", "A", None),
    ({"value": "N", "answer": "", "completion": "Ask a doctor."}, "abstained", None, "marked it as no answer"),
    ({"value": "N", "answer": "", "completion": ""}, "failed", None, "there is no reply"),
    ({"value": "I", "answer": "", "completion": "I don't know."}, "abstained", None, "a phrase of declining"),
    ({"value": "I", "answer": "", "completion": "Maybe."}, "unparsed", None, "no answer was found"),
    ({"value": "I", "answer": None, "completion": "Maybe."}, "unparsed", None, "no answer was found"),
    ({"value": "I", "answer": "", "completion": " "}, "failed", None, "there is no reply"),
    ({"value": "C", "answer": "", "completion": "It is A"}, "answered", "It is A", None),
    ({"error": {"message": "x", "traceback": ""}}, "failed", None, "ended with an error"),
    ({"limit": {"type": "token", "limit": 10}}, "failed", None, r"ran into a limit \(token\)"),
    ({"limit": {"type": "odd\x1b", "limit": 10}}, "failed", None, "ran into a limit;|ran into a limit$"),
    ({"invalidation": {"author": "x"}}, "failed", None, "declared invalid"),
    ({"scores": {}}, "failed", None, "was not scored"),
    ({"scores": None}, "failed", None, "was not scored"),
    ({"value": float("nan")}, "failed", None, "was not scored"),
    ({"value": None}, "failed", None, "was not scored"),
    ({"target": ["never", "I don't know"], "answer": "I don't know"}, "answered", "I don't know", None),
]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(("given_parts", "outcome", "prediction", "why"), JUDGED)
def test_what_became_of_a_sample(
    tmp_path: Path, name: str, given_parts: JSON, outcome: str, prediction: str | None, why: str | None
) -> None:
    path = written(tmp_path, [sample(1, **given_parts), sample(2)], name=name)
    records = sy.read(path)
    assert rows(records, "outcome", "prediction") == [(outcome, prediction), ("answered", "A")]
    said = [warning for warning in records.warnings if "of 2 samples count" in warning]
    if why is None:
        assert not said
    else:
        assert len(said) == 1
        assert re.search(why, said[0])


def test_the_rules_of_declining_are_chosen(tmp_path: Path) -> None:
    silent = {"value": "N", "answer": "", "completion": "Ask a doctor."}
    unsure = {"value": "I", "answer": "", "completion": "I don't know"}
    path = written(tmp_path, [sample(1, **silent), sample(2, **unsure), sample(3)])
    for rule, expected in {
        "": ["abstained", "abstained"],
        "noanswer": ["abstained", "unparsed"],
        "phrases": ["unparsed", "abstained"],
        "never": ["unparsed", "unparsed"],
        "empty": ["abstained", "abstained"],
        "/doctor/": ["abstained", "unparsed"],
    }.items():
        assert rows(sy.read(path, abstain_when=rule), "outcome") == [*expected, "answered"]
    assert rows(sy.read(path, abstain_when="never", abstain="Ask a doctor."), "outcome")[0] == "abstained"


@pytest.mark.parametrize("name", SHAPES)
def test_a_scorer_without_answers_takes_the_whole_reply(tmp_path: Path, name: str) -> None:
    texts = ["It is A", "I don't know", ""]
    samples = [sample(at, value="I", answer=None, completion=text) for at, text in enumerate(texts)]
    assert rows(sy.read(written(tmp_path, samples, name=name)), "outcome", "prediction") == [
        ("answered", "It is A"),
        ("abstained", None),
        ("failed", None),
    ]
    samples.append(sample(9))  # an answer in one sample: replies without one could not be read
    assert rows(sy.read(written(tmp_path, samples, name=name)), "outcome")[:2] == ["unparsed", "abstained"]


def test_texts_that_are_kept_apart_are_put_back(tmp_path: Path) -> None:
    texts = {"a" * 32: "short", "b" * 32: "the answer", "c" * 32: "the target"}
    whole = sample("w", answer=f"attachment://{'b' * 32}", target=f"attachment://{'c' * 32}", attachments=texts)
    parts = sample("p", answer="attachment://1", target=["attachment://2"], attachments=texts, metadata={"site": "x"})
    lost = sample("l", answer="attachment://77", target=f"attachment://{'d' * 32}")
    path = tmp_path / "run.eval"
    path.write_bytes(archive(members([whole, parts, lost], parts=("p", "l"))))
    records = sy.read(path)
    by_item = dict(zip(rows(records, "item"), rows(records, "prediction", "target", "metadata.site"), strict=True))
    assert by_item["w"] == ("the answer", "the target", None)
    assert by_item["p"] == ("the answer", "the target", "x")
    assert by_item["l"] == ("ANSWER: A", None, None)  # right, so the reply counts
    assert any("2 texts are kept in attachments that the log does not hold" in said for said in records.warnings)


def test_a_reply_in_an_attachment_that_is_not_there_is_no_reply(tmp_path: Path) -> None:
    away = f"attachment://{'d' * 32}"
    samples = [sample(1, value="I", answer=None, completion=away), sample(2, value="I", answer=away, completion="B")]
    records = sy.read(written(tmp_path, [samples[0], sample(3, value="C", answer=None, completion="A")]))
    assert rows(records, "outcome", "prediction") == [("failed", None), ("answered", "A")]
    assert any("1 text is kept in attachments" in said for said in records.warnings)
    assert rows(sy.read(written(tmp_path, samples[1:])), "prediction") == ["B"]


# -- scorers -----------------------------------------------------------------------------------------------------------


def test_scores_that_are_right_or_wrong_are_marks(tmp_path: Path) -> None:
    for values in (["C", "I", "N"], [True, False, True], [1, 0, 1.0], ["yes", "no", "1"]):
        records = sy.read(written(tmp_path, [sample(at, value=value) for at, value in enumerate(values)]))
        assert rows(records, "mark") == [int(number(value) or 0) for value in values]
        assert default_stack(records)[0] == "accuracy"


@pytest.mark.parametrize("values", [["C", "P", "I"], [0.25, 1.0, 0.0], [3, 4, 5]])
def test_other_scores_are_averaged_by_default(tmp_path: Path, values: list[Any]) -> None:
    samples = [sample(at, value=value, metadata={"age": 40 + at}) for at, value in enumerate(values)]
    path = written(tmp_path, samples)
    records = sy.read(path)
    assert rows(records, "mark", "score") == [(None, number(value)) for value in values]
    done = command("evaluate", path, "--format", "json", "--resamples", 0)
    assert done.code == 0, done.err
    found = {each["metric"]: each["value"] for each in done.json["estimates"]}
    assert found["mean(score)"] == pytest.approx(sum(number(value) or 0 for value in values) / 3)
    assert "accuracy" not in found
    assert "mean(metadata.age)" not in found


def test_several_scorers_are_tasks_and_one_can_be_chosen(tmp_path: Path) -> None:
    def scored(id: int) -> JSON:
        parts = {"form": "C", "tone": 0.5 * id}
        scores = {"match": {"value": "I", "answer": "B"}, "rubric": {"value": parts}, "pair": {"value": [1, 0]}}
        return sample(id, scores=scores)

    path = written(tmp_path, [scored(1), scored(2)])
    records = sy.read(path)
    names = ("match", "rubric.form", "rubric.tone", "pair.0", "pair.1")
    assert Counter(rows(records, "task")) == {f"triage/{name}": 2 for name in names}
    assert any("5 scorers (match, rubric.form" in said and "`scorer=` chooses" in said for said in records.warnings)
    assert set(default_stack(records)) >= {"accuracy", "mean(score)"}
    one = sy.read(path, scorer="match")
    assert set(rows(one, "task")) == {"triage"}
    assert not any("scorers" in said for said in one.warnings)
    assert set(rows(sy.read(path, scorer="rubric"), "task")) == {"triage/rubric.form", "triage/rubric.tone"}
    assert set(rows(sy.read(path, scorer="rubric.tone"), "score")) == {0.5, 1.0}
    with pytest.raises(UsageError, match="no scorer 'mach'; did you mean 'match'"):
        sy.read(path, scorer="mach")


def test_declining_is_not_wrong_where_nothing_is_right_or_wrong(tmp_path: Path) -> None:
    unsure = "I don't know"
    samples = [
        sample(
            at, answer=text, scores={"match": {"value": "I", "answer": text}, "tone": {"value": 0.5, "answer": text}}
        )
        for at, text in enumerate(["A", unsure, "B", unsure])
    ]
    path = written(tmp_path, samples)
    done = command("evaluate", path, "-m", "accuracy", "--resamples", 0, "--format", "json")
    found = {each["slice"]["task"]: (each["value"], each["n"]) for each in done.json["estimates"]}
    assert found == {"triage/match": (0.0, 4), "triage/tone": (None, 0)}


def test_values_that_are_texts_are_said(tmp_path: Path) -> None:
    records = sy.read(written(tmp_path, [sample(1, value="rude"), sample(2, value="C")]))
    assert rows(records, "score") == [None, 1.0]
    assert any("1 value of match is a text that stands for no number" in said for said in records.warnings)


# -- how much there is, and what is stated -----------------------------------------------------------------------------


def test_fewer_samples_than_were_to_be_run_are_an_excerpt(tmp_path: Path) -> None:
    samples = [sample(1), sample(2)]
    whole = header(samples)
    for facts, excerpt in [
        ({}, ""),
        ({"status": "cancelled"}, "the run did not end well (status cancelled)"),
        ({"results": {**whole["results"], "total_samples": 12}}, "2 of 12 samples that were to be run"),
        ({"results": None, "eval": whole["eval"] | {"config": {"epochs": 3}}}, "2 of 6 samples that were to be run"),
        (
            {"results": None, "eval": whole["eval"] | {"dataset": {"samples": 40}}},
            "2 of 40 samples that were to be run",
        ),
        ({"results": None, "eval": whole["eval"] | {"dataset": {"samples": 40}, "config": {"limit": 2}}}, ""),
    ]:
        for name in SHAPES:
            source = sy.read(written(tmp_path, samples, name=name, **facts)).sources[0]
            assert source.excerpt == excerpt
            assert source.is_whole is (excerpt == "")
    limited = sy.read(written(tmp_path, samples, eval=whole["eval"] | {"config": {"limit": 2}}))
    assert any("limited to a part of its dataset (limit 2)" in said for said in limited.warnings)


@pytest.mark.parametrize(
    ("config", "planned"),
    [
        ({"limit": [10, 12]}, 2),
        ({"limit": [10, 13]}, 3),
        ({"limit": [18, 30]}, 2),
        ({"limit": 2}, 2),
        ({"limit": "x"}, 20),
        ({"sample_id": [10, 11]}, 2),
        ({"sample_id": ["10", "11", "12"]}, 3),
        ({"sample_id": "1[01]"}, 2),
        ({"sample_id": 10}, 1),
        ({}, 20),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_what_was_to_be_run_is_a_part_of_the_dataset(tmp_path: Path, config: JSON, planned: int, named: bool) -> None:
    samples = [sample(10), sample(11)]
    log = header(samples)
    ids = {"sample_ids": list(range(20))} if named else {}
    run = log["eval"] | {"dataset": {"samples": 20, **ids}, "config": {"epochs": 1, **config}}
    excerpt = sy.read(written(tmp_path, samples, eval=run)).sources[0].excerpt
    assert excerpt == ("" if planned <= 2 else f"2 of {planned} samples that were to be run")


def test_nothing_passes_a_gate_on_an_unfinished_log(tmp_path: Path) -> None:
    path = written(tmp_path, [sample(at) for at in range(30)], header_too=False)
    done = command("gate", "--run", path, "--rule", "accuracy >= 0", "--format", "json")
    assert done.code == 1, done.err
    finished = written(tmp_path, [sample(at) for at in range(30)], name="finished.eval")
    assert command("gate", "--run", finished, "--rule", "accuracy >= 0", "--format", "json").code == 0
    assert sy.read(path).sources[0].excerpt == "the run did not end well (status started)"


def test_stated_metrics_are_made_again(tmp_path: Path) -> None:
    samples = [
        sample(item, epoch, value="C" if (item * epoch) % 3 else "I", metadata={"patient": item // 2})
        for item in range(6)
        for epoch in (1, 2)
    ]
    means = [
        sum(each["scores"]["match"]["value"] == "C" for each in samples if each["id"] == item) / 2 for item in range(6)
    ]
    mean = sum(means) / 6
    variance = sum((each - mean) ** 2 for each in means) / 5
    by_patient = [sum(means[at : at + 2]) - 2 * mean for at in (0, 2, 4)]
    clustered = (sum(each**2 for each in by_patient) * 3 / 2) ** 0.5 / 6
    metrics = {
        "accuracy": {"value": mean},
        "mean": {"value": mean},
        "var": {"value": variance},
        "std": {"value": variance**0.5},
        "stderr": {"value": (variance / 6) ** 0.5},
        "stderr2": {"name": "stderr", "value": clustered, "params": {"cluster": "patient"}},
        "odd": {"value": 3.0},
    }
    records = sy.read(written(tmp_path, samples, metrics=metrics))
    stated = {each.name: each for each in records.sources[0].declared}
    assert stated.pop("match/odd").recomputed is None
    assert set(stated) == {f"match/{name}" for name in metrics} - {"match/odd"}
    assert all(each.recomputed == pytest.approx(each.stated) for each in stated.values())
    wrong = sy.read(written(tmp_path, samples, metrics={"accuracy": {"value": 0.9}}))
    assert any("the log states match/accuracy = 0.9, its rows give" in said for said in wrong.warnings)


# -- shapes and damage -------------------------------------------------------------------------------------------------


def test_whole_samples_and_samples_in_parts_give_the_same_rows(tmp_path: Path) -> None:
    samples = [sample(id, metadata={"site": id}) for id in ("a", "b/c", "d")]
    tables = []
    for parts in ((), ("b/c",), ("a", "b/c", "d")):
        (tmp_path / "run.eval").write_bytes(archive(members(samples, parts=parts)))
        records = sy.read(tmp_path / "run.eval")
        tables.append(sorted(rows(records, "item", "prediction", "metadata.site", "mark")))
    assert tables[0] == tables[1] == tables[2]


def test_an_unpacked_archive_is_read_as_a_folder(tmp_path: Path) -> None:
    for name, content in members([sample(1), sample(2)]).items():
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_bytes(content)
    assert len(sy.read(tmp_path / "run")) == 2


def test_the_last_of_two_members_counts(tmp_path: Path) -> None:
    older, newer = members([sample(1, value="I")]), members([sample(1, value="C")])
    path = tmp_path / "run.eval"
    path.write_bytes(archive([*older.items(), *newer.items()]))
    records = sy.read(path)
    assert rows(records, "mark") == [1]
    assert any("3 members occur twice in the archive; the last counts" in said for said in records.warnings)


@pytest.mark.parametrize("name", SHAPES)
def test_a_cut_log_is_refused_or_salvaged(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, [sample(at) for at in range(20)], name=name)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="`salvage=True` keeps the"):
        sy.read(path)
    records = sy.read(path, salvage=True)
    assert 3 < len(records) < 20
    assert not records.sources[0].is_whole
    assert f"{len(records)} of 20 samples that were to be run" in records.sources[0].excerpt
    assert records.sources[0].declared == ()


def test_a_compressed_document_and_standard_input(tmp_path: Path) -> None:
    whole = document([sample(at, metadata={"note": os.urandom(500).hex()}) for at in range(200)])
    path = tmp_path / "run.json.gz"
    path.write_bytes(gzip.compress(whole))
    assert len(sy.read(path)) == 200
    path.write_bytes(gzip.compress(whole)[:-50_000])
    with pytest.raises(InputError, match="the compressed file is cut short"):
        sy.read(path)
    records = sy.read(path, salvage=True)
    assert 0 < len(records) < 200
    assert not records.sources[0].is_whole
    piped = subprocess.run(
        [sys.executable, "-m", "steelyard", "evaluate", "-", "-m", "accuracy", "--resamples", "0"],
        input=whole,
        capture_output=True,
        check=False,
    )
    assert piped.returncode == 0, piped.stderr
    assert b"200 rows (200 answered)" in piped.stdout


def test_a_document_that_is_cut_before_its_first_sample(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(document([sample(1)])[:-500])
    with pytest.raises(InputError, match=r"the last record is incomplete, the file ends inside it$"):
        sy.read(tmp_path / "run.json", salvage=True)


def test_a_document_that_is_cut_behind_its_samples(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    whole = document([sample(1), sample(2)])[:-1] + b', "reductions": [{"scorer": "match", "samples": []}]}'
    path.write_bytes(whole)
    assert len(sy.read(path)) == 2
    for cut in range(len(whole) - 50, len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"`salvage=True` keeps the 2 whole records"):
            sy.read(path)
    records = sy.read(path, salvage=True)
    assert rows(records, "item", "mark") == [(1, 1.0), (2, 1.0)]
    assert any("2 whole records were kept" in said for said in records.warnings)
    assert not records.sources[0].is_whole
    path.write_bytes(whole[:-1] + b"]")
    with pytest.raises(InputError, match="not valid JSON"):
        sy.read(path, salvage=True)


def test_what_follows_the_samples_may_be_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tail = json.dumps([{"value": 1.0, "explanation": "x" * 99}] * 1_000).encode()
    path = tmp_path / "run.json"
    path.write_bytes(document([sample(1)])[:-1] + b', "reductions": ' + tail + b"}")
    monkeypatch.setattr(json_elements, "AROUND", 10_000)
    monkeypatch.setattr(inputs, "_BLOCK", 1_000)
    assert len(sy.read(path)) == 1


def test_numbers_that_are_not_finite_and_halves_of_characters(tmp_path: Path) -> None:
    odd = sample(1, value=float("nan"), events=[float("inf"), "NaN", float("-inf")], metadata={"x": float("nan")})
    half = sample(2, answer="\ud800", completion="\ud800", metadata={"x": 1.5})
    for name in SHAPES:
        records = sy.read(written(tmp_path, [odd, half], name=name))
        assert rows(records, "outcome") == ["failed", "answered"]
        assert rows(records, "metadata.x") == [None, 1.5]
        assert list(records.labels("prediction").values) == ["\\ud800"]


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"id": None}, "id: a whole number or a text is expected"),
        ({"id": True}, "id: a whole number or a text is expected"),
        ({"id": 1.5}, "id: a whole number or a text is expected"),
        ({"epoch": "x"}, "epoch: a whole number is expected"),
        ({"target": 5}, "target: a text or a list of texts is expected"),
        ({"scores": []}, "scores: an object is expected"),
        ({"scores": {"match": 1}}, r"scores\.match: an object with value and answer"),
        ({"scores": {"match": {"value": 1, "answer": 5}}}, r"scores\.match: an object with value and answer"),
        ({"metadata": 5}, "metadata: an object is expected"),
        ({"output": "x"}, "output: an object is expected"),
    ],
)
def test_what_is_not_as_documented_is_refused_at_its_place(tmp_path: Path, part: JSON, problem: str) -> None:
    wrong = sample(1) | part
    (tmp_path / "run.json").write_bytes(document([sample(0)])[:-2] + b", " + json.dumps(wrong).encode() + b"]}")
    with pytest.raises(InputError, match=rf"run\.json:2: {problem}"):
        sy.read(tmp_path / "run.json")
    files = members([sample(1)]) | {"samples/1_epoch_1.json": json.dumps(wrong).encode()}
    (tmp_path / "run.eval").write_bytes(archive(files))
    with pytest.raises(InputError, match=rf"run\.eval/samples/1_epoch_1\.json: {problem}"):
        sy.read(tmp_path / "run.eval")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"[1]", "an object is expected"),
        (b"{", "not valid JSON"),
        (b'{"id": 1, "x": "\xff"}', "not UTF-8 text"),
        (b"", "not valid JSON"),
    ],
)
def test_a_sample_that_is_no_sample(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "run.eval").write_bytes(archive(members([sample(1)]) | {"samples/1_epoch_1.json": content}))
    with pytest.raises(InputError, match=problem):
        sy.read(tmp_path / "run.eval")


@pytest.mark.parametrize("name", SHAPES)
def test_logs_without_samples_and_of_other_versions(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="the log holds no samples"):
        sy.read(written(tmp_path, [], name=name))
    with pytest.raises(InputError, match="versions up to 2 are read"):
        sy.read(written(tmp_path, [sample(1)], name=name, version=3))


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, part in parts for place in _places(part, (*path, key)))]


@given(st.data())
def test_no_document_makes_a_traceback(tmp_path: Path, data: st.DataObject) -> None:
    logprobs = {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "A", "logprob": -0.1}]}]}
    output = {"completion": "A", "choices": [{"message": {"content": [{"type": "text"}]}, "logprobs": logprobs}]}
    samples = [sample(1, metadata={"p": 1}), sample(2, output=output, scores={"match": {"value": {"a": 1, "b": [2]}}})]
    clustered = {"stderr": {"value": 0.5, "params": {"cluster": "p"}}}
    log = header(samples, metrics=clustered) | {"samples": copy.deepcopy(samples)}
    for _ in range(data.draw(st.integers(1, 3))):
        *path, last = data.draw(st.sampled_from([place for place in _places(log) if place]))
        holder = log
        for key in path:
            holder = holder[key]
        odd = st.sampled_from(
            [None, True, -1, 10**30, 1.5, float("nan"), "", "x", "\ud800", [], [[]], {}, {"": 1}, [None]]
        )
        holder[last] = data.draw(odd)
    (tmp_path / "run.json").write_text(json.dumps(log))
    try:
        sy.read(tmp_path / "run.json", format="inspect")
    except SteelyardError as error:
        assert str(error).isprintable()  # noqa: PT017


# -- logs that the package made ----------------------------------------------------------------------------------------


def test_real_logs_of_every_shape() -> None:
    done = command("evaluate", REAL / "two_epochs.eval", "-m", "accuracy", "--format", "json", "--resamples", 0)
    assert done.code == 0, done.err
    whole = sy.read(REAL / "two_epochs.eval")
    assert (len(whole), dict(whole.counts())) == (8, {"answered": 5, "abstained": 1, "unparsed": 1, "failed": 1})
    declared = whole.sources[0].declared
    assert [each.name for each in declared] == [
        f"choice/{name}" for name in ("accuracy", "mean", "std", "var", "stderr", "stderr2")
    ]
    assert all(each.recomputed == pytest.approx(each.stated) for each in declared)
    parts = sy.read(REAL / "texts_chunked.eval")
    assert all(text.lower().startswith("answer: ") for text in rows(parts, "prediction"))
    assert rows(parts, "metadata.patient") == ["p0", "p0"]
    assert rows(sy.read(REAL / "document.json"), "item", "outcome") == [("q/0", "answered"), ("q/1", "answered")]
    unfinished = sy.read(REAL / "unfinished.eval")
    assert len(unfinished) == 3
    assert unfinished.sources[0].excerpt.startswith("3 of 4 samples that were to be run")


@pytest.mark.parametrize("name", ["two_epochs.eval", "document.json", "texts_chunked.eval"])
def test_real_logs_that_were_cut(tmp_path: Path, name: str) -> None:
    content = (REAL / name).read_bytes()
    for tenth in range(1, 10):
        (tmp_path / name).write_bytes(content[: len(content) * tenth // 10])
        try:
            records = sy.read(tmp_path / name, salvage=True)
        except SteelyardError:
            continue
        assert not records.sources[0].is_whole
