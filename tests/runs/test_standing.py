"""Runs in order, and which of them replaces the active one: documented numbers, naive sorting, real folders."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError, UsageError
from steelyard.records.table import Records
from steelyard.runs.deciding import KEEP, PROMOTE, decide
from steelyard.runs.index import Index, RunEntry
from steelyard.runs.layout import Scope
from steelyard.runs.metric_keys import direction, value_of
from steelyard.runs.saved import Clock, save
from steelyard.runs.standing import Standing, candidates, compared, ranked
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate
from tests.support.answers import lines
from tests.support.commands import command
from tests.support.gates import step_down
from tests.support.oracles import oracle
from tests.support.shelf import answers, table

ORACLE = oracle("retrieval")["runs"]
METRIC = ORACLE["metric"]


def write(scope: Scope, document: Mapping[str, Any]) -> Path:
    """A run.json of another tool in its folder, whatever the case of its keys."""
    fields = {key.lower(): value for key, value in document.items()}
    workflow = fields.get("workflow") or fields["workflowname"]
    folder = scope.runs / workflow / fields["runid"]
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(document))
    return folder


def foreign(
    scope: Scope, run_id: str, metrics: Mapping[str, float], *, workflow: str = "w", second: int = 0, done: bool = True
) -> None:
    times = {"StartedAtUtc": f"2026-01-01T00:00:{second:02}Z", "CompletedAtUtc": f"2026-01-01T00:01:{second:02}Z"}
    if not done:
        del times["CompletedAtUtc"]
    write(scope, {"RunId": run_id, "Workflow": workflow, "Labels": {}, "Metrics": dict(metrics), **times})


def listed(scope: Scope) -> list[RunEntry]:
    with Index(scope.root) as index:
        return index.runs()


def one(scope: Scope, run_id: str) -> RunEntry:
    with Index(scope.root) as index:
        return index.find(run_id)


def names(rows: Sequence[Standing]) -> list[str]:
    return [row.run.run_id for row in rows]


@pytest.fixture
def scope(tmp_path: Path) -> Scope:
    return Scope(tmp_path)


# -- documented numbers ------------------------------------------------------------------------------------------------


@pytest.fixture
def documented(scope: Scope) -> Scope:
    for document in ORACLE["runs"]:
        write(scope, document)
    return scope


def test_documented_runs_are_compared_in_the_documented_order(documented: Scope) -> None:
    rows = ranked(listed(documented), METRIC)
    assert [row.value for row in rows] == ORACLE["compare_scores"]
    assert names(rows) == ["r2", "r3", "r5", "r1", "r4"]  # ties by workflow, then the newest


def test_documented_runs_are_promoted_in_the_documented_order(documented: Scope) -> None:
    assert names(candidates(listed(documented), METRIC)) == ORACLE["best_order_used_by_promote"]


@pytest.mark.parametrize("key", [METRIC, METRIC.upper(), "Ndcg@3"])
def test_the_case_of_a_documented_key_does_not_matter(documented: Scope, key: str) -> None:
    assert [row.value for row in ranked(listed(documented), key)] == ORACLE["compare_scores"]


def test_documented_runs_on_the_command_line(documented: Scope) -> None:
    root = ("--root", documented.root, "--format", "json", "--metric", METRIC)
    ranking = json.loads(command("runs", "compare", *root).stdout)
    assert [run["value"] for run in ranking["runs"]] == ORACLE["compare_scores"]
    assert ranking["better"] == "higher"
    best = json.loads(command("runs", "best", *root).stdout)
    assert (best["run_id"], best["value"], best["of"]) == ("r2", 0.7, 4)
    assert "optimistic" in best["note"]
    top = json.loads(command("runs", "compare", *root, "--top", 2).stdout)
    assert [run["run_id"] for run in top["runs"]] == ["r2", "r3"]
    shown = command("runs", "compare", "--root", documented.root, "--metric", METRIC).stdout
    assert [row.split()[0] for row in shown.split("\n") if row.startswith("r") and row[1].isdigit()] == names(
        ranked(listed(documented), METRIC)
    )
    assert "n/a" in shown


@pytest.mark.parametrize("case", ORACLE["decide"], ids=lambda c: f"{c['candidate']}-{c['active']}-{c['eps']}")
def test_documented_decisions(scope: Scope, case: dict[str, Any]) -> None:
    foreign(scope, "candidate", {METRIC: case["candidate"]}, second=2)
    if case["active"] is not None:
        foreign(scope, "active", {METRIC: case["active"]}, second=1)
    runs = {run.run_id: run for run in listed(scope)}
    active = runs.get("active")
    if case.get("same_run"):
        active = replace(runs["candidate"], metrics={METRIC: case["active"]})
    choice = decide([runs["candidate"]], METRIC, active, eps=case["eps"])
    assert choice.action == case["expected"]["action"]
    assert choice.lead.value == case["expected"]["delta"]
    assert choice.candidate.run_id == "candidate"
    assert choice.reason


@pytest.mark.parametrize("case", [c for c in ORACLE["decide"] if c["candidate"] >= (c["active"] or 0)][:4])
def test_documented_decisions_on_the_command_line(scope: Scope, case: dict[str, Any]) -> None:
    root = ("--root", scope.root, "--metric", METRIC, "--format", "json")
    if case["active"] is not None:
        foreign(scope, "active", {METRIC.upper(): case["active"]}, second=1)
        assert command("runs", "promote", "active", *root).returncode == 0
    foreign(scope, "candidate", {METRIC: case["candidate"]}, second=2)
    done = command("runs", "decide", *root, "--eps", case["eps"], "--apply")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["action"] == case["expected"]["action"]
    assert document["delta"] == case["expected"]["delta"]
    assert document["applied"] is (case["expected"]["action"] == "Promote")
    now = json.loads(command("runs", "active", *root).stdout)["run_id"]
    assert now == ("candidate" if document["applied"] else "active")


# -- order -------------------------------------------------------------------------------------------------------------


@st.composite
def run_lists(draw: st.DrawFn) -> list[RunEntry]:
    made = []
    for i, second in enumerate(draw(st.lists(st.integers(0, 59), max_size=12, unique=True))):
        metrics = draw(st.dictionaries(st.sampled_from(["m", "M", "other"]), st.sampled_from([0.1, 0.2, 0.3, -1.0])))
        started, completed = f"2026-01-01T00:00:{second:02}.000000Z", f"2026-01-02T00:00:{second:02}.000000Z"
        complete, sealed = draw(st.booleans()), draw(st.just(False))
        made.append(
            RunEntry(
                run_id=f"r{i}",
                workflow=draw(st.sampled_from(["a", "b", "B"])),
                tenant=None,
                domain="d",
                started_at=started,
                completed_at=completed,
                complete=complete,
                sealed=sealed,
                labels={},
                metrics=metrics,
                root=Path("/nowhere"),
                path=f"runs/r{i}",
            )
        )
    return made


def naive_value(run: RunEntry) -> float | None:
    return run.metrics.get("m", run.metrics.get("M"))


@given(run_lists(), st.randoms())
def test_runs_are_sorted_as_documented_whatever_order_they_come_in(runs: list[RunEntry], random: Any) -> None:
    newest = sorted(runs, key=lambda r: str(r.completed_at), reverse=True)
    known = [r for r in newest if naive_value(r) is not None]
    expected = sorted(known, key=lambda r: (-(naive_value(r) or 0.0), r.workflow))  # stable: the newest first
    expected += sorted((r for r in newest if naive_value(r) is None), key=lambda r: r.workflow)
    promoted = sorted((r for r in known if r.complete), key=lambda r: -(naive_value(r) or 0.0))
    random.shuffle(runs)
    assert names(ranked(runs, "m")) == [r.run_id for r in expected]
    assert [row.value for row in ranked(runs, "m")] == [naive_value(r) for r in expected]
    assert names(candidates(runs, "m")) == [r.run_id for r in promoted]


@given(run_lists(), st.sampled_from([0.0, 1e-6, 0.1, 0.25]), st.data())
def test_only_a_complete_run_that_is_better_by_more_than_eps_is_promoted(
    runs: list[RunEntry], eps: float, data: st.DataObject
) -> None:
    active = data.draw(st.none() | st.sampled_from(runs)) if runs else None
    able = [r for r in runs if r.complete and naive_value(r) is not None]
    if not able:
        with pytest.raises(InputError, match="no complete run has a value of m"):
            decide(runs, "m", active, eps=eps)
        return
    choice = decide(runs, "m", active, eps=eps)
    best = max(able, key=lambda r: (naive_value(r) or 0.0, str(r.completed_at)))
    assert choice.candidate == best
    held = None if active is None else naive_value(active)
    if active is None or held is None:
        assert (choice.action, choice.lead.value) == (PROMOTE, 0.0)
    elif active.run_id == best.run_id:
        assert (choice.action, choice.lead.value) == (KEEP, 0.0)
    else:
        gain = (naive_value(best) or 0.0) - held
        assert choice.lead.value == gain
        assert choice.action == (PROMOTE if gain > eps else KEEP)


@pytest.mark.parametrize(
    ("key", "better"),
    [
        ("accuracy", "higher"),
        ("accuracy{group.site=x}", "higher"),
        ("aurc", "lower"),
        ("aurc{task=a}", "lower"),
        ("ece(bins=15)", "lower"),
        ("mean(score, better=lower)", "lower"),
        ("latency.p95", "lower"),
        ("failure_rate", "lower"),
        ("aurc_full", "lower"),
        ("augrc_full", "lower"),
        ("brier_score", "lower"),
        ("evaluation.duration_ms", "lower"),
        ("NdcgEvaluator.duration_ms", "lower"),
        ("NdcgEvaluator.delta", "higher"),
        ("ndcg@3", "higher"),
        ("map@1", "higher"),
        ("something of another tool", "higher"),
    ],
)
def test_the_direction_is_the_metric_s(key: str, better: str) -> None:
    assert direction(key) == better


@pytest.mark.parametrize("key", ["AURC", "Accuracy", "Brier_Score", "AURC_FULL", "Evaluation.Duration_Ms"])
def test_the_direction_of_another_tool_s_key_does_not_depend_on_its_case(scope: Scope, key: str) -> None:
    foreign(scope, "small", {key: 0.1}, second=1)
    foreign(scope, "large", {key: 0.2}, second=2)
    wanted = ["large", "small"] if key == "Accuracy" else ["small", "large"]
    assert names(ranked(listed(scope), key)) == wanted
    assert names(ranked(listed(scope), key.lower())) == wanted


def test_lower_is_better_where_the_metric_says_so(scope: Scope) -> None:
    for i, value in enumerate((30.0, 10.0, 20.0)):
        foreign(scope, f"r{i}", {"latency.p95": value, "evaluation.duration_ms": value}, second=i)
    runs = listed(scope)
    for key in ("latency.p95", "evaluation.duration_ms"):
        assert names(ranked(runs, key)) == ["r1", "r2", "r0"]
        assert names(candidates(runs, key)) == ["r1", "r2", "r0"]
        choice = decide(runs, key, one(scope, "r2"), eps=5)
        assert (choice.action, choice.candidate.run_id, choice.lead.value) == (PROMOTE, "r1", -10)
        assert decide(runs, key, one(scope, "r2"), eps=10).action == KEEP


def test_an_incomplete_run_is_listed_but_never_chosen(scope: Scope) -> None:
    foreign(scope, "half", {"m": 0.9}, done=False)
    foreign(scope, "whole", {"m": 0.1}, second=1)
    runs = listed(scope)
    assert names(ranked(runs, "m")) == ["half", "whole"]
    assert names(candidates(runs, "m")) == ["whole"]
    assert decide(runs, "m", None, eps=0).candidate.run_id == "whole"
    done = command("runs", "promote", "half", "--metric", "m", "--root", scope.root)
    assert done.returncode == 5
    assert "not complete" in done.stderr


@pytest.mark.parametrize("eps", [-1e-9, -1.0, math.nan])
def test_eps_is_a_number_from_0_on(scope: Scope, eps: float) -> None:
    foreign(scope, "r", {"m": 0.5})
    foreign(scope, "s", {"m": 0.9})
    with pytest.raises(UsageError, match="eps"):
        decide(listed(scope), "m", one(scope, "r"), eps=eps)


def test_without_the_metric_both_commands_end_alike(scope: Scope) -> None:
    foreign(scope, "r", {"m": 0.5})
    codes = {command("runs", word, "--metric", "ece", "--root", scope.root).returncode for word in ("best", "decide")}
    assert len(codes) == 1
    assert codes <= {2, 3}


# -- paired deltas -----------------------------------------------------------------------------------------------------


def keep(
    scope: Scope, run_id: str, records: Records, metrics: Sequence[str] = ("accuracy",), *, rows: bool = False
) -> RunEntry:
    found = evaluate(records, list(metrics), keep_evidence=True, resamples=100)
    save(scope, found, workflow="w", clock=Clock(), run_id=run_id, records=records if rows else None)
    return one(scope, run_id)


TABLES = {
    "best": table(answers(160, 0.85, 1)),
    "good": table(answers(160, 0.72, 2)),
    "fair": table(answers(160, 0.70, 3)),
    "poor": table(answers(160, 0.45, 4)),
}


@pytest.fixture
def four(scope: Scope) -> Scope:
    for name, records in TABLES.items():
        keep(scope, name, records)
    return scope


def pairs(reference: str, against: bool) -> tuple[dict[str, Any], dict[str, float]]:
    """Every delta against the reference, and p-values adjusted over all that were compared."""
    deltas = {n: compare(TABLES[reference], TABLES[n], ["accuracy"])["accuracy"] for n in TABLES if n != reference}
    family = {(reference, n): float(d.p_value or 0.0) for n, d in deltas.items()}
    if not against:
        for a, b in itertools.combinations([n for n in TABLES if n != reference], 2):
            family[a, b] = float(compare(TABLES[a], TABLES[b], ["accuracy"])["accuracy"].p_value or 0.0)
    adjusted = dict(zip(family, step_down(list(family.values())), strict=True))
    return deltas, {n: adjusted[reference, n] for n in deltas}


@pytest.mark.parametrize("against", [None, "fair", "poor"])
def test_deltas_are_paired_and_corrected_over_every_run_compared(four: Scope, against: str | None) -> None:
    runs = listed(four)
    rows = compared(ranked(runs, "accuracy"), "accuracy", one(four, against) if against else None)
    assert names(rows)[0] == "best"
    reference = against or "best"
    deltas, adjusted = pairs(reference, against is not None)
    for row in rows:
        name = row.run.run_id
        assert row.number.interval is not None
        assert row.number.interval[0] <= (row.value or 0.0) <= row.number.interval[1]
        if name == reference:
            assert row.delta is None
            continue
        assert row.delta.value == pytest.approx(deltas[name].delta)
        assert row.delta.interval == pytest.approx(deltas[name].interval)
        assert row.p_adjusted == pytest.approx(adjusted[name])
        low, high = deltas[name].interval
        sure = adjusted[name] <= 0.05
        assert row.verdict == ("better" if sure and low > 0 else "worse" if sure and high < 0 else "inconclusive")
    assert {row.verdict for row in rows} > {""}


def test_how_many_are_shown_changes_no_p_value(four: Scope) -> None:
    root = ("--root", four.root, "--format", "json", "--metric", "accuracy")
    for against in ((), ("--against", "fair")):
        whole, part = (json.loads(command("runs", "compare", *root, *against, "--top", top).stdout) for top in (20, 2))
        assert part["runs"] == whole["runs"][:2]
        assert part["against"] == whole["against"] == (against[1] if against else "best")


def test_the_run_that_deltas_are_against_is_named_even_if_another_tool_s_run_leads(four: Scope) -> None:
    foreign(four, "elsewhere", {"accuracy": 0.99})
    ranking = json.loads(
        command("runs", "compare", "--metric", "accuracy", "--root", four.root, "--format", "json").stdout
    )
    assert ranking["runs"][0]["run_id"] == "elsewhere"
    values = {run["run_id"]: run["value"] for run in ranking["runs"]}
    for run in ranking["runs"]:
        if run["delta"] is not None:
            assert run["value"] - values[ranking["against"]] == pytest.approx(run["delta"])


def test_runs_of_other_data_are_ranked_without_delta_and_said_why(four: Scope) -> None:
    keep(four, "other", table(answers(80, 0.9, 9)))
    rows = compared(ranked(listed(four), "accuracy"), "accuracy", one(four, "fair"))
    row = next(r for r in rows if r.run.run_id == "other")
    assert row.delta is None
    assert row.p_adjusted is None
    assert "different questions" in row.note


def test_a_tampered_run_is_not_promoted_though_it_leads(four: Scope) -> None:
    path = one(four, "best").folder / "evidence.npz"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    root = ("--root", four.root, "--metric", "accuracy", "--format", "json")
    assert command("runs", "promote", "fair", *root).returncode == 0
    done = command("runs", "decide", *root, "--apply")
    assert done.returncode == 5
    assert "was changed after it was written" in done.stderr
    assert json.loads(command("runs", "active", *root).stdout)["run_id"] == "fair"


# -- more than chance --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("active", "action"), [("poor", PROMOTE), ("best", KEEP)])
def test_a_paired_lead_beyond_chance_is_promoted(four: Scope, active: str, action: str) -> None:
    choice = decide(listed(four), "accuracy", one(four, active), eps=0.001)
    assert choice.action == action
    if action == PROMOTE:
        assert choice.lead.interval is not None
        assert choice.lead.interval[0] > 0
        assert "more than chance" in choice.reason


def test_a_lead_that_may_be_chance_is_not(scope: Scope) -> None:
    held = keep(scope, "fair", TABLES["fair"])
    keep(scope, "good", TABLES["good"])
    choice = decide(listed(scope), "accuracy", held, eps=0.0, point=True)
    assert choice.action == PROMOTE
    assert "by eps alone, as asked" in choice.reason
    choice = decide(listed(scope), "accuracy", held, eps=0.0)
    assert choice.action == KEEP
    assert "may be chance" in choice.reason


def test_runs_that_cannot_be_paired_are_not_promoted_as_significant(scope: Scope) -> None:
    held = keep(scope, "poor", TABLES["poor"])
    keep(scope, "other", table(answers(80, 0.95, 9)))
    choice = decide(listed(scope), "accuracy", held, eps=0.0)
    assert choice.action == KEEP
    assert "cannot be paired" in choice.reason
    foreign(scope, "foreign", {"accuracy": 0.999})
    choice = decide(listed(scope), "accuracy", held, eps=0.0)
    assert (choice.candidate.run_id, choice.action) == ("foreign", PROMOTE)
    assert "decided by eps alone: run foreign kept no evidence of it" in choice.reason


def test_a_run_shown_to_be_worse_on_the_same_rows_is_not_promoted(scope: Scope) -> None:
    """It failed on every hard question, so its accuracy is higher; on the questions that both answered it is lower."""
    easy = [i % 2 == 0 for i in range(320)]
    before = ["yes" if e or i % 10 == 1 else "no" for i, e in enumerate(easy)]
    after = [("no" if i % 16 == 0 else "yes") if e else None for i, e in enumerate(easy)]
    outcome = ["answered" if e else "failed" for e in easy]
    held = keep(scope, "before", table(before, rows=8), rows=True)
    best = keep(scope, "after", table(after, rows=8, outcome=outcome), rows=True)
    assert (value_of(best, "accuracy") or 0) > (value_of(held, "accuracy") or 1)
    choice = decide(listed(scope), "accuracy", held, eps=0.001)
    assert choice.lead.interval is not None
    assert choice.lead.interval[1] < 0
    assert choice.action == KEEP


@pytest.mark.parametrize("rows", [False, True], ids=["evidence", "rows"])
def test_declining_what_was_wrong_is_no_lead(scope: Scope, rows: bool) -> None:
    before = answers(320, 0.7, 1)
    after = [None if p == "no" and i % 4 else p for i, p in enumerate(before)]
    held = keep(scope, "before", table(before), ("selective_accuracy",), rows=rows)
    best = keep(scope, "after", table(after), ("selective_accuracy",), rows=rows)
    assert (value_of(best, "selective_accuracy") or 0) > 0.1 + (value_of(held, "selective_accuracy") or 1)
    choice = decide(listed(scope), "selective_accuracy", held, eps=0.001)
    assert choice.action == KEEP


LAZY = [("yes" if i % 20 else "no") if i % 10 == 0 else None for i in range(320)]


@pytest.mark.parametrize("rows", [False, True], ids=["evidence", "rows"])
@pytest.mark.parametrize("key", ["aurc", "aurc_full", "augrc"])
@pytest.mark.parametrize("point", [False, True])
def test_a_run_that_declines_nearly_everything_is_not_promoted(scope: Scope, key: str, rows: bool, point: bool) -> None:
    held = keep(scope, "held", table(answers(320, 0.8, 1)), ("aurc", "augrc"), rows=rows)
    lazy = keep(scope, "lazy", table(LAZY), ("aurc", "augrc"), rows=rows)
    assert (value_of(lazy, key) or 1) < (value_of(held, key) or 0)  # the raw area rewards declining
    choice = decide(listed(scope), key, held, eps=1e-6, point=point)
    assert choice.action == KEEP
    assert names(ranked(listed(scope), key)) == ["held", "lazy"]


@pytest.mark.parametrize("key", ["eaurc", "aurc_optimal", "aurc_achievable"])
def test_an_area_without_a_form_up_to_the_common_coverage_is_never_significant(scope: Scope, key: str) -> None:
    base = answers(320, 0.8, 1)
    held = keep(scope, "held", table(base), (key,), rows=True)
    lazy = keep(scope, "lazy", table([p if i % 3 == 0 else None for i, p in enumerate(base)]), (key,), rows=True)
    assert (value_of(lazy, key) or 1) < (value_of(held, key) or 0)
    assert decide(listed(scope), key, held, eps=0.0).action == KEEP


def test_another_tool_s_run_beside_them_does_not_let_a_declining_run_through(scope: Scope) -> None:
    held = keep(scope, "held", table(answers(320, 0.8, 1)), ("aurc",))
    keep(scope, "lazy", table(LAZY), ("aurc",))
    foreign(scope, "foreign", {"AURC": 0.9})
    assert decide(listed(scope), "aurc", held, eps=1e-6).action == KEEP


def test_fewer_than_six_clusters_show_nothing(scope: Scope) -> None:
    held = keep(scope, "held", table(["no"] * 39 + ["yes"], rows=8))
    keep(scope, "new", table(["yes"] * 38 + ["no", "no"], rows=8))
    choice = decide(listed(scope), "accuracy", held, eps=0.0)
    assert choice.action == KEEP


def test_fewer_than_six_clusters_in_common_show_nothing_either(scope: Scope) -> None:
    """Twelve clusters were asked, but only five hold rows that both answered."""
    before = ["yes" if (i % 8 < 1 + (i == 17) if i < 40 else i % 2) else "no" for i in range(96)]
    after = [("yes" if i % 11 else "no") if i < 40 else None for i in range(96)]
    beside = compare(table(before, rows=8), table(after, rows=8), ["selective_accuracy"]).deltas[0].companions
    assert beside["answered_by_both"]["clusters"] == 5
    assert beside["answered_by_both"]["delta"] > 0.5
    held = keep(scope, "held", table(before, rows=8), ("selective_accuracy",), rows=True)
    keep(scope, "new", table(after, rows=8), ("selective_accuracy",), rows=True)
    choice = decide(listed(scope), "selective_accuracy", held, eps=0.0)
    assert choice.candidate.run_id == "new"
    assert choice.action == KEEP
    (row,) = [
        row
        for row in compared(ranked(listed(scope), "selective_accuracy"), "selective_accuracy", held)
        if row.run.run_id == "new"
    ]
    assert row.verdict == "inconclusive"


def test_what_an_area_was_judged_by_is_said_with_the_decision(scope: Scope) -> None:
    bold = table([None if i % 10 == 0 else p for i, p in enumerate(answers(320, 0.95, 3))])
    shy = table([p if i % 2 else None for i, p in enumerate(answers(320, 0.4, 1))])
    held = keep(scope, "held", shy, ("aurc",))
    new = keep(scope, "new", bold, ("aurc",))
    choice = decide(listed(scope), "aurc", held, eps=0.0)
    assert choice.action == PROMOTE
    assert choice.value != pytest.approx(value_of(new, "aurc"))
    done = command("runs", "promote", "held", "--metric", "aurc", "--root", scope.root)
    assert done.returncode == 0, done.stderr
    assert "common" in command("runs", "decide", "--metric", "aurc", "--root", scope.root).stdout


def test_an_interval_that_touches_0_does_not_exclude_it(scope: Scope) -> None:
    held = keep(scope, "held", table(["yes"] * 159 + ["no"], rows=8))
    keep(scope, "new", table(["yes"] * 160, rows=8))
    choice = decide(listed(scope), "accuracy", held, eps=0.0)
    assert choice.action == KEEP
    assert choice.lead.interval is not None
    assert choice.lead.interval[0] <= 0 <= choice.lead.interval[1]


def test_a_metric_without_a_direction_ranks_nothing_until_somebody_says_one(tmp_path: Path) -> None:
    for name, declined in (("shy", 30), ("bold", 3)):
        said = [None if i < declined else "yes" for i in range(60)]
        rows = [{"item": i, "target": "yes", "prediction": word} for i, word in enumerate(said)]
        (tmp_path / f"{name}.jsonl").write_text(lines(rows))
        asked = ("-m", "abstention_rate", "-m", "accuracy", "--resamples", 100, "--save", "--run-id", name)
        assert command("evaluate", tmp_path / f"{name}.jsonl", *asked, root=tmp_path).code == 0
    assert command("runs", "promote", "bold", "-m", "abstention_rate", root=tmp_path).code == 0
    for words in (("compare",), ("best",), ("decide", "--apply")):
        refused = command("runs", *words, "-m", "abstention_rate", root=tmp_path)
        assert (refused.code, "abstention_rate has no direction" in refused.err) == (2, True), refused.out
        assert "--better higher or --better lower" in refused.err
        assert command("runs", *words, "-m", "abstention_rate", "--better", "lower", root=tmp_path).code == 0
    active = command("runs", "active", "-m", "abstention_rate", "--format", "json", root=tmp_path).json
    assert active["run_id"] == "bold"  # the run that declines most is not promoted
    wrong = command("runs", "best", "-m", "accuracy", "--better", "more", root=tmp_path)
    assert (wrong.code, "--better is higher or lower, not 'more'" in wrong.err) == (2, True)
