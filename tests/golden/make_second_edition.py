"""How the store in `second_edition` was made. It was made once and must not be made again.

The store was written by version 0.10.0, at commit f2a8667b1d557ecc9900c7bceb00f9fc2afaf102, by running this script
once. Its worth is that *that* program wrote it: between the first edition and this one came benchmarks, texts, rankings
and comparisons that are kept, models that are asked, and a second form of kept evidence. Whatever the program becomes,
it has to read these, show their numbers as they were stored, and compare new runs with them. The script refuses to
write where a store is; it is kept to say where each file came from.

    python -m tests.golden.make_second_edition FOLDER    from the repository's root; FOLDER does not exist yet

It takes the tables of the first edition and adds some to `data` (made up, from fixed seeds), writes the store to
FOLDER, and what the second edition showed of it to FOLDER.json. FOLDER was /tmp/second_edition, as trainings and the
run that was asked remember, and was moved here afterwards; its spec was a copy of the example in FOLDER.ckd.
Three things are not what a user's store has:

* `.index` and `.lock` are left out: both are made again whenever they are missing. So are the pictures of trainings.
* There are 200 resamples, so that to compare and to gate what is kept takes little time.
* The limits above which sums are kept sparse were lowered for two runs: a table of this size never reaches them.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import yaml

from tests.golden import make_first_edition as first
from tests.golden.make_first_edition import DATA, HERE, PLUGIN, Row, lean, write

EDITION, COMMIT = "0.10.0", "f2a8667b1d557ecc9900c7bceb00f9fc2afaf102"
SUITE = DATA / "suite"
SIDES = ("base", "new")
RESAMPLES = ("--resamples", 200)


# -- the tables that the first edition has not -------------------------------------------------------------------------


def screening(skill: float, answers: Random) -> list[Row]:
    """Two classes with a probability of the positive one, costs, a price of being wrong, and three raters."""
    asked, rows = Random(31), []
    for item in range(60):
        sick, site = asked.random() < 0.4, asked.choice(["north", "south"])
        raters = [sick if asked.random() < right else not sick for right in (0.9, 0.8, 0.7)]
        score = min(0.99, max(0.01, answers.gauss(0.5 + (skill - 0.5) * (1 if sick else -1), 0.22)))
        said = "sick" if score >= 0.5 else "well"
        row: Row = {
            "item": f"s{item}",
            "cluster": f"p{item // 2}",
            "group": {"site": site},
            "should_abstain": item % 9 == 0,
        }
        row |= {f"rater_{n}": "sick" if rated else "well" for n, rated in zip("abc", raters, strict=True)}
        row |= {"target": "sick" if sick else "well", "prediction": said if answers.random() < 0.93 else None}
        row |= {"confidence": round(score, 3), "cost": round(0.001 + 0.002 * answers.random(), 5)}
        rows.append(row | {"input_tokens": answers.randint(50, 90), "output_tokens": answers.randint(1, 9)})
    return rows


def cases(task: str, size: int = 14) -> list[Row]:
    """The first cases of a task that comes with the program."""
    path = Path("src/steelyard/suites/clinical") / f"{task}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[:size]]


def said_of(cases: list[Row], right: float, answers: Random) -> Iterator[tuple[Row, Row]]:
    """Each case with an answer: the reference, its paraphrase, or that of another case."""
    for place, case in enumerate(cases):
        drawn, other = answers.random(), cases[(place + answers.randrange(1, len(cases))) % len(cases)]
        said = case["target"] if drawn < right / 2 else case["paraphrase"] if drawn < right else other["target"]
        reasons = (case if drawn < right else other)["rationale"].split(". ")[:2]
        yield case, {"prediction": said, "rationale": ". ".join(reasons)}


def notes(right: float, answers: Random) -> list[Row]:
    """Free texts: a note, its summary, reasons for both, and what must not be given."""
    rows = []
    for number, (case, said) in enumerate(
        said_of([*cases("discharge_summary"), *cases("medication_safety")], right, answers)
    ):
        row = {"item": case["id"], "cluster": f"c{number // 2}", "note": case.get("note", case.get("question"))}
        row |= {"target": case["target"], "target_rationale": case["rationale"]}
        rows.append(row | {"contraindicated": ", ".join(case["contraindicated"])} | said)
    return rows


def suite() -> None:
    """A suite of three tasks, one of them of labels, and the answers of two models."""
    texts = {"summary": ("discharge_summary", "summarization"), "medicine": ("medication_safety", "qa")}
    fields = {"id": "id", "target": "target", "rationale": "rationale", "contraindicated": "contraindicated"}
    metrics = {
        "summary": ["clinical_relevance", "reasoning_quality"],
        "medicine": ["clinical_accuracy", "harm_avoidance", "token_f1"],
    }
    tasks: list[Row] = [
        {"name": "urgency", "type": "diagnostic_reasoning", "data": "urgency.jsonl",
         "fields": {"id": "id", "target": "target", "group.site": "site"}, "metrics": ["accuracy", "f1_macro"]},
    ]  # fmt: skip
    draw = Random(41)
    labels: list[Row] = [
        {"id": f"u{n}", "target": draw.choice(first.URGENCY), "site": draw.choice(["north", "south"])}
        for n in range(30)
    ]
    held = {"urgency": labels}
    for name, (task, kind) in texts.items():
        held[name] = cases(task, 12)
        more = {"note": "note"} if kind == "summarization" else {}
        tasks.append(
            {"name": name, "type": kind, "data": f"{name}.jsonl", "fields": fields | more, "metrics": metrics[name]}
        )
    combined = {"weights": {"diagnostics": 0.5, "safety": 0.3, "summarization": 0.2}, "map": {"f1_macro": "safety"}}
    for folder in (SUITE, SUITE / "alder", SUITE / "birch"):
        folder.mkdir(parents=True, exist_ok=True)
    (SUITE / "suite.yaml").write_text(
        yaml.safe_dump({"name": "ward", "tasks": tasks, "combined": combined}, sort_keys=False)
    )
    for name, rows in held.items():
        kept = [{k: v for k, v in row.items() if k not in ("specialty", "question", "labels")} for row in rows]
        write(f"suite/{name}", kept)
    for model, right in (("alder", 0.5), ("birch", 0.75)):
        answers = Random(right)
        said = [{"id": row["id"], "prediction": row["target"] if answers.random() < right else "low"} for row in labels]
        write(f"suite/{model}/urgency", [{"model": model, **row} for row in said])
        for name in texts:
            rows = [{"id": case["id"], "model": model, **said} for case, said in said_of(held[name], right, answers)]
            write(f"suite/{model}/{name}", rows)


def rankings() -> None:
    """Judgements and two rankings in TREC's format."""
    draw = Random(51)
    lines: dict[str, list[str]] = {"qrels": [], "first": [], "second": []}
    for number in range(30):
        topic, documents = f"t{number:02d}", [f"d{number:02d}-{i:02d}" for i in range(12)]
        grades = {document: draw.choices((2, 1, 0), (1, 3, 9))[0] for document in documents[:8]}
        lines["qrels"] += [f"{topic} 0 {document} {grade}" for document, grade in grades.items()]
        for name, skill in (("first", 0.5), ("second", 0.9)):
            scored = sorted(((draw.gauss(grades.get(d, 0) * skill, 1.0), d) for d in documents), reverse=True)
            lines[name] += [f"{topic} Q0 {d} {rank} {score:.3f} {name}" for rank, (score, d) in enumerate(scored, 1)]
    for name, kept in lines.items():
        (DATA / f"{name}.txt").write_text("\n".join(kept) + "\n")


