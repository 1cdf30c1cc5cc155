"""What lm-eval logged: which choice, how sure, what the run says of itself, and no error without its place."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
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
from tests.support.lm_eval import CHOICES, TIME, choice, reply, results, sample, softmax, written
from tests.support.mutations import mutated
from tests.support.places import ROOT
from tests.support.tables import default_stack

MADE = ROOT / "tests" / "data" / "lm_eval"
SECRET = "SECRET-PATIENT"


def column(records: Records, name: str) -> list[Any]:
    return list(records.column(name).to_pylist())


# -- multiple choice ----------------------------------------------------------------------------------------------


def test_the_choice_and_its_confidence_are_those_of_the_metric_that_counts(tmp_path: Path) -> None:
    logs, alone = (-2.0, -3.0, -1.5), (-1.0, -3.5, -0.2)
    path = written(tmp_path, [choice(0, logs, 1, alone=alone)])
    by_metric = {
        "acc": list(logs),
        "acc_norm": [-2.0 / 3, -3.0 / 14, -1.5 / 3],
        "acc_bytes": [-2.0 / 3, -3.0 / 14, -1.5 / 5],
        "acc_mutual_info": [-1.0, 0.5, -1.3],
    }
    for metric, scores in by_metric.items():
        records = sy.read(path, scorer=metric)
        place = scores.index(max(scores))
        assert column(records, "prediction") == [str(place)]
        assert column(records, "confidence") == pytest.approx([softmax(scores)[place]])
        assert column(records, "mark") == [float(place == 1)]
    assert column(sy.read(path), "prediction") == ["2"]  # the first that says right or wrong: acc


def test_of_equally_likely_choices_the_first_is_taken(tmp_path: Path) -> None:
    records = sy.read(written(tmp_path, [choice(0, (-2.0, -1.0, -1.0), 1)]))
    assert (column(records, "prediction"), column(records, "mark")) == (["1"], [1.0])


def test_a_target_that_is_the_text_of_a_choice_has_a_prediction_that_is_one(tmp_path: Path) -> None:
    samples = [choice(n, logs, n % 3, target=CHOICES[n % 3]) for n, logs in enumerate([(-1, -2, -3), (-1, -2, -3)])]
    records = sy.read(written(tmp_path, samples))
    assert (column(records, "target"), column(records, "prediction")) == (["red", "the green lamp"], ["red", "red"])
    numbers = [choice(0, (-1, -2), 0, choices=("12", "7"), target="12")]
    assert column(sy.read(written(tmp_path, numbers)), "prediction") == ["12"]


def test_the_length_of_a_choice_is_without_the_delimiter_that_the_results_state(tmp_path: Path) -> None:
    first = choice(0, (-1.0, -1.5), 1, choices=("a", "bb"), delimiter="\n\n\n")
    path = written(tmp_path, [first])
    results(tmp_path, {}, config={"target_delimiter": "\n\n\n"})
    assert column(sy.read(path, scorer="acc_norm"), "prediction") == ["1"]  # -1 and -0.75; with it -0.25 and -0.3


def test_choices_in_the_prompt_leave_the_target_to_the_mark(tmp_path: Path) -> None:
    pairs = [["-1.0", "False"], ["-0.5", "False"]]
    arguments = [{"arg_0": prompt, "arg_1": " shines"} for prompt in ("the red", "the green")]
    one = sample(0, arguments=arguments, metrics={"acc": 1.0}, target="shines", resps=[], filtered_resps=pairs)
    records = sy.read(written(tmp_path, [one]))
    assert (column(records, "target"), column(records, "prediction")) == ([None], ["1"])
    assert sy.evaluate(records, ["accuracy"], resamples=0)["accuracy"].value == 1.0


def test_a_likelihood_that_is_no_number_is_a_failed_row(tmp_path: Path) -> None:
    broken = choice(1, (-1, -2, -3), 0)
    broken["filtered_resps"][1] = ["nan", "False"]
    records = sy.read(written(tmp_path, [choice(0, (-1, -2, -3), 0), broken]))
    assert column(records, "outcome") == ["answered", "failed"]
    assert any("1 of 2 samples counts as failed: a log-likelihood is no number" in said for said in records.warnings)


def test_several_metrics_asked_for_are_tasks(tmp_path: Path) -> None:
    path = written(tmp_path, [choice(n, (-1.0, -2.0, -3.0), n) for n in range(3)])
    records = sy.read(path, scorer=["acc_norm", "acc"])
    assert column(records, "task") == ["lamps/acc", "lamps/acc_norm"] * 3
    assert column(records, "mark") == [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    with pytest.raises(UsageError, match="has no metric 'acc_nrm'; did you mean 'acc_norm'"):
        sy.read(path, scorer="acc_nrm")


# -- replies ------------------------------------------------------------------------------------------------------


def test_what_became_of_a_reply(tmp_path: Path) -> None:
    samples = [
        reply(0, "It is red.", "red", "red", right=1.0),
        reply(1, "It is blue.", "blue", "red"),
        reply(2, "Who can say?", "[invalid]", "red"),
        reply(3, "I don't know.", "[invalid]", "red"),
        reply(4, "", "", "red"),
        reply(5, "I don't know", "I don't know", "i don't know", right=1.0),
        reply(6, "Well.", "none found", "red"),
    ]
    path = written(tmp_path, samples)
    results(tmp_path, {}, config={"filter_list": [{"name": "none", "filter": [{"fallback": "none found"}]}]})
    records = sy.read(path)
    assert column(records, "outcome") == [
        *("answered", "answered", "unparsed", "abstained", "failed", "answered", "unparsed"),
    ]
    assert column(records, "prediction") == ["red", "blue", None, None, None, "I don't know", None]
    assert column(sy.read(path, abstain_when="empty"), "outcome")[2:4] == ["abstained", "abstained"]


def test_filters_are_strategies_where_there_are_several(tmp_path: Path) -> None:
    strict = [reply(n, "red", "red", "red", right=1.0, filter="strict") for n in range(2)]
    loose = [reply(n, "red", "re", "red", filter="loose") for n in range(2)]
    records = sy.read(written(tmp_path, [*strict, *loose]))
    assert column(records, "strategy") == ["strict", "strict", "loose", "loose"]
    assert "strategy" not in sy.read(written(tmp_path, strict))


def test_a_document_that_comes_again_is_a_repeat(tmp_path: Path) -> None:
    samples = [reply(n, "red", "red", "red", right=1.0, filter=name) for name in "ab" for n in (1, 0, 1, 1)]
    records = sy.read(written(tmp_path, samples))
    assert column(records, "repeat") == [1, 1, 2, 3] * 2
    assert "repeat" not in sy.read(written(tmp_path, samples[:2]))


# -- likelihoods, and scores that mark nothing ----------------------------------------------------------------------


def test_the_likelihood_of_a_text_has_scores_and_no_target(tmp_path: Path) -> None:
    rolling = [
        sample(
            n,
            arguments=[{"arg_0": "a text"}],
            metrics={"word_perplexity": [-6.0, 2], "bits_per_byte": [-6.0, 4]},
            target="a text",
            resps=[["-6.0"]],
            filtered_resps=["-6.0"],
        )
        for n in range(2)
    ]
    records = sy.read(written(tmp_path, rolling))
    assert column(records, "score.word_perplexity") == pytest.approx([math.exp(3.0)] * 2)
    assert column(records, "score.bits_per_byte") == pytest.approx([1.5 / math.log(2)] * 2)
    assert default_stack(records) == ["mean(score.word_perplexity)", "mean(score.bits_per_byte)"]


def test_a_score_that_is_neither_right_nor_wrong_is_offered_as_a_mean(tmp_path: Path) -> None:
    samples = [reply(n, "red", "red", "red", metrics={"rouge": 0.25 * n}) for n in range(3)]
    path = written(tmp_path, samples)
    records = sy.read(path, columns=[])  # as a command reads it
    assert default_stack(records) == ["mean(score.rouge)"]
    assert sy.evaluate(records, ["mean(score.rouge)"], resamples=0)["mean(score.rouge)"].value == 0.25
    asked = sy.read(path, scorer="rouge")
    assert any("rouge of lamps is not 0 or 1 everywhere" in said for said in asked.warnings)


def test_the_first_metric_that_judges_counts_even_behind_others(tmp_path: Path) -> None:
    samples = [reply(n, "red", "red", "red", metrics={"rouge": 0.5, "exact_match": n % 2}) for n in range(3)]
    assert column(sy.read(written(tmp_path, samples)), "mark") == [0.0, 1.0, 0.0]


# -- columns ------------------------------------------------------------------------------------------------------


def test_fields_of_the_document_group_and_cluster_by_their_name(tmp_path: Path) -> None:
    path = written(tmp_path, [choice(n, (-1.0, -2.0, -3.0), n % 3) for n in range(6)])
    options = ("--by", "doc.site", "--cluster", "doc.patient", "-m", "accuracy", "--resamples", 0, "--format", "json")
    estimates = command("evaluate", path, *options).json["estimates"]
    assert {each["slice"].get("doc.site"): (each["n"], each["clusters"]) for each in estimates} == {
        None: (6, 3),
        "a": (3, 3),
        "b": (3, 3),
    }
    assert "rows look clustered by 'doc.patient'" in command("evaluate", path, "--resamples", 0).err


def test_documents_pair_by_their_hash(tmp_path: Path) -> None:
    path = written(tmp_path, [choice(n, (-1.0, -2.0, -3.0), n) for n in range(3)])
    records = sy.read(path, map={"item": "doc_hash"})
    assert column(records, "item") == column(sy.read(path), "doc_hash")
    assert column(sy.read(path, map={"item": "prompt_hash"}), "item") == column(sy.read(path), "prompt_hash")
    with pytest.raises(UsageError, match="nothing"):
        sy.read(path, map={"item": "nothing"})


def test_the_target_may_be_one_that_the_document_names(tmp_path: Path) -> None:
    records = sy.read(written(tmp_path, [choice(0, (-1, -2, -3), 0)]), map={"target": "doc.site"})
    assert column(records, "target") == ["a"]


# -- what the run says of itself ------------------------------------------------------------------------------------


def test_declared_numbers_are_made_again_and_a_disagreement_is_said(tmp_path: Path) -> None:
    samples = [choice(n, (-1.0, -2.0, -3.0), n % 3) for n in range(4)]
    path = written(tmp_path, samples)
    shares = softmax((-1.0, -2.0, -3.0))
    brier = [sum((share - (place == n % 3)) ** 2 for place, share in enumerate(shares)) for n in range(4)]
    stated = {"acc,none": 0.5, "acc_stderr,none": math.sqrt(1 / 12), "brier_score,none": sum(brier) / 4}
    results(tmp_path, {**stated, "acc_norm,none": 0.9, "brier_score_stderr,none": "N/A", "f1,other": 0.1})
    records = sy.read(path)
    declared = {each.name: each.recomputed for each in records.sources[0].declared}
    assert declared == pytest.approx({**stated, "acc_norm,none": 0.25, "f1,other": None})
    assert [said for said in records.warnings if "the log states" in said] == [
        f"{path}: the log states acc_norm,none = 0.9, its rows give 0.25"
    ]
    about = records.sources[0].about
    assert (about["model"], about["tool_version"], about["seed"]) == ("acme/tiny", "0.4.13", "7")
    assert set(column(records, "model")) == {"acme/tiny"}
    assert [source.rows for source in records.sources] == [4, 0]


def test_fewer_documents_than_were_run_are_an_excerpt_and_a_limit_is_a_remark(tmp_path: Path) -> None:
    path = written(tmp_path, [choice(n, (-1.0, -2.0, -3.0), 0) for n in range(3)])
    results(tmp_path, {}, counts=(9, 4))
    records = sy.read(path)
    assert records.sources[0].excerpt == "3 of 4 documents of lamps that were run"
    assert any("only 4 of the 9 documents of lamps were to be run" in said for said in records.warnings)
    gate = ("gate", "--run", path, "--rule", "accuracy >= 0", "--resamples", 200)
    assert (command(*gate).code, "the run is incomplete" in command(*gate).out) == (1, True)
    results(tmp_path, {}, counts=(9, 3))
    assert not sy.read(path).sources[0].excerpt
    assert command(*gate).code == 0


def test_results_alone_are_refused_with_what_to_give(tmp_path: Path) -> None:
    path = results(tmp_path, {"acc,none": 0.5})
    for place in (path, tmp_path):
        with pytest.raises(InputError, match=r"the answers are not in them; .*log_samples .*samples_\*\.jsonl"):
            sy.read(place)


def test_results_that_cannot_be_read_are_no_reason_to_refuse_the_samples(tmp_path: Path) -> None:
    path = written(tmp_path, [choice(0, (-1, -2, -3), 0)])
    (tmp_path / f"results_{TIME}.json").write_text('{"results": ')
    records = sy.read(path)
    assert len(records) == 1
    assert any("so nothing is known of the run" in said for said in records.warnings)
    (tmp_path / f"results_{TIME}.json").write_text("[1]")
    assert not sy.read(path).warnings


def test_the_model_is_that_of_the_folder_where_no_results_say_it(tmp_path: Path) -> None:
    path = written(tmp_path / "acme__tiny", [choice(0, (-1, -2, -3), 0)])
    assert column(sy.read(path), "model") == ["acme/tiny"]
    assert "model" not in sy.read(written(tmp_path / "plain", [choice(0, (-1, -2, -3), 0)]))


@pytest.mark.parametrize("whole", [False, True])
def test_results_of_another_time_count_for_their_tasks_only_and_that_is_said(tmp_path: Path, whole: bool) -> None:
    path = written(tmp_path / "run", [choice(0, (-1, -2, -3), 0)])
    given = path.parent if whole else path
    other = results(path.parent, {"acc,none": 1.0}, time=TIME.replace("18-02", "19-02"))
    records = sy.read(given)
    assert column(records, "model") == ["acme/tiny"]
    (said,) = [each for each in records.warnings if "another time" in each]
    assert other.name in said
    results(path.parent, {"acc,none": 1.0}, task="other", time=TIME.replace("18-02", "19-02"))
    records = sy.read(given)
    assert "model" not in records
    assert not records.sources[0].declared
    results(path.parent, {"acc,none": 1.0})
    assert column(sy.read(given), "model") == ["acme/tiny"]
    assert not any("another time" in each for each in sy.read(given).warnings)


# -- folders ------------------------------------------------------------------------------------------------------


def test_a_folder_holds_tasks_and_models(tmp_path: Path) -> None:
    for place, model in enumerate(("acme/tiny", "acme/small")):
        folder = tmp_path / "out" / model.replace("/", "__")
        written(folder, [choice(n, (-1.0, -2.0, -3.0), place) for n in range(2)])
        written(folder, [reply(n, "red", "red", "red", right=1.0) for n in range(3)], task="written")
        results(folder, {"acc,none": 1.0 - place}, model_name=model)
    records = sy.read(tmp_path / "out")
    marks = zip(*(column(records, name) for name in ("model", "task", "mark")), strict=True)
    assert sorted(set(marks)) == [
        ("acme/small", "lamps", 0.0),
        ("acme/small", "written", 1.0),
        ("acme/tiny", "lamps", 1.0),
        ("acme/tiny", "written", 1.0),
    ]
    assert all(each.agrees and each.recomputed is not None for each in records.sources[0].declared)
    packed = tmp_path / "out.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for file in sorted((tmp_path / "out").rglob("*.js*")):
            archive.write(file, file.relative_to(tmp_path / "out"))
    assert column(sy.read(packed), "mark") == column(records, "mark")
    chosen = sy.read(tmp_path / "out", scorer="acc_norm")
    assert any("has none of the metrics that were asked for; exact_match counts" in said for said in chosen.warnings)
    with pytest.raises(UsageError, match="has no metric 'acc_nrm'"):
        sy.read(tmp_path / "out", scorer="acc_nrm")


def test_two_runs_of_one_task_by_one_model_are_refused(tmp_path: Path) -> None:
    for time in (TIME, TIME.replace("18-02", "19-02")):
        written(tmp_path / "acme__tiny", [choice(0, (-1, -2, -3), 0)], time=time)
    with pytest.raises(InputError, match="a second run of the same task by the same model"):
        sy.read(tmp_path)


# -- what lm-eval itself wrote ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["limited", "other", "written"])
def test_logs_of_the_real_tool_agree_with_themselves(name: str) -> None:
    records = sy.read(MADE / name)
    declared = records.sources[0].declared
    assert declared
    assert all(each.agrees for each in declared)
    assert [each.name for each in declared if each.recomputed is None] == []


@pytest.mark.parametrize("metric", ["acc", "acc_norm", "acc_bytes", "acc_mutual_info"])
def test_the_choice_is_the_one_that_the_real_tool_marked(metric: str) -> None:
    records = sy.read(MADE / "other", scorer=metric)
    equal = [t == p for t, p in zip(column(records, "target"), column(records, "prediction"), strict=True)]
    assert equal == [bool(mark) for mark in column(records, "mark")]
    assert 0 < sum(equal) < len(equal)


# -- lines --------------------------------------------------------------------------------------------------------


def test_earlier_versions_wrote_lists_and_numbers(tmp_path: Path) -> None:
    one = choice(0, (-1.0, -2.0, -3.0), 0)
    one["arguments"] = [["Which?", f" {text}"] for text in CHOICES]
    one["filtered_resps"] = [[-1.0, False], [-2.0, False], [-3.0, False]]
    one["target"] = 0
    del one["metrics"], one["filter"], one["doc_hash"], one["prompt_hash"], one["target_hash"]
    records = sy.read(written(tmp_path, [one]))
    assert [column(records, name) for name in ("target", "prediction", "mark")] == [["0"], ["0"], [1.0]]


def test_a_torn_last_line_is_an_error_or_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, [choice(n, (-1, -2, -3), 0) for n in range(3)])
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"jsonl:3: the last record is incomplete.*`salvage=True` keeps the 2"):
        sy.read(path)
    records = sy.read(path, salvage=True)
    assert (len(records), records.sources[0].is_whole) == (2, False)


def test_blank_lines_numbers_that_are_none_and_half_characters(tmp_path: Path) -> None:
    samples = [choice(n, (-1, -2, -3), 0) for n in range(3)]
    samples[1]["doc"]["weight"] = math.nan
    samples[2]["doc"]["question"] = samples[0]["filter"] = "\ud800"
    path = tmp_path / "samples_x.jsonl"
    path.write_text("\n" + "\n\n".join(json.dumps(each) for each in samples))
    records = sy.read(path, columns=["doc.weight", "doc.question"])
    assert column(records, "doc.question")[2] == "\\ud800"
    assert column(records, "mark") == [1.0, 1.0, 1.0]
    assert [records.where(row)[1] for row in range(3)] == [2, 4, 6]


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (lambda one: one.pop("doc_id"), r":2: .*a whole number is expected|:2: doc_id"),
        (lambda one: one.update(doc_id=True), "a whole number is expected"),
        (lambda one: one.update(filtered_resps=[["x", "False"]] * 3), "a log-likelihood is expected"),
        (lambda one: one.update(filtered_resps=[["-1", "False"]]), "not as many replies as choices"),
        (lambda one: one.update(filtered_resps=None), "a list of replies is expected"),
        (lambda one: one.update(arguments=7), "the arguments of every request"),
        (lambda one: one.update(filter=[SECRET]), "text is expected"),
    ],
)
def test_what_is_not_as_expected_is_an_error_with_its_line(
    tmp_path: Path, broken: Callable[[dict[str, Any]], Any], problem: str
) -> None:
    second = choice(1, (-1, -2, -3), 0)
    broken(second)
    with pytest.raises(InputError, match=problem) as caught:
        sy.read(written(tmp_path, [choice(0, (-1, -2, -3), 0), second]))
    assert caught.value.line == 2
    assert SECRET not in str(caught.value)


def test_bytes_that_are_no_text_are_an_error_with_their_place(tmp_path: Path) -> None:
    path = written(tmp_path, [choice(n, (-1, -2, -3), 0) for n in range(2)])
    path.write_bytes(path.read_bytes().replace(b"room 1", b"room \xff"))
    with pytest.raises(InputError, match=r":2: not UTF-8 text \(byte \d+\)"):
        sy.read(path)


@given(data=st.data())
def test_no_sample_makes_it_stumble(tmp_path: Path, data: st.DataObject) -> None:
    samples = [choice(0, (-1.0, -2.0, -3.0), 0), choice(1, (-1.0, -2.0, -3.0), 1)]
    if data.draw(st.booleans()):
        samples = [reply(n, "red", "red", "red", right=1.0) for n in range(2)]
    for place in data.draw(st.lists(st.sampled_from((0, 1)), max_size=2)):
        samples[place] = data.draw(mutated(samples[place]))
    path = written(tmp_path, [])
    path.write_text("".join(json.dumps(each) + "\n" for each in samples))
    stated = results(tmp_path, {"acc,none": 0.5, "f1,none": 0.5, "mcc,none": 0.5}, counts=(2, 2))
    stated.write_text(json.dumps(data.draw(mutated(json.loads(stated.read_text())))))
    with suppress(SteelyardError):
        sy.read(path, format="lm-eval", scorer=data.draw(st.sampled_from(((), "acc_norm", "acc_bytes"))))


def test_whole_numbers_larger_than_any_other_are_none(tmp_path: Path) -> None:
    huge = 10**400
    records = sy.read(written(tmp_path, [choice(0, (-1, -2, -3), 0), {**choice(1, (-1, -2, -3), 0), "acc": huge}]))
    assert column(records, "score.acc") == [1.0, None]
    text = json.dumps({**choice(0, (-1, -2, -3), 0), "acc": "here"}).replace('"here"', "1" + "0" * 5000)
    path = tmp_path / "other" / "samples_lamps_2026-11-15T18-02-22.160045.jsonl"
    path.parent.mkdir()
    path.write_text(text + "\n")
    assert column(sy.read(path), "score.acc_norm") == [0.0]
    reply_too = {**choice(0, (-1, -2, -3), 0), "filtered_resps": [huge, -2, -3]}
    with pytest.raises(InputError, match="a log-likelihood is expected"):
        sy.read(written(tmp_path, [reply_too]))
