"""Tenants are walls, ids are unique in a workflow only, and what fails leaves nothing behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.records.table import Records
from steelyard.runs import environment
from steelyard.runs.layout import Scope
from steelyard.runs.saved import Clock, save
from steelyard.study.evaluation import evaluate
from tests.support.commands import COMMANDS, command


def table(seed: int, share: float, patients: int = 30) -> Records:
    rng = np.random.default_rng(seed)
    size = patients * 4
    return Records.from_columns(
        {
            "item": [f"q{i}" for i in range(size)],
            "cluster": [f"p{i // 4}" for i in range(size)],
            "target": ["yes"] * size,
            "prediction": ["yes" if rng.random() < share else "no" for _ in range(size)],
        }
    )


def keep(
    root: Path, run_id: str, share: float, *, workflow: str = "W", tenant: str | None = None, domain: str = "evaluation"
) -> Path:
    made = evaluate(table(1, share), ["accuracy"], resamples=200, keep_evidence=True)
    return save(Scope(root, domain, tenant), made, workflow=workflow, clock=Clock(), run_id=run_id)[1]


def runs(root: Path, *arguments: Any, code: int = 0, **env: str) -> dict[str, Any]:
    done = command("runs", *arguments, "--root", root, "--format", "json", **env)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout) if code == 0 else {"error": done.stderr}


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    keep(tmp_path, "open", 0.7)
    keep(tmp_path, "harbor", 0.9, tenant="acme")
    keep(tmp_path, "quartz", 0.99, tenant="rival")
    return tmp_path


# -- walls -------------------------------------------------------------------------------------------------------------


def test_a_run_that_lies_in_another_tenants_folder_is_refused(store: Path) -> None:
    """Its seal says whose it is; the folder it was copied to does not make it somebody else's."""
    stores = store / "results/evaluation/tenants"
    for place, tenant in ((stores / "rival/runs/W/stray", "rival"), (store / "results/evaluation/runs/W/stray", "-")):
        shutil.copytree(stores / "acme/runs/W/harbor", place)
        listed = runs(store, "list", "--tenant", tenant)
        assert "harbor" not in [run["run_id"] for run in listed["runs"]]
        assert [problem["run"] for problem in listed["problems"]] == ["stray"]
        assert "the run lies in another tenant's folder" in listed["problems"][0]["problem"]
        assert "harbor" not in json.dumps(runs(store, "compare", "-m", "accuracy", "--tenant", tenant))
        assert "another tenant's folder" in runs(store, "show", "stray", "--tenant", tenant, code=5)["error"]
    assert [run["run_id"] for run in runs(store, "list", "--tenant", "acme")["runs"]] == ["harbor"]


def commands() -> dict[str, Any]:
    """Every command that knows a root, by its words."""
    return {name: c for name, c in COMMANDS.items() if any("--root" in p.opts for p in c.params)}


def test_every_command_of_the_store_takes_tenant_and_domain() -> None:
    found = commands()
    assert len(found) > 15
    for name, made in found.items():
        options = {option for p in made.params for option in p.opts}
        assert {"--tenant", "--domain"} <= options, name


@pytest.mark.parametrize(("tenant", "own"), [(None, "open"), ("-", "open"), ("acme", "harbor"), ("rival", "quartz")])
@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_tenant_sees_its_own_runs_and_no_trace_of_others(store: Path, tenant: str | None, own: str, by: str) -> None:
    asked = ("--tenant", tenant) if tenant and by == "option" else ()
    env = {"STEELYARD_TENANT": tenant} if tenant and by == "variable" else {}
    alien = {"open", "harbor", "quartz"} - {own}
    for words in (("list",), ("metrics",), ("metrics", "--pivot"), ("compare", "-m", "accuracy"), ("index",),
                  ("best", "-m", "accuracy"), ("index", "--rebuild"), ("decide", "-m", "accuracy"),
                  ("active", "--all"), ("show", own), ("promote", own, "-m", "accuracy"), ("history", "-m", "accuracy"),
                  ("pin", own, "--as", "anchor"), ("active", "--all")):  # fmt: skip
        done = command("runs", *words, *asked, "--root", store, "--format", "json", **env)
        assert done.returncode == 0, (words, done.stderr)
        assert not any(name in done.stdout + done.stderr for name in (*alien, "acme", "rival") if name != tenant), words
    assert [run["run_id"] for run in runs(store, "list", *asked, **env)["runs"]] == [own]
    assert runs(store, "index", *asked, **env)["runs"] == 1
    for name in alien:
        for words in (("show", name), ("promote", name, "-m", "accuracy"), ("pin", name, "--as", "a"),
                      ("delete", name, "--yes"), ("compare", "-m", "accuracy", "--against", name)):  # fmt: skip
            said = runs(store, *words, *asked, code=2, **env)["error"]
            assert "is no run here" in said
            assert "did you mean" not in said
        rule = ("--rule", "accuracy >= 0", "--root", store)
        assert command("gate", "--run", name, *rule, *asked, **env).returncode == 2
        assert command("gate", "--run", own, "--baseline", name, *rule, *asked, **env).returncode == 2


