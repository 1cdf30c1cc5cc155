"""`make bench`: every speed goal as a ratio to a named peer, measured in this one process.

Times are CPU seconds of this process (the command-line row: of child processes). A job that repeats a peer's step
thousands of times measures a part of it and says so. Nothing here is a test: machines differ, ratios move.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench import asking, jsonl, loopback, memory, merging, peers
from steelyard.ground.json import dumps
from steelyard.records.readers.trec import read_rankings
from steelyard.records.table import Records
from steelyard.retrieval.search import search
from steelyard.runs.index import Index
from steelyard.runs.pointers import standing
from steelyard.runs.wire import listed_document
from steelyard.study.evaluation import evaluate, value, values


@dataclass(frozen=True)
class Row:
    """One goal: how many times faster than the peer (or, for `at_most`, how many times its cost)."""

    job: str
    peer: str
    ours: float
    theirs: float
    goal: float
    at_most: bool = False
    remark: str = ""

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs if self.at_most else self.theirs / self.ours

    @property
    def met(self) -> bool:
        return self.ratio <= self.goal if self.at_most else self.ratio >= self.goal


def cpu(work: Callable[[], Any], *, times: int = 3) -> float:
    """The least CPU seconds of a few runs."""
    found = []
    for _ in range(times):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)


def elapsed(work: Callable[[], Any], *, times: int = 5) -> float:
    """The least elapsed seconds of a few runs, for work on several cores."""
    found = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)


def selective_small() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    patients, items = 40, 8
    size = patients * items
    target = rng.integers(0, 4, size)
    prediction = [None if rng.random() < 0.2 else int(np.clip(t + rng.integers(-1, 2), 0, 3)) for t in target]
    confidence = rng.integers(0, 6, size) / 5
    records = Records.from_columns(
        {
            "item": list(range(size)),
            "cluster": [i // items for i in range(size)],
            "target": target.tolist(),
            "prediction": prediction,
            "confidence": confidence.tolist(),
        }
    )
    names = list(peers.SELECTIVE)
    ours = cpu(lambda: evaluate(records, names, method="percentile", resamples=10_000))
    by_patient = []
    for p in range(patients):
        rows = range(p * items, (p + 1) * items)
        answered = [
            (float(confidence[i]), float(abs(prediction[i] - target[i]))) for i in rows if prediction[i] is not None
        ]
        by_patient.append((answered, items))
    part = 100
    plain = cpu(lambda: [peers.resample_and_recompute(by_patient, name, part) for name in names], times=1)
    job = "14 selective metrics with intervals, 40 × 8 rows, 10,000 resamples"
    yield Row(
        job,
        "resample and recompute in plain Python",
        ours,
        plain * 10_000 / part,
        300,
        remark=f"peer: {part} of 10,000 resamples",
    )
    from scipy import stats

    groups = [np.array([(c, loss) for c, loss in answered]) for answered, _ in by_patient]

    def one_aurc(index: Any) -> float:
        chosen = np.concatenate([groups[int(i)] for i in index])
        order = np.argsort(-chosen[:, 0], kind="stable")
        c, loss = chosen[order, 0], chosen[order, 1]
        ends = np.flatnonzero(np.r_[c[1:] != c[:-1], True])
        k = ends + 1
        risk = np.cumsum(loss)[ends] / k
        return float(np.trapezoid(np.r_[risk[0], risk], np.r_[0, k / size]))

    boot = cpu(
        lambda: stats.bootstrap(
            (np.arange(patients),), one_aurc, vectorized=False, method="percentile", n_resamples=1000, rng=rng
        ),
        times=1,
    )
    alone = cpu(lambda: evaluate(records, ["aurc"], method="percentile", resamples=10_000))
    yield Row(
        "AURC with interval, same data", "scipy.stats.bootstrap", alone, boot * 10, 25, remark="peer: 1,000 of 10,000"
    )


def selective_large() -> Iterator[Row]:
    rng = np.random.default_rng(1)
    size, clusters, resamples = 100_000, 5_000, 10_000
    confidence = rng.random(size)
    wrong = (rng.random(size) > confidence).astype(float)
    cluster = rng.integers(0, clusters, size)
    records = Records(_judged(confidence, wrong, cluster))
    names = ["aurc(loss=zero_one)", "augrc(loss=zero_one)"]
    evaluate(records, names, method="percentile", resamples=2_000)
    ours = cpu(lambda: evaluate(records, names, method="percentile", resamples=resamples), times=2)
    groups = np.split(np.argsort(cluster, kind="stable"), np.cumsum(np.bincount(cluster, minlength=clusters))[:-1])
    part = 30

    def naive() -> None:
        for _ in range(part):
            rows = np.concatenate([groups[g] for g in rng.integers(0, clusters, clusters)])
            peers.numpy_areas(confidence[rows], wrong[rows])

    theirs = cpu(naive, times=1) * resamples / part
    yield Row(
        "AURC + AUGRC intervals, 100,000 rows, 10,000 resamples",
        "NumPy resample, sort, integrate",
        ours,
        theirs,
        20,
        remark=f"peer: {part} of 10,000",
    )


def one_curve() -> Iterator[Row]:
    rng = np.random.default_rng(2)
    confidence = rng.random(1_000_000)
    wrong = (rng.random(len(confidence)) > confidence).astype(float)

    columns = _judged(confidence, wrong)

    def areas() -> None:
        value("aurc(loss=zero_one)", Records(columns))

    areas()
    ours = cpu(areas)
    theirs = cpu(lambda: peers.loop_curve(confidence, wrong), times=1)
    yield Row("one AURC at 1e6 rows", "the published row-by-row loop (fd-shifts' algorithm)", ours, theirs, 30)
    confidence = rng.random(10_000_000)
    wrong = (rng.random(len(confidence)) > confidence).astype(float)
    columns = _judged(confidence, wrong)
    ours = cpu(areas, times=2)
    theirs = cpu(lambda: peers.numpy_areas(confidence, wrong), times=2)
    yield Row("one AURC at 1e7 rows", "NumPy argsort + cumsum", ours, theirs, 3)


def macro_f1() -> Iterator[Row]:
    from sklearn.metrics import f1_score

    rng = np.random.default_rng(3)
    size = 10_000_000
    target = rng.integers(0, 5, size)
    guess = np.where(rng.random(size) < 0.7, target, rng.integers(0, 5, size))
    items = pa.array(np.arange(size))

    def whole() -> None:
        value("f1_macro", Records({"item": items, "target": pa.array(target), "prediction": pa.array(guess)}))

    whole()
    ours = cpu(whole)
    theirs = cpu(lambda: f1_score(target, guess, average="macro"), times=1)
    yield Row("macro F1 at 1e7 whole-number labels", "scikit-learn", ours, theirs, 30)
    names = np.array(["low", "mild", "medium", "high", "severe"], dtype=object)
    texts = [
        pa.DictionaryArray.from_arrays(pa.array(x.astype(np.int32)), pa.array(names)).dictionary_decode()
        for x in (target, guess)
    ]
    ours = cpu(lambda: value("f1_macro", Records({"item": items, "target": texts[0], "prediction": texts[1]})))
    part = size // 10
    theirs = cpu(lambda: f1_score(names[target[:part]], names[guess[:part]], average="macro"), times=1) * 10
    yield Row(
        "macro F1 at 1e7 text labels", "scikit-learn on object arrays", ours, theirs, 30, remark="peer: 1e6 rows × 10"
    )


def calibration() -> Iterator[Row]:
    rng = np.random.default_rng(4)
    size = 10_000_000
    confidence = rng.random(size)
    wrong = (rng.random(size) > confidence).astype(float)

    columns = _judged(confidence, wrong)

    def three() -> None:
        records = Records(columns)
        values(("ece(bins=15)", "mce(bins=15)", "brier"), records)

    three()
    ours = cpu(three)
    right = wrong == 0
    if find_spec("torchmetrics") is not None:
        import torch
        from torchmetrics.functional.classification import binary_calibration_error

        p, y = torch.from_numpy(confidence), torch.from_numpy(right.astype(np.int64))

        def theirs() -> None:
            binary_calibration_error(p, y, n_bins=15, norm="l1")
            binary_calibration_error(p, y, n_bins=15, norm="max")
            ((p - y) ** 2).mean()

        peer = "torchmetrics"
    else:
        from sklearn.calibration import calibration_curve
        from sklearn.metrics import brier_score_loss

        def theirs() -> None:
            for _ in range(2):
                calibration_curve(right, confidence, n_bins=15)
            brier_score_loss(right, confidence)

        peer = "scikit-learn's calibration_curve (torchmetrics and netcal are not installed: they bring CUDA builds)"
    yield Row("ECE + MCE + Brier at 1e7 rows", peer, ours, cpu(theirs, times=1), 30)


def command_line() -> Iterator[Row]:
    def child(*command: str) -> float:
        found = []
        for _ in range(7):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(found)

    script = os.path.join(os.path.dirname(sys.executable), "steelyard")
    ours = child(script, "--help")
    theirs = child(sys.executable, "-c", "import numpy")
    yield Row("steelyard --help", 'python -c "import numpy"', ours, theirs, 1.3, at_most=True)


def reading() -> Iterator[Row]:
    for job, ratio, peer, goal in jsonl.rows():
        yield Row(job, peer, ratio, 1.0, goal or 1.1, at_most=True)


def reading_memory() -> Iterator[Row]:
    for job, ours, alone in memory.measured():
        peer = "the same rows with the read columns alone"
        yield Row(job, peer, ours, alone, memory.GOAL, at_most=True, remark="megabytes at most, not seconds")


def ranking() -> Iterator[Row]:
    """10,000 queries × 1,000 documents. The peer takes them in slices: as one run, its dicts would fill the memory."""
    import pytrec_eval

    rng = np.random.default_rng(7)
    queries, part = 10_000, 500
    names = {"ndcg@10": "ndcg_cut_10", "mrr": "recip_rank", "map": "map"}
    spent, totals = np.zeros(3), dict.fromkeys(names, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        whole, slices = ([Path(folder) / f"{name}.{size}" for name in ("qrels", "run")] for size in ("all", "part"))
        for start in range(0, queries, part):
            for text, path, of_all in zip(_ranked_lines(rng, start, part), slices, whole, strict=True):
                path.write_text(text)
                with of_all.open("a") as file:
                    file.write(text)
            times = [time.process_time()]
            with slices[0].open() as judgements, slices[1].open() as answers:
                judged, ranked = pytrec_eval.parse_qrel(judgements), pytrec_eval.parse_run(answers)
            times.append(time.process_time())
            evaluator = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10", "recip_rank", "map"})
            times.append(time.process_time())
            told = evaluator.evaluate(ranked)
            times.append(time.process_time())
            spent += np.diff(times)
            totals = {name: totals[name] + sum(of[key] for of in told.values()) for name, key in names.items()}
        found: dict[str, Any] = {}

        def read_and_value() -> None:
            (found["records"],) = read_rankings(whole[0], [whole[1]])
            found["values"] = values(tuple(names), found["records"])

        from_files = cpu(read_and_value, times=2)
    for name, total in totals.items():
        assert abs(found["values"][name] - total / queries) < 1e-9, f"{name} is not what the peer says"
    columns = {name: found["records"].column(name) for name in ("item", "gains", "judged")}
    from_columns = cpu(lambda: values(tuple(names), Records(columns)))
    job, remark = "nDCG@10, MRR, MAP on 10,000 × 1,000", f"peer: slices of {part} queries"
    yield Row(f"{job} from columns", "pytrec_eval from dicts", from_columns, float(spent[2]), 5, remark=remark)
    yield Row(f"{job} from text files", "pytrec_eval and its parsers", from_files, float(spent.sum()), 1, remark=remark)


def _ranked_lines(rng: np.random.Generator, start: int, queries: int) -> tuple[str, str]:
    """Judgements and a run as TREC lines: 1,000 of 20,000 documents a query, about 50 of them judged."""
    depth, every = 1_000, 40
    judged, ranked = [], []
    for query in range(start, start + queries):
        found = rng.choice(20 * depth, depth, replace=False).tolist()
        scores = np.sort(rng.random(depth))[::-1].round(6).tolist()
        known = dict.fromkeys([*found[::every], *rng.integers(0, 20 * depth, depth // every).tolist()])
        judged += [f"q{query} 0 doc{d} {g}\n" for d, g in zip(known, rng.integers(0, 3, len(known)), strict=True)]
        ranked += [f"q{query} Q0 doc{d} {i} {scores[i]} tag\n" for i, d in enumerate(found)]
    return "".join(judged), "".join(ranked)


def gold_rank() -> Iterator[Row]:
    """1,000 queries × 100,000 documents of 384 dimensions. Elapsed time: the product runs on every core."""
    rng = np.random.default_rng(0)
    queries, docs = (rng.normal(size=(n, 384)).astype(np.float32) for n in (1_000, 100_000))
    docs /= np.linalg.norm(docs, axis=1, keepdims=True)
    gold = rng.integers(0, len(docs), len(queries))
    product = elapsed(lambda: queries @ docs.T)
    ranks = elapsed(lambda: search(queries, docs, gold))
    first = elapsed(lambda: search(queries, docs, gold, k=3))
    job, peer = "rank of the gold document, d = 384", "NumPy @ alone"
    yield Row(job, peer, ranks, product, 1.15, at_most=True, remark="elapsed")
    yield Row(f"{job}, and the first 3", peer, first, product, 1.15, at_most=True, remark="elapsed")


def run_store() -> Iterator[Row]:
    """Ten thousand runs of fifty metrics, listed and pivoted once they are indexed."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for i in range(10_000):
            run = root / "results" / "bench" / "runs" / f"w{i % 20}" / f"r{i}"
            run.mkdir(parents=True)
            metrics = {f"m{k}": k / (i + 1) for k in range(50)}
            times = {"StartedAtUtc": "2026-01-01T00:00:00Z", "CompletedAtUtc": "2026-01-01T00:00:01Z"}
            document = {"RunId": run.name, "Workflow": run.parent.name, **times, "Labels": {}, "Metrics": metrics}
            (run / "run.json").write_text(json.dumps(document))
        started = time.process_time()
        Index(root).__exit__()
        remark = f"indexing took {time.process_time() - started:.1f} s, once"

        def listed() -> None:
            with Index(root) as index:
                runs = index.runs()
                dumps(listed_document(runs, index.problems(), standing(runs)[0]))

        def pivoted() -> None:
            with Index(root) as index:
                index.cells()

        for job, work in (("list", listed), ("pivot", pivoted)):
            yield Row(f"{job} 10,000 runs × 50 metrics", "one second", cpu(work), 1.0, 1.0, at_most=True, remark=remark)


