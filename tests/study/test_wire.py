"""`evaluation.json` and `comparison.json` are read back as they were written, and their schemas describe them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import steelyard as sy
from steelyard.decide.wire import acceptance_document, read_decision
from steelyard.ground.json import dumps
from steelyard.report.comparison import comparison_report
from steelyard.report.evaluation import evaluation_report
from steelyard.report.formats import text
from steelyard.report.schemas import schemas
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate

FEW = {"resamples": 200}


def table(seed: int, **facts: float) -> sy.Records:
    rows = [
        {
            "item": f"q{i}",
            "patient": f"p{i // 3}",
            "target": "ab"[i % 2],
            "prediction": None if i % 11 == seed else "ab"[(i * seed) % 2],
            "confidence": ((7 * i + seed) % 10) / 10,
            "group.site": "xyz"[i % 3],
        }
        for i in range(60)
    ]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return sy.Records.from_columns(columns, cluster="patient", task={"facts": facts})


UNCERTAINTY = evaluate(table(2), ["accuracy"], resamples=0).to_dict()["uncertainty"]
METRICS = ["accuracy", "aurc", "ece", "f1", "selective_accuracy", "fairness_gap(accuracy, by=group.site)"]


def test_an_evaluation_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    evaluation = evaluate(table(2), METRICS, by="group.site", **FEW)
    path = tmp_path / "evaluation.json"
    path.write_text(dumps(evaluation.to_dict()))
    loaded = sy.load(path)
    assert isinstance(loaded, sy.Evaluation)
    assert loaded.to_dict() == evaluation.to_dict()
    assert loaded["accuracy"].interval == evaluation["accuracy"].interval
    jsonschema.validate(evaluation.to_dict(), schemas["evaluation"]())


def test_what_was_read_only_in_part_is_written_and_read_back_as_a_part(tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"item": 1, "target": "a", "prediction": "a"}\n{"item": 2, "tar')
    document = evaluate(sy.read(answers, salvage=True), ["accuracy"], resamples=0).to_dict()
    jsonschema.validate(document, schemas["evaluation"]())
    path = tmp_path / "evaluation.json"
    path.write_text(dumps(document))
    assert [source.is_whole for source in sy.load(path).sources] == [False]
    del document["inputs"][0]["torn"]  # as written before there was such a key
    path.write_text(dumps(document))
    assert [source.is_whole for source in sy.load(path).sources] == [True]


def test_a_comparison_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    comparison = compare(table(2), table(3), METRICS, **FEW)
    path = tmp_path / "comparison.json"
    path.write_text(dumps(comparison.to_dict()))
    loaded = sy.load(path)
    assert isinstance(loaded, sy.Comparison)
    assert loaded.to_dict() == comparison.to_dict()
    jsonschema.validate(comparison.to_dict(), schemas["comparison"]())


def test_facts_of_whole_tables_are_written_read_and_printed(tmp_path: Path) -> None:
    old, new = table(2, wall_seconds=1812.5, kwh=0.8, co2_kg=0.30476), table(3)
    evaluation, comparison = evaluate(old, ["accuracy"], **FEW), compare(old, new, ["accuracy"], **FEW)
    assert evaluation.to_dict()["facts"] == {"wall_seconds": 1812.5, "kwh": 0.8, "co2_kg": 0.30476}
    assert comparison.to_dict()["facts"] == {"base": evaluation.to_dict()["facts"]}
    for name, result in (("evaluation", evaluation), ("comparison", comparison)):
        path = tmp_path / f"{name}.json"
        path.write_text(dumps(result.to_dict()))
        loaded = sy.load(path)
        assert loaded.facts == result.facts
        assert loaded.to_dict() == result.to_dict()
        jsonschema.validate(result.to_dict(), schemas[name]())
    assert "it took 1,812 s, 0.8 kWh, 0.3048 kg of CO₂" in text.render(evaluation_report(evaluation))
    assert "base took 1,812 s, 0.8 kWh, 0.3048 kg of CO₂" in text.render(comparison_report(comparison))
    assert "facts" not in evaluate(new, ["accuracy"], **FEW).to_dict()
    part = old.filter({"group.site": "x"})
    assert not evaluate(part, ["accuracy"], **FEW).facts  # they are of the whole table


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_a_loaded_comparison_decides_by_the_same_deltas(tmp_path: Path, level: float) -> None:
    comparison = compare(table(2), table(5), METRICS, level=level, **FEW)
    path = tmp_path / "comparison.json"
    path.write_text(dumps(comparison.to_dict()))
    loaded = sy.load(path)
    assert {d.verdict_from for d in comparison} > {"delta"}
    for here, there in zip(comparison, loaded, strict=True):
        assert there.level == level
        assert there.read_from == here.read_from
        for one, two in ((here.decisive, there.decisive), (here.readable, there.readable)):
            assert (one is None) == (two is None)
            if one is not None and two is not None:
                assert (two.value, two.interval, two.level) == (one.value, one.interval, level)
    rules = ["high(delta(aurc)) <= 0.02", "high(delta(ece)) <= 0.02", "low(delta(accuracy)) >= -0.2"]
    gate = sy.Gate.parse(rules)
    judged = [[(v.verdict, v.number.n) for v in gate.check(each).rules] for each in (loaded, comparison)]
    assert judged[0] == judged[1]


def test_a_gate_can_judge_what_was_loaded(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text(dumps(evaluate(table(2), ["accuracy"], **FEW).to_dict()))
    loaded = sy.load(path)
    decision = sy.Gate.parse(["accuracy >= 0.1", "low(accuracy) >= 0.99"]).check(loaded)
    document = acceptance_document(decision, {"run": "one", "baseline": None})
    jsonschema.validate(document, schemas["acceptance-gate"]())
    again = acceptance_document(read_decision(document), {"run": "one", "baseline": None})
    assert again == document


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"kind": "other"}, "its kind is another"),
        ({"schema_version": "9"}, "version 9; this program reads 1"),
        ({"schema_version": 1}, "schema_version: Expected `str`, got `int`"),
        ({"estimates": [{"metric": "accuracy"}]}, r"estimates\[0\]: Object missing required field"),
        ({"uncertainty": {}}, "uncertainty: Object missing required field"),
        ({"uncertainty": {**UNCERTAINTY, "level": -1.0}}, "uncertainty: .*level"),
        ({"uncertainty": {**UNCERTAINTY, "seed": -1}}, "uncertainty: .*seed"),
        ({"uncertainty": {**UNCERTAINTY, "method": "x"}}, "uncertainty.method: one of the documented words"),
    ],
)
def test_what_is_no_evaluation_is_refused(tmp_path: Path, change: dict[str, object], problem: str) -> None:
    document = {**evaluate(table(2), ["accuracy"], **FEW).to_dict(), **change}
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps(document))
    with pytest.raises(sy.InputError, match=problem):
        sy.load(path)
