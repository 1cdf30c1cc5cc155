"""Strategies: what is sent, in which form a reply is asked for, and examples that give nothing away."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import UsageError
from steelyard.records.labels import value_name
from steelyard.runner.parsing import parse, rendered
from steelyard.runner.strategies import strategies, strategy_named
from steelyard.runner.strategies.few_shot import held_out
from steelyard.runner.tasks import Item, tasks
from steelyard.runner.tasks.contract import context_of
from tests.support.tasks import TextTask

NAMES = (
    *("zero-shot", "zero-shot-cot", "one-shot", "few-shot-3", "cot-few-shot-2", "few-shot-similar-2", "contextual"),
    *("self-consistency-5", "verbalized"),
)
LETTERS = TextTask(labels=("yes", "no"))
NUMBERS = TextTask(labels=None, range=(0, 10), may_decline=False)


def item(number: int, target: Any = "yes", **others: Any) -> Item:
    return Item(id=number, fields={"text": f"question {number}"}, target=target, **others)


def said(name: str, task: Any, format: Literal["json", "text"] = "json") -> str:
    strategy = strategy_named(name)
    examples = [item(100 + number) for number in range(strategy.examples)]
    (message,) = strategy.messages(task, item(1, "no"), examples, format=format)
    return message.content


def test_the_registry_has_them_all() -> None:
    assert set(strategies) == {
        "contextual", "cot-few-shot", "few-shot", "few-shot-similar", "one-shot", "self-consistency", "verbalized",
        "zero-shot", "zero-shot-cot",
    }  # fmt: skip
    assert [strategy_named(name).name for name in NAMES] == list(NAMES)
    assert strategy_named("few-shot", 3) == strategy_named("few-shot-3")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("few-shot", "how many examples: few-shot-3"),
        ("few-shot-0", "1 to 100 examples"),
        ("few-shot-101", "1 to 100 examples"),
        ("zero-shot-3", "shows no examples; few-shot-3 shows 3"),
        ("one-shot-3", "shows one example; few-shot-3 shows 3"),
        ("cot-few-shot", "how many examples: cot-few-shot-3"),
        ("few-shot-similar-0", "1 to 100 examples"),
        ("self-consistency", "how many samples: self-consistency-5"),
        ("self-consistency-1", "2 to 100 samples; zero-shot-cot takes one"),
        ("zeroshot", "did you mean 'zero-shot'?"),
        ("few-shto-3", "did you mean 'few-shot'?"),
        ("", "unknown strategy ''"),
    ],
)
def test_names_that_are_none(name: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        strategy_named(name)
    assert problem in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", list(tasks))
def test_tasks_have_a_background_and_the_question_comes_before_how_to_reply(name: str, task: str) -> None:
    strategy, asked = strategy_named(name), tasks[task]
    items = asked.items(None, size=60, seed=0).items
    examples, scored = held_out(items, strategy.examples, 0)
    system, user = strategy.messages(asked, scored[0], examples)
    assert (system.role, user.role) == ("system", "user")
    assert system.content == asked.background()
    assert asked.question(scored[0]) in user.content
    assert ('"abstain"' in user.content) == asked.may_decline
    assert user.content.index(asked.question(scored[0])) < user.content.index("JSON")
    assert "should_abstain" not in user.content
    for example in examples:
        why = f"Why: {example.reason}\n" if example.reason and name.startswith("cot") else ""
        assert f"{asked.question(example)}\n{why}The right answer: {value_name(example.target)}" in user.content
    context = context_of(asked)
    assert context
    assert user.content.startswith(context) == (name == "contextual")


def test_what_strategies_differ_in() -> None:
    assert "1 not at all" in said("verbalized", LETTERS)
    assert "from 0 to 1" in said("zero-shot", LETTERS)
    assert '"reasoning"' in said("zero-shot-cot", LETTERS)
    assert '"reasoning"' not in said("zero-shot", LETTERS)
    assert 'one of "yes", "no"' in said("zero-shot", LETTERS)
    assert "one of yes, no" in said("zero-shot", LETTERS, "text")
    assert "a number from 0 to 10" in said("zero-shot", NUMBERS)
    assert "abstain" not in said("zero-shot", NUMBERS)
    assert "abstain" in said("zero-shot", LETTERS, "text")
    assert said("few-shot-3", LETTERS).count("The right answer: yes") == 3
    assert "Reason step by step" in said("zero-shot-cot", LETTERS, "text")
    assert said("one-shot", LETTERS).count("The right answer: yes") == 1
    for name in ("cot-few-shot-2", "self-consistency-5"):
        assert '"reasoning"' in said(name, LETTERS)
    assert [strategy_named(name).samples for name in ("zero-shot", "self-consistency-5")] == [1, 5]
    with pytest.raises(UsageError, match="contextual begins with the context of a task, and text has none"):
        said("contextual", LETTERS)
    with pytest.raises(UsageError, match="few-shot-3 shows 3 examples; 0 were given"):
        strategy_named("few-shot-3").messages(LETTERS, item(1))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("task", [*tasks, "letters", "numbers"])
def test_a_reply_that_meets_the_schema_is_read_as_what_it_says(name: str, task: str) -> None:
    asked: Any = {"letters": LETTERS, "numbers": NUMBERS}.get(task) or tasks[task]
    strategy = strategy_named(name)
    schema: Any = strategy.schema(asked)
    jsonschema.Draft202012Validator.check_schema(schema)
    order = ["reasoning", "answer", "abstain", "confidence"]
    assert list(schema["properties"]) == [key for key in order if key in schema["properties"]]
    assert schema["required"] == list(schema["properties"])
    confidence = 4 if strategy.verbalized else 0.75
    for answer in asked.labels or (0, 2.5, 10):
        reply: dict[str, Any] = {"answer": answer, "confidence": confidence}
        reply |= {"abstain": False} if asked.may_decline else {}
        reply |= {"reasoning": "it is so"} if "reasoning" in schema["properties"] else {}
        jsonschema.validate(reply, schema)
        parsed = parse(rendered(**{key: reply.get(key) for key in ("answer", "abstain", "confidence")}), asked,
                       verbalized=strategy.verbalized)  # fmt: skip
        assert (parsed.outcome, parsed.prediction) == ("answered", answer)
        assert (parsed.verbalized if strategy.verbalized else parsed.confidence) == confidence
    for wrong in ({"answer": "nothing of the kind"}, {"answer": None} if not asked.may_decline else {"answer": True}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**reply, **wrong}, schema)


def test_reasons_are_for_examples_that_are_reasoned_about() -> None:
    examples = [item(9, reason="because it is odd")]
    asked = item(1, reason="a secret")
    for name, shown in (("cot-few-shot-1", True), ("few-shot-1", False), ("zero-shot-cot", False)):
        strategy = strategy_named(name)
        (message,) = strategy.messages(LETTERS, asked, examples[: strategy.examples])
        assert ("Why: because it is odd\nThe right answer: yes" in message.content) == shown
        assert "secret" not in message.content


# -- examples ----------------------------------------------------------------------------------------------------------

clustered = st.lists(
    st.tuples(st.integers(0, 8), st.sampled_from(["yes", "no", "perhaps"]), st.booleans()), min_size=1, max_size=40
).map(lambda rows: [item(n, target, cluster=c, should_abstain=s) for n, (c, target, s) in enumerate(rows)])


@given(clustered, st.integers(1, 5), st.integers(0, 3))
def test_examples_come_from_clusters_that_are_not_scored(items: list[Item], count: int, seed: int) -> None:
    clusters = {each.cluster for each in items}
    if len(clusters) <= count:
        with pytest.raises(UsageError, match="must come from other clusters"):
            held_out(items, count, seed)
        return
    examples, scored = held_out(items, count, seed)
    assert len(examples) == count
    shown = {each.cluster for each in examples}
    assert len(shown) == count
    assert [each for each in items if each.cluster not in shown] == list(scored)
    assert scored
    assert held_out(items, count, seed) == (examples, scored)
    assert held_out(items[::-1], count, seed)[0] == examples
    if count > 1:
        assert held_out(items, count - 1, seed)[0] == examples[:-1]


def test_labels_take_turns_and_cases_to_decline_come_last() -> None:
    items = [item(n, "yes" if n % 4 else "no", should_abstain=n % 3 == 0) for n in range(40)]
    for seed in range(5):
        examples, _ = held_out(items, 6, seed)
        assert Counter(each.target for each in examples) == {"yes": 3, "no": 3}
        assert not any(each.should_abstain for each in examples)


def test_seeds_draw_other_examples() -> None:
    items = [item(n, "yes" if n % 2 else "no") for n in range(40)]
    drawn = {tuple(each.id for each in held_out(items, 2, seed)[0]) for seed in range(20)}
    assert len(drawn) > 10


def test_without_examples_all_is_scored_and_items_without_a_cluster_are_their_own() -> None:
    items = [item(n) for n in range(3)]
    assert held_out(items, 0, 0) == ((), tuple(items))
    assert len(held_out(items, 2, 0)[1]) == 1
    with pytest.raises(UsageError, match="there are 3 clusters in all"):
        held_out(items, 3, 0)
    with pytest.raises(UsageError, match="there is 1 cluster in all"):
        held_out([item(n, cluster="p") for n in range(9)], 1, 0)
    with pytest.raises(UsageError, match="only 1 cluster with a solved one"):
        held_out([item(0), item(1, None), item(2, None)], 2, 0)
