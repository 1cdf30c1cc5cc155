"""How the store in `first_edition` was made. It was made once and must not be made again.

The store was written by version 0.1.0, at commit 4e5094e77307b079804f3cd59f8a2181ca7bea01, by running this script once.
Its worth is that *that* program wrote it: runs that people saved with the first edition look like these, and every
later edition has to read them, show their numbers as they were stored, and compare new runs with them. A store made
again by a later program proves nothing, so the script refuses to write where one is; it is kept to say where each file
came from.

    python tests/golden/make_first_edition.py FOLDER     from the repository's root; FOLDER does not exist yet

It writes the tables to `data` (made up, from fixed seeds; later editions may evaluate the same questions anew and
compare), the store to FOLDER, and what the first edition showed of it to FOLDER.json. FOLDER was /tmp/first_edition, as
trainings remember, and was moved here afterwards.
Three things are not what a user's store has:

* `.index` and `.lock` are left out: both are made again whenever they are missing.
* The pictures of shift trainings are left out: they are large, and no program reads them.
* The limit above which sums are kept sparse was lowered for two runs, which a table of this size never reaches.
"""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np

EDITION, COMMIT = "0.1.0", "4e5094e77307b079804f3cd59f8a2181ca7bea01"
HERE = Path("tests/golden")
DATA = HERE / "data"
PLUGIN = "tests.golden.plugin"
URGENCY = ("low", "medium", "high")
Row = dict[str, Any]


# -- the tables --------------------------------------------------------------------------------------------------------


def write(name: str, rows: list[Row]) -> None:
    """One table as JSON lines."""
    text = "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
    (DATA / f"{name}.jsonl").write_text(text, encoding="utf-8")


def triage(model: str, skill: float, answers: Random, failing: Random) -> list[Row]:
    """Text clusters and labels, all four outcomes, groups, latencies and tokens: 36 patients, four questions each.

    Questions come from a seed of their own, so that every model is asked the same; so do the rows that fail.
    """
    asked, rows = Random(11), []
    for patient in range(36):
        site, decade = asked.choice(["north", "south", "østerbro"]), asked.choice([30, 50, 70])
        for question in range(4):
            target, hard = asked.choice(URGENCY), asked.random() < 0.2
            row: Row = {"model": model, "item": f"q{patient}-{question}", "patient": f"p{patient:02d}"}
            row |= {"target": target, "group": {"site": site, "decade": decade}, "should_abstain": hard}
            sure = answers.random()
            right = answers.random() < skill * (0.55 + 0.6 * sure)
            said = target if right else answers.choice([u for u in URGENCY if u != target])
            kind = answers.random()
            if failing.random() < 0.04:
                rows.append(row | {"prediction": None, "outcome": "failed"})
                continue
            row |= {"latency_ms": round(200 + 900 * answers.random() ** 2, 1), "input_tokens": answers.randint(80, 300)}
            row |= {"output_tokens": answers.randint(2, 40), "signal": {"margin": round(4 * sure - 1, 2)}}
            if kind < 0.05:
                rows.append(row | {"prediction": None, "outcome": "unparsed"})
            elif kind < (0.45 if hard else 0.1):
                rows.append(row | {"prediction": None})
            else:
                rows.append(row | {"prediction": said, "confidence": round(0.3 + 0.7 * sure, 2)})
    return rows


def codes(strategy: str, skill: float, answers: Random) -> list[Row]:
    """Whole-number clusters and labels, each question asked three times."""
    asked, rows = Random(12), []
    for ward in range(1, 21):
        for item in range(4):
            target = asked.randrange(4)
            for repeat in range(3):
                said = target if answers.random() < skill else answers.randrange(4)
                confidence = round(min(1.0, max(0.0, answers.gauss(0.6, 0.2))), 2)
                row = {"strategy": strategy, "item": 100 * ward + item, "repeat": repeat, "cluster": ward}
                rows.append(row | {"target": target, "prediction": said, "confidence": confidence})
    return rows


def named_by(values: list[Any], skill: float, answers: Random) -> list[Row]:
    """Labels of another type than text, no clusters but the items."""
    asked, rows = Random(13), []
    for item in range(60):
        target = asked.choice(values)
        said = target if answers.random() < skill else answers.choice(values)
        rows.append({"item": item, "target": target, "prediction": said if answers.random() < 0.92 else None})
    return rows


