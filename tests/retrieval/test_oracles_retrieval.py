"""Numbers of independent implementations: ranks, per-query files, evaluators, segments, and learned shifts.

Where a case can be written to files (readers refuse zero vectors), the command line must give the same numbers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.records.table import Source
from steelyard.retrieval.diagnosis import Relevance, diagnose, evaluators
from steelyard.retrieval.per_query import PerQuery, PerQueryEval, ap1, ndcg3
from steelyard.retrieval.ranks import retrieve
from steelyard.retrieval.search import gold_ranks
from steelyard.retrieval.shifts.segments import compared
from steelyard.retrieval.shifts.segments_wire import Segments
from steelyard.retrieval.shifts.shift import Additive, NoShift, Shift, applied, mistakes, shift_of, train_shift
from steelyard.retrieval.shifts.training import Options, _in_sample, train
from steelyard.retrieval.wire import retrieval_document
from steelyard.study.evaluation import value
from tests.support.commands import command
from tests.support.oracles import oracle
from tests.support.retrieval import corpus_of

RETRIEVAL = oracle("retrieval")
SHIFT = oracle("shift")["cases"]
FIELDS = {
    "QueryId": "query_id",
    "RelevantDocId": "relevant_doc_id",
    "Rank": "rank",
    "Ap1": "ap1",
    "Ndcg3": "ndcg3",
    "TopDocId": "top_doc_id",
    "TopScore": "top_score",
    "Top2DocId": "top2_doc_id",
    "Top2Score": "top2_score",
    "Top3DocId": "top3_doc_id",
    "Top3Score": "top3_score",
}
near = {"abs": 1e-9, "rel": 1e-9}


def named(section: str) -> Any:
    cases = RETRIEVAL[section]
    return pytest.mark.parametrize("case", cases, ids=[case["id"] for case in cases])


shift_cases = pytest.mark.parametrize("case", SHIFT, ids=[case["id"] for case in SHIFT])


def test_no_case_was_lost() -> None:
    counts = {name: len(RETRIEVAL[name]) for name in ("rank_table", "retrieval_cases", "evaluator_cases")}
    assert counts == {"rank_table": 12, "retrieval_cases": 23, "evaluator_cases": 13}
    assert len(RETRIEVAL["segment_cases"]) == 3
    assert len(SHIFT) == 22
    assert sum(is_writable(case) for case in RETRIEVAL["retrieval_cases"]) == 21


# -- ranks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", RETRIEVAL["rank_table"], ids=lambda row: f"rank {row['rank']}")
def test_rank_table(row: dict[str, float]) -> None:
    rank = int(row["rank"])
    assert ap1(rank) == pytest.approx(row["ap@1(seed 'map@1')"], **near)
    assert ndcg3(rank) == pytest.approx(row["ndcg@3"], **near)
    wanted = {
        "mrr": row["mrr"],
        "ndcg@3": row["ndcg@3"],
        "ndcg@10": row["ndcg@10"],
        "map@1": row["true map@1 / hit@1"],  # outside retrieval runs, map@1 is trec_eval's
        "hit@1": row["true map@1 / hit@1"],
        "map": row["mrr"],
    }
    for metric, expected in wanted.items():
        assert value(metric, gold_rank=[rank]) == pytest.approx(expected, **near), metric


def is_writable(case: dict[str, Any]) -> bool:
    return all(any(entry["vector"]) for entry in (*case["docs"], *case["queries"]))


def in_memory(case: dict[str, Any]) -> Any:
    places = {doc["id"].casefold(): place for place, doc in enumerate(case["docs"])}
    return corpus_of(
        [doc["vector"] for doc in case["docs"]],
        [query["vector"] for query in case["queries"]],
        [places[query["relevantDocId"].casefold()] for query in case["queries"]],
        doc_ids=[doc["id"] for doc in case["docs"]],
        query_ids=[query["id"] for query in case["queries"]],
        gold_ids=[query["relevantDocId"] for query in case["queries"]],
    )


def same_entry(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for field in FIELDS:
        expected = wanted[field]
        place = field.removesuffix("Score")
        if field.endswith("Score") and wanted[f"{place}DocId"] is None:
            expected = None  # there is no such document: null, not 0
        if isinstance(expected, float):
            assert found[field] == pytest.approx(expected, **near), field
        else:
            assert found[field] == expected, field
        assert type(found[field]) is type(expected), field


@named("retrieval_cases")
def test_retrieval(case: dict[str, Any]) -> None:
    shift = None if case["shift"] is None else shift_of("additive", case["shift"], scale=case["scale"])
    corpus = in_memory(case)
    found = retrieve(corpus, shift, resamples=100)
    side = found.shifted or found.baseline
    wanted = case["expected"]
    assert len(corpus) == len(side.entries) == wanted["EffectiveQueryCount"]
    for entry, expected in zip(side.entries, wanted["PerQuery"], strict=True):
        same_entry({field: getattr(entry, name) for field, name in FIELDS.items()}, expected)
    estimates = {e.metric: e.value for e in side.evaluation}
    assert estimates["map@1"] == estimates["mrr"] == pytest.approx(wanted["map@1"], **near)
    assert estimates["ndcg@3"] == pytest.approx(wanted["ndcg@3"], **near)
    document = retrieval_document(found, corpus, None)
    assert document["posneg" if shift is not None else "baseline"]["map@1"] == pytest.approx(wanted["map@1"], **near)
    moved = corpus.queries if shift is None else applied(shift, corpus.queries)
    assert side.zero_queries == int((~moved.any(axis=1)).sum())


@named("retrieval_cases")
def test_ranking_metrics_of_retrieval(case: dict[str, Any]) -> None:
    shift = None if case["shift"] is None else shift_of("additive", case["shift"], scale=case["scale"])
    found = retrieve(in_memory(case), shift, resamples=100)
    entries = (found.shifted or found.baseline).entries
    names = {"recip_rank": "mrr", "map": "map", "map_cut_1": "map@1", "ndcg_cut_3": "ndcg@3", "ndcg_cut_10": "ndcg@10"}
    for entry, expected in zip(entries, case["expected"]["PerQuery"], strict=True):
        for trec, wanted in expected.get("trec", {}).items():
            assert value(names[trec], gold_rank=[entry.rank]) == pytest.approx(wanted, **near), trec


@pytest.mark.parametrize(
    "case", [case for case in RETRIEVAL["retrieval_cases"] if is_writable(case)], ids=lambda case: case["id"]
)
def test_retrieval_run(case: dict[str, Any], tmp_path: Path) -> None:
    docs, queries, out = tmp_path / "docs.json", tmp_path / "queries.jsonl", tmp_path / "out"
    docs.write_text(json.dumps(case["docs"]))
    queries.write_text("".join(json.dumps(query) + "\n" for query in case["queries"]))
    arguments: list[Any] = [docs, queries, "--no-save", "--out", out, "--resamples", 100]
    if case["shift"] is not None:
        shift = tmp_path / "shift.json"
        shift.write_text(json.dumps({"kind": "additive", "vector": case["shift"]}))
        arguments += ["--shift", shift, "--scale", case["scale"]]
    done = command("retrieval", "run", *arguments, "--format", "json", root=tmp_path / "root")
    assert done.code == 0, done.err
    wanted = case["expected"]
    name = "posneg" if case["shift"] is not None else "baseline"
    entries = json.loads((out / f"eval.perQuery.{name}.json").read_text())
    assert [list(entry) for entry in entries] == [list(FIELDS)] * len(entries)
    for entry, expected in zip(entries, wanted["PerQuery"], strict=True):
        same_entry(entry, expected)
    document = done.json
    assert document["effective_queries"] == wanted["EffectiveQueryCount"]
    for metric in ("map@1", "ndcg@3"):
        assert document[name][metric] == pytest.approx(wanted[metric], **near)
    if name == "posneg":
        assert json.loads((out / "metrics-posneg.json").read_text()) == document
    assert not (tmp_path / "root").exists()


# -- evaluators --------------------------------------------------------------------------------------------------------


def evaluator_shift(case: dict[str, Any]) -> dict[str, Any] | None:
    kind, vector = case["shift"]["kind"], case["shift"]["value"]
    if kind == "identity":
        return None
    return {
        "kind": "multiplicative" if kind == "zero" else kind,
        "vector": [0.0] * len(case["queries"][0]) if kind == "zero" else vector,
    }


@named("evaluator_cases")
def test_evaluators(case: dict[str, Any]) -> None:
    queries, refs = np.array(case["queries"], float), np.array(case["refs"], float)
    given = evaluator_shift(case)
    shift: Shift = NoShift() if given is None else shift_of(given["kind"], given["vector"])
    relevance = Relevance(tuple(case["relevant_indices"]), case["k"], case["mrr_relevant_index"])
    found = diagnose(queries, refs, shift, baseline=True, relevance=relevance, resamples=100)
    for key, wanted in case["expected"].items():
        assert found.metrics[key] == pytest.approx(wanted, **near), key
    moved = applied(shift, queries)
    for name, scores in case["per_query"].items():
        assert evaluators[name](moved, refs, relevance).tolist() == pytest.approx(scores, **near), name
    if case["mrr_relevant_index"] < len(refs):
        wanted_index = np.full(len(queries), case["mrr_relevant_index"])
        assert gold_ranks(moved, refs, wanted_index).tolist() == case["ranks_shift"]
        assert gold_ranks(queries, refs, wanted_index).tolist() == case["ranks_baseline"]
    alone = diagnose(queries, refs, shift, relevance=relevance, resamples=100)
    assert not [key for key in alone.metrics if key.endswith((".baseline", ".shift", ".delta"))]
    for name in evaluators:
        assert alone.metrics[name] == pytest.approx(case["expected"][name], **near)


@pytest.mark.parametrize(
    "case",
    [case for case in RETRIEVAL["evaluator_cases"] if all(map(any, (*case["queries"], *case["refs"])))],
    ids=lambda case: case["id"],
)
def test_retrieval_eval(case: dict[str, Any], tmp_path: Path) -> None:
    for name in ("queries", "refs"):
        np.savez(tmp_path / f"{name}.npz", vectors=np.array(case[name], float))
    arguments: list[Any] = [tmp_path / "refs.npz", tmp_path / "queries.npz", "--baseline"]
    arguments += ["--relevant", ",".join(map(str, case["relevant_indices"])), "--k", case["k"]]
    arguments += ["--mrr-index", case["mrr_relevant_index"], "--resamples", 100, "--format", "json"]
    given = evaluator_shift(case)
    if given is not None:
        (tmp_path / "shift.json").write_text(json.dumps(given))
        arguments += ["--shift", tmp_path / "shift.json"]
    done = command("retrieval", "eval", *arguments, root=tmp_path / "root")
    assert done.code == 0, done.err
    metrics = done.json["metrics"]
    for key, wanted in case["expected"].items():
        assert metrics[key] == pytest.approx(wanted, **near), key
    durations = {f"{name}.duration_ms" for name in evaluators} | {"evaluation.duration_ms"}
    assert set(metrics) == set(case["expected"]) | durations
    assert all(metrics[key] >= 0 for key in durations)


# -- segments ----------------------------------------------------------------------------------------------------------


def entries_of(entries: list[dict[str, Any]], name: str) -> PerQuery:
    found = PerQuery(PerQueryEval(**{FIELDS[key]: value for key, value in entry.items()}) for entry in entries)
    found.source = Source(name, "0" * 64, len(found))
    return found


def same_segmentation(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for count in ("used", "missing", "apply", "skip"):
        assert found[count] == wanted[count], count
    for side in ("baseline", "posneg", "segmented"):
        assert found[side] == pytest.approx(wanted[side], **near), side
    for side in ("posneg", "segmented"):
        deltas = {d["metric"]: d["delta"] for d in found["deltas"][f"{side} - baseline"]}
        assert deltas == pytest.approx(wanted[f"delta_{side}"], **near), side


@named("segment_cases")
def test_segments(case: dict[str, Any]) -> None:
    segments = Segments(metric=case["metric"], baseline_path="b", pos_neg_path="p", decisions=case["decisions"])
    baseline, shifted = entries_of(case["baseline"], "b"), entries_of(case["posneg"], "p")
    found = compared(segments, baseline, shifted, "s", resamples=100)
    deltas = {title: [{"metric": d.metric, "delta": d.delta} for d in each] for title, each in found.deltas.items()}
    counts = {"used": found.used, "missing": len(found.missing), "apply": found.apply, "skip": found.skip}
    same_segmentation({**counts, **found.values, "deltas": deltas}, case["expected"])


@named("segment_cases")
def test_segment_compare(case: dict[str, Any], tmp_path: Path) -> None:
    for name in ("baseline", "posneg"):
        (tmp_path / f"{name}.json").write_text(json.dumps(case[name]))
    document = {"Metric": case["metric"], "Eps": 0.0, "Decisions": case["decisions"]}
    paths = {"BaselinePath": "baseline.json", "PosNegPath": "posneg.json"}  # found beside the segments file
    (tmp_path / "segments.json").write_text(json.dumps(document | paths))
    arguments = ("segment", "compare", tmp_path / "segments.json", "--resamples", 100, "--format", "json")
    done = command(*arguments, root=tmp_path / "root")
    assert done.code == 0, done.err
    same_segmentation(done.json, case["expected"])


# -- learned shifts ----------------------------------------------------------------------------------------------------


def options_of(case: dict[str, Any]) -> dict[str, Any]:
    given = case["options"]
    return {
        "hard_negatives": given["HardNegTopK"],
        "max_norm": None if given["DisableNormClip"] else given["MaxL2Norm"],
        "epsilon": given["CancelOutEpsilon"],
    }


@shift_cases
def test_learned_shift(case: dict[str, Any]) -> None:
    corpus, wanted = in_memory(case), case["expected"]
    found = train_shift(corpus.queries, corpus.docs.matrix, corpus.gold, **options_of(case))
    assert found.delta.tolist() == pytest.approx(wanted["DeltaVector"], **near)
    assert found.norm == pytest.approx(wanted["DeltaNorm"], **near)
    assert found.cancelled is wanted["IsCancelled"]
    assert found.cancel_reason == wanted["CancelReason"]
    stats = wanted["Stats"]
    assert found.stats.pairs == stats["Cases"]
    assert found.stats.unique_pairs == stats["UniquePairs"]
    assert found.stats.zero_directions == stats["ZeroDirections"]
    assert found.stats.clipped is stats["NormClipApplied"]
    assert found.stats.cancel_out_suspected is stats["CancelOutSuspected"]
    assert found.stats.norm_before_clip == pytest.approx(stats["PreClipDeltaNorm"], **near)
    assert found.norm == pytest.approx(stats["PostClipDeltaNorm"], **near)
    assert found.stats.direction_norm_min == pytest.approx(stats["MinDirectionNorm"], **near)
    assert found.stats.direction_norm_mean == pytest.approx(stats["AvgDirectionNorm"], **near)
    assert found.stats.direction_norm_max == pytest.approx(stats["MaxDirectionNorm"], **near)


@shift_cases
def test_pairs_of_a_learned_shift(case: dict[str, Any]) -> None:
    corpus = in_memory(case)
    docs = corpus.docs.matrix
    pairs = mistakes(corpus.queries, docs, corpus.gold, case["options"]["HardNegTopK"])
    positive, negative, zero = pairs.positive, pairs.negative, pairs.zero
    assert int(zero.sum()) == case["expected"]["Stats"]["ZeroDirections"]
    ids = [doc["id"] for doc in case["docs"]]
    found = [(ids[p], ids[n]) for p, n in zip(positive[~zero], negative[~zero], strict=True)]
    assert found == [(pair["pos"], pair["neg"]) for pair in case["expected"]["Pairs"]]
    lengths = np.linalg.norm(docs[positive[~zero]] - docs[negative[~zero]], axis=1)
    assert lengths.tolist() == pytest.approx([pair["dir_norm"] for pair in case["expected"]["Pairs"]], **near)
    ranks = dict(zip(corpus.query_ids, gold_ranks(corpus.queries, docs, corpus.gold).tolist(), strict=True))
    for pair in case["expected"]["Pairs"]:
        assert ranks[pair["query"]] == pair["pos_rank"] > 1
        row = corpus.query_ids.index(pair["query"])
        place = gold_ranks(corpus.queries[row : row + 1], docs, [ids.index(pair["neg"])])
        assert place.tolist() == [pair["neg_rank"]]


@shift_cases
def test_selection_numbers_in_sample(case: dict[str, Any]) -> None:
    """The oracle applies the shift to its training queries even where it was cancelled; in these numbers, so do we."""
    corpus, wanted = in_memory(case), case["expected"]["Selection"]
    docs = corpus.docs.matrix
    learned = train_shift(corpus.queries, docs, corpus.gold, **options_of(case))
    before = gold_ranks(corpus.queries, docs, corpus.gold)
    after = gold_ranks(Additive(learned.delta).applied(corpus.queries), docs, corpus.gold)
    assert _in_sample(before, after) == pytest.approx(wanted, **near)
    if len(set(corpus.digests)) >= 2 and case["options"]["HardNegTopK"] >= 1:
        trained = train(corpus, Options(**options_of(case)), resamples=100)
        assert trained.in_sample == pytest.approx(wanted, **near)
        assert trained.training.delta.tolist() == pytest.approx(case["expected"]["DeltaVector"], **near)
