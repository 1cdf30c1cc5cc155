"""What HELM wrote of a run: trials and perturbations apart, its own means again, and no error without its place."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.errors import InputError, SteelyardError, UsageError
from steelyard.records.table import Records
from tests.support.commands import command
from tests.support.helm import altered, instance, run, scores, stat, state
from tests.support.mutations import mutated
from tests.support.tables import default_stack


def column(records: Records, name: str) -> list[Any]:
    return list(records.column(name).to_pylist())


def test_a_row_is_an_instance_with_its_scores(tmp_path: Path) -> None:
    states = [
        state(instance("id1"), (" B ", -2.0), (" A", -0.5)),
        state(instance("id2", "blue", split="valid"), ("B", 0.0)),
    ]
    stats = [
        scores(states[1], exact_match=0.0, max_prob=0.5, inference_runtime=0.5, num_prompt_tokens=7, logprob=-0.7),
        scores(states[0], exact_match=1.0, max_prob=0.75, num_output_tokens=1, logprob=-0.3, num_bytes=4),
    ]
    records = sy.read(run(tmp_path / "r", states, stats, [stat("exact_match", 1.0, split="test")]))
    expected = {
        "item": ["id1", "id2"],
        "task": ["lamps:room=hall"] * 2,
        "model": ["acme/tiny"] * 2,
        "target": ["A", "C"],
        "prediction": ["A", "B"],  # the likeliest completion
        "mark": [1.0, 0.0],
        "confidence": [0.75, 0.5],
        "latency_ms": [250.0, 500.0],
        "input_tokens": [None, 7],
        "output_tokens": [1, None],
        "group.split": ["test", "valid"],
        "score.exact_match": [1.0, 0.0],
        "signal.logprob": [-0.3, -0.7],
    }
    assert {name: column(records, name) for name in expected} == expected
    assert not {"repeat", "perturbation"} & set(records.stated)
    assert not records.warnings
    about = records.sources[0].about
    assert (about["tool"], about["method"], about["metric"]) == ("helm", "multiple_choice_joint", "exact_match")


def test_trials_and_perturbations_are_apart_and_means_are_of_trials(tmp_path: Path) -> None:
    typos, one, two = altered("typos", prob=0.1), altered("dialect", target="x"), altered("dialect", target="y")
    how = [None, typos, one, two]
    states = [
        state(instance(item, perturbation=each), (letter, -1.0), trial=trial)
        for trial, letters in enumerate(("AABA", "ABBA"))
        for each in how
        for item, letter in (("id1", letters[how.index(each)]), ("id2", "A"))
    ]
    right = [float(each["result"]["completions"][0]["text"] == "A") for each in states]
    stats = [scores(each, exact_match=mark, logprob=-1.0) for each, mark in zip(states, right, strict=True)]
    means = [
        stat("exact_match", 1.0, split="test"),
        stat("exact_match", 0.75, split="test", perturbation=typos),
        stat("exact_match", 0.6, split="test", perturbation=one),  # it is 0.5
        stat("exact_match", 0.1, split="test", perturbation={**typos, "computed_on": "worst"}),
        *(stat("num_instances", 2.0, split="test", **({"perturbation": each} if each else {})) for each in how),
    ]
    folder = run(tmp_path / "r", states, stats, means, num_train_trials=2)
    records = sy.read(folder)
    called = [None, None, "typos", "typos", *["dialect(target=x)"] * 2, *["dialect(target=y)"] * 2]
    assert column(records, "perturbation") == called * 2
    assert column(records, "repeat") == [0] * 8 + [1] * 8
    declared = {each.name: (each.stated, each.recomputed) for each in records.sources[0].declared}
    assert declared["exact_match (test)"] == (1.0, 1.0)
    assert declared["exact_match (test, typos)"] == (0.75, 0.75)
    assert declared["exact_match (test, worst of typos)"] == (0.1, None)
    assert declared["num_instances (test, typos)"] == (2.0, 2.0)
    assert [said for said in records.warnings if "the log states" in said] == [
        f"{folder}: the log states exact_match (test, dialect) = 0.6, its rows give 0.5"
    ]
    assert not records.sources[0].excerpt


def test_trials_with_the_same_prompt_are_repeats(tmp_path: Path) -> None:
    asked = [instance("id1"), instance("id2")]
    first = [state(each, ("A", -1.0)) for each in asked]
    second = [state(each, ("B", -1.0), request={"random": "1"}) for each in asked]
    stats = [scores(each, f1=0.5) for each in first]
    records = sy.read(run(tmp_path / "r", [*first, *second], stats, num_trials=2))
    assert column(records, "repeat") == ["0/0", "0/0", "0/1", "0/1"]
    assert not records.sources[0].excerpt


def test_what_became_of_a_reply(tmp_path: Path) -> None:
    ids = [instance(f"id{number}") for number in range(5)]
    states = [
        state(ids[0], ("A", 0.0)),
        state(ids[1], ("M", 0.0)),  # no letter of a choice
        state(ids[2], ("I don't know", 0.0)),
        state(ids[3], ("", 0.0)),
        state(ids[4], result={"success": False, "completions": [], "error": "timeout"}),
    ]
    records = sy.read(run(tmp_path / "r", states, [scores(each, exact_match=0.0) for each in states]))
    assert column(records, "outcome") == ["answered", "unparsed", "abstained", "failed", "failed"]
    assert column(records, "prediction") == ["A", None, None, None, None]
    assert any("1 of 5 instances counts as failed: the request did not succeed" in said for said in records.warnings)


def test_texts_are_marked_by_what_the_run_found(tmp_path: Path) -> None:
    states = [state(instance(f"id{n}"), (text, -1.0), output_mapping=None) for n, text in enumerate(("Red.", "green"))]
    stats = [scores(each, f1_score=0.5, quasi_exact_match=mark) for each, mark in zip(states, (1.0, 0.0), strict=True)]
    folder = run(tmp_path / "r", states, stats, method="generation")
    records = sy.read(folder)
    assert [column(records, name) for name in ("prediction", "target")] == [["Red.", "green"], ["red", "red"]]
    assert sy.evaluate(records, ["accuracy"], resamples=0)["accuracy"].value == 0.5
    graded = sy.read(folder, scorer="f1_score", columns=[])
    assert default_stack(graded)[-2:] == ["mean(score.f1_score)", "mean(score.quasi_exact_match)"]
    both = sy.read(folder, scorer=["f1_score", "quasi_exact_match"])
    assert column(both, "task")[:2] == ["lamps:room=hall/f1_score", "lamps:room=hall/quasi_exact_match"]
    with pytest.raises(UsageError, match="has no metric 'rouge'"):
        sy.read(folder, scorer="rouge")


def test_choices_that_are_requests_of_their_own(tmp_path: Path) -> None:
    states, stats = [], []
    for item, index, mark in (("id1", 0, 1.0), ("id2", 2, 0.0), ("id3", 1, 0.5), ("id4", None, 0.0)):
        own = [
            state(instance(item), ("Which lamp?", -9.0), output_mapping=None, reference_index=place, request_mode=mode)
            for place in range(3)
            for mode in ("original", "calibration")
        ]
        states += own
        stats.append(scores(own[0], exact_match=mark, max_prob=0.6, logprob=-1.0))
        if index is not None:
            stats.append(scores(own[0], predicted_index=index))
    method = {"method": "multiple_choice_separate_calibrated"}
    records = sy.read(run(tmp_path / "r", states, stats, [stat("num_instances", 4, split="test")], **method))
    assert column(records, "prediction") == ["0", "2", "1", "another"]
    assert [column(records, name) for name in ("target", "mark")] == [["0"] * 4, [1.0, 0.0, 0.0, 0.0]]
    assert not records.sources[0].excerpt


def test_the_likelihood_of_a_text_is_a_score(tmp_path: Path) -> None:
    states = [state({"id": f"id{n}", "split": "test"}, ("a text", -6.0), output_mapping=None) for n in range(2)]
    stats = [scores(each, logprob=-6.0, num_perplexity_tokens=2, num_bytes=4) for each in states]
    means = [stat("perplexity", math.exp(3.0), split="test"), stat("bits_per_byte", 1.5 / math.log(2), split="test")]
    records = sy.read(run(tmp_path / "r", states, stats, means, method="language_modeling"), columns=[])
    assert "mean(score.logprob)" in default_stack(records)
    assert all(each.recomputed == pytest.approx(each.stated) for each in records.sources[0].declared)


def test_fewer_instances_than_were_run_are_an_excerpt(tmp_path: Path) -> None:
    states = [state(instance(f"id{n}"), ("A", -1.0)) for n in range(3)]
    stats = [scores(each, exact_match=1.0) for each in states]
    folder = run(tmp_path / "r", states[:2], stats)
    assert sy.read(folder).sources[0].excerpt == "2 of 3 instances of lamps:room=hall that were run"
    means = [stat("num_instances", 4.0, split="test")]
    folder = run(tmp_path / "r", states, stats, means, num_train_trials=2)
    assert sy.read(folder).sources[0].excerpt == "3 of 8 instances of lamps:room=hall that were run"
    gate = command("gate", "--run", folder, "--rule", "accuracy >= 0", "--resamples", 200)
    assert (gate.code, "the run is incomplete" in gate.out) == (1, True)


def test_a_model_without_logprobs_has_confidences_that_say_nothing(tmp_path: Path) -> None:
    states = [state(instance(f"id{n}"), ("A", 0.0)) for n in range(2)]
    records = sy.read(
        run(tmp_path / "r", states, [scores(s, exact_match=1.0, max_prob=1.0, logprob=0.0) for s in states])
    )
    assert column(records, "confidence") == [1.0, 1.0]
    assert any("every log-probability is 0" in said for said in records.warnings)


def test_a_suite_is_a_folder_of_runs(tmp_path: Path) -> None:
    for model in ("tiny", "small"):
        states = [state(instance(f"id{n}"), ("A", -1.0)) for n in range(2)]
        name = f"lamps:room=hall,model=acme_{model}"
        stats = [scores(each, exact_match=1.0) for each in states]
        means = [stat("exact_match", 1.0, split="test")]
        run(tmp_path / "runs" / "v1" / name, states, stats, means, name=name, model=f"acme/{model}")
    records = sy.read(tmp_path / "runs")
    assert column(records, "model") == ["acme/small"] * 2 + ["acme/tiny"] * 2
    assert {each.name for each in records.sources[0].declared} == {"lamps:room=hall: exact_match (test)"}


def test_a_run_without_statistics_is_compared_with_its_references(tmp_path: Path) -> None:
    states = [state(instance(f"id{n}"), (text, -1.0)) for n, text in enumerate("AB")]
    records = sy.read(run(tmp_path / "r", states, None))
    assert sy.evaluate(records, ["accuracy"], resamples=0)["accuracy"].value == 0.5
    assert any("there is no per_instance_stats.json" in said for said in records.warnings)


def test_files_that_are_missing_or_broken_are_named(tmp_path: Path) -> None:
    states = [state(instance(f"id{n}"), ("A", -1.0)) for n in range(3)]
    folder = run(tmp_path / "r", states, [scores(each, exact_match=1.0) for each in states])
    path = folder / "scenario_state.json"
    whole = path.read_text()
    path.write_text(whole[: whole.rindex('"instance"')])
    with pytest.raises(InputError, match=r"scenario_state\.json:3: the last record is incomplete.*keeps the 2"):
        sy.read(folder)
    records = sy.read(folder, salvage=True)
    assert (len(records), records.sources[0].is_whole) == (2, False)
    path.write_text(whole.replace('"id": "id1"', '"id": ["SECRET"]'))
    with pytest.raises(InputError, match=r"scenario_state\.json:2: .*not as HELM writes it") as caught:
        sy.read(folder)
    assert "SECRET" not in str(caught.value)
    path.write_text(whole.replace('"split"', '"\\ud800"', 1))
    assert len(sy.read(folder)) == 3
    path.write_text('{"request_state": []}')
    with pytest.raises(InputError, match="a list 'request_states' is expected"):
        sy.read(folder)
    path.unlink()
    with pytest.raises(InputError, match=r"there is no scenario_state\.json"):
        sy.read(folder)
    (folder / "run_spec.json").write_text("{")
    with pytest.raises(InputError, match=r"run_spec\.json: .*not valid JSON"):
        sy.read(folder)


@given(data=st.data())
def test_no_run_makes_it_stumble(tmp_path: Path, data: st.DataObject) -> None:
    states = [state(instance(f"id{n}", perturbation=altered("typos")), ("A", -1.0), ("B", -2.0)) for n in range(2)]
    stats = [scores(each, exact_match=1.0, max_prob=0.5, logprob=-1.0, num_bytes=3) for each in states]
    folder = run(tmp_path / "r", states, stats, [stat("exact_match", 1.0, split="test")])
    for name in data.draw(st.lists(st.sampled_from(sorted(path.name for path in folder.iterdir())), max_size=2)):
        path = folder / name
        path.write_text(json.dumps(data.draw(mutated(json.loads(path.read_text())))))
    with suppress(SteelyardError):
        sy.read(folder)


def test_counts_larger_than_any_number_are_refused(tmp_path: Path) -> None:
    states = [state(instance("id1"), (" A", -0.5))]
    stats = [scores(states[0], exact_match=1.0)]
    stats[0]["stats"][0]["count"] = 10**400
    with pytest.raises(InputError, match="per_instance_stats"):
        sy.read(run(tmp_path / "r", states, stats))