def requests() -> Iterator[Row]:
    """A chat server on this machine that answers at once. Elapsed time: it runs on the other core."""
    for job, ours, bare in loopback.rows():
        yield Row(job, "a bare httpx loop, 8 clients × 8", ours, bare, 0.7, remark="elapsed")
    few, many = asking.peaks()
    job = f"peak memory of a run of {asking.MANY:,} requests"
    yield Row(job, f"of {asking.FEW:,} requests", many, few, 1.2, at_most=True, remark="bytes")


def merging_halves() -> Iterator[Row]:
    """The evidence of two halves of a table with very many clusters, put together."""
    for what, merged, collected in merging.measured():
        job = f"merge two halves of {merging.CLUSTERS:,} clusters: {what}"
        yield Row(job, "collecting it from both", merged, collected, 2.0, at_most=True)


def texts() -> Iterator[Row]:
    """The entities of 2,000 different notes of 200 words each, with their contexts."""
    from steelyard.texts.entities import extractor
    from steelyard.texts.lexicon import lexicon

    rng = np.random.default_rng(3)
    names = [phrase for entry in lexicon().entries for phrase in entry.phrases]
    glue = [
        "the patient was seen today and reports",
        "he denies",
        "no evidence of",
        "history of",
        "treated with",
        "for two days,",
    ]
    notes = [_note(rng, names, glue) for _ in range(2_000)]
    found = extractor()
    found.findings(notes[0])
    work = cpu(lambda: [found.findings(note) for note in notes], times=2)
    job = "entities of 2,000 notes of 200 words"
    yield Row(job, "one second", work, 1.0, 1.0, at_most=True, remark=f"{2_000 / work:,.0f} notes a second")


