"""docs/names.md: every name that the documents of others use, run as the page says."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

import steelyard as sy
from steelyard.cli.main import app
from steelyard.cli.words import spelled
from steelyard.confidence.signals import variants
from steelyard.metrics.definition import metric_of
from steelyard.records.schema import FIELDS
from tests.support.commands import COMMANDS, command
from tests.support.suites import write_answers, write_suite

HERE = Path(__file__).parents[2]
LINE = re.compile(r"^\| (?P<there>.+?) \| (?P<here>.+?) \| (?P<kind>[a-z]+) \|$", re.M)
NAMES = [line.group("there", "here", "kind") for line in LINE.finditer((HERE / "docs/names.md").read_text())]
ROOT = typer.main.get_command(app)


def of_kind(*kinds: str) -> list[Any]:
    return [pytest.param(there, here.strip("`"), id=f"{there}: {here}") for there, here, kind in NAMES if kind in kinds]


def test_every_line_is_of_a_kind_that_is_run() -> None:
    kinds = {"command", "python", "metric", "variant", "column", "signal", "key", "timing", "file", "page", "variable"}
    assert {kind for _, _, kind in NAMES} == {*kinds, "none"}
    page = (HERE / "docs/names.md").read_text()
    assert sum(line.startswith("| ") for line in page.splitlines()) == len(NAMES) + page.count("| there |")


@pytest.mark.parametrize(("there", "here"), of_kind("command"))
def test_commands_and_their_options_are_there(there: str, here: str) -> None:
    program, *typed = here.split()
    words = [word for word in spelled(ROOT, typed) if not word.startswith("--")]
    name = next(" ".join(words[:n]) for n in (2, 1) if " ".join(words[:n]) in COMMANDS)
    options = {spelling for p in COMMANDS[name].params if not p.hidden for spelling in (*p.opts, *p.secondary_opts)}
    assert program == "steelyard"
    assert [word for word in typed if word.startswith("--") and word not in options] == []
    if name == "tasks":
        assert command(*typed).code == 0


@pytest.mark.parametrize(("there", "here"), of_kind("python"))
def test_python_names_import(there: str, here: str) -> None:
    parts, found = here.split("."), None
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[n:]:
            found = getattr(found, attribute)
        break
    assert found is not None


@pytest.mark.parametrize(("there", "here"), of_kind("metric"))
def test_metrics_parse(there: str, here: str) -> None:
    assert metric_of(here)


@pytest.mark.parametrize(("there", "here"), of_kind("variant", "column"))
def test_variants_and_columns_are_known(there: str, here: str) -> None:
    assert here in variants or here in FIELDS


@pytest.mark.parametrize(("there", "here"), of_kind("signal"))
def test_signals_are_read_by_a_variant(there: str, here: str) -> None:
    assert here in {f"signal.{need}" for variant in variants.values() for need in variant.needs}
    assert there.strip("`").partition(".")[2] == here.partition(".")[2]


@pytest.mark.parametrize(("there", "here"), of_kind("timing"))
def test_timings_are_returned(there: str, here: str) -> None:
    reply = {"total_duration": 5e9, "load_duration": 1e9, "eval_duration": 2e9, "eval_count": 50}
    assert sy.parse_ollama_timings(reply)[here] is not None


@pytest.mark.parametrize(("there", "here"), of_kind("page"))
def test_pages_are_there(there: str, here: str) -> None:
    assert (HERE / here).is_file()


@pytest.mark.parametrize(("there", "here"), of_kind("none"))
def test_what_is_not_here_has_a_reason(there: str, here: str) -> None:
    assert here.startswith("not here, because ")


@pytest.mark.parametrize(("there", "here"), of_kind("variable"))
def test_variables_of_both_names_are_read(there: str, here: str, written: Path, tmp_path: Path) -> None:
    for variable in (there.strip("`"), here):
        if variable.endswith("ROOT"):
            listed = command("runs", "list", "--format", "json", cwd=tmp_path, **{variable: str(written)})
            assert '"r1"' in listed.out
        else:
            assert '"r1"' not in command("runs", "list", "--format", "json", root=written, **{variable: "else"}).out


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every document that the page names, written by the commands."""
    folder = tmp_path_factory.mktemp("names")

    def made(*arguments: Any) -> None:
        done = command(*arguments, "--resamples", 100, cwd=folder, root=folder)
        assert done.code in (0, 1, 6), done.err

    for example, more in (("phq8", ["phq8"]), ("insurance", ["--out", "ins", "--policies", "12", "--queries", "24"])):
        script = HERE / "examples" / example / "make.py"
        subprocess.run([sys.executable, script, *more], cwd=folder, check=True, capture_output=True)
    rows = [
        {"item": n, "target": "a", "prediction": "a" if n % 3 else None, "should_abstain": n % 2 == 0}
        for n in range(12)
    ]
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    rng = np.random.default_rng(7)
    for name, shape in (("refs", (6, 4)), ("q", (5, 4)), ("s", (4,))):
        np.save(folder / f"{name}.npy", rng.normal(size=shape))
    made("evaluate", "a.jsonl", "-m", "deferral_alignment", "--out", "out")
    made("selective", "phq8/run.json", "--mode", "few_shot", "--out", "out")
    texts = ("ins/policies", "ins/queries-drifted.json")
    made("posneg-train", *texts, "--training-id", "t1")
    made("posneg-run", *texts, "--shift", "t1", "--allow-cancelled", "--run-id", "r1")
    made("eval", "refs.npy", "q.npy", "--shift", "s.npy", "--baseline", "--gate-profile", "rank")
    done = command("segment-propose", "r1", "--rule", "oracle", "--out", "out", cwd=folder, root=folder)
    assert done.code == 0, done.err
    suite = write_suite(folder / "clinic")
    made("benchmark", suite, write_answers(folder / "model", suite, right=0.7), "--out", "out")
    return folder


def documents(folder: Path, name: str) -> Iterator[Any]:
    for path in folder.rglob(name):
        yield json.loads(path.read_text())


def reached(document: Any, path: list[str]) -> bool:
    if not path:
        return True
    first, *rest = path
    if first == "*":
        return any(reached(each, rest) for each in (document.values() if isinstance(document, dict) else document))
    if isinstance(document, list):
        return first.isdecimal() and int(first) < len(document) and reached(document[int(first)], rest)
    if not isinstance(document, dict):
        return False
    whole = ".".join(path)  # some keys hold full stops themselves
    return whole in document or (first in document and reached(document[first], rest))


@pytest.mark.parametrize(("there", "here"), of_kind("key"))
def test_keys_are_in_what_commands_write(there: str, here: str, written: Path) -> None:
    name, _, path = here.partition(": ")
    assert any(reached(document, path.split(".")) for document in documents(written, name))


@pytest.mark.parametrize(("there", "here"), of_kind("file"))
def test_files_are_what_commands_write(there: str, here: str, written: Path) -> None:
    assert list(written.rglob(here))
