"""Per-query files and segments files: what is written is read again, and what is wrong is refused with its place."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from steelyard.errors import InputError
from steelyard.retrieval.per_query import PerQueryEval, ap1, ndcg3, per_query_text, read_per_query, records_of
from steelyard.retrieval.shifts.segments_wire import Segments, read_segments, segments_document, sibling

ONE: dict[str, Any] = {"QueryId": "q1", "RelevantDocId": "d1", "Rank": 2, "Ap1": 0.5, "Ndcg3": 0.6309297535714575}


def written(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "eval.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.mark.parametrize("rank", range(12))
def test_scores_of_a_rank(rank: int) -> None:
    assert ap1(rank) == (1 / rank if rank else 0.0)
    assert ndcg3(rank) == (1 / math.log2(rank + 1) if rank in (1, 2, 3) else 0.0)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    entries = [
        PerQueryEval(
            query_id=f"Frage {i} – ü",
            relevant_doc_id="d",
            rank=i,
            ap1=ap1(i),
            ndcg3=ndcg3(i),
            top_doc_id="t",
            top_score=1 / 3,
            cluster=cluster,
        )
        for i, cluster in ((1, None), (0, None), (7, None))
    ]
    text = per_query_text(entries)
    found = read_per_query(written(tmp_path, text))
    assert list(found) == entries
    assert len(found.source.sha256) == 64
    assert found.source.rows == 3
    assert "Cluster" not in text
    assert '"Top2Score": null' in text
    with_clusters = [PerQueryEval(query_id="a", relevant_doc_id="d", rank=1, ap1=1.0, ndcg3=1.0, cluster="p")]
    assert '"Cluster": "p"' in per_query_text(with_clusters)
    assert list(read_per_query(written(tmp_path, per_query_text(with_clusters)))) == with_clusters


def test_keys_in_any_case_and_unknown_keys(tmp_path: Path) -> None:
    for change in (str.lower, str.upper, lambda key: key[0].lower() + key[1:]):
        document = [{**{change(key): value for key, value in ONE.items()}, "Extra": [1, {}]}]
        (found,) = read_per_query(written(tmp_path, document))
        assert (found.query_id, found.rank, found.top_score) == ("q1", 2, None)
    raw = tmp_path / "bom.json"
    raw.write_bytes(b"\xef\xbb\xbf" + json.dumps([ONE]).encode())
    assert len(read_per_query(raw)) == 1


def test_scores_of_single_precision_are_taken(tmp_path: Path) -> None:
    document = [{**ONE, "Rank": 3, "Ap1": 0.33333334, "Ndcg3": 0.5}]
    assert read_per_query(written(tmp_path, document))[0].rank == 3


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("", ""),
        ("{", ""),
        ("[]", "a list of queries"),
        ("{}", "a list of queries"),
        ("[1]", "entry 1"),
        ([ONE, {**ONE, "QueryId": "q2", "Rank": None}], "entry 2"),
        ([{key: value for key, value in ONE.items() if key != "Rank"}], "entry 1"),
        ([{key: value for key, value in ONE.items() if key != "QueryId"}], "entry 1"),
        ([{**ONE, "QueryId": ""}], "QueryId"),
        ([{**ONE, "QueryId": 7}], "QueryId"),
        ([{**ONE, "Rank": -1}], "Rank"),
        ([{**ONE, "Rank": 1.5}], "Rank"),
        ([{**ONE, "Rank": True}], "Rank"),
        ([{**ONE, "Rank": "2"}], "Rank"),
        ([{**ONE, "Ap1": 0.6}], "Ap1"),
        ([{**ONE, "Ndcg3": 0.5}], "Ndcg3"),
        ([{**ONE, "Rank": 0}], "Ap1"),
        (json.dumps([ONE]).replace("0.5", "NaN"), "Ap1"),
        (json.dumps([ONE]).replace("0.5", "1e999"), "Ap1"),
        ([ONE, {**ONE, "QueryId": "Q1"}], "twice"),
        ([{**ONE, "rank": 2}], "twice"),
        ('[{"QueryId": "q", "QueryId": "r"}]', ""),
        ([{**ONE, "Cluster": "a"}, {**ONE, "QueryId": "q2"}], "Cluster"),
        ([{**ONE, "TopScore": "high"}], "TopScore"),
    ],
)
def test_what_is_refused(document: Any, place: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        read_per_query(written(tmp_path, document))
    assert place in str(refused.value)
    assert "eval.json" in str(refused.value)


def test_messages_do_not_show_values(tmp_path: Path) -> None:
    document = [{**ONE, "RelevantDocId": ["Mrs Smith, HIV"], "Rank": "Mrs Smith"}]
    with pytest.raises(InputError) as refused:
        read_per_query(written(tmp_path, document))
    assert "Smith" not in str(refused.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_per_query(tmp_path / "nothing.json")
    with pytest.raises(InputError):
        read_per_query(tmp_path)


def test_rows_of_a_table() -> None:
    entries = [
        PerQueryEval(query_id=f"q{i}", relevant_doc_id="d", rank=i, ap1=ap1(i), ndcg3=ndcg3(i)) for i in range(3)
    ]
    records = records_of(entries)
    assert records.column("item").to_pylist() == ["q0", "q1", "q2"]
    assert records.column("gold_rank").to_pylist() == [0, 1, 2]
    with pytest.raises(InputError):
        records_of([])


# -- segments ----------------------------------------------------------------------------------------------------------

DECIDED = {"Metric": "ndcg@3", "BaselinePath": "b.json", "PosNegPath": "p.json", "Decisions": {"q1": "ApplyShift"}}


def test_segments_are_read_again(tmp_path: Path) -> None:
    plain = Segments(metric="map@1", baseline_path="b", pos_neg_path="p", decisions={"q": "SkipShift"})
    document = segments_document(plain)
    assert document == {
        "Metric": "map@1",
        "Eps": 0.0,
        "BaselinePath": "b",
        "PosNegPath": "p",
        "Decisions": {"q": "SkipShift"},
    }
    assert read_segments(written(tmp_path, document)) == plain
    full = Segments(
        metric="map@1",
        eps=0.1,
        baseline_path="b",
        pos_neg_path="p",
        decisions={},
        rule="learned",
        tau=0.5,
        folds=5,
        seed=42,
        note="n",
        baseline_sha256="0" * 64,
        pos_neg_sha256="1" * 64,
    )
    assert read_segments(written(tmp_path, segments_document(full))) == full
    lower = {key.lower(): value for key, value in segments_document(full).items()}
    assert read_segments(written(tmp_path, lower)) == full


@pytest.mark.parametrize(
    "change",
    [
        {"Decisions": {"q1": "Apply"}},
        {"Decisions": {"q1": "ApplyShift", "Q1": "SkipShift"}},
        {"Decisions": ["q1"]},
        {"Decisions": None},
        {"Metric": None},
        {"Eps": "0"},
        {"decisions": {}},
    ],
)
def test_segments_that_are_refused(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_segments(written(tmp_path, {**DECIDED, **change}))


def test_files_are_found_here_or_beside_the_segments_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "there" / "b.json").write_text("")
    assert sibling(tmp_path / "there" / "s.json", "b.json") == tmp_path / "there" / "b.json"
    (tmp_path / "here" / "b.json").write_text("")
    assert sibling(tmp_path / "there" / "s.json", "b.json") == Path("b.json")
    assert sibling(tmp_path / "there" / "s.json", "/no/such.json") == Path("/no/such.json")
    assert sibling(tmp_path / "there" / "s.json", "none.json") == Path("none.json")