def test_only_one_view_looks_across(store: Path) -> None:
    found = runs(store, "list", "--all-tenants")["runs"]
    assert {(run["tenant"], run["run_id"]) for run in found} == {
        (None, "open"),
        ("acme", "harbor"),
        ("rival", "quartz"),
    }
    assert "leave --tenant out" in runs(store, "list", "--all-tenants", "--tenant", "acme", code=2)["error"]


def test_the_folder_of_another_tenant_s_run_does_not_open_it(store: Path) -> None:
    folder = store / "results/evaluation/tenants/acme/runs/W/harbor"
    rule = ("--rule", "accuracy >= 0", "--root", store)
    assert command("gate", "--run", folder, *rule).returncode == 2
    assert command("gate", "--run", folder, *rule, "--tenant", "rival").returncode == 2
    assert command("gate", "--run", folder, *rule, "--tenant", "acme").returncode == 0
    assert command("gate", "--run", "open", "--baseline", folder, *rule).returncode == 2


def test_a_name_that_differs_in_case_from_another_tenant_s_does_not_show_it(store: Path) -> None:
    (store / "a.jsonl").write_text('{"item": 1, "target": "a", "prediction": "a"}\n')
    done = command("evaluate", store / "a.jsonl", "-m", "accuracy", "--save", "--tenant", "ACME", "--root", store)
    assert done.returncode == 5
    assert "acme" not in done.stderr


def test_domains_are_asked_for_by_option_or_variable(store: Path) -> None:
    keep(store, "plan", 0.5, domain="planning")
    assert {run["run_id"] for run in runs(store, "list")["runs"]} == {"open", "plan"}
    assert [run["run_id"] for run in runs(store, "list", "--domain", "planning")["runs"]] == ["plan"]
    own = {"STEELYARD_DOMAIN": "planning"}
    assert [run["run_id"] for run in runs(store, "list", **own)["runs"]] == ["plan"]
    assert "is no run here" in runs(store, "show", "open", code=2, **own)["error"]
    assert "several domains; choose one: evaluation, planning" in runs(store, "active", code=2)["error"]
    assert runs(store, "promote", "plan", "-m", "accuracy")["run_id"] == "plan"
    assert runs(store, "active", **own)["run_id"] == "plan"
    (store / "a.jsonl").write_text('{"item": 1, "target": "a", "prediction": "a"}\n')
    saved = command(
        "evaluate", store / "a.jsonl", "-m", "accuracy", "--save", "--root", store, "--format", "json", **own
    )
    assert "/results/planning/runs/" in json.loads(saved.stdout)["folder"]


def test_the_variables_of_the_documented_tool_count_where_ours_are_not_set(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"EMBEDDINGSHIFT_ROOT": str(store), "EMBEDDINGSHIFT_TENANT": "acme"}
    monkeypatch.setattr(environment, "_said", set())
    done = command("runs", "list", "--format", "json", **other)
    assert [run["run_id"] for run in json.loads(done.stdout)["runs"]] == ["harbor"]
    assert done.stderr.count("EMBEDDINGSHIFT_ROOT is used, because STEELYARD_ROOT is not set") == 1
    assert done.stderr.count("EMBEDDINGSHIFT_TENANT is used") == 1
    monkeypatch.setattr(environment, "_said", set())
    own = {**other, "STEELYARD_ROOT": str(store), "STEELYARD_TENANT": "rival"}
    done = command("runs", "list", "--format", "json", **own)
    assert [run["run_id"] for run in json.loads(done.stdout)["runs"]] == ["quartz"]
    assert done.stderr == ""
    done = command("runs", "list", "--tenant", "-", "--format", "json", **other)
    assert [run["run_id"] for run in json.loads(done.stdout)["runs"]] == ["open"]


# -- identity ----------------------------------------------------------------------------------------------------------


