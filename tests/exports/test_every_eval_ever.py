"""The record of Every Eval Ever: its shape, its path, and what becomes of several models, slices and hostile names."""

from __future__ import annotations

import json
import re
from math import inf
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from steelyard.errors import UsageError
from steelyard.exports import Place, Subject, exporters
from steelyard.halves import whole_text
from steelyard.metrics.definition import metric_of
from steelyard.study.evaluation import evaluate
from tests.support.exports import CREATED, estimate, subject
from tests.support.hostile import PAYLOADS
from tests.support.tables import every_instance, fitting

TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def shape(required: str, **properties: Any) -> dict[str, Any]:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


# what we write of version 0.3.0 of the schema: stricter than the schema itself where that leaves room
BOUND = {"oneOf": [NUMBER, {"enum": ["Infinity", "-Infinity"]}]}
RESULT = shape(
    "evaluation_result_id evaluation_name source_data metric_config score_details",
    evaluation_result_id=TEXT,
    evaluation_name=TEXT,
    source_data=shape(
        "dataset_name source_type", dataset_name=TEXT, source_type={"const": "other"}, additional_details=TEXTS
    ),
    metric_config=shape(
        "metric_id metric_name lower_is_better score_type min_score max_score",
        evaluation_description=TEXT,
        metric_id=TEXT,
        metric_name=TEXT,
        metric_kind=TEXT,
        metric_unit=TEXT,
        metric_parameters={
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        },
        lower_is_better={"type": "boolean"},
        score_type={"const": "continuous"},
        min_score=BOUND,
        max_score=BOUND,
    ),
    score_details=shape(
        "score details uncertainty",
        score=NUMBER,
        details=TEXTS,
        uncertainty=shape(
            "num_samples",
            num_samples={"type": "integer"},
            num_bootstrap_samples={"type": "integer"},
            standard_error=shape("value", value=NUMBER),
            confidence_interval=shape(
                "lower upper confidence_level method",
                lower=NUMBER,
                upper=NUMBER,
                confidence_level={"type": "number", "minimum": 0, "maximum": 1},
                method=TEXT,
            ),
        ),
    ),
)
RECORD = shape(
    "schema_version evaluation_id retrieved_timestamp source_metadata model_info eval_library evaluation_results",
    schema_version={"const": "0.3.0"},
    evaluation_id=TEXT,
    retrieved_timestamp={"type": "string", "pattern": "^[0-9]+$"},
    source_metadata=shape(
        "source_name source_type source_organization_name evaluator_relationship additional_details",
        source_name=TEXT,
        source_type={"const": "evaluation_run"},
        source_organization_name=TEXT,
        evaluator_relationship={"enum": ["first_party", "third_party", "collaborative", "other"]},
        additional_details=TEXTS,
    ),
    eval_library=shape("name version additional_details", name=TEXT, version=TEXT, additional_details=TEXTS),
    model_info=shape(
        "name id additional_details",
        name=TEXT,
        id=TEXT,
        developer=TEXT,
        additional_details=shape(
            "deployment_type model_availability",
            deployment_type={"enum": ["self_deployed", "externally_managed", "unknown"]},
            model_availability={"enum": ["open_weights", "closed_weights", "unknown"]},
        ),
    ),
    evaluation_results={"type": "array", "items": RESULT},
)
PATH = re.compile(r"data/[^/]+/[^/]+/[^/]+/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\.json")
UNSAFE = re.compile(r'[<>:"\\|?*\x00-\x1f]')


def exported(given: Subject, **facts: str) -> dict[str, dict[str, Any]]:
    """The records by their paths; each is of the right shape, and lies where it should."""
    done = exporters["every-eval-ever"](given, Place("out"), facts)
    records = {}
    for path, text in done.files.items():
        place = path.relative_to("out").as_posix()
        assert PATH.fullmatch(place), place
        assert not UNSAFE.search(place)
        assert all(part == part.strip(" .") and part != ".." for part in place.split("/")[:-1])
        text.encode()
        record = json.loads(text, parse_constant=lambda word: pytest.fail(word))
        jsonschema.validate(record, RECORD)
        ids = [result["evaluation_result_id"] for result in record["evaluation_results"]]
        assert len(ids) == len(set(ids))
        records[place] = record
    return records


def one(given: Subject, **facts: str) -> dict[str, Any]:
    (record,) = exported(given, **facts).values()
    return record