def tables() -> None:
    """Every table that is new, from fixed seeds."""
    for side, seed, skill in (("base", 61, 0.62), ("new", 62, 0.72)):
        write(f"screening-{side}", screening(skill, Random(seed)))
        write(f"notes-{side}", notes(skill - 0.1, Random(seed)))
    facts = {"wall_seconds": 41.5, "kwh": 0.02, "co2_kg": 0.008}
    (DATA / "screening.task.yaml").write_text(
        yaml.safe_dump({"labels": ["sick", "well"], "positive": "sick", "facts": facts})
    )
    (DATA / "numbers.task.yaml").write_text(yaml.safe_dump({"facts": facts}))
    suite()
    rankings()


# -- the store ---------------------------------------------------------------------------------------------------------

TRIAGE = (
    *first.CORRECTNESS, *first.CALIBRATION, "calibration_error2", *first.SELECTIVE, *first.DEFERRAL, *first.EFFICIENCY,
    *first.GROUPS, "deferral_precision", "deferral_recall", "deferral_f1", "mcc", "kappa", "n_predictions",
    "in_group(accuracy, by=group.site)", f"{PLUGIN}:agreement_held",
)  # fmt: skip
SCREENING = (
    "accuracy", "answer_rate", "failure_rate", "sensitivity", "specificity", "fpr", "fnr", "ppv", "npv",
    "selection_rate", "net_benefit(pt=0.2)", "auroc", "auprc", "brier(binary=true)", "ece(positive=sick)",
    "krippendorff_alpha(raters=[rater_a, rater_b, rater_c])", "gwet_ac1(raters=[rater_a, rater_b, rater_c])",
    "fairness_ratio(selection_rate, by=group.site)", "equalized_odds(by=group.site)", "input_tokens_total",
    "output_tokens_total", "token_total", "cost_per_correct", "elapsed_seconds", "kwh", "co2_kg", "gco2_per_f1_point",
    "confusion_matrix",
)  # fmt: skip
NOTES = (
    "clinical_accuracy", "diagnostic_accuracy", "clinical_relevance", "harm_avoidance", "reasoning_quality",
    "reasoning", "exact_match", "token_f1", "rouge_l", "chrf",
)  # fmt: skip
RANKING = (*first.RANKING, "judged@5", "bpref", "rbp", "err@10", "ndcg(gain=exponential)")
GATES = {
    "pass": (0, "triage", ("high(delta(accuracy)) >= 0", "failure_rate <= 0.2")),
    "fail": (1, "triage", ("accuracy >= 0.99", "low(delta(accuracy)) >= -0.02")),
    "inconclusive": (6, "triage", ("low(delta(accuracy)) >= 0.08",)),
    "slices": (None, "rows", ("low(delta(accuracy)) >= 0.08 for each group.site",)),
    "cells": (None, "altered",
              ("accuracy >= 0.5 for each cell", "low(delta(robustness_score(accuracy))) >= -0.2 for each cell")),
    "benchmark": (None, "ward", ("low(combined_score) >= 0.2", "low(delta(category.safety)) >= -0.3")),
    "rankings": (None, "ranked", ("low(delta(ndcg@10)) >= 0",)),
}  # fmt: skip
PAIRS = {"ward": ("ward-alder", "ward-birch"), "ranked": ("ranked-base", "ranked")}


