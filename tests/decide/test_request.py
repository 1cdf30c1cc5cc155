"""What a gate shows of its numbers, what keeps it from passing, and how it is asked for: by command, from files and
from runs that were kept."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from steelyard.decide.advice import unit_of
from steelyard.decide.gate import Gate
from steelyard.decide.request import Request, judge
from steelyard.errors import plural
from steelyard.records.readers import read
from steelyard.runs.layout import View
from steelyard.study.evaluation import evaluate
from tests.support.answers import lines, rows
from tests.support.commands import command

FAST = ("--cluster", "patient", "--resamples", 300)


def without(found: list[dict[str, Any]], column: str, share: float) -> list[dict[str, Any]]:
    """The rows, a share of them without a value of a column."""
    count = round(share * len(found))
    return [{**row, column: None} if i < count else row for i, row in enumerate(found)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "old.jsonl").write_text(lines(rows(1, 0.7)))
    (tmp_path / "new.jsonl").write_text(lines(rows(2, 0.8)))
    return tmp_path


def write(folder: Path, name: str, found: list[dict[str, Any]]) -> str:
    (folder / f"{name}.jsonl").write_text(lines(found))
    return f"{name}.jsonl"


def save(folder: Path, name: str, *metrics: str, more: tuple[Any, ...] = ()) -> str:
    """Keep a run of a file under its name."""
    asked = [word for metric in metrics for word in ("-m", metric)]
    done = command("evaluate", f"{name}.jsonl", *asked, *FAST, "--save", "--workflow", "W", "--run-id", name, *more,
                   "--root", folder / "store", cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return name


def gate(folder: Path, *arguments: Any, code: int | None = None, files: bool = True, **env: str) -> dict[str, Any]:
    how = FAST if files else ("--root", folder / "store")
    done = command("gate", *arguments, *how, "--format", "json", cwd=folder, **env)
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return dict(json.loads(done.stdout))


# -- values that are missing -------------------------------------------------------------------------------------------

KINDS = ("accuracy >= 0", "low(accuracy) >= 0", "high(accuracy) >= 0")


@pytest.mark.parametrize("kept", [False, True], ids=["files", "kept"])
@pytest.mark.parametrize(("share", "verdicts"), [(0.05, ["pass"] * 3), (0.06, ["fail", "inconclusive", "fail"])])
def test_no_rule_passes_where_more_than_a_twentieth_of_the_targets_is_missing(
    folder: Path, kept: bool, share: float, verdicts: list[str]
) -> None:
    run = write(folder, "holes", without(rows(), "target", share))
    if kept:
        run = save(folder, "holes", "accuracy")
    asked = [word for rule in KINDS for word in ("--rule", rule)]
    document = gate(folder, "--run", run, *asked, files=not kept)
    assert [rule["verdict"] for rule in document["rules"]] == verdicts
    if verdicts[0] == "fail":
        assert all("6.25% of the asked rows lack what it reads" in rule["reason"] for rule in document["rules"])
        assert document["rules"][1]["advice"] == ["state the missing values, or allow a share of 0.0625 to be missing"]
        allowed = gate(folder, "--run", run, *asked, "--allow-missing", 0.0625, files=not kept, code=0)
        assert [rule["verdict"] for rule in allowed["rules"]] == ["pass"] * 3
    (folder / "rules.yaml").write_text(f"rules: [{KINDS[0]}]\nallow_missing: 0.5\n")
    gate(folder, "--run", run, "--rules", "rules.yaml", files=not kept, code=0)


@pytest.mark.parametrize("kept", [False, True], ids=["files", "kept"])
@pytest.mark.parametrize("sides", [("holes", "holes"), ("holes", "new"), ("new", "holes")])
def test_no_rule_about_a_delta_passes_where_either_run_lacks_values(
    folder: Path, kept: bool, sides: tuple[str, str]
) -> None:
    write(folder, "holes", without(rows(1, 0.7), "confidence", 0.08))
    if kept:
        for name in dict.fromkeys(sides):
            save(folder, name, "brier")
    run, base = sides if kept else (f"{name}.jsonl" for name in sides)
    rules = ("delta(brier) <= 1", "high(delta(brier)) <= 1", "low(delta(brier)) <= 1")
    asked = [word for rule in rules for word in ("--rule", rule)]
    document = gate(folder, "--run", run, "--baseline", base, *asked, files=not kept)
    assert [rule["verdict"] for rule in document["rules"]] == ["fail", "inconclusive", "fail"]
    if sides[0] == sides[1]:
        allowed = gate(folder, "--run", run, "--baseline", base, *asked, "--allow-missing", 0.1, files=not kept)
        assert [rule["verdict"] for rule in allowed["rules"]] == ["pass"] * 3


def test_exclusion_by_outcome_or_denominator_is_not_missing(folder: Path) -> None:
    found = rows()
    declined = [{**r, "prediction": None, "confidence": None} if i % 2 else r for i, r in enumerate(found)]
    failed = [{**r, "prediction": None, "outcome": "failed"} if i % 3 == 0 else r for i, r in enumerate(found)]
    labelled = [{**r, "should_abstain": i % 8 == 0} for i, r in enumerate(found)]
    cases = {
        "declined": ("accuracy >= 0", "brier <= 1", "selective_accuracy >= 0", "precision.yes >= 0"),
        "failed": ("accuracy >= 0", "brier <= 1", "failure_rate <= 0.999"),
        "labelled": ("unsafe_answer_rate <= 1", "over_deferral_rate <= 1", "recall.no >= 0"),
    }
    for name, made in (("declined", declined), ("failed", failed), ("labelled", labelled)):
        run = write(folder, name, made)
        asked = [word for rule in cases[name] for word in ("--rule", rule)]
        gate(folder, "--run", run, *asked, code=0)


def test_rows_without_a_group_are_missing_where_groups_are_compared(folder: Path) -> None:
    found = [{**r, "group": {"site": None if i % 10 == 0 else r["group"]["site"]}} for i, r in enumerate(rows())]
    run = write(folder, "groups", found)
    document = gate(folder, "--run", run, "--rule", "fairness_gap(accuracy, by=group.site) <= 1", code=1)
    assert "10% of the asked rows lack what it reads" in document["rules"][0]["reason"]
    gate(folder, "--run", run, "--rule", "accuracy >= 0", code=0)


# -- every number shows what it stands on ------------------------------------------------------------------------------


def test_every_form_shows_n_clusters_what_was_left_out_and_notes(folder: Path) -> None:
    found = [{**r, "prediction": None, "outcome": "failed"} if i < 5 else r for i, r in enumerate(rows(2))]
    found = without(found[::-1], "target", 0.006)[::-1]
    run = write(folder, "some", found)
    asked = ("--run", run, "--baseline", "old.jsonl", "--rule", "low(delta(accuracy)) >= -0.5", "--rule",
             "low(accuracy) >= 0.1", "--rule", "failure_rate <= 0.5")  # fmt: skip
    document = gate(folder, *asked, code=0)
    delta, accuracy, _ = document["rules"]
    assert (accuracy["n"], accuracy["clusters"]) == (154, 39)
    assert accuracy["left_out"] == {"failed": 5, "no target": 1}
    assert delta["n"] == 154
    assert delta["left_out"] == {"failed in either run": 5, "lacking what it reads": 1}
    assert delta["notes"]
    files = ("--junit", "g.xml", "--summary", "g.md")
    table = command("gate", *asked, *files, *FAST, cwd=folder).stdout
    for shown in (table, (folder / "g.md").read_text()):
        assert "154" in shown
        assert "5 failed, 1 no target" in shown
        assert "5 rows failed in one of the runs and were dropped from both" in shown
    (suite,) = [ElementTree.parse(folder / "g.xml").getroot()]
    said = [case.findtext("system-out") or "" for case in suite.iter("testcase")]
    assert "n 154; clusters 39; left out: 5 failed, 1 no target" in said[1]
    assert "note: 5 rows failed in one of the runs" in said[0]


# -- names that are wrong, and numbers that are not there --------------------------------------------------------------


def test_a_known_metric_that_a_run_did_not_keep_fails_and_names_the_command(folder: Path) -> None:
    save(folder, "new", "accuracy", "f1_macro")
    save(folder, "old", "accuracy")
    for rule, said in {
        "aurc <= 1": "run new did not keep aurc; `steelyard evaluate FILE -m 'aurc' --save` adds it",
        "accuracy >= 0 for each group.site": "-m 'accuracy' --by group.site --save` adds it",
        "low(delta(f1_macro)) >= -1": "run old did not keep evidence of it",
        "NdcgEvaluator.delta >= 0": "run new has no NdcgEvaluator.delta",
    }.items():
        document = gate(folder, "--run", "new", "--baseline", "old", "--rule", rule, files=False, code=1)
        assert said in document["rules"][0]["reason"]
    for rule, said in {
        "recall.yess >= 0": "neither run has the label 'yess'; did you mean 'yes'?",
        "arc <= 1": "unknown metric 'arc'; did you mean aurc, ",
        "delta(nothing) >= 0": "unknown metric 'nothing'",
    }.items():
        done = command(
            "gate", "--run", "new", "--baseline", "old", "--rule", rule, "--root", folder / "store", cwd=folder
        )
        assert done.returncode == 2, (rule, done.stdout)
        assert said in done.stderr


def test_a_metric_that_is_undefined_in_the_data_fails(folder: Path) -> None:
    run = write(folder, "declined", rows(prediction=None))
    document = gate(folder, "--run", run, "--rule", "selective_accuracy >= 0", code=1)
    assert "undefined" in document["rules"][0]["reason"]


def test_a_group_that_the_run_lacks_fails_whoever_else_has_it(folder: Path) -> None:
    write(folder, "base", [{**r, "group": {"site": "w"}} if r["patient"] == "p0" else r for r in rows(1)])
    run = write(folder, "less", rows(1))
    asked = ("--baseline", "base.jsonl", "--rule", "accuracy{group.site=w} >= 0")
    document = gate(folder, "--run", run, *asked, code=1)
    assert "the run has no group.site=w" in document["rules"][0]["reason"]
    each = gate(folder, "--run", run, "--baseline", "base.jsonl", "--rule", "accuracy >= 0 for each group.site", code=1)
    assert {r["slice"]["group.site"]: r["verdict"] for r in each["rules"]} == {
        "x": "pass", "y": "pass", "z": "pass", "w": "fail",
    }  # fmt: skip
    junit = ("--junit", folder / "j.xml", "--github")
    done = command("gate", "--run", run, "--rule", "accuracy{group.site=v} >= 0", *junit, *FAST, cwd=folder)
    assert done.returncode == 1
    for said in (done.out, (folder / "j.xml").read_text()):
        assert "the run has no group.site=v; there are x, y, z" in said
    assert "::error title=steelyard gate::accuracy{group.site=v} >= 0: fail." in done.out + done.err


# what somebody would write who does not know rules, and what to write instead
MEANT = {
    "accuracy >= 50%": "write 0.5 for 50%",
    "low(accuracy) >= 50 %": "write 0.5 for 50%",
    "accuracy >= 0.5 and f1_macro >= 0.2": "write one rule each, as --rule may be repeated",
    "accuracy >= baseline": "write delta(accuracy) >= 0 to compare with the baseline",
    "low(brier) <= the old one": "write delta(low(brier)) <= 0",
    "accuracy >= 85": "'accuracy >= 85' is beyond what there is: accuracy is at most 1",
    "accuracy >= -0.5": "accuracy is at least 0",
    "delta(accuracy) >= 3": "the difference is at most 1",
    "accuracy <= 0.5": "asks accuracy to be worse",
}


@pytest.mark.parametrize("rule", MEANT)
@pytest.mark.parametrize("files", [True, False])
def test_a_slip_in_a_rule_says_what_to_write(folder: Path, rule: str, files: bool) -> None:
    run, base = ("new.jsonl", "old.jsonl") if files else ("nowhere", "never")  # before a run is opened
    done = command("gate", "--run", run, "--baseline", base, "--rule", rule, *FAST, cwd=folder, root=folder / "store")
    assert (done.code, MEANT[rule] in done.err) == (2, True), done.err


@pytest.mark.parametrize(("run", "code"), [("nowhere.jsonl", 2), ("torn.jsonl", 3)])
def test_a_gate_that_cannot_be_judged_writes_its_documents_with_an_error(folder: Path, run: str, code: int) -> None:
    (folder / "torn.jsonl").write_text('{"item": 1')
    files = ("--junit", folder / "j.xml", "--summary", folder / "s.md", "--output", folder / "a.json")
    done = command("gate", "--run", run, "--rule", "accuracy >= 0.5", *files, cwd=folder)
    assert done.code == code
    said = done.err.removeprefix("steelyard: error: ").strip()[:30]
    document = json.loads((folder / "a.json").read_text())
    assert (document["verdict"], document["passed"], document["exit_code"]) == ("error", False, code)
    assert said in document["notes"][0]
    assert 'errors="1"' in (folder / "j.xml").read_text()
    assert "gate: ERROR" in (folder / "s.md").read_text()
    (folder / "a.json").unlink()
    refused = command("gate", "--run", "new.jsonl", "--rule", "accuracy >= high", *files, cwd=folder)
    assert (refused.code, (folder / "a.json").exists()) == (2, False)  # the arguments were not understood


# -- inconclusive ------------------------------------------------------------------------------------------------------

OPEN = ("--run", "new.jsonl", "--rule", "low(accuracy) >= 0.79")


@pytest.mark.parametrize(
    ("how", "code", "passed"),
    [(None, 6, False), ("report", 6, False), ("fail", 1, False), ("pass", 0, True), ("warn", 0, True)],
)
@pytest.mark.parametrize("place", ["option", "file"])
def test_what_an_inconclusive_gate_comes_to(folder: Path, how: str | None, code: int, passed: bool, place: str) -> None:
    asked: tuple[Any, ...] = OPEN
    if how and place == "file":
        (folder / "rules.yaml").write_text(f"rules: [low(accuracy) >= 0.79]\ninconclusive: {how}\n")
        asked = ("--run", "new.jsonl", "--rules", "rules.yaml")
    elif how:
        asked = (*OPEN, "--inconclusive", how)
    done = command("gate", *asked, *FAST, "--format", "json", "--junit", "g.xml", cwd=folder)
    assert done.returncode == code, done.stderr
    document = json.loads(done.stdout)
    assert (document["verdict"], document["passed"]) == ("inconclusive", passed)
    assert document["rules"][0]["passed"] is False
    assert ("warning: the gate is inconclusive" in done.stderr) == (how == "warn")
    suite = ElementTree.parse(folder / "g.xml").getroot()
    assert (suite.get("failures"), suite.get("skipped")) == (("0", "1") if passed else ("1", "0"))
    wrong = command("gate", *OPEN, "--inconclusive", "maybe", *FAST, cwd=folder)
    assert wrong.returncode == 2
    assert "inconclusive is one of report, fail, pass, warn" in wrong.stderr


def test_an_inconclusive_gate_that_may_pass_does_not_let_a_failed_rule_through(folder: Path) -> None:
    for how in ("pass", "warn"):
        gate(folder, *OPEN, "--rule", "accuracy >= 0.99", "--inconclusive", how, code=1)


def test_what_to_do_is_said_in_the_words_of_the_cluster_column(folder: Path) -> None:
    (rule,) = gate(folder, "--run", "new.jsonl", "--rule", "low(accuracy) >= 0.75", code=6)["rules"]
    enough, wider, less = rule["advice"]
    more = rule["clusters_needed"] - rule["clusters"]
    assert enough == f"it would pass at {rule['clusters_needed']} patients ({more} more) if the value stayed"
    assert wider.startswith("or accept another threshold: low(accuracy) >= 0.")
    assert less == "or ask for less: high(accuracy) >= 0.75"
    for form in (wider, less):  # what is offered passes today
        gate(folder, "--run", "new.jsonl", "--rule", form.partition(": ")[2], code=0)
    few = write(folder, "few", rows(patients=4))
    (rule,) = gate(folder, "--run", few, "--rule", "low(accuracy) >= 0.1", code=6)["rules"]
    assert "only 4 patients" in rule["reason"]
    assert rule["advice"] == ["at least 6 patients are needed, 2 patients more"]
    (rule,) = gate(folder, "--run", "new.jsonl", "--rule", "low(accuracy) >= 0.81", code=6)["rules"]
    assert rule["clusters_needed"] is None
    assert (
        rule["advice"][0] == "out of reach: the value itself is beyond the threshold, which more patients do not mend"
    )
    assert unit_of(["group.patient_id"]) == "patient"
    assert [plural(unit_of([c])) for c in ("query", "cluster", "Ward", "x%", "batch")] == [
        "queries", "clusters", "wards", "clusters", "batches",
    ]  # fmt: skip


@pytest.mark.parametrize("threshold", [0.74, 0.75, 0.77, 0.79])
def test_the_clusters_that_an_estimate_needs_come_from_its_own_interval(folder: Path, threshold: float) -> None:
    (rule,) = gate(folder, "--run", "new.jsonl", "--rule", f"low(accuracy) >= {threshold}", code=6)["rules"]
    value, low, clusters = rule["value"], rule["low"], rule["clusters"]
    meets = [g for g in range(clusters, 60_000) if value - (value - low) * math.sqrt(clusters / g) >= threshold]
    assert rule["clusters_needed"] == max(meets[0], clusters + 1)


# -- everything about files --------------------------------------------------------------------------------------------


def test_the_gate_takes_what_evaluate_takes_of_files(folder: Path) -> None:
    named = [{("question" if k == "item" else k): v for k, v in r.items()} for r in rows(2)]
    mixed = [{**r, "model": m} for m, share in (("old", 0.6), ("new", 0.9)) for r in rows(3, share)]
    (folder / "named.txt").write_text(lines(named))
    write(folder, "mixed", mixed)
    files = {"--input-format": "jsonl", "--map": "item=question"}
    asked = [word for pair in files.items() for word in pair]
    gate(folder, "--run", "named.txt", *asked, "--rule", "accuracy >= 0.5", code=0)
    one = gate(folder, "--run", "mixed.jsonl", "--where", "model=old", "--rule", "accuracy >= 0.8", code=1)
    other = gate(folder, "--run", "mixed.jsonl", "--where", "model=new", "--rule", "accuracy >= 0.8", code=0)
    assert one["rules"][0]["value"] < other["rules"][0]["value"]
    pooled = gate(folder, "--run", "mixed.jsonl", "--pool", "model", "--rule", "accuracy >= 0.1", code=0)
    assert pooled["rules"][0]["n"] == 320
    versus = gate(
        folder, "--run", "mixed.jsonl", "--versus", "model=old,new", "--rule", "low(delta(accuracy)) >= 0", code=0
    )
    assert versus["rules"][0]["value"] == pytest.approx(other["rules"][0]["value"] - one["rules"][0]["value"])
    assert (versus["run"], versus["baseline"]) == ("mixed.jsonl (model=new)", "model=old")
    by = gate(folder, "--run", "new.jsonl", "--by", "group.site", "--rule", "accuracy >= 0.1", code=0)
    assert [r["slice"] for r in by["rules"]] == [{}, *({"group.site": s} for s in "xyz")]
    table = read(folder / "new.jsonl", cluster="patient")
    for level in (0.8, 0.99):
        found = gate(folder, "--run", "new.jsonl", "--baseline", "old.jsonl", "--level", level, "--rule",
                     "low(accuracy) >= 0", "--rule", "high(delta(accuracy)) >= 0")  # fmt: skip
        assert {rule["level"] for rule in found["rules"]} == {level}
        interval = evaluate(table, ["accuracy"], level=level, resamples=300)["accuracy"].interval
        assert [found["rules"][0]["low"], found["rules"][0]["high"]] == pytest.approx(interval)
    for wrong in (("--versus", "model=old,new", "--baseline", "old.jsonl"), ("--versus", "model"), ("--by", "nothing")):
        done = command("gate", "--run", "mixed.jsonl", *wrong, "--rule", "accuracy >= 0", *FAST, cwd=folder)
        assert done.returncode == 2, wrong


def test_what_a_kept_run_cannot_use_is_refused(folder: Path) -> None:
    save(folder, "new", "accuracy")
    (folder / "t.yaml").write_text("labels: [yes, no, maybe]\n")
    for option in (("--cluster", "patient"), ("--map", "item=q"), ("--where", "model=a"), ("--task-file", "t.yaml"),
                   ("--input-format", "csv"), ("--pool", "model"), ("--align", "intersection"), ("--salvage",),
                   ("--versus", "model=a,b"), ("--align", "nonsense"), ("--seed", "-3"), ("--level", "7"),
                   ("--resamples", "3")):  # fmt: skip
        done = command(
            "gate", "--run", "new", *option, "--rule", "accuracy >= 0", "--root", folder / "store", cwd=folder
        )
        assert done.returncode == 2, option
        assert done.stderr.count("\n") == 1


def test_a_kept_run_is_judged_at_another_level_from_its_evidence(folder: Path) -> None:
    save(folder, "new", "accuracy", "ece")
    save(folder, "old", "accuracy", "ece")
    rules = ("low(accuracy) >= 0", "high(ece) <= 1", "high(delta(accuracy)) >= 0")
    asked = [word for rule in rules for word in ("--rule", rule)]
    plain = gate(folder, "--run", "new", "--baseline", "old", *asked, files=False)
    wide = gate(folder, "--run", "new", "--baseline", "old", *asked, "--level", 0.99, files=False)
    from_files = gate(folder, "--run", "new.jsonl", "--baseline", "old.jsonl", *asked, "--level", 0.99)
    for before, now, again in zip(plain["rules"], wide["rules"], from_files["rules"], strict=True):
        assert (before["level"], now["level"]) == (0.95, 0.99)
        assert now["high"] - now["low"] > before["high"] - before["low"]
        assert (now["low"], now["high"]) == pytest.approx((again["low"], again["high"]))


@pytest.mark.parametrize(("kept", "judged"), [(0.5, 0.95), (0.9, 0.95), (0.99, 0.99)])
def test_a_run_saved_at_another_level_is_judged_no_less_surely(folder: Path, kept: float, judged: float) -> None:
    for name in ("new", "old"):
        save(folder, name, "accuracy", more=("--level", kept))
    found = gate(folder, "--run", "new", "--baseline", "old", "--rule", "low(accuracy) >= 0", "--rule",
                 "high(delta(accuracy)) >= -1", files=False)  # fmt: skip
    assert {rule["level"] for rule in found["rules"]} == {judged}


def test_evidence_is_found_as_a_comparison_of_runs_finds_it(folder: Path) -> None:
    for name in ("new", "old"):
        save(folder, name, "aurc", "f1_macro")
    rules = ("aurc_at(c=0.5) <= 1", "high(aurc_at(c=0.5)) <= 1", "high(delta(aurc_at(c=0.5))) <= 1", "augrc <= 1",
             "low(recall.yes) >= 0", "low(delta(balanced_accuracy)) >= -1")  # fmt: skip
    asked = [word for rule in rules for word in ("--rule", rule)]
    kept = gate(folder, "--run", "new", "--baseline", "old", *asked, files=False)
    files = gate(folder, "--run", "new.jsonl", "--baseline", "old.jsonl", *asked, code=0)
    for one, two in zip(kept["rules"][:4], files["rules"][:4], strict=True):
        assert (one["value"], one["low"], one["high"]) == pytest.approx((two["value"], two["low"], two["high"]))
    assert ["did not keep" in rule["reason"] for rule in kept["rules"]] == [False] * 4 + [True] * 2


def test_a_run_that_kept_its_rows_is_judged_by_what_they_say(folder: Path) -> None:
    for name in ("new", "old"):
        save(folder, name, "accuracy", more=("--save-records",))
    rules = ("low(recall.yes) >= 0", "low(delta(recall.yes)) >= -1", "accuracy >= 0 for each group.site",
             "low(delta(accuracy{group.site=x})) >= -1", "f1_macro >= 0")  # fmt: skip
    asked = [word for rule in rules for word in ("--rule", rule)]
    kept = gate(folder, "--run", "new", "--baseline", "old", *asked, files=False, code=0)
    files = gate(folder, "--run", "new.jsonl", "--baseline", "old.jsonl", *asked, code=0)
    for one, two in zip(kept["rules"], files["rules"], strict=True):
        assert (one["rule"], one["slice"], one["n"]) == (two["rule"], two["slice"], two["n"])
        assert one["value"] == pytest.approx(two["value"])


# -- what is written ---------------------------------------------------------------------------------------------------


def test_in_github_actions_the_summary_is_appended_to_the_step_summary(folder: Path) -> None:
    step = folder / "step.md"
    step.write_text("# what came before\n")
    environment = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(step)}
    done = command("gate", *OPEN, "--summary", "own.md", *FAST, cwd=folder, **environment)
    assert done.returncode == 6
    assert step.read_text() == "# what came before\n" + (folder / "own.md").read_text()
    assert "## gate: INCONCLUSIVE" in step.read_text()
    assert "::warning title=steelyard gate::" in done.stdout
    command("gate", *OPEN, *FAST, cwd=folder, GITHUB_STEP_SUMMARY=str(step), GITHUB_ACTIONS="")
    assert step.read_text().count("## gate") == 1
    there = {**environment, "GITHUB_STEP_SUMMARY": str(folder / "no" / "such" / "place")}
    done = command("gate", *OPEN, *FAST, cwd=folder, **there)
    assert done.returncode == 6
    assert "the step summary cannot be written" in done.stderr


def test_every_file_is_named_and_two_outputs_never_share_a_path(folder: Path) -> None:
    outputs = ("--junit", "g.xml", "--summary", "g.md", "--output", "g.json")
    done = command("gate", *OPEN, *FAST, *outputs, cwd=folder)
    assert [name for name in outputs[1::2] if f"wrote {name}\n" not in done.stderr] == []
    (folder / "t.yaml").write_text("labels: [yes, no, maybe]\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for wrong in (
        ("--junit", "x", "--summary", "x"),
        ("--junit", "x", "--output", "./x"),
        ("--summary", "new.jsonl"),
        ("--junit", "t.yaml", "--task-file", "t.yaml"),
    ):
        done = command("gate", *OPEN, *FAST, *wrong, cwd=folder)
        assert done.returncode == 2, wrong
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# -- what must not pass, met in an attack ------------------------------------------------------------------------------


def missing_half(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "target": None} if i % 2 else row for i, row in enumerate(found)]


@pytest.mark.parametrize("rule", ["recall.yes >= 0", "precision.yes >= 0", "f1.yes >= 0", "balanced_accuracy >= 0",
                                  "fairness_gap(recall.yes, by=group.site) <= 1"])  # fmt: skip
def test_missing_targets_do_not_hide_in_a_class(folder: Path, rule: str) -> None:
    run = write(folder, "half", missing_half(rows()))
    (found,) = gate(folder, "--run", run, "--rule", rule, code=1)["rules"]
    assert "% of the asked rows lack what it reads" in found["reason"]
    save(folder, "half", "recall.yes", "precision.yes", "f1_macro", "balanced_accuracy",
         "fairness_gap(recall.yes, by=group.site)")  # fmt: skip
    gate(folder, "--run", "half", "--rule", rule, files=False, code=1)


@pytest.mark.parametrize("key", ["per_class.yes.f1", "per_group.x.accuracy", "global_metric", "disparities.x"])
def test_documented_keys_stand_on_what_they_were_made_from(folder: Path, key: str) -> None:
    metrics = ("accuracy", "f1_macro", "fairness_gap(accuracy, by=group.site)")
    write(folder, "half", missing_half(rows()))
    for name, code in (("half", 1), ("new", 0)):
        save(folder, name, *metrics)
        (found,) = gate(folder, "--run", name, "--rule", f"{key} >= 0", files=False, code=code)["rules"]
        assert found["n"] > 0
        assert found["clusters"] > 0


def test_another_case_of_a_name_is_no_way_around(folder: Path) -> None:
    write(folder, "less", rows(2, 0.8, patients=10))
    for name in ("less", "old"):
        save(folder, name, "accuracy", "aurc")
    for rule in ("delta(accuracy) >= -1", "delta(Accuracy) >= -1", "high(delta(AURC)) <= 1"):
        done = command("gate", "--run", "less", "--baseline", "old", "--rule", rule, "--root", folder / "store")
        assert done.returncode == 3, rule
    wide, also = (
        gate(folder, "--run", "less", "--rule", f"low({name}) >= 0", "--level", 0.5, files=False)["rules"][0]
        for name in ("accuracy", "Accuracy")
    )
    assert (wide["low"], wide["level"]) == (also["low"], also["level"])


def test_values_alone_do_not_hide_what_the_run_lacks(folder: Path) -> None:
    write(folder, "half", missing_half(rows()))
    save(folder, "half", "accuracy")
    other = folder / "store/results/evaluation/runs/W/other"
    other.mkdir()
    document = {"RunId": "other", "Workflow": "W", "CompletedAtUtc": "2026-01-01T00:00:00Z"}
    (other / "run.json").write_text(json.dumps({**document, "Metrics": {"accuracy": 0.1}}))
    (found,) = gate(
        folder, "--run", "half", "--baseline", "other", "--rule", "delta(accuracy) >= 0", files=False, code=1
    )["rules"]
    assert "50% of the asked rows lack what it reads" in found["reason"]


def test_a_null_and_the_word_none_are_two_cells(folder: Path) -> None:
    pair = [
        {**r, "model": m, "prediction": p} for m, p in ((None, "maybe"), ("none", "yes")) for r in rows(target="yes")
    ]
    run = write(folder, "pair", pair)
    rule = ("--rule", "accuracy >= 0.5 for each cell")
    files = gate(folder, "--run", run, *rule, code=1)["rules"]
    save(folder, "pair", "accuracy")
    kept = gate(folder, "--run", "pair", *rule, files=False, code=1)["rules"]
    assert [(r["slice"], r["value"]) for r in files] == [(r["slice"], r["value"]) for r in kept]
    assert {r["slice"]["model"] for r in files} == {"none", "no value"}


def test_an_excerpt_of_the_baseline_cannot_pass(folder: Path) -> None:
    run = write(folder, "part", rows(2, 0.8)[:40])
    for rule in ("accuracy >= 0", "low(delta(accuracy)) >= -1", "high(accuracy) >= 0"):
        found = gate(folder, "--run", run, "--baseline", "old.jsonl", "--align", "intersection", "--rule", rule)
        assert found["verdict"] in ("fail", "inconclusive")
        assert "the run lacks 75% of the baseline's rows" in found["rules"][0]["reason"]
    for name in ("part", "old"):
        save(folder, name, "accuracy")
    gate(folder, "--run", "part", "--baseline", "old", "--rule", "accuracy >= 0", files=False, code=1)
    gate(folder, "--run", run, "--rule", "accuracy >= 0", code=0)  # without a baseline nothing says that it is one


def test_a_group_that_the_run_lost_is_missing_from_a_gap(folder: Path) -> None:
    base = [{**r, "group": {"site": "w"}} if r["patient"] == "p0" else r for r in rows(1)]
    write(folder, "base", base)
    write(folder, "lost", [r for r in base if r["group"]["site"] != "w"])
    for rule in ("fairness_gap(accuracy, by=group.site) <= 1", "worst_group(accuracy, by=group.site) >= 0"):
        asked = ("--baseline", "base.jsonl", "--align", "intersection", "--rule", rule)
        (found,) = gate(folder, "--run", "lost.jsonl", *asked, code=1)["rules"]
        assert "a group has no value" in found["reason"]


def test_columns_and_classes_that_rules_misspell_are_usage(folder: Path) -> None:
    for rule, said in {
        "fairness_gap(accuracy, by=group.sit) <= 1": "did you mean 'group.site'?",
        "mean(nosuch, better=higher) >= 0": "nosuch",
        "auroc(positive=yess, score=confidence) >= 0": "neither run has the label 'yess'; did you mean 'yes'?",
    }.items():
        done = command("gate", "--run", "new.jsonl", "--rule", rule, *FAST, cwd=folder)
        assert done.returncode == 2, (rule, done.stdout, done.stderr)
        assert said in done.stderr
    save(folder, "new", "accuracy", more=("--by", "group.site"))
    for rule in ("accuracy{group.sit=x} >= 0", "accuracy >= 0 for each group.sit"):
        done = command("gate", "--run", "new", "--rule", rule, "--root", folder / "store", cwd=folder)
        assert done.returncode == 2
        assert "neither run has group.sit; did you mean 'group.site'?" in done.stderr


@pytest.mark.parametrize("overlap", [0, 10])
def test_failures_of_kept_runs_are_counted_as_those_of_files(folder: Path, overlap: int) -> None:
    def failing(found: list[dict[str, Any]], first: int) -> list[dict[str, Any]]:
        return [
            {**r, "prediction": None, "outcome": "failed"} if first <= i < first + 10 else r
            for i, r in enumerate(found)
        ]

    write(folder, "one", [{k: v for k, v in r.items() if k != "patient"} for r in failing(rows(1), 0)])
    write(folder, "two", [{k: v for k, v in r.items() if k != "patient"} for r in failing(rows(2), 10 - overlap)])
    how = ("--resamples", 300)
    for name in ("one", "two"):
        done = command("evaluate", f"{name}.jsonl", "-m", "accuracy", *how, "--save", "--workflow", "W", "--run-id",
                       name, "--root", folder / "store", cwd=folder)  # fmt: skip
        assert done.returncode == 0, done.stderr
    rule = ("--rule", "delta(accuracy) >= -1", "--format", "json")
    files = json.loads(command("gate", "--run", "two.jsonl", "--baseline", "one.jsonl", *how, *rule, cwd=folder).stdout)
    kept = json.loads(command("gate", "--run", "two", "--baseline", "one", "--root", folder / "store", *rule).stdout)
    assert files["rules"][0]["left_out"] == {"failed in either run": 20 - overlap}
    assert sum(kept["rules"][0]["left_out"].values()) == 20 - overlap
    assert files["rules"][0]["n"] == kept["rules"][0]["n"]


def test_a_null_group_stops_only_metrics_that_read_groups(folder: Path) -> None:
    one = rows(2)
    run = write(folder, "null", [{**r, "group": {"site": None}} if i == 0 else r for i, r in enumerate(one)])
    asked = ("--run", run, "--baseline", "old.jsonl", "--rule")
    gate(folder, *asked, "delta(accuracy) >= -1", code=0)
    done = command("gate", *asked, "delta(fairness_gap(accuracy, by=group.site)) <= 1", *FAST, cwd=folder)
    assert done.returncode == 3
    (folder / "other.jsonl").write_text(lines([{**r, "group": {"site": "q"}} for r in one]))
    asked = ("--run", "other.jsonl", "--baseline", "old.jsonl", "--rule")
    gate(folder, *asked, "delta(accuracy) >= -1", code=0)
    done = command("gate", *asked, "delta(fairness_gap(accuracy, by=group.site)) <= 1", *FAST, cwd=folder)
    assert done.returncode == 3


def test_documented_names_that_declining_can_satisfy_warn_too(folder: Path) -> None:
    save(folder, "new", "brier", "f1_macro")
    for rule in ("brier_score <= 1", "per_class.yes.precision >= 0"):
        assert any("declining" in note for note in gate(folder, "--run", "new", "--rule", rule, files=False)["notes"])


def test_a_gate_that_cannot_write_its_report_counts_nothing(folder: Path) -> None:
    for name in ("new", "old"):
        save(folder, name, "accuracy")
    asked = ("--run", "new", "--baseline", "old", "--rule", "delta(accuracy) >= -1", "--root", folder / "store")
    (folder / "file").write_text("")
    before = sorted((folder / "store").rglob("*"))
    done = command("gate", *asked, "--junit", folder / "file" / "x.xml", cwd=folder)
    assert done.returncode == 5, done.stdout
    assert not (folder / "store/results/evaluation/gates").exists()
    assert [p for p in sorted((folder / "store").rglob("*")) if p not in before and ".index" not in str(p)] == []


def test_a_run_outside_the_store_is_not_counted_in_it(folder: Path) -> None:
    for name in ("new", "old"):
        save(folder, name, "accuracy")
    place = folder / "store/results/evaluation/runs/W"
    done = command("gate", "--run", place / "new", "--baseline", place / "old", "--rule", "delta(accuracy) >= -1",
                  "--root", folder / "empty", "--tenant", "ghost", cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (folder / "empty").exists()


def test_a_frame_is_judged_as_a_file_is(folder: Path) -> None:
    frame = [{"item": i, "target": "a", "prediction": "pass" if i % 4 == 0 else "A."} for i in range(40)]
    asked = Request(run=frame, view=View(folder), reading={"labels": "fold", "abstain": "Pass"})
    judged = judge(Gate.parse(["selective_accuracy >= 1", "abstention_rate <= 0.3"]), asked)
    assert judged.run == "records"
    assert [rule.verdict for rule in judged.decision.rules] == ["pass", "pass"]
    plain = judge(Gate.parse(["selective_accuracy >= 1"]), Request(run=frame, view=View(folder)))
    assert plain.decision.verdict == "fail"
