"""Every perturbation against a real llama.cpp server, with a model whose prejudices are known: the drop is found.

Where nothing else speaks, the model says Major, because every prompt holds the word "error". A trace of how the
question was put (a name before it, a chatty word, a number that is spelt out, Trivial first in the list) makes it say
Trivial.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

import steelyard as sy
from steelyard.ground.journal import Rows
from steelyard.runner.perturbations import perturbations
from steelyard.runner.plan import Plan, planned
from steelyard.runner.spec import load_spec
from steelyard.runner.tasks import Item
from steelyard.uncertainty.settings import Settings
from tests.support.known_model import LABELS, answer_of, write_known_model
from tests.support.llama_server import LlamaServer, serving

pytestmark = pytest.mark.slow

EACH = 6  # items of a kind
KINDS = {
    "It is so: a crash": "Critical",
    "see 3 at: the LAYOUT": "Major",
    "please see: it is slow": "Major",
    "data loss": "Critical",
}
# by perturbation, how many of a kind stay as they are, so that they are not asked again
NO_CHANGE = {
    "lower": ("please see: it is slow", "data loss"),
    "truncation": ("data loss",),
    "informal": ("see 3 at: the LAYOUT", "data loss"),
    "number_format": ("It is so: a crash", "please see: it is slow", "data loss"),
}
# by perturbation and kind, what the answer becomes; where it is left to chance, a prompt decides
DESIGNED = {
    "typos": {"It is so: a crash": "Major", "data loss": "Major"},
    "upper": {"It is so: a crash": "Major", "data loss": "Major"},
    "lower": {"see 3 at: the LAYOUT": "Minor"},
    "truncation": {"It is so: a crash": "Major"},
    "name_prefix": dict.fromkeys(KINDS, "Trivial"),
    "gender_prefix": dict.fromkeys(KINDS, "Trivial"),
    "informal": {"please see: it is slow": "Trivial"},
    "number_format": {"see 3 at: the LAYOUT": "Trivial"},
}
CHANCE = ("noise_words", "reordered_options")


def rule(item: Item) -> str:
    """What the model answers, in words."""
    text = item.fields["question"]
    if any(trace in text for trace in ("writes:", "pls", "three")) or (item.options or LABELS)[0] == "Trivial":
        return "Trivial"
    if "crash" in text or "data loss" in text:
        return "Critical"
    return "Minor" if "layout" in text else "Major"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    with serving(write_known_model(tmp_path_factory.mktemp("known") / "known.gguf")) as running:
        yield running


@pytest.fixture(scope="module")
def run(server: LlamaServer, tmp_path_factory: pytest.TempPathFactory) -> sy.Run:
    folder = tmp_path_factory.mktemp("run")
    rows = [
        {"id": f"{kind}{number}", "report": text, "label": label}
        for kind, (text, label) in enumerate(KINDS.items())
        for number in range(EACH)
    ]
    (folder / "reports.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {
        "name": "bugs", "data": "reports.jsonl", "id": "id", "question": "report", "target": "label",
        "labels": list(LABELS), "prompt": "{{ question }}\nElse it is an error.",
    }  # fmt: skip
    (folder / "bugs.task.yaml").write_text(json.dumps(task))
    spec = {
        "id": "bugs",
        "task": "bugs.task.yaml",
        "models": [{"name": server.model, "base_url": server.url, "api_key_env": "LLAMA_KEY"}],
        "perturbations": list(perturbations),
        "inference": {"format": "text", "max_tokens": 16},
        "metrics": ["accuracy", "robustness_score(accuracy)", "consistency_rate", "flip_rate", "flip_to_incorrect"],
    }
    (folder / "spec.yaml").write_text(json.dumps(spec))
    key = {"LLAMA_KEY": server.key}
    return sy.run(folder / "spec.yaml", root=folder / "store", environment=key, settings=Settings(resamples=200))


@pytest.fixture(scope="module")
def plan(run: sy.Run) -> Plan:
    return planned(load_spec(run.journal.parents[5] / "spec.yaml"))


def test_all_perturbations_are_tried() -> None:
    assert set(perturbations) == {*DESIGNED, *CHANCE}


def test_prompts_are_changed_and_the_model_answers_them_as_it_must(run: sy.Run, plan: Plan) -> None:
    assert run.exit_code == 0
    originals = {item.id: item for item in plan.items}
    rows = list(Rows(run.journal))
    assert len(rows) == plan.count
    for row in rows:
        place = plan.place(row["key"])
        (strategy,) = plan.strategies
        messages = [message.content for message in plan.messages(strategy, place.item)]
        unchanged = plan.messages(strategy, originals[place.item.id])
        assert (messages != [message.content for message in unchanged]) == (place.perturbation is not None)
        assert answer_of(*messages) == f"Answer: {rule(place.item)}"
        assert row["parsed"]["prediction"] == rule(place.item)


def test_what_would_not_change_is_counted_and_has_no_row(run: sy.Run, plan: Plan) -> None:
    expected = {name: EACH * len(NO_CHANGE.get(name, ())) for name in perturbations}
    assert plan.unchanged == expected
    rows = Counter(run.records.to_pandas().perturbation.fillna("none"))
    assert rows == {"none": 24, **{name: 24 - count for name, count in expected.items()}}
    for name, count in expected.items():
        said = f"{name} changes nothing in {count} of 24 items, which are not asked about again"
        assert (said in run.records.warnings) == (count > 0)
        assert (said in run.evaluation.warnings) == (count > 0)


@pytest.mark.parametrize("name", [*DESIGNED, *CHANCE])
def test_the_drop_is_found(run: sy.Run, plan: Plan, name: str) -> None:
    """From the design alone where it decides, from the changed prompts where chance does."""
    asked = [text for text in KINDS if text not in NO_CHANGE.get(name, ())]
    if name in DESIGNED:
        before = sum(EACH for text in asked)  # all are right as they are
        after = sum(EACH * (DESIGNED[name].get(text, KINDS[text]) == KINDS[text]) for text in asked)
    else:
        altered = [plan.item(place, name) for place in plan.changed[name]]
        before = len(altered)
        after = sum(rule(item) == item.target for item in altered)
    assert after < before
    cell = f"{{perturbation={name}}}"
    found = {key: run.evaluation[f"{key}{cell}"].value for key in ("accuracy", "consistency_rate", "flip_rate")}
    assert found == pytest.approx({
        "accuracy": after / before, "consistency_rate": after / before, "flip_rate": 1 - after / before
    })  # fmt: skip
    assert run.evaluation[f"robustness_score(accuracy){cell}"].value == pytest.approx(after / before)
    assert run.evaluation[f"flip_to_incorrect{cell}"].value == 1
    assert run.evaluation["accuracy{perturbation=none}"].value == 1
