"""Several relevant documents a query: judgements from a file, and rankings that can be written as a TREC run."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError
from steelyard.records.readers.trec import read_rankings
from steelyard.retrieval.corpus import load
from steelyard.retrieval.judgements import judged, read_judgements
from steelyard.retrieval.ranks import retrieve
from steelyard.retrieval.shifts.shift import shift_of
from steelyard.retrieval.trec import check_ids, trec_run
from steelyard.study.ranked_lists import STACK, rank

QRELS = "q0 0 d1 2\nq0 0 d2 1\nq0 0 gone 1\nq1 0 d0 0\nq1 0 d3 1\nnobody 0 d1 1\n"


def files(folder: Path, docs: Any, queries: Any, qrels: str = QRELS) -> dict[str, Path]:
    np.savez(folder / "docs.npz", emb=np.asarray(docs, float), names=[f"d{i}" for i in range(len(docs))])
    np.savez(folder / "queries.npz", emb=np.asarray(queries, float), names=[f"q{i}" for i in range(len(queries))])
    (folder / "qrels.txt").write_text(qrels)
    return {name: folder / f"{name}.{end}" for name, end in (("docs", "npz"), ("queries", "npz"), ("qrels", "txt"))}


def test_judgements_by_query_and_document(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text(QRELS)
    wanted = {"q0": {"d1": 2, "d2": 1, "gone": 1}, "q1": {"d0": 0, "d3": 1}, "nobody": {"d1": 1}}
    assert read_judgements(tmp_path / "qrels.txt").grades == wanted
    (tmp_path / "qrels.json").write_text(json.dumps({"q0": ["d1", "d2"]}))
    assert read_judgements(tmp_path / "qrels.json").grades == {"q0": {"d1": 1, "d2": 1}}
    found = judged(read_judgements(tmp_path / "qrels.txt"), ["q1", "q0"], ["d3", "d1"])
    assert found.query.tolist() == [0, 0, 1, 1, 1]
    assert found.document.tolist() == [-1, 0, 1, -1, -1]
    assert found.grade.tolist() == [0, 1, 2, 1, 1]
    (tmp_path / "qrels.json").write_text(json.dumps({"q0": {"d1": 0.5}}))
    with pytest.raises(InputError, match="whole number"):
        read_judgements(tmp_path / "qrels.json")


def test_what_corpus_and_judgements_do_not_share_is_said(tmp_path: Path) -> None:
    corpus = load(**files(tmp_path, np.eye(4) + 0.1, np.eye(4)[:3] + 0.2))
    assert corpus.query_ids == ("q0", "q1")
    assert corpus.reasons == {"not judged": 1}
    assert corpus.notes == (
        "1 judged topics are not among the queries",
        "1 judged documents are not among the documents: they count as not retrieved",
    )
    assert [source.name for source in corpus.sources][-1] == str(tmp_path / "qrels.txt")
    (tmp_path / "qrels.txt").write_text("q9 0 d1 1\n")
    with pytest.raises(InputError, match="do queries and judgements use the same ids"):
        load(tmp_path / "docs.npz", tmp_path / "queries.npz", qrels=tmp_path / "qrels.txt")
    (tmp_path / "qrels.txt").write_text("q1 0 D1 1\n")
    with pytest.raises(InputError, match="no judged document of these queries is among the documents"):
        load(tmp_path / "docs.npz", tmp_path / "queries.npz", qrels=tmp_path / "qrels.txt")


def test_judgements_say_more_than_queries(tmp_path: Path) -> None:
    rows = [{"id": f"q{i}", "vector": [1.0, float(i)], "relevantDocId": "d0"} for i in range(2)]
    given = files(tmp_path, np.eye(2), np.eye(2))
    given["queries"] = tmp_path / "queries.json"
    given["queries"].write_text(json.dumps(rows))
    corpus = load(**given)
    assert corpus.gold.tolist() == [-1, -1]
    assert any("that the queries name are not used" in note for note in corpus.notes)


@given(st.integers(0, 10_000), st.integers(1, 12), st.booleans())
def test_the_written_run_gives_the_same_numbers(tmp_path_factory: Any, seed: int, depth: int, tied: bool) -> None:
    """What is computed here is what `rank` says of the TREC run, ties included."""
    folder, rng = tmp_path_factory.mktemp("trec"), np.random.default_rng(seed)
    docs = rng.integers(0, 2, (9, 3)) + 0.1 if tied else rng.normal(size=(9, 3))
    pairs = {(int(q), int(d)) for q, d in rng.integers(0, 9, (20, 2))}
    lines = "".join(f"q{q} 0 d{d} {(q + d) % 4 - 1}\n" for q, d in sorted(pairs))
    given_files = files(folder, docs, rng.normal(size=(9, 3)) if not tied else docs, lines)
    corpus = load(**given_files)
    found = retrieve(corpus, shift_of("additive", [0.5, -0.5, 0.0]), depth=depth, resamples=100)
    for side in (found.baseline, found.shifted):
        assert side is not None
        (folder / "run.txt").write_text(trec_run(corpus, side.hits, depth=depth, tag="run"))
        (table,) = read_rankings(given_files["qrels"], [folder / "run.txt"])
        wanted = {e.metric: e.value for e in rank([table], STACK, resamples=100).evaluation}
        assert {e.metric: e.value for e in side.evaluation} == pytest.approx(wanted, abs=1e-12)
        assert side.entries == ()


def test_equal_scores_keep_their_order_in_a_run(tmp_path: Path) -> None:
    corpus = load(**files(tmp_path, [[1.0, 0.0]] * 4 + [[0.0, 1.0]], [[1.0, 1e-9], [0.0, 1.0]]))
    lines = [line.split() for line in trec_run(corpus, retrieve(corpus).baseline.hits, depth=9, tag="t").splitlines()]
    assert [line[2] for line in lines[:5]] == ["d0", "d1", "d2", "d3", "d4"]
    scores = [np.float32(line[4]) for line in lines[:5]]
    assert all(one > two for one, two in pairwise(scores))
    assert scores[0] == np.float32(1.0)
    assert abs(scores[3] - 1.0) < 1e-6
    assert {(line[1], line[5]) for line in lines} == {("Q0", "t")}


@pytest.mark.parametrize("id", ["two words", " x", "a\tb", "#x", ""])
def test_ids_that_lines_of_words_cannot_hold(id: str) -> None:
    check_ids(["a"], ["b#"])
    with pytest.raises(InputError, match="cannot be named in a TREC run"):
        check_ids([id], ["q"])
    with pytest.raises(InputError, match="query 1 cannot"):
        check_ids(["d"], [id])