def altered(strategy: str, skill: float, answers: Random) -> list[Row]:
    """Two models, each asked the original questions and two alterations of them: six cells."""
    rows = []
    for model, better in (("alder", 0.0), ("birch", 0.08)):
        for perturbation, harm in (("none", 0.0), ("typos", 0.12), ("paraphrase", 0.05)):
            asked = Random(14)
            for item in range(40):
                target = asked.choice(["yes", "no"])
                right = answers.random() < skill + better - harm
                said = target if right else {"yes": "no", "no": "yes"}[target]
                row = {"model": model, "strategy": strategy, "perturbation": perturbation, "item": f"q{item}"}
                rows.append(row | {"cluster": f"c{item // 2}", "target": target, "prediction": said})
    return rows


def numbers(noise: float, answers: Random) -> list[Row]:
    """Measured numbers: story points, some declined, with a score that another tool gave."""
    asked, rows = Random(15), []
    for team in range(1, 31):
        for item in range(5):
            target = asked.choice([1, 2, 3, 5, 8, 13, 21, 34, 55])
            said = round(target * math.exp(answers.gauss(0, noise)), 2)
            row: Row = {"item": f"t{team}-{item}", "team": team, "target": target, "group": {"size": 5 + team % 3}}
            row |= {"prediction": said if answers.random() > 0.07 else None, "confidence": round(answers.random(), 2)}
            rows.append(row | {"score": round(1 / (1 + abs(said - target)), 4)})
    return rows


def rankings(lift: float, answers: Random) -> list[Row]:
    """Graded rankings, as grades in ranked order (null: not judged) and all judged grades."""
    asked, rows = Random(16), []
    for topic in range(60):
        judged = sorted((asked.choice([0, 0, 1, 1, 2, 3]) for _ in range(asked.randint(4, 9))), reverse=True)
        found = [grade for grade in judged if answers.random() < 0.6 + lift]
        found.sort(key=lambda grade: answers.gauss(-lift * grade * 3, 1))
        gains: list[int | None] = list(found)
        for _ in range(answers.randint(2, 6)):
            gains.insert(answers.randint(0, len(gains)), None)
        rows.append({"item": f"topic-{topic}", "gains": gains, "judged": judged})
    return rows


def lists(lift: float, answers: Random) -> list[Row]:
    """Rankings as lists of documents."""
    asked, rows = Random(17), []
    for topic in range(40):
        target = [f"d{d}" for d in asked.sample(range(60), asked.randint(1, 4))]
        found = [d for d in target if answers.random() < 0.5 + lift]
        others = [d for d in (f"d{n}" for n in answers.sample(range(60), 8)) if d not in target]
        ranked = sorted([*found, *others], key=lambda d: answers.random() - (lift if d in target else 0))
        rows.append({"item": topic, "target": target, "prediction": ranked})
    return rows


def single(lift: float, answers: Random) -> list[Row]:
    """One right document a query: its rank, 0 where it was not found. Queries of one person belong together."""
    rows = []
    for query in range(60):
        rank = 0 if answers.random() < 0.1 else 1 + int(answers.expovariate(0.3 + lift))
        rows.append({"item": f"q{query}", "cluster": f"person {query // 2}", "gold_rank": rank})
    return rows


def texts() -> None:
    """Policies and queries. Polite words draw most queries to the same few policies: a direction that can be learned.

    The second list goes astray in another way each time, so that there is nothing to learn.
    """
    draw = Random(18)
    sounds = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u")]
    words = sorted({"".join(draw.sample(sounds, 3)) for _ in range(260)})
    polite = ["hello", "please", "kindly", "wonder", "thanks", "help"]
    documents = []
    for number in range(36):
        own = draw.sample(words, 12)
        chatty = number % 6 == 0
        text = " ".join([*own, *(polite if chatty else [])])
        documents.append({"id": f"policy-{number:02d}", "title": own[0], "text": text, "own": own})
    drifted, astray = [], []
    for number in range(60):
        gold = documents[number % len(documents)]
        about = draw.sample(gold["own"], 3)
        text = " ".join(draw.sample([*about, *draw.sample(polite, 5)], 8))
        drifted.append(
            {"id": f"d{number:02d}", "text": text, "relevantDocId": gold["id"], "cluster": f"c{number // 2}"}
        )
        other = draw.choice([d for d in documents if d is not gold])
        text = " ".join([*draw.sample(gold["own"], 2), *draw.sample(other["own"], 2)])
        astray.append({"id": f"a{number:02d}", "text": text, "relevantDocId": gold["id"]})
    write("policies", [{k: v for k, v in document.items() if k != "own"} for document in documents])
    write("queries-drifted", [*drifted, {"id": "lost", "text": "hello", "relevantDocId": "nowhere", "cluster": "c0"}])
    write("queries-astray", astray)