def pair_of(name: str) -> tuple[str, str]:
    """The base run and the new run of a gate."""
    return PAIRS.get(name, (f"{name}-base", f"{name}-new"))


class Store(first.Store):
    """The second edition's commands, in this process, on one root."""

    def save(self, run_id: str, table: str, metrics: tuple[str, ...], *more: Any, workflow: str) -> None:
        resamples = () if "--resamples" in more else RESAMPLES
        super().save(run_id, table, metrics, *resamples, *more, workflow=workflow)


def runs_of_tables(store: Store) -> None:
    """Pairs of runs on the same questions, of every kind of evidence, label and cluster."""
    patients, task = ("--cluster", "patient"), ("--task-file", DATA / "triage.task.yaml")
    few, slices = ("accuracy", "aurc", "failure_rate"), ("--by", "group.site")
    for side in SIDES:
        label, table = ("--label", f"side={side}"), f"triage-{side}"
        store.save(f"triage-{side}", table, TRIAGE, *patients, *task, *label, workflow="Triage")
        store.save(f"rows-{side}", table, few[:2], *patients, "--save-records", *slices, workflow="Rows")
        repeated = ("accuracy", "stability(accuracy)", "stability_score(accuracy)", "auroc(positive=1)", "aurc")
        store.save(f"codes-{side}", f"codes-{side}", repeated, workflow="Codes")
        for kind in ("decimals", "booleans"):
            store.save(f"{kind}-{side}", f"{kind}-{side}", ("accuracy", "f1_macro", "f1"), workflow="Labels")
        flips = ("consistency_rate", "flip_rate", "flip_to_correct", "flip_to_incorrect")
        robust = ("accuracy", *flips, "robustness_score(accuracy)", "relative_change(accuracy)")
        store.save(f"altered-{side}", f"altered-{side}", robust, workflow="Robustness")
        teams = ("--cluster", "team", "--domain", "planning", "--task-file", DATA / "numbers.task.yaml")
        store.save(
            f"numbers-{side}", f"numbers-{side}", (*first.REGRESSION, "gco2_per_mae_unit"), *teams, workflow="Points"
        )
        store.save(f"rankings-{side}", f"rankings-{side}", RANKING, workflow="Search")
        for kind in ("lists", "single"):
            store.save(f"{kind}-{side}", f"{kind}-{side}", ("ndcg@10", "mrr"), workflow="Search")
        facts = ("--task-file", DATA / "screening.task.yaml")
        store.save(f"screening-{side}", f"screening-{side}", SCREENING, *facts, workflow="Screening")
        explained = ("--explain", 1) if side == "new" else ()
        store.save(f"notes-{side}", f"notes-{side}", NOTES, *explained, workflow="Notes")
    store.save("triage-flaky", "triage-flaky", few, *patients, *task, workflow="Triage")
    store.save("rows-flaky", "triage-flaky", few[:2], *patients, "--save-records", *slices, workflow="Rows")
    plain = ("--method", "percentile", "--level", "0.9", "--seed", "7", "--resamples", "300")
    both = ("--by", "group.site*group.decade")
    store.save("percentile", "triage-base", few[:1], *patients, *plain, *both, workflow="Settings")
    store.save("torn", "torn", ("accuracy",), "--salvage", workflow="Torn")


