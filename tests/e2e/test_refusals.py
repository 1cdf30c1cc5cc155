"""What the command line refuses: in one line, without control characters, and without showing a secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import Done, command

ESCAPE = "x\x1b[31m\x9b\u202e\ny"


def refused(done: Done) -> None:
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("steelyard: error: ")
    assert done.err.count("\n") == 1
    assert done.err.removesuffix("\n").isprintable()


@pytest.mark.parametrize(
    "arguments",
    [
        (ESCAPE,),
        ("runs", ESCAPE),
        ("evaluate", f"--{ESCAPE}"),
        ("evaluate",),
        ("evaluate", "a", "--resamples", ESCAPE),
        ("runs", "show", "a", ESCAPE),
        ("gate",),
        ("evaluate", "a", "--format", ESCAPE),
        ("evaluate", "a", "-m", ESCAPE),
        ("schema", ESCAPE),
        ("metrics", ESCAPE),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "a").write_text("")
    refused(command(*(str(tmp_path / "a") if part == "a" else part for part in arguments), root=tmp_path / "root"))


def test_help_and_version_still_show(tmp_path: Path) -> None:
    assert "Usage: " in command("evaluate", "--help", root=tmp_path).out
    assert command("--version", root=tmp_path).out.startswith("steelyard ")
    bare = command("runs", root=tmp_path)
    assert (bare.code, bare.err) == (2, "")
    assert "Usage: " in bare.out


SECRETS = [
    "sk-proj-abcDEF123", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "123e4567-e89b-12d3-a456-426614174000",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "0123456789abcdef0123456789abcdef", "a1B2" * 8, "A" * 65,
    "deadbeefDEADBEEFdeadbeefDEADBEEF", "hf_aBcDeFgHiJ1234567890", "AKIAIOSFODNN7EXAMPLE",
    "ghp_16C7e42F292c6912E7710c8", "my key", "", "pass\x1bword", "schlüssel",
]  # fmt: skip


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("verb", [("retrieval", "run"), ("shift", "train")])
@pytest.mark.parametrize("embedder", ["openai:m", "hash"])
def test_a_key_in_the_place_of_its_name_is_refused_and_not_shown(
    tmp_path: Path, secret: str, verb: tuple[str, str], embedder: str
) -> None:
    (tmp_path / "docs.json").write_text(json.dumps([{"id": "a", "text": "one"}]))
    (tmp_path / "queries.json").write_text(json.dumps([{"id": "q", "text": "one", "relevantDocId": "a"}]))
    files = (tmp_path / "docs.json", tmp_path / "queries.json")
    done = command(*verb, *files, "--embedder", embedder, "--api-key-env", secret, root=tmp_path / "root")
    refused(done)
    assert "the name of an environment variable" in done.err
    assert not secret or secret not in done.err
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize("name", ["MY_KEY", "my_key_2", "AZURE_OPENAI_API_KEY_2", "Key", "_k"])
def test_a_variable_that_is_not_set_is_named(tmp_path: Path, name: str) -> None:
    files = (tmp_path / "docs.json", tmp_path / "queries.json")
    arguments = ("retrieval", "run", *files, "--embedder", "openai:m", "--base-url", "http://127.0.0.1:9/v1")
    done = command(*arguments, "--api-key-env", name, root=tmp_path / "root")
    refused(done)
    assert f"the variable {name} is not set" in done.err


def test_a_variable_that_is_set_is_a_name_whatever_it_looks_like(tmp_path: Path) -> None:
    files = (tmp_path / "docs.json", tmp_path / "queries.json")
    name = "Key2024OfTheProductionAccount"
    arguments = ("retrieval", "run", *files, "--embedder", "openai:m", "--api-key-env", name)
    assert command(*arguments, root=tmp_path / "root").code == 2
    done = command(*arguments, root=tmp_path / "root", **{name: "secret"})
    assert done.code == 3
    assert "no such file" in done.err