def vectors() -> None:
    """References, queries and a shift by hand, for the four evaluators."""
    rng = np.random.default_rng(19)
    refs = rng.normal(size=(12, 8)).round(3)
    asked = (refs[0] + 0.9 * rng.normal(size=(40, 8)) + 1.1 * np.eye(8)[1]).round(3)
    np.savez_compressed(DATA / "refs.npz", vectors=refs)
    np.savez_compressed(DATA / "asked.npz", vectors=asked)
    for name, factor in (("back", -1.1), ("away", 3.0)):
        shift = {"kind": "additive", "vector": (factor * np.eye(8)[1]).tolist(), "scale": 1.0}
        (DATA / f"shift-{name}.json").write_text(json.dumps(shift) + "\n")


def tables() -> None:
    """Every table, from fixed seeds."""
    DATA.mkdir(parents=True, exist_ok=True)
    for side, seed, skill in (("base", 1, 0.72), ("new", 2, 0.86)):
        write(f"triage-{side}", triage({"base": "alder", "new": "birch"}[side], skill, Random(seed), Random(20)))
        write(f"codes-{side}", codes({"base": "plain", "new": "stepwise"}[side], skill, Random(seed)))
        write(f"decimals-{side}", named_by([0.5, 1.0, 1.5], skill, Random(seed)))
        write(f"booleans-{side}", named_by([True, False], skill, Random(seed)))
        write(f"altered-{side}", altered({"base": "plain", "new": "stepwise"}[side], skill, Random(seed)))
        write(f"numbers-{side}", numbers({"base": 0.5, "new": 0.35}[side], Random(seed)))
        for make in (rankings, lists, single):
            write(f"{make.__name__}-{side}", make({"base": 0.0, "new": 0.3}[side], Random(seed)))
    write("triage-flaky", triage("cedar", 0.8, Random(3), Random(21)))
    (DATA / "triage.task.yaml").write_text("labels: [low, medium, high]\nfacts: {wall_seconds: 95.5}\n")
    whole = (DATA / "decimals-base.jsonl").read_text()
    (DATA / "torn.jsonl").write_text(whole[: len(whole) // 2 + 7])
    texts()
    vectors()


def phq8() -> None:
    """The PHQ-8 example, and four of its participants, enough to apply a calibrator to."""
    subprocess.run([sys.executable, "examples/phq8/make.py"], check=True, capture_output=True)
    run = json.loads(Path("examples/phq8/run.json").read_text())
    for experiment in run["experiments"]:
        results = experiment["results"]
        results["results"] = results["results"][:4]
    (DATA / "phq8-few.json").write_text(json.dumps(run, separators=(",", ":")) + "\n")


# -- the store ---------------------------------------------------------------------------------------------------------

CORRECTNESS = (
    "accuracy", "selective_accuracy", "answer_rate", "abstention_rate", "parse_failure_rate", "failure_rate",
    "balanced_accuracy", "f1_macro", "f1_weighted", "f1", "precision", "recall", f"{PLUGIN}:agreement",
)  # fmt: skip
CALIBRATION = ("ece", "mce", "ace", "brier", "nll", "ece_null", "p_calibrated")
SELECTIVE = (
    "cmax", "aurc", "augrc", "aurc_optimal", "augrc_optimal", "eaurc", "eaugrc", "aurc_achievable", "aurc_at",
    "augrc_at", "risk_at(c=0.5)", "aurc(rank=signal.margin)",
)  # fmt: skip
DEFERRAL = ("deferral_alignment", "unsafe_answer_rate", "over_deferral_rate", "deferral_balanced")
EFFICIENCY = (
    "latency.p50", "latency.p95", "latency.mean", "throughput", "input_tokens", "output_tokens", "tokens_per_second",
)  # fmt: skip
GROUPS = (
    "fairness_gap(accuracy, by=group.site)", "worst_group(accuracy, by=group.site)",
    "disparity(accuracy, by=group.site)", "disparity(accuracy, by=group.decade)",
)  # fmt: skip
REGRESSION = (
    "mae", "mdae", "rmse", "bias", "r2", "pearson", "spearman", "mae_by_bin", "aurc(loss=abs)",
    "mean(score, better=higher)", f"{PLUGIN}:typical_error",
)  # fmt: skip
RANKING = ("ndcg", "ndcg@10", "mrr", "map", "map@10", "precision@5", "recall@5", "hit@3", "rprec")


class Store:
    """The first edition's commands, in this process, on one root."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, *arguments: Any, codes: tuple[int, ...] = (0,)) -> str:
        """What a command printed."""
        from steelyard.cli.main import main

        out, err, code = io.StringIO(), io.StringIO(), 0
        clean = {key: text for key, text in os.environ.items() if not key.startswith(("STEELYARD_", "GITHUB_"))}
        with (
            patch.dict(os.environ, {**clean, "STEELYARD_ROOT": str(self.root)}, clear=True),
            patch.object(sys, "argv", ["steelyard", *map(str, arguments)]),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                main()
            except SystemExit as ended:
                code = int(ended.code or 0)
        if code not in codes:
            raise SystemExit(f"{' '.join(map(str, arguments))}: {code}: {err.getvalue()}")
        return out.getvalue()

    def save(self, run_id: str, table: str, metrics: tuple[str, ...], *more: Any, workflow: str) -> None:
        asked = [word for metric in metrics for word in ("-m", metric)]
        self(
            "evaluate", DATA / f"{table}.jsonl", *asked, "--save", "--workflow", workflow, "--run-id", run_id, *more
        )  # fmt: skip


def runs_of_tables(store: Store) -> None:
    """Pairs of runs on the same questions, of every kind of evidence, label and cluster."""
    patients, task = ("--cluster", "patient"), ("--task-file", DATA / "triage.task.yaml")
    everything = (*CORRECTNESS, *CALIBRATION, *SELECTIVE, *DEFERRAL, *EFFICIENCY, *GROUPS)
    few = ("accuracy", "selective_accuracy", "aurc", "f1_macro", "ece", "failure_rate", "latency.p95")
    slices = ("--by", "group.site", "--by", "group.site*group.decade")
    for side in ("base", "new"):
        label = ("--label", f"side={side}")
        table = f"triage-{side}"
        store.save(f"triage-{side}", table, everything, *patients, *task, *label, workflow="Triage")
        store.save(f"sliced-{side}", table, ("accuracy", "f1_macro"), *patients, *slices, *label, workflow="Sliced")
        store.save(f"rows-{side}", table, few[:3], *patients, "--save-records", *slices[:2], *label, workflow="Rows")
        repeated = ("accuracy", "f1_macro", "stability(accuracy)", "stability_score(accuracy)", "auroc(positive=1)")
        store.save(f"codes-{side}", f"codes-{side}", (*repeated, "ece", "aurc"), workflow="Codes")
        for kind in ("decimals", "booleans"):
            labels = ("accuracy", "balanced_accuracy", "f1_macro", "f1", "answer_rate")
            store.save(f"{kind}-{side}", f"{kind}-{side}", labels, workflow="Labels")
        flips = ("consistency_rate", "flip_rate", "flip_to_correct", "flip_to_incorrect")
        robust = ("accuracy", *flips, "robustness_score(accuracy)", "relative_change(accuracy)")
        store.save(f"altered-{side}", f"altered-{side}", robust, workflow="Robustness")
        teams = ("--cluster", "team")
        store.save(f"numbers-{side}", f"numbers-{side}", REGRESSION, *teams, "--domain", "planning", workflow="Points")
        for kind in ("rankings", "lists", "single"):
            store.save(f"{kind}-{side}", f"{kind}-{side}", RANKING, workflow="Search")
    store.save("triage-flaky", "triage-flaky", few, *patients, *task, workflow="Triage")
    store.save("rows-flaky", "triage-flaky", few[:3], *patients, "--save-records", *slices[:2], workflow="Rows")
    plain = ("--method", "percentile", "--level", "0.9", "--seed", "7", "--resamples", "500")
    store.save("percentile", "triage-base", few, *patients, *plain, workflow="Settings")
    store.save("torn", "torn", ("accuracy",), "--salvage", workflow="Torn")


def runs_of_tenants(store: Store) -> None:
    """The same tables in tenants, two of the runs with sparse sums; after `decisions`, which means the other scopes."""
    for side in ("base", "new"):
        few, clinic = ("accuracy", "aurc", "failure_rate"), ("--cluster", "patient", "--tenant", "clinic")
        store.save(f"clinic-{side}", f"triage-{side}", few, *clinic, workflow="Triage")
        acme = ("--cluster", "team", "--domain", "planning", "--tenant", "acme", "--by", "group.size")
        wide = ("mae", "spearman", "mae_by_bin", "fairness_gap(spearman, by=group.size)")
        with patch("steelyard.metrics.evidence.sums._DENSE_CELLS", 1000):
            store.save(f"sparse-{side}", f"numbers-{side}", wide, *acme, workflow="Points")
    gate = ("--run", "clinic-new", "--baseline", "clinic-base", "--rule", "high(delta(aurc)) <= 0.02")
    for _ in range(2):  # looked at twice, counted twice
        store("gate", *gate, codes=(0, 1, 6))
    store("runs", "decide", "--metric", "mae", "--domain", "planning", "--tenant", "acme", "--apply")


def runs_of_vectors(store: Store) -> None:
    """Retrieval runs, trainings, segments and evaluators."""
    drifted = ("--docs", DATA / "policies.jsonl", "--queries", DATA / "queries-drifted.jsonl")
    astray = ("--docs", DATA / "policies.jsonl", "--queries", DATA / "queries-astray.jsonl")
    hashed = ("--embedder", "hash:96")
    store("retrieval", "run", *drifted, *hashed, "--workflow", "Baseline", "--run-id", "retrieval-base")
    store("shift", "train", *drifted, *hashed, "--training-id", "drifted")
    store("shift", "train", *astray, *hashed, "--workflow", "Astray", "--training-id", "astray")
    store("shift", "train", *astray, *hashed, "--workflow", "Astray", "--training-id", "cancelled", "--epsilon", 9)
    run = ("--workflow", "PosNeg", "--run-id", "retrieval-shifted", "--label", "model=m1")
    store("retrieval", "run", *drifted, *hashed, "--shift", "best", *run)
    chunks = ("--chunk-size", 6, "--overlap", 2)
    store("retrieval", "run", *astray, *hashed, *chunks, "--workflow", "Baseline", "--run-id", "retrieval-astray")
    folder = Path("results/evaluation/runs/PosNeg/retrieval-shifted")
    sides = ("--baseline", folder / "eval.perQuery.baseline.json", "--shifted", folder / "eval.perQuery.posneg.json")
    before = Path.cwd()
    os.chdir(store.root)  # a segments file names its files as they were given
    for rule, more in (("gap", ("--tau", 0.05)), ("learned", ()), ("oracle", ("--metric", "map@1"))):
        store("segment", "propose", *sides, "--rule", rule, *more, "-o", f"segments-{rule}.json")
    store("segment", "compare", "segments-gap.json", "--out", ".")
    os.chdir(before)
    shared = ("--refs", DATA / "refs.npz", "--queries", DATA / "asked.npz", "--save")
    store("retrieval", "eval", *shared)
    for shift, code in (("back", 0), ("away", 1)):
        profile = ("--baseline", "--gate-profile", "rank", "--shift", DATA / f"shift-{shift}.json")
        store("retrieval", "eval", *shared, *profile, codes=(code,))


def beside_the_store(store: Store) -> None:
    """Calibrators, and the artifact of `selective`."""
    train = ("--input", "examples/phq8/train.json", "--mode", "few_shot")
    folder = store.root / "calibrators"
    store("calibrate", "temperature", *train, "--output", folder / "temperature.json")
    features = ("--features", "token_msp,consistency_modal_confidence,verbalized_confidence,retrieval_similarity_mean")
    for method, more in (("logistic", features), ("linear", features), ("isotonic", ("--confidence", "token_msp"))):
        store("calibrate", "fit", *train, "--method", method, *more, "--output", folder / f"{method}.json")
    run = ("--input", "examples/phq8/run.json", "--mode")
    one = ("--confidence", "verbalized_calibrated,token_msp", "--calibration", folder / "temperature.json")
    store("selective", *run, "few_shot", *one, "--output", store.root / "selective-one.json")
    two = (*run, "zero_shot", *run, "few_shot", "--confidence", "token_msp")
    store("selective", *two, "--output", store.root / "selective-two.json")


def decisions(store: Store) -> None:
    """Gates of every verdict, one of them tried again; pointers that moved forth and back, and pinned runs."""
    scope = ("--domain", "evaluation")
    for run, reason in (("triage-base", "the first"), ("triage-flaky", "a trial"), ("triage-new", "better")):
        store("runs", "promote", run, "--metric", "accuracy", "--reason", reason)
    store("runs", "rollback", "--metric", "accuracy", "--steps", 2, "--reason", "too soon", *scope)
    store("runs", "promote", "triage-new", "--metric", "accuracy", "--reason", "now")
    pair = ("--run", "triage-new", "--baseline", "triage-base", "--output")
    gates = store.root / "gates"
    rules = {
        "pass": (0, ("high(delta(accuracy)) >= 0", "failure_rate <= 0.2")),
        "fail": (1, ("accuracy >= 0.99", "low(delta(accuracy)) >= -0.02")),
        "inconclusive": (6, ("low(delta(accuracy)) >= 0.08",)),
    }
    for verdict, (code, texts) in rules.items():
        asked = [word for text in texts for word in ("--rule", text)]
        store("gate", *pair, gates / verdict / "acceptance_gate.json", *asked, codes=(code,))
    again = ("--rule", "low(delta(accuracy)) >= 0.08 for each group.site")
    sliced = ("--run", "sliced-new", "--baseline", "sliced-base", "--output")
    store("gate", *sliced, gates / "slices" / "acceptance_gate.json", *again, codes=(0, 1, 6))
    store("runs", "pin", "triage-base", "--as", "release-1", "--reason", "what was shipped")
    store("runs", "pin", "numbers-base", "--as", "release-1")
    for run in ("numbers-base", "numbers-new"):
        store("runs", "promote", run, "--metric", "mae", "--profile", "nightly")
    scope = ("--domain", "planning", "--metric", "mae", "--profile", "nightly")
    store("runs", "rollback", *scope, "--reason", "a wrong table")
    store("runs", "promote", "retrieval-shifted", "--metric", "map@1")


# -- what was shown ----------------------------------------------------------------------------------------------------


def shown(store: Store) -> dict[str, Any]:
    """What the first edition said of its own store: lists, runs, estimates, pointers, calibrated confidences."""
    from steelyard.confidence.calibrators.wire import read_calibrator
    from steelyard.ground.json import plain
    from steelyard.records.readers import read
    from steelyard.runs.index import Index
    from steelyard.runs.saved import SavedRun

    listed = json.loads(store("runs", "list", "--format", "json"))
    assert not listed["problems"], listed["problems"]
    runs = {}
    with Index(store.root) as index:
        for run in sorted(index.runs(), key=lambda run: run.path):
            opened = SavedRun.at(run.folder)
            fields = ("metric", "slice", "value", "interval", "method", "n")
            runs[run.path] = {
                "show": json.loads(store("runs", "show", run.run_id, "--format", "json")),
                "estimates": [[e[name] for name in fields] for e in opened.evaluation["estimates"]],
            }
    few = read(DATA / "phq8-few.json", where={"strategy": "few_shot"})
    applied = {
        path.name: plain(read_calibrator(path).confidence(few))
        for path in sorted((store.root / "calibrators").glob("*.json"))
    }
    return {
        "edition": EDITION,
        "commit": COMMIT,
        "list": [{k: v for k, v in run.items() if k != "metrics"} for run in listed["runs"]],
        "runs": runs,
        "pointers": json.loads(store("runs", "active", "--all", "--format", "json"))["pointers"],
        "best_shift": json.loads(store("shift", "best", "--format", "json"))["best"]["training"],
        "calibrated": applied,
    }


def lean(root: Path) -> Iterator[Path]:
    """What is made again when it is missing, or read by no program."""
    yield from root.rglob(".index")
    yield from root.rglob(".lock")
    for suffix in ("png", "svg", "pdf"):
        yield from root.rglob(f"held-out-gain.{suffix}")


def main() -> None:
    if (HERE / "first_edition").exists():
        raise SystemExit("tests/golden/first_edition is there; it was written by the first edition and stays as it is")
    root = Path(sys.argv[1]).resolve()
    if root.exists():
        raise SystemExit(f"{root} is there already")
    sys.path.insert(0, "")
    root.mkdir(parents=True)
    tables()
    phq8()
    store = Store(root)
    runs_of_tables(store)
    runs_of_vectors(store)
    beside_the_store(store)
    decisions(store)
    runs_of_tenants(store)
    text = json.dumps(shown(store), ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    root.with_name(f"{root.name}.json").write_text(text.replace('},"', '},\n"') + "\n")
    for path in list(lean(root)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main()