def runs_of_commands(store: Store) -> None:
    """What other commands keep: both sides of a comparison and of rankings, a suite, and models that were asked."""
    both = [DATA / f"screening-{side}.jsonl" for side in SIDES]
    asked = ("-m", "accuracy,sensitivity,auroc", "--task-file", DATA / "screening.task.yaml")
    store("compare", *both, *asked, *RESAMPLES, "--save", "--workflow", "Compared", "--run-id", "compared")
    rankings = [DATA / f"{name}.txt" for name in ("qrels", "first", "second")]
    store(
        "rank",
        *rankings,
        "-m",
        "ndcg@10,mrr,map,bpref",
        *RESAMPLES,
        "--save",
        "--workflow",
        "Ranked",
        "--run-id",
        "ranked",
    )
    for model in ("alder", "birch"):
        kept = ("--save", "--workflow", "Ward", "--run-id", f"ward-{model}")
        store("benchmark", SUITE / "suite.yaml", SUITE / model, *kept, *RESAMPLES)
    example = Path(shutil.copytree("examples/ckd", store.root.with_name(f"{store.root.name}.ckd")))
    store("run", example / "spec.yaml", "--limit", 12, *RESAMPLES, codes=(0, 1, 6))
    shutil.rmtree(example)


def runs_of_vectors(store: Store) -> None:
    """Retrieval runs, trainings, segments and evaluators."""
    drifted, astray = ((DATA / "policies.jsonl", DATA / f"queries-{name}.jsonl") for name in ("drifted", "astray"))
    hashed = ("--embedder", "hash:48", *RESAMPLES)
    store("retrieval", "run", *drifted, *hashed, "--workflow", "Baseline", "--run-id", "retrieval-base")
    store("shift", "train", *drifted, *hashed, "--training-id", "drifted")
    store("shift", "train", *astray, *hashed, "--workflow", "Astray", "--training-id", "astray")
    store("shift", "train", *astray, *hashed, "--workflow", "Astray", "--training-id", "cancelled", "--epsilon", 9)
    run = ("--workflow", "PosNeg", "--run-id", "retrieval-shifted", "--label", "model=m1")
    store("retrieval", "run", *drifted, *hashed, "--shift", "best", "--no-baseline-run", *run)
    with chdir(store.root):  # a segments file names its files as they were given
        folder = Path("results/evaluation/runs/PosNeg/retrieval-shifted")
        sides = (folder / "eval.perQuery.posneg.json", folder / "eval.perQuery.baseline.json")
        for rule, more in (("gap", ("--tau", 0.05)), ("learned", ()), ("oracle", ("--metric", "map@1"))):
            store("segment", "propose", *sides, "--rule", rule, *more, "--output", f"segments-{rule}.json")
        store("segment", "compare", "segments-gap.json", "--out", ".")
    vectors = (DATA / "refs.npz", DATA / "asked.npz", *RESAMPLES)
    for shift, code in (("back", 0), ("away", 1)):
        profile = ("--baseline", "--gate-profile", "rank", "--shift", DATA / f"shift-{shift}.json")
        store("retrieval", "eval", *vectors, *profile, codes=(code,))


