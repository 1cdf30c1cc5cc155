"""Functions as models: called with the item and the prompt, in threads or awaited, and failing for one item alone."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import UsageError
from steelyard.ground.http import Limits
from steelyard.runner.backends import Inference, Message, Options, Reply, Request, backends
from steelyard.runner.backends.callable import NO_TEXT, NOT_A_REPLY

MODULE = """
import asyncio, threading

def rules(item, prompt, *, margin=0):
    return f"Answer: {'no' if item['egfr'] > 60 + margin else 'yes'} / {prompt}"

async def later(item, prompt):
    await asyncio.sleep(0)
    return {"text": str(item["egfr"]), "input_tokens": 3, "output_tokens": 1, "finish": "stop", "model": "mine",
            "reasoning": "so", "logprobs": [{"token": "a", "logprob": -1.0}]}

class Model:
    async def __call__(self, item, prompt):
        return "an object"

model = Model()
met = threading.Barrier(4)

def together(item, prompt):
    met.wait(300)
    return threading.current_thread().name

def fails(item, prompt):
    raise item["problem"]("SECRET-PATIENT")

async def fails_later(item, prompt):
    raise item["problem"]("SECRET-PATIENT")

def gives(item, prompt):
    return item["gives"]

def forever(item, prompt):
    item["released"].wait(300)
    return "late"

async def forever_later(item, prompt):
    await asyncio.Event().wait()

NUMBER = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODULE)
    return tmp_path


def asking(item: dict[str, Any]) -> Request:
    return Request(model="m", messages=(Message(role="user", content="how?"),), item=item)


def asked(folder: Path, function: str, *items: dict[str, Any], **more: Any) -> list[Reply]:
    limits = more.pop("limits", Limits())

    async def all_of_them() -> list[Reply]:
        given = Options(options={"function": f"models.py:{function}", **more}, folder=folder, limits=limits)
        async with backends["callable"].open(given) as backend:
            assert backend.identity() is None
            return list(await asyncio.gather(*(backend.ask(asking(item)) for item in items)))

    return asyncio.run(all_of_them())


def test_a_function_gets_the_item_the_prompt_and_its_settings(folder: Path) -> None:
    (reply,) = asked(folder, "rules", {"egfr": 61})
    assert reply.text == "Answer: no / how?"
    assert reply.latency_ms is not None
    assert asked(folder, "rules", {"egfr": 61}, margin=3)[0].text == "Answer: yes / how?"


def test_a_function_may_be_awaited_and_say_more(folder: Path) -> None:
    replies = asked(folder, "later", *({"egfr": number} for number in range(50)))
    assert [reply.text for reply in replies] == [str(number) for number in range(50)]
    first = replies[0]
    assert (first.input_tokens, first.output_tokens, first.finish, first.model) == (3, 1, "stop", "mine")
    assert first.reasoning == "so"
    assert first.tokens is not None
    assert asked(folder, "model", {})[0].text == "an object"


def test_functions_run_beside_each_other_but_not_too_many(folder: Path) -> None:
    replies = asked(folder, "together", *({} for _ in range(8)), limits=Limits(in_flight=4))
    assert len({reply.text for reply in replies}) == 4


@pytest.mark.parametrize("function", ["fails", "fails_later"])
@pytest.mark.parametrize("problem", [ValueError, KeyError, TimeoutError, SystemExit])
def test_an_exception_is_a_failure_of_that_item_by_its_kind(folder: Path, function: str, problem: type) -> None:
    (reply,) = asked(folder, function, {"problem": problem})
    assert reply == Reply(failure=f"the function raised {problem.__name__}")


@pytest.mark.parametrize(
    ("returned", "failure"),
    [
        (None, NO_TEXT), (3, NOT_A_REPLY), (["a"], NOT_A_REPLY), ({}, NOT_A_REPLY), ({"text": None}, NOT_A_REPLY),
        ({"text": 3}, NOT_A_REPLY), ({"text": "a", "txt": "b"}, NOT_A_REPLY), ({"text": "a", "model": 3}, NOT_A_REPLY),
        ({"text": "a", "input_tokens": True}, NOT_A_REPLY), (b"yes", NOT_A_REPLY),
    ],
)  # fmt: skip
def test_what_is_no_reply(folder: Path, returned: Any, failure: str) -> None:
    assert asked(folder, "gives", {"gives": returned}) == [Reply(failure=failure)]


def test_an_empty_text_is_a_reply(folder: Path) -> None:
    assert asked(folder, "gives", {"gives": ""})[0].text == ""


def test_a_function_that_does_not_end(folder: Path) -> None:
    released = threading.Event()
    try:
        for function in ("forever", "forever_later"):
            (reply,) = asked(folder, function, {"released": released}, limits=Limits(deadline=0.05))
            assert reply.failure == "no answer within 0.05 s"
    finally:
        released.set()


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (None, "needs the option"), (3, "needs the option"), ("models.py", "needs the option"),
        (":f", "needs the option"), ("models.py:", "needs the option"), ("other.py:f", "no such file"),
        ("no_such_module:f", "no module 'no_such_module'"),
        ("models.py:none", "'none' is not a function"), ("models.py:NUMBER", "is not a function"),
        ("broken.py:f", "importing it raised ZeroDivisionError"), ("narrow.py:f", "cannot be called with item, prompt"),
    ],
)  # fmt: skip
def test_functions_that_cannot_be_used_are_refused_before_the_first_call(
    folder: Path, function: Any, problem: str
) -> None:
    (folder / "broken.py").write_text("1 / 0")
    (folder / "narrow.py").write_text("def f(prompt): return prompt")
    with pytest.raises(UsageError, match=problem):
        backends["callable"].open(Options(options={"function": function}, folder=folder))


def test_a_module_by_name(folder: Path) -> None:
    backend = backends["callable"].open(Options(options={"function": "operator:contains"}, folder=folder))
    assert "operator:contains" in repr(backend)
    (finding,) = asyncio.run(backend.check("m"))
    assert finding.level == "ok"


def test_a_function_that_takes_a_seed_is_given_the_requests(tmp_path: Path) -> None:
    (tmp_path / "seeded.py").write_text(
        "def plain(item, prompt, *, seed):\n    return f'seed {seed}'\n"
        "async def later(item, prompt, *, seed=0):\n    return f'seed {seed}'\n"
    )

    async def asked(function: str, seed: int | None, options: dict[str, Any] | None = None) -> str | None:
        stated = {"function": f"seeded.py:{function}", **(options or {})}
        async with backends["callable"].open(Options(options=stated, folder=tmp_path)) as backend:
            request = Request(
                model="m", messages=(Message(role="user", content="x"),), inference=Inference(seed=seed), item={}
            )
            return (await backend.ask(request)).text

    assert [asyncio.run(asked(name, 7)) for name in ("plain", "later")] == ["seed 7"] * 2
    assert asyncio.run(asked("plain", None)) == "seed None"
    assert asyncio.run(asked("plain", 7, {"seed": 3})) == "seed 3"  # an option of the spec's wins
