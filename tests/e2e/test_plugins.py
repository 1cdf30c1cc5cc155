"""What the working folder may add: a plug-in that is named `module:name`, and nothing that only reads like one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, SupportsIndex
from unittest.mock import patch

import pytest

from tests.support.commands import Done, command, environment, steelyard

PLANTED = ("numpy", "pyarrow", "sitecustomize", "yaml", "typer", "pandas", "ICD", "group", "recall", "site", "model")
FEW = ("--resamples", "100")
ONE = ("--where", "model=model:m0", *FEW)
POOLED = ("--pool", "model", *FEW)
PLUGIN = """
import numpy as np
import steelyard as sy
from {name}_beside import SCALE


@sy.metric(better="higher", bounds=(0, 1), rows="answered")
def agreed(target, prediction, *, scale: float = SCALE):
    return scale * np.asarray(target == prediction, dtype=float)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with modules named like what is imported, and data whose words have colons."""
    folder = tmp_path_factory.mktemp("working")
    for name in PLANTED:
        (folder / f"{name}.py").write_text(f"open({str(folder / 'marker')!r}, 'a').write({name!r})\n")
    for name, share in (("a", 3), ("b", 2)):
        rows = [
            {"item": f"i:{i}", "cluster": f"p:{i // 2}", "model": f"model:m{m}", "target": f"ICD:{i % 3}",
             "prediction": f"ICD:{(i if i % share else i + 1 + m) % 3}", "confidence": (7 * i % 10) / 10,
             "group": {"site": "a:b" if i % 2 else "numpy:x"}}
            for i in range(24)
            for m in range(2)
        ]  # fmt: skip
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    qrels = {f"t:{i}": {f"d:{j}": (i * j) % 3 for j in range(5)} for i in range(6)}
    (folder / "qrels.json").write_text(json.dumps(qrels))
    ranked = {t: {d: 1 / (1 + j) for j, d in enumerate(ds)} for t, ds in qrels.items()}
    (folder / "ranked.json").write_text(json.dumps(ranked))
    (folder / "rules.yaml").write_text("rules: ['recall.\"ICD:1\" >= 0', 'accuracy{group.site=\"a:b\"} >= 0']\n")
    cases = [{"id": f"i:{i}", "target": f"ICD:{i % 3}"} for i in range(24)]
    (folder / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in cases))
    suite = {"name": "s", "tasks": [{"name": "t", "type": "qa", "data": "cases.jsonl", "metrics": ["accuracy"]}]}
    (folder / "suite.yaml").write_text(json.dumps(suite))
    answers = [{"id": row["id"], "task": "t", "model": "m", "prediction": "ICD:1"} for row in cases]
    (folder / "answered.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    for run in ("one", "two"):
        kept = ("evaluate", "a.jsonl", "-m", "accuracy,recall", "--by", "group.site", "--pool", "model", "--save",
                "--run-id", run, "--label", "note=numpy:x", *FEW)  # fmt: skip
        done = command(*kept, cwd=folder, root=folder / "store")
        assert done.code == 0, done.err
    return folder


SITE = '{group.site="a:b"}'
COLONS: dict[str, tuple[Any, ...]] = {
    "evaluate": ("a.jsonl", "-m", 'accuracy,recall."ICD:1"', "--by", "group.site", *FEW),
    "evaluate a part": ("a.jsonl", "-m", "accuracy", "--where", "group.site=numpy:x", "--where", "model=model:m0"),
    "evaluate a label": ("a.jsonl", "-m", "recall.ICD:1", *FEW),
    "compare": ("a.jsonl", "b.jsonl", "-m", 'accuracy,recall."ICD:1"', "--by", "group.site", *FEW),
    "compare versus": ("a.jsonl", "--versus", "model=model:m0,model:m1", "-m", 'recall."ICD:1"', *FEW),
    "gate": ("a.jsonl", "--rule", f"accuracy{SITE} >= 0", "--rule", 'low(recall."ICD:1") >= 0', *POOLED),
    "gate rules": ("a.jsonl", "b.jsonl", "--rules", "rules.yaml", *POOLED),
    "gate kept": ("one", "two", "--rule", f"low(delta(accuracy{SITE})) >= -1", "--rules", "rules.yaml"),
    "runs compare": ("-m", f"accuracy{SITE}"),
    "runs best": ("-m", f"accuracy{SITE}"),
    "runs decide": ("-m", f"accuracy{SITE}"),
    "runs metrics": ("-m", f"accuracy{SITE}"),
    "selective": ("--input", "a.jsonl", "--loss", "error:x", "--bootstrap-resamples", "100"),
    "rank": ("qrels.json", "ranked.json", "-m", "ndcg@3", "--per-query", "each.jsonl", *FEW),
    "benchmark": ("suite.yaml", "answered.jsonl", "-m", 'recall."ICD:1"', *FEW),
    "metrics": ('recall."ICD:1"',),
    "look": ("a.jsonl",),
    "export": ("one", "out.json", "--to", "eee", "--about", "model=numpy:x"),
}
ALONE = ("evaluate", "compare", "gate", "gate rules", "gate kept")


@pytest.fixture(autouse=True)
def _without_marker(folder: Path) -> None:
    (folder / "marker").unlink(missing_ok=True)


def words(case: str) -> list[str]:
    first, *rest = case.split()
    return [first, *rest[:1]] if first == "runs" else [first]


class Watched(list[str]):
    """A list of folders that says when one is added that must not be."""

    added: list[str]

    def insert(self, place: SupportsIndex, item: str) -> None:
        self.added.append(item)
        super().insert(place, item)

    def append(self, item: str) -> None:
        self.added.append(item)
        super().append(item)


@pytest.fixture
def watched() -> Iterator[Watched]:
    path = Watched(sys.path)
    path.added = []
    with patch.object(sys, "path", path):
        yield path
        assert sys.path is path


@pytest.mark.parametrize("case", COLONS)
def test_a_colon_in_a_label_a_slice_or_a_rule_opens_no_folder(folder: Path, watched: Watched, case: str) -> None:
    done = command(*words(case), *COLONS[case], cwd=folder, root=folder / "store")
    assert done.code in (0, 1, 2, 6), done.err
    assert watched.added == []
    assert not (folder / "marker").exists()


@pytest.mark.parametrize("case", ALONE)
def test_a_module_of_the_working_folder_shadows_no_dependency(folder: Path, case: str) -> None:
    done = steelyard(*words(case), *COLONS[case], cwd=folder, STEELYARD_ROOT=str(folder / "store"))
    assert done.code in (0, 1, 6), done.err
    assert not (folder / "marker").exists()


def plugged(folder: Path, name: str) -> None:
    """A plug-in of this name, with a module beside it that it imports."""
    (folder / f"{name}.py").write_text(PLUGIN.format(name=name))
    (folder / f"{name}_beside.py").write_text("SCALE = 1.0\n")


def test_a_plug_in_of_the_working_folder_works_next_to_modules_named_like_dependencies(folder: Path) -> None:
    plugged(folder, "agreeing")
    for asked in (
        ("evaluate", "a.jsonl", "-m", "agreeing:agreed(scale=0.5)", *FEW),
        ("compare", "a.jsonl", "b.jsonl", "-m", "fairness_gap(agreeing:agreed, by=group.site)", *FEW),
        ("gate", "a.jsonl", "b.jsonl", "--rule", "low(delta(agreeing:agreed)) >= -1", *ONE),
    ):
        done = steelyard(*asked, cwd=folder, STEELYARD_ROOT=str(folder / "store"))
        assert done.code == 0, done.err
        assert not (folder / "marker").exists()


def test_the_working_folder_comes_last_and_only_while_a_plug_in_is_imported(folder: Path, watched: Watched) -> None:
    plugged(folder, "watching")
    (folder / "watching.py").write_text(
        PLUGIN.format(name="watching") + "import sys\nPLACES = [i for i, each in enumerate(sys.path) if each == "
        f"{str(folder)!r}]\nLAST = len(sys.path) - 1\n"
    )
    before = list(watched)
    done = command("evaluate", "a.jsonl", "-m", "watching:agreed", *FEW, cwd=folder, root=folder / "store")
    assert done.code == 0, done.err
    module = sys.modules["watching"]
    assert module.PLACES == [module.LAST]
    assert watched == before
    assert watched.added == [str(folder)]


def test_rules_in_a_file_may_name_a_plug_in_of_the_working_folder(folder: Path) -> None:
    plugged(folder, "ruling")
    (folder / "named.yaml").write_text("rules: ['ruling:agreed >= 0']\n")
    done = command("gate", "a.jsonl", "--rules", "named.yaml", *POOLED, cwd=folder, root=folder / "store")
    assert done.code == 0, done.err


@pytest.mark.slow
def test_a_run_that_names_a_module_does_not_have_it_imported(folder: Path, tmp_path: Path) -> None:
    """Who shows, compares and judges a run of others has not chosen its code."""
    plugged(folder, "keeping")
    kept = ("evaluate", "a.jsonl", "-m", "keeping:agreed", "-m", "accuracy", "--pool", "model", "--save", "--run-id",
            "plugged", *FEW)  # fmt: skip
    root = folder / "other"
    assert steelyard(*kept, cwd=folder, STEELYARD_ROOT=str(root)).code == 0
    (folder / "keeping.py").write_text((folder / "numpy.py").read_text())
    other = ("evaluate", "b.jsonl", "-m", "accuracy", "--pool", "model", "--save", "--run-id", "plain", *FEW)
    assert steelyard(*other, cwd=folder, STEELYARD_ROOT=str(root)).code == 0

    # one that is installed is not imported either
    installed = tmp_path / "keeping.py"
    installed.write_text((folder / "numpy.py").read_text())
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(tmp_path)])

    def shown(*asked: Any) -> Done:
        return steelyard(*asked, cwd=folder, STEELYARD_ROOT=str(root), PYTHONPATH=path)

    assert shown("runs", "show", "plugged", "--titles").code == 0
    assert shown("runs", "show", "plugged", "--format", "latex").code == 0
    assert shown("runs", "metrics", "--format", "latex").code == 0
    assert shown("runs", "compare", "-m", "accuracy").code == 0
    for rule in ("accuracy >= 0", "low(delta(accuracy)) >= -1", "low(recall) >= 0", "answer_rate >= 0"):
        assert shown("gate", "plain", "plugged", "--rule", rule).code in (0, 1, 2)
    assert not (folder / "marker").exists()


def test_a_function_of_a_spec_is_found_beside_modules_named_like_dependencies(folder: Path) -> None:
    (folder / "answering.py").write_text(
        'import numpy\nfrom answering_beside import WORD\n\n\ndef rule(item, prompt):\n    return f"Answer: {WORD}"\n'
    )
    (folder / "answering_beside.py").write_text('WORD = "yes"\n')
    (folder / "items.jsonl").write_text("".join(f'{{"id": "q{i}", "text": "t", "label": "yes"}}\n' for i in range(4)))
    task = {"name": "t", "data": "items.jsonl", "id": "id", "question": "text", "target": "label",
            "labels": ["yes", "no"]}  # fmt: skip
    (folder / "t.task.yaml").write_text(json.dumps(task))
    for function in ("answering:rule", "answering.py:rule"):
        spec = {"id": "s", "task": "t.task.yaml", "metrics": ["accuracy"],
                "models": [{"name": "m", "backend": "callable", "options": {"function": function}}]}  # fmt: skip
        (folder / "run.yaml").write_text(json.dumps(spec))
        done = steelyard("doctor", "run.yaml", cwd=folder, STEELYARD_ROOT=str(folder / "asked"))
        assert done.code == 0, done.out + done.err
        assert not (folder / "marker").exists()


def test_the_module_steelyard_run_as_a_program_does_not_look_in_the_working_folder_first(folder: Path) -> None:
    asked = [sys.executable, "-m", "steelyard", "evaluate", "a.jsonl", "-m", "accuracy", *FEW]
    done = subprocess.run(asked, cwd=folder, env=environment(None, {}), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert not (folder / "marker").exists()