def beside_the_store(store: Store) -> None:
    """Calibrators of every method, and the artifact of `selective`."""
    from steelyard.confidence.calibrators.contract import methods

    train, folder = ("examples/phq8/train.json", "--mode", "few_shot"), store.root / "calibrators"
    store("calibrate", "temperature", *train, "--output", folder / "temperature_scaling.json")
    features = ("--features", "token_msp,consistency_modal_confidence,verbalized_confidence,retrieval_similarity_mean")
    for method in methods:
        taken = ("--confidence", "token_msp") if methods[method].one_feature else features
        if method != "temperature_scaling":
            store("calibrate", "fit", *train, "--method", method, *taken, "--output", folder / f"{method}.json")
    assert {path.stem for path in folder.iterdir()} == set(methods)
    few, zero = ((DATA / "phq8-few.json", "--mode", mode) for mode in ("few_shot", "zero_shot"))
    one = ("--confidence", "verbalized_calibrated,token_msp", "--calibration", folder / "temperature_scaling.json")
    store("selective", *few, *one, *RESAMPLES, "--output", store.root / "selective-one.json")
    two = (*zero, *few, "--confidence", "token_msp")
    store("selective", *two, *RESAMPLES, "--output", store.root / "selective-two.json")


def decisions(store: Store) -> None:
    """Gates of every verdict, one of them tried again; pointers that moved forth and back, and pinned runs."""
    scope = ("--domain", "evaluation")
    for run, reason in (("triage-base", "the first"), ("triage-flaky", "a trial"), ("triage-new", "better")):
        store("runs", "promote", run, "--metric", "accuracy", "--reason", reason)
    store("runs", "rollback", "--metric", "accuracy", "--steps", 2, "--reason", "too soon", *scope)
    store("runs", "promote", "triage-new", "--metric", "accuracy", "--reason", "now")
    for name, (code, pair, texts) in GATES.items():
        base, new = pair_of(pair)
        asked = [word for text in texts for word in ("--rule", text)]
        output = store.root / "gates" / name / "acceptance_gate.json"
        store(
            "gate",
            "--run",
            new,
            "--baseline",
            base,
            *asked,
            "--output",
            output,
            codes=(0, 1, 6) if code is None else (code,),
        )
    store("runs", "pin", "triage-base", "--as", "release-1", "--reason", "what was shipped")
    store("runs", "pin", "numbers-base", "--as", "release-1")
    for run in ("numbers-base", "numbers-new"):
        store("runs", "promote", run, "--metric", "mae", "--profile", "nightly")
    scope = ("--domain", "planning", "--metric", "mae", "--profile", "nightly")
    store("runs", "rollback", *scope, "--reason", "a wrong table")
    store("runs", "promote", "retrieval-shifted", "--metric", "map@1")
    store("runs", "promote", "ward-alder", "--metric", "combined_score")
    store("runs", "promote", "ward-birch", "--metric", "combined_score", "--reason", "safer")


def runs_of_tenants(store: Store) -> None:
    """The same tables in tenants, two of the runs with sparse sums; after `decisions`, which means the other scopes."""
    for side in SIDES:
        few, clinic = ("accuracy", "aurc", "failure_rate"), ("--cluster", "patient", "--tenant", "clinic")
        store.save(f"clinic-{side}", f"triage-{side}", few, *clinic, workflow="Triage")
        acme = ("--cluster", "team", "--domain", "planning", "--tenant", "acme")
        wide = ("mae", "spearman", "mae_by_bin", "fairness_gap(spearman, by=group.size)")
        limits = {"_ANY_SHARE": 0, "_DENSE_CELLS": 0}
        with patch.multiple("steelyard.metrics.evidence.sums", **limits):
            store.save(f"sparse-{side}", f"numbers-{side}", wide, *acme, workflow="Points")
    gate = ("--run", "clinic-new", "--baseline", "clinic-base", "--rule", "high(delta(aurc)) <= 0.02")
    for _ in range(2):  # looked at twice, counted twice
        store("gate", *gate, "--tenant", "clinic", codes=(0, 1, 6))
    store("runs", "decide", "--metric", "mae", "--domain", "planning", "--tenant", "acme", "--apply", *RESAMPLES)