def test_a_number_with_its_interval() -> None:
    given = subject([estimate("ece(bins=15)", 0.1, interval=(0.05, 0.2), method="ball", better="lower", unit="p")])
    record = one(given, model="acme/m1", organization="Acme", relationship="first_party")
    assert record["evaluation_id"] == f"answers/acme/m1/{int(CREATED.timestamp())}"
    assert record["eval_library"]["version"] == "0.0.1"
    assert record["model_info"]["id"] == "acme/m1"
    assert record["model_info"]["developer"] == "acme"
    assert record["source_metadata"]["source_organization_name"] == "Acme"
    assert record["source_metadata"]["additional_details"]["rows.abstained"] == "2"
    (result,) = record["evaluation_results"]
    assert result["evaluation_result_id"] == "ece(bins=15)"
    assert result["evaluation_name"] == "answers"
    details = result["source_data"]["additional_details"]
    assert details == {"input.1.name": "answers.jsonl", "input.1.sha256": "0" * 64, "input.1.rows": "40"}
    config = result["metric_config"]
    assert (config["metric_id"], config["metric_name"], config["metric_unit"]) == ("ece", "ece(bins=15)", "p")
    assert config["lower_is_better"] is True
    assert (config["min_score"], config["max_score"]) == (0, 1)
    assert config["metric_parameters"]["bins"] == 15
    score = result["score_details"]
    assert score["score"] == 0.1
    assert score["uncertainty"] == {
        "num_samples": 40,
        "num_bootstrap_samples": 100,
        "standard_error": {"value": 0.1},
        "confidence_interval": {"lower": 0.05, "upper": 0.2, "confidence_level": 0.95, "method": "ball"},
    }
    assert score["details"] == {"n": "40", "clusters": "10", "cluster": "patient", "better": "lower"}


def test_unbounded_metrics_numbers_without_interval_and_open_ends() -> None:
    record = one(
        subject(
            [
                estimate("mae", 2.0, interval=None, se=None, method="none", better="lower"),
                estimate("accuracy", 0.5, interval=(0.1, inf), notes=("one end is open",), cautions=("open high",)),
                estimate("nobody.knows:this", 3.0, better=None),
                estimate("f1_macro", None, interval=None),
            ]
        ),
        model="m",
    )
    mae, open_, plugin = record["evaluation_results"]
    assert (mae["metric_config"]["min_score"], mae["metric_config"]["max_score"]) == (0, "Infinity")
    assert mae["score_details"]["uncertainty"] == {"num_samples": 40}
    assert "confidence_interval" not in open_["score_details"]["uncertainty"]
    assert open_["score_details"]["details"]["interval"] == "0.1 to open"
    assert open_["score_details"]["details"]["note"] == "one end is open"
    assert open_["score_details"]["details"]["cautions"] == "open high"
    assert plugin["metric_config"]["metric_id"] == "nobody.knows:this"
    assert plugin["metric_config"]["min_score"] == "-Infinity"
    assert plugin["metric_config"]["lower_is_better"] is False
    assert plugin["score_details"]["details"]["better"] == "neither"
    assert record["source_metadata"]["additional_details"]["without_value"] == "f1_macro"


def test_no_module_is_imported_because_a_file_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(name))
    names = ("this.module:gap", "worst_group(this.module:gap, by=group.site)", "stability(accuracy).mean")
    assert len(one(subject([estimate(name) for name in names]), model="m")["evaluation_results"]) == 3


def test_what_cannot_be_exported_is_said() -> None:
    done = exporters["eee"](subject([estimate(), estimate("f1_macro", None)]), Place("x.json"), {"model": "m"})
    assert done.numbers == 1
    assert done.said[0] == "1 of 2 numbers have no value, and are left out"
    assert "`about=developer=…`" in done.said[1]
    assert "`about=organization=…`" in done.said[2]
    with pytest.raises(UsageError, match="nothing to export"):
        exported(subject([estimate(value=None)]), model="m")


def test_every_model_has_its_file() -> None:
    slices: list[dict[str, Any]] = [{"model": m, **s} for m in ("a/x", "y") for s in ({}, {"group.site": "n"})]
    slices += [{"model": "y", "task": "t", "group.site": "n"}]
    records = exported(subject([estimate(slice=s) for s in slices]), developer="d", benchmark="b")
    assert sorted(place.rpartition("/")[0] for place in records) == [
        "data/b/d/x",
        "data/b/d/y",
    ]  # as stated, whatever the prefix
    x, y = (records[place] for place in sorted(records))
    assert [r["evaluation_result_id"] for r in x["evaluation_results"]] == ["accuracy", "accuracy{group.site=n}"]
    assert [r["evaluation_name"] for r in y["evaluation_results"]] == ["b", "b{group.site=n}", "t{group.site=n}"]
    assert y["model_info"]["id"] == "d/y"
    assert "rows.rows" not in y["source_metadata"]["additional_details"]  # the table holds other models' rows too
    assert y["evaluation_results"][2]["score_details"]["details"]["slice.task"] == "t"
    with pytest.raises(UsageError, match="2 models, and a file for each"):
        exporters["every-eval-ever"](subject([estimate(slice=s) for s in slices]), Place("one.json"))
    with pytest.raises(UsageError, match="names its models itself"):
        exported(subject([estimate(slice=s) for s in slices]), model="z")