def test_an_id_in_two_workflows_never_stands_for_the_other(tmp_path: Path) -> None:
    for workflow, share in (("A", 0.5), ("B", 0.9)):
        keep(tmp_path, "nightly", share, workflow=workflow)
    keep(tmp_path, "base", 0.6, workflow="A")
    said = runs(tmp_path, "show", "nightly", code=2)["error"]
    assert "'nightly' means 2 runs; choose one: B/nightly, A/nightly" in said
    assert runs(tmp_path, "show", "A/nightly")["Workflow"] == "A"
    ranking = runs(tmp_path, "compare", "-m", "accuracy", "--against", "base")["runs"]
    values = {(run["workflow"], run["run_id"]): run for run in ranking}
    reference = values["A", "base"]["value"]
    for workflow in ("A", "B"):
        row = values[workflow, "nightly"]
        assert row["delta"] == pytest.approx(row["value"] - reference)
    assert values["A", "base"]["delta"] is None
    best = runs(tmp_path, "compare", "-m", "accuracy")
    assert [run["delta"] is None for run in best["runs"]] == [True, False, False]
    shown = command("runs", "compare", "-m", "accuracy", "--root", tmp_path).stdout
    assert "deltas: run − B/nightly" in shown
    runs(tmp_path, "promote", "A/nightly", "-m", "accuracy")
    runs(tmp_path, "promote", "B/nightly", "-m", "accuracy")
    history = runs(tmp_path, "history", "-m", "accuracy")["stack"]
    assert [entry["Workflow"] for entry in history] == ["A", "B"]
    listed = {(r["workflow"], r["run_id"]): r["active_for"] for r in runs(tmp_path, "list")["runs"]}
    assert listed == {("A", "nightly"): [], ("B", "nightly"): ["accuracy"], ("A", "base"): []}
    assert runs(tmp_path, "decide", "-m", "accuracy")["reason"] == "the best run is active already"
    runs(tmp_path, "rollback", "-m", "accuracy")
    decision = runs(tmp_path, "decide", "-m", "accuracy", "--apply")
    assert (decision["action"], decision["applied"]) == ("Promote", True)
    assert runs(tmp_path, "active", "-m", "accuracy")["stack"][-1]["Workflow"] == "B"


def test_attempts_against_two_baselines_of_one_id_are_counted_apart(tmp_path: Path) -> None:
    for workflow, share in (("A", 0.5), ("B", 0.9)):
        keep(tmp_path, "nightly", share, workflow=workflow)
    keep(tmp_path, "new", 0.8)
    rule = ("--rule", "delta(accuracy) >= -1", "--root", tmp_path, "--format", "json")
    counts = []
    for workflow in ("A", "B", "A"):
        done = command("gate", "--run", "new", "--baseline", f"{workflow}/nightly", *rule)
        counts.append(json.loads(done.stdout)["attempt"])
    assert counts == [1, 1, 2]


# -- what fails leaves nothing behind ----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [
    ("runs", "rollback", "-m", "accuracy"),
    ("runs", "promote", "nobody", "-m", "accuracy"),
    ("runs", "promote", "open", "-m", "acuracy"),
    ("runs", "pin", "open", "--as", "../up"),
    ("runs", "decide", "-m", "nothing"),
    ("runs", "delete", "open"),
    ("runs", "show", "nobody", "--tenant", "new"),
    ("runs", "rollback", "-m", "accuracy", "--tenant", "new"),
    ("runs", "decide", "-m", "accuracy", "--tenant", "new"),
    ("gate", "--run", "open", "--baseline", "nobody", "--rule", "accuracy >= 0"),
    ("gate", "--run", "open", "--baseline", "active", "--rule", "accuracy >= 0"),
    ("evaluate", "nowhere.jsonl", "-m", "accuracy", "--save", "--tenant", "new"),
    ("evaluate", "a.jsonl", "-m", "accuracy", "--save", "--tenant", "../up"),
    ("evaluate", "a.jsonl", "-m", "nothing", "--save", "--tenant", "new"),
    ("runs", "matrix", "m.yaml", "--tenant", "new"),
], ids=" ".join)  # fmt: skip
def test_a_command_that_fails_leaves_no_folder_lock_or_tenant(store: Path, words: tuple[str, ...]) -> None:
    (store / "a.jsonl").write_text('{"item": 1, "target": "a", "prediction": "a"}\n')
    (store / "m.yaml").write_text("variants: [{name: v, command: [sh], environment: {A: $NOT_SET_ANYWHERE}}]\n")
    before = tree(store)
    done = command(*words, "--root", store, cwd=store)
    assert done.returncode in (2, 3, 5), done.stdout
    assert tree(store) == before


def test_a_save_that_cannot_be_written_takes_its_folders_back(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tree(store)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("steelyard.ground.files._write_flushed", full)
    (store / "a.jsonl").write_text('{"item": 1, "target": "a", "prediction": "a"}\n')
    done = command("evaluate", "a.jsonl", "-m", "accuracy", "--save", "--tenant", "new", "--root", store, cwd=store)
    assert done.returncode == 5
    (store / "a.jsonl").unlink()
    assert tree(store) == before


def test_an_id_is_an_id_wherever_the_command_is_called(store: Path) -> None:
    done = command("gate", "--run", "harbor", "--tenant", "acme", "--rule", "accuracy >= 0", "--root", store,
                   cwd=store / "results/evaluation")  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_path_into_another_tenant_s_part_tells_nothing(store: Path) -> None:
    place = store / "results/evaluation/tenants/acme/runs/W"
    rule = ("--rule", "accuracy >= 0", "--root", store)
    said = {
        command("gate", "--run", place / name, *rule).stderr
        for name in ("harbor", "nobody", "harbo.jsonl", "harbor/evaluation.json")
    }
    assert said == {"steelyard: error: that path lies in a part of the store that is not this tenant's or domain's\n"}