# -- what was shown ----------------------------------------------------------------------------------------------------


def shown(store: Store) -> dict[str, Any]:
    """What the second edition said of its own store: what the first did, and deltas with intervals and verdicts."""
    from steelyard.confidence.calibrators.wire import read_calibrator
    from steelyard.ground.json import plain
    from steelyard.metrics.definition import metric_of
    from steelyard.metrics.evidence.codec import kinds
    from steelyard.records.readers import read
    from steelyard.runs.index import Index
    from steelyard.runs.layout import scopes
    from steelyard.runs.saved import SavedRun
    from tests.support.editions import compared, pairs_of, scope_options

    def said(*arguments: Any) -> Any:
        return json.loads(store(*arguments, "--format", "json").replace(f"{store.root}/", ""))

    listed = said("runs", "list", "--all-tenants")
    assert not listed["problems"], listed["problems"]
    with Index(store.root, all_tenants=True) as index:
        entries = index.runs()
    runs, kept = {}, []
    for run in sorted(entries, key=lambda run: run.path):
        opened = SavedRun.at(run.folder)
        fields = ("metric", "slice", "value", "interval", "method", "n")
        runs[run.path] = {
            "show": said("runs", "show", f"{run.workflow}/{run.run_id}", *scope_options(run)),
            "estimates": [[e[name] for name in fields] for e in opened.evaluation["estimates"]],
        }
        kept += opened.kept
    unmet = set(kinds) - {*kinds_in(kept)}
    assert not unmet, f"no run has kept evidence of {unmet}"
    names = {metric_of(name).definition.name for run in runs.values() for name, *_ in run["estimates"]}
    missing = set(builtin()) - names
    assert not missing, f"no run has an estimate of {missing}"
    few = read(DATA / "phq8-few.json", where={"strategy": "few_shot"})
    whose = dict.fromkeys((scope.domain, scope.tenant) for scope in scopes(store.root))
    active = [
        said("runs", "active", "--all", "--domain", domain, "--tenant", tenant or "-") for domain, tenant in whose
    ]
    return {
        "edition": EDITION,
        "commit": COMMIT,
        "list": [{k: v for k, v in run.items() if k != "metrics"} for run in listed["runs"]],
        "runs": runs,
        "pointers": [pointer for each in active for pointer in each["pointers"]],
        "best_shift": said("shift", "best")["best"]["training"],
        "calibrated": {
            path.name: plain(read_calibrator(path).confidence(few))
            for path in sorted((store.root / "calibrators").glob("*.json"))
        },
        "compared": compared(pairs_of(entries)),
        "metrics": sorted(names),
    }


def kinds_in(value: Any) -> Iterator[str]:
    """The kinds of evidence that are met inside kept evidence, with those inside them."""
    from collections.abc import Mapping

    from steelyard.metrics.evidence.codec import kinds

    for name in kinds:
        if type(value) is kinds[name].type:
            yield name
            for part in kinds[name].pack(value).values():
                yield from kinds_in(part)
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, tuple | list) else ():
        yield from kinds_in(part)


def builtin() -> list[str]:
    """Every metric that comes with the program."""
    from steelyard.metrics.definition import metrics

    return [name for name in metrics if ":" not in name]


def main() -> None:
    if (HERE / "second_edition").exists():
        raise SystemExit("tests/golden/second_edition is there; it was written by 0.10.0 and stays as it is")
    root = Path(sys.argv[1]).resolve()
    if root.exists():
        raise SystemExit(f"{root} is there already")
    sys.path.insert(0, "")
    root.mkdir(parents=True)
    tables()
    store = Store(root)
    runs_of_tables(store)
    runs_of_commands(store)
    runs_of_vectors(store)
    beside_the_store(store)
    decisions(store)
    runs_of_tenants(store)
    text = json.dumps(shown(store), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    root.with_name(f"{root.name}.json").write_text(text.replace('},"', '},\n"') + "\n")
    for path in list(lean(root)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    os.environ["PYTHONHASHSEED"] = "0"
    main()