@pytest.mark.parametrize(
    ("about", "labels", "facts", "model"),
    [
        ({"model": "told"}, {}, {}, "told"),
        ({"model": "told"}, {"model": "labelled"}, {}, "labelled"),
        ({"model": "told"}, {"model": "labelled"}, {"model": "said"}, "said"),
    ],
)
def test_which_model_it_is(about: dict[str, str], labels: dict[str, str], facts: dict[str, str], model: str) -> None:
    assert one(subject([estimate()], about=about, labels=labels), **facts)["model_info"]["name"] == model


def test_a_model_that_nobody_names_is_asked_for() -> None:
    with pytest.raises(UsageError, match="`about=model=…`"):
        exported(subject([estimate()]))


@pytest.mark.parametrize("name", ["relationship", "deployment", "availability"])
def test_facts_of_a_closed_vocabulary(name: str) -> None:
    with pytest.raises(UsageError, match=f"`about={name}=…` is one of"):
        exported(subject([estimate()]), model="m", **{name: "friends"})


def test_facts_that_nobody_asks_for_are_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'developer'"):
        exported(subject([estimate()]), model="m", develper="x")


def test_ids_follow_from_what_was_evaluated() -> None:
    def place(*estimates: Any, **facts: str) -> str:
        (found,) = exported(subject(estimates), **{"model": "m", **facts})
        return found.rpartition("/")[2]

    first = place(estimate())
    assert place(estimate()) == first
    assert place(estimate(value=0.7500000001)) == first  # the last digits depend on the machine
    assert place(estimate(), organization="o") == first
    others = {
        first,
        place(estimate(), model="other"),
        place(estimate("f1_macro")),
        place(estimate(n=41)),
        place(estimate(slice={"group.site": "x"})),
    }
    assert len(others) == 5


def test_values_tell_evaluations_of_frames_apart() -> None:
    def place(value: float) -> str:
        given = subject([estimate(value=value)])
        sources = tuple(type(s)("frame", None, s.rows) for s in given.evaluation.sources)
        whole = type(given.evaluation)(**{**vars(given.evaluation), "sources": sources})
        (found,) = exported(Subject(**{**vars(given), "evaluation": whole}), model="m")
        return found

    assert place(0.5) != place(0.6)


@pytest.mark.parametrize(
    "name",
    [*map(whole_text, PAYLOADS), "x" * 10_000, "..", ".", "CON", "data", "nul.txt", " a ", "a//b", "/", "é" * 99],
)
def test_hostile_names_stay_in_their_folder(name: str) -> None:
    given = subject([estimate(f"f1.{json.dumps(name)}", slice={"group.x": name, "task": name})], about={"task": name})
    record = one(given, model=name, developer=name, organization=name)
    assert record["evaluation_results"][0]["metric_config"]["metric_id"] == "f1"
    exported(subject([estimate()], about={"task": name}), model="m", benchmark=name)


def test_models_that_differ_only_in_what_a_folder_cannot_hold_stay_apart() -> None:
    estimates = [estimate(slice={"model": model}) for model in ("a:b", "a?b", "a*b", "x" * 200 + "1", "x" * 200 + "2")]
    assert len(exported(subject(estimates))) == 5


@pytest.mark.parametrize("name", every_instance())
def test_every_metric_has_its_bounds_and_options(name: str) -> None:
    chosen = metric_of(name)
    found = evaluate(fitting(chosen, np.random.default_rng(1), rows=12), [chosen], resamples=100, pool=["perturbation"])
    if all(each.value is None for each in found):
        return
    record = one(subject(list(found)), model="m")
    for result in record["evaluation_results"]:
        config, score = result["metric_config"], result["score_details"]["score"]
        low, high = (float(config[end]) for end in ("min_score", "max_score"))
        assert low <= score <= high
        assert config["metric_id"] == chosen.definition.name
        assert config["evaluation_description"]


def test_a_single_file(tmp_path: Path) -> None:
    done = exporters["every-eval-ever"](subject([estimate()]), Place(str(tmp_path / "a.JSON")), {"model": "m"})
    assert list(done.files) == [tmp_path / "a.JSON"]


def test_a_developer_that_is_stated_wins_over_the_models_prefix() -> None:
    record = one(subject([estimate()]), model="m/x", developer="acme")
    assert (record["model_info"]["developer"], record["model_info"]["id"]) == ("acme", "m/x")