def _note(rng: np.random.Generator, names: list[str], glue: list[str]) -> str:
    """200 words: a name of the lexicon after every few words of prose, a full stop now and then."""
    words: list[str] = []
    while len(words) < 200:
        end = "." if rng.random() < 0.4 else ","
        words += f"{glue[rng.integers(len(glue))]} {names[rng.integers(len(names))]}{end}".split()
    return " ".join(words[:200])


def _judged(confidence: Any, wrong: Any, cluster: Any = None) -> dict[str, Any]:
    """The columns of a table of answers that are right or wrong."""
    size = len(confidence)
    columns = {
        "item": pa.array(np.arange(size)),
        "target": pa.array(np.ones(size, np.int64)),
        "prediction": pa.array(1 - wrong.astype(np.int64)),
        "confidence": pa.array(confidence),
    }
    if cluster is not None:
        columns["cluster"] = pa.array(cluster)
    return columns


JOBS = (
    selective_small,
    selective_large,
    one_curve,
    macro_f1,
    calibration,
    reading,
    reading_memory,
    ranking,
    gold_rank,
    run_store,
    requests,
    merging_halves,
    texts,
    command_line,
)
LATER = ("a curve over 1e8 Parquet rows",)


def main() -> None:
    parser = argparse.ArgumentParser(description="Ratios against named peers, measured in one process.")
    parser.add_argument("--only", choices=[job.__name__ for job in JOBS], action="append")
    chosen = parser.parse_args().only
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}\n")
    print("| job | peer in the same run | ours (CPU s) | peer (CPU s) | ratio | goal | met |")
    print("|---|---|---:|---:|---:|---:|---|")
    for job in JOBS:
        if chosen and job.__name__ not in chosen:
            continue
        for row in job():
            goal = f"≤ {row.goal:g}" if row.at_most else f"≥ {row.goal:g}"
            peer = row.peer + (f" ({row.remark})" if row.remark else "")
            figures = f"{row.ours:.3f} | {row.theirs:.3f} | {row.ratio:.2f} | {goal}"
            print(f"| {row.job} | {peer} | {figures} | {'yes' if row.met else 'NO'} |", flush=True)
    print("\nNot there yet: " + "; ".join(LATER) + ".")


if __name__ == "__main__":
    main()
