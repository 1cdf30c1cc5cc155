"""TREC files against trec_eval itself (through pytrec_eval), and everything that is refused, with its place."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InputError, SteelyardError, UsageError
from steelyard.records.readers.trec import read_rankings
from steelyard.records.table import Records
from steelyard.study.evaluation import values
from steelyard.study.ranked_lists import by_query
from tests.support.places import SHARED
from tests.support.trec_eval import trec_eval

Judgement = Mapping[str, Mapping[str, int]]
Run = Mapping[str, Mapping[str, float]]

MEASURES = {
    "ndcg": "ndcg",
    "mrr": "recip_rank",
    "map": "map",
    "rprec": "Rprec",
    "bpref": "bpref",
    **{f"ndcg@{k}": f"ndcg_cut_{k}" for k in (1, 5, 10, 100)},
    **{f"map@{k}": f"map_cut_{k}" for k in (1, 5, 10, 100)},
    **{f"precision@{k}": f"P_{k}" for k in (1, 5, 10, 100)},
    **{f"recall@{k}": f"recall_{k}" for k in (1, 5, 10, 100)},
    **{f"hit@{k}": f"success_{k}" for k in (1, 5, 10)},
}
_CUTS = ("ndcg_cut", "map_cut", "P", "recall")
ASKED = {"ndcg", "recip_rank", "map", "Rprec", "bpref", "success.1,5,10", *(f"{name}.1,5,10,100" for name in _CUTS)}


# -- files ---------------------------------------------------------------------------------------------------------


def qrels_text(judged: Judgement) -> str:
    return "".join(f"{q} 0 {d} {g}\n" for q, grades in judged.items() for d, g in grades.items())


def run_text(run: Run, tag: str = "tag") -> str:
    return "".join(
        f"{q} Q0 {d} {9 - i} {s!r} {tag}\n" for q, found in run.items() for i, (d, s) in enumerate(found.items())
    )


def read(folder: Path, qrels: str | bytes, run: str | bytes, **how: Any) -> Records:
    for name, content in (("qrels", qrels), ("run", run)):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (records,) = read_rankings(folder / "qrels", [folder / "run"], **how)
    return records


def columns(records: Records) -> dict[str, tuple[Any, Any]]:
    """Gains and judged grades, by topic."""
    lists = (records.column(name).to_pylist() for name in ("gains", "judged"))
    return dict(zip(records.column("item").to_pylist(), zip(*lists, strict=True), strict=True))


def check(records: Records, judged: Judgement, run: Run, *, level: int = 1) -> None:
    """Every metric, query by query and on average, is what trec_eval says, to nine digits."""
    wanted = trec_eval(judged, run, ASKED, level)
    found = {row.pop("item"): row for row in by_query(records, list(MEASURES), relevance_level=level)}
    assert set(found) == set(wanted)
    names = {name: f"{name}(level={level})" if level > 1 and "ndcg" not in name else name for name in MEASURES}
    for topic, of_topic in wanted.items():
        for name, measure in MEASURES.items():
            assert found[topic][names[name]] == pytest.approx(of_topic[measure], abs=1e-9), (topic, name)
    whole = values(tuple(names.values()), records)
    for name, measure in MEASURES.items():
        average = sum(of_topic[measure] for of_topic in wanted.values()) / len(wanted)
        assert whole[names[name]] == pytest.approx(average, abs=1e-9), name


# -- against trec_eval -----------------------------------------------------------------------------------------------

NEAR = [1.0, 1.0 + 1e-9, 1.0 - 1e-9, 1.0 + 1e-7, 0.0, -0.0, 1e-46, -1e-46, 16777216.0, 16777217.0, -3.5, 1e30, 1e39]
DOCUMENTS = [
    "d",
    "d1",
    "d10",
    "d2",
    "D1",
    "d1é",
    "d1z",
    "é",
    "z",
    "ü",
    "日本",
    "𝒳",
    "a-b",
    "a_b",
    "1",
    "10",
    "9",
    "\uffff",
]
TOPICS = ["1", "2", "10", "q", "qé", "Q"]


@st.composite
def both(draw: Any) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Judgements and a run that share a topic at least; others stand on one side only."""
    documents = st.lists(st.sampled_from(DOCUMENTS), unique=True, min_size=1)
    score = st.one_of(st.sampled_from(NEAR), st.sampled_from([0.5, 0.25]), st.floats(-1e6, 1e6))
    grade = draw(st.sampled_from([st.integers(0, 1), st.integers(-2, 4), st.just(0), st.sampled_from([-1, 0])]))
    sides = []
    for number in (grade, score):
        topics = ["shared", *draw(st.lists(st.sampled_from(TOPICS), unique=True))]
        sides.append({topic: {d: draw(number) for d in draw(documents)} for topic in topics})
    return sides[0], sides[1]


@given(both(), st.sampled_from([1, 2, 3]))
def test_random_files(
    tmp_path_factory: pytest.TempPathFactory, files: tuple[dict[str, dict[str, int]], Run], level: int
) -> None:
    judged, run = files
    records = read(tmp_path_factory.mktemp("trec"), qrels_text(judged), run_text(run))
    check(records, judged, run, level=level)


@pytest.mark.parametrize("level", [1, 2])
def test_many_topics(tmp_path: Path, level: int) -> None:
    """A hundred topics, scores of two digits (ties everywhere), lines in any order, ranks that mean nothing."""
    rng = random.Random(level)
    judged = {
        f"t{q}": {f"doc{rng.randrange(400)}": rng.choice([-1, 0, 0, 1, 1, 2, 3]) for _ in range(rng.randrange(1, 60))}
        for q in range(100)
    }
    run = {
        f"t{q}": {f"doc{rng.randrange(400)}": round(rng.gauss(0, 1), rng.choice([1, 2])) for _ in range(300)}
        for q in range(20, 120)
    }
    lines = [run_text(run).splitlines(keepends=True), qrels_text(judged).splitlines(keepends=True)]
    for some in lines:
        rng.shuffle(some)
    check(read(tmp_path, "".join(lines[1]), "".join(lines[0])), judged, run, level=level)


def test_the_published_files() -> None:
    """Numbers that trec_eval's own documentation gives for its test files."""
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="pytrec_eval is trec_eval itself; it is not installed")
    shared = SHARED / "trec"
    if not shared.is_dir():
        pytest.skip("needs ../shared/data")
    (records,) = read_rankings(shared / "qrels.test", [shared / "results.test"])
    found = values(("map", "mrr", "precision@5"), records)
    assert [round(found[name], 4) for name in ("map", "mrr", "precision@5")] == [0.1785, 0.4064, 0.2667]
    with open(shared / "qrels.test") as judgements, open(shared / "results.test") as answers:
        judged, run = pytrec_eval.parse_qrel(judgements), pytrec_eval.parse_run(answers)
    for level in (1, 2):
        check(records, judged, run, level=level)


def gains(records: Records, topic: str = "q") -> Any:
    return columns(records)[topic][0]


def test_scores_are_compared_as_32_bit_floats(tmp_path: Path) -> None:
    """1 and 1 + 1e-9 differ as doubles alone: the document id decides, downwards."""
    assert gains(read(tmp_path, "q 0 a 1\nq 0 b 2\n", "q Q0 a 1 1.000000001 t\nq Q0 b 2 1.0 t\n")) == [2, 1]
    assert gains(read(tmp_path, "q 0 a 1\nq 0 b 2\n", "q Q0 a 1 1.0000001 t\nq Q0 b 2 1.0 t\n")) == [1, 2]


@pytest.mark.parametrize(
    "scores", [("0.0", "-0.0"), ("1e39", "2e39"), ("1e-60", "-1e-60"), ("7", "7.0"), ("+3", "3e0")]
)
def test_equal_scores_are_ordered_by_document_downwards(tmp_path: Path, scores: tuple[str, str]) -> None:
    for one, two in (scores, scores[::-1]):
        records = read(tmp_path, "q 0 a 1\nq 0 b 2\n", f"q Q0 a 1 {one} t\nq Q0 b 2 {two} t\n")
        assert gains(records) == [2, 1]


def test_documents_are_ordered_by_their_bytes(tmp_path: Path) -> None:
    ordered = sorted(DOCUMENTS, key=lambda d: d.encode(), reverse=True)
    qrels = "".join(f"q 0 {d} {i}\n" for i, d in enumerate(ordered, 1))
    records = read(tmp_path, qrels, "".join(f"q Q0 {d} 1 1 t\n" for d in DOCUMENTS))
    assert gains(records) == list(range(1, len(ordered) + 1))


# -- the ways to write a file ----------------------------------------------------------------------------------------

QRELS = "q1 0 a 1\nq1 0 b 0\nq2 0 a 2\n"
RUN = "q1 Q0 b 1 2.5 t\nq1 Q0 a 2 1.5 t\nq2 Q0 c 1 9 t\nq2 Q0 a 2 8 t\n"
PLAIN = {"q1": ([0, 1], [1, 0]), "q2": ([None, 2], [2])}
SPELLINGS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda text: text,
    "no line feed at the end": lambda text: text[:-1],
    "tabs": lambda text: text.replace(b" ", b"\t"),
    "runs of spaces": lambda text: text.replace(b" ", b"   "),
    "spaces and tabs, at the ends too": lambda text: text.replace(b" ", b" \t ").replace(b"\n", b" \t\n  "),
    "a space after the last line": lambda text: text + b" ",
    "carriage returns": lambda text: text.replace(b"\n", b"\r\n"),
    "carriage returns and tabs": lambda text: text.replace(b" ", b"\t").replace(b"\n", b"\r\n"),
    "form feeds": lambda text: text.replace(b" ", b"\x0b\x0c"),
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "a byte order mark and a comment": lambda text: b"\xef\xbb\xbf# \xff not read\n" + text,
    "comments": lambda text: b"# one\n" + text.replace(b"\n", b"\n# more columns than expected here\n"),
    "an indented comment": lambda text: text + b"  # the end",
    "empty lines": lambda text: b"\n\n" + text.replace(b"\n", b"\n \n\n"),
    "a megabyte of empty lines": lambda text: b"\n" * 2**20 + text,
    "other lines first": lambda text: b"".join(line + b"\n" for line in reversed(text.splitlines())),
    "a plus sign": lambda text: text.replace(b" 1\n", b" +1\n").replace(b" 9 ", b" +9 "),
    "exponents": lambda text: text.replace(b"2.5", b"25E-1").replace(b"1.5", b".15e+1").replace(b" 9 ", b" 0.9e1 "),
    "leading zeros": lambda text: text.replace(b" 2\n", b" 002\n").replace(b" 8 ", b" 008. "),
    "no UTF-8 where nothing is read": lambda text: text.replace(b"Q0", b"\xff"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings(tmp_path: Path, spelling: str) -> None:
    change = SPELLINGS[spelling]
    records = read(tmp_path, change(QRELS.encode()), change(RUN.encode()))
    assert {q: (g, sorted(j)) for q, (g, j) in columns(records).items()} == {
        q: (g, sorted(j)) for q, (g, j) in PLAIN.items()
    }
    assert records.warnings == ()


@pytest.mark.parametrize("cut", range(9))
def test_a_spelling_may_change_in_the_middle_of_a_file(tmp_path: Path, cut: int) -> None:
    """Blocks are read one by one: fast where they are plain, line by line where they are not."""
    body = "".join(f"q{i % 7} Q0 d{i} 1 {-i} t\n" for i in range(60_000))
    at = len(body) * cut // 8
    at = body.find("\n", at) + 1 or len(body)
    odd = body[:at] + "# a comment\n\nq0\tQ0  odd 1 99 t\n" + body[at:]
    records = read(tmp_path, "q0 0 odd 1\n" + "".join(f"q{i} 0 d{i} 1\n" for i in range(7)), odd)
    assert gains(records, "q0")[:2] == [1, 1]
    assert sum(map(len, records.column("gains").to_pylist())) == 60_001
    line = odd[:at].count("\n") + 3
    assert records.where(0) == (str(tmp_path / "run"), line)
    with pytest.raises(InputError, match=f"run:{60_004}: document: the document appears twice"):
        read(tmp_path, QRELS, odd + "q0 Q0 odd 1 98 t\n")


def test_the_line_of_a_query_is_that_of_its_best_document(tmp_path: Path) -> None:
    records = read(tmp_path, QRELS, "# one\nq2 Q0 a 1 1 t\n\nq1 Q0 a 1 1 t\nq1 Q0 b 1 2 t\n")
    assert [records.where(row)[1] for row in range(2)] == [5, 2]


@pytest.mark.parametrize("form", ["objects", "lists"])
@pytest.mark.parametrize("mark", ["", "\ufeff", "\n\n  "])
def test_json(tmp_path: Path, form: str, mark: str) -> None:
    judged = {"q1": {"a": 1, "b": 0}, "q2": {"a": 2.0}}
    run = {"q1": {"b": 2.5, "a": 1.5}, "q2": {"a": 8, "c": 9}, "empty": {}}
    records = read(tmp_path, mark + json.dumps(judged), mark + json.dumps(run))
    assert columns(records) == PLAIN
    assert records.only("model") == "run"
    listed = {q: sorted(found, key=lambda d: -found[d]) for q, found in run.items()}
    if form == "lists":
        assert columns(read(tmp_path, json.dumps(judged), mark + json.dumps(listed, indent=1))) == PLAIN
        relevant = read(tmp_path, json.dumps({"q1": ["a"], "q2": ["a"]}), json.dumps(listed))
        assert columns(relevant) == {"q1": ([None, 1], [1]), "q2": ([None, 1], [1])}


def test_json_on_one_long_line(tmp_path: Path) -> None:
    run = {"q1": {f"a document with a long name {i}": -i for i in range(200_000)}, "q2": {"a": 1.0}}
    records = read(tmp_path, QRELS, json.dumps(run))
    assert len(gains(records, "q1")) == 200_000


def test_a_topic_for_which_a_run_found_nothing_scores_0(tmp_path: Path) -> None:
    """trec_eval's files cannot say that; pytrec_eval's dicts can, and score 0."""
    judged, run = {"q1": {"a": 1}, "q2": {"a": 1}}, {"q1": {"a": 1.0}, "q2": {}}
    records = read(tmp_path, json.dumps(judged), json.dumps(run))
    assert columns(records) == {"q1": ([1], [1]), "q2": ([], [1])}
    check(records, judged, run)
    assert columns(read(tmp_path, json.dumps(judged), '{"q1": [], "q2": []}'))["q1"] == ([], [1])


def test_ids_of_json_may_hold_anything(tmp_path: Path) -> None:
    odd = "a b\n\ud800\x00"
    records = read(tmp_path, json.dumps({odd: {odd: 1}}), json.dumps({odd: {odd: 1.0, "z": 2.0}}))
    assert columns(records) == {"a b\n\\ud800\x00": ([None, 1], [1])}


# -- topics on one side ----------------------------------------------------------------------------------------------


def test_topics_on_one_side_only_are_left_out_and_counted(tmp_path: Path) -> None:
    qrels, run = QRELS + "only 0 a 1\nbarren 0 a 0\n", RUN + "barren Q0 a 1 1 t\nextra Q0 a 1 1 t\n"
    records = read(tmp_path, qrels, run)
    assert set(columns(records)) == {"q1", "q2", "barren"}
    said = [warning.partition(": ")[2] for warning in records.warnings]
    assert said == [
        "1 judged topic is not in the run and left out; with complete it counts as 0",
        "left out: 1 topic of the run without judgements",
        "1 topic without a relevant document, scored 0 as in trec_eval",
    ]
    complete = read(tmp_path, qrels, run, complete=True)
    assert columns(complete)["only"] == ([], [1])
    assert values(("mrr",), complete)["mrr"] == pytest.approx(values(("mrr",), records)["mrr"] * 3 / 4)
    assert "1 judged topic is not in the run and scores 0" in complete.warnings[0]


def test_complete_averages_over_all_judged_topics(tmp_path: Path) -> None:
    judged = {f"q{i}": {"a": i % 3, "b": 1} for i in range(9)}
    run = {f"q{i}": {"a": 2.0, "b": 1.0} for i in range(5)}
    records = read(tmp_path, qrels_text(judged), run_text(run), complete=True)
    wanted = sum(of["map"] for of in trec_eval(judged, run, {"map"}).values()) / 9
    assert values(("map",), records)["map"] == pytest.approx(wanted, abs=1e-9)


# -- names of runs ---------------------------------------------------------------------------------------------------


def names(paths: list[Path], qrels: Path) -> list[str | None]:
    return [records.only("model") for records in read_rankings(qrels, paths)]


def test_runs_are_named_by_tag_else_by_file(tmp_path: Path) -> None:
    (tmp_path / "q").write_text(QRELS)
    (tmp_path / "other").mkdir()
    paths = [tmp_path / "a.run", tmp_path / "b.run", tmp_path / "c.json", tmp_path / "other" / "a.run"]
    for path, content in zip(paths, (RUN, RUN.replace(" t\n", " u\n"), '{"q1": ["a"]}', RUN), strict=True):
        path.write_text(content)
    one, two, three, same = paths
    assert names([one, two], tmp_path / "q") == ["t", "u"]
    assert names([one, three], tmp_path / "q") == ["a.run", "c.json"]
    assert names([one, same], tmp_path / "q") == [str(one), str(same)]
    assert names([three], tmp_path / "q") == ["c.json"]
    with pytest.raises(UsageError, match="same file"):
        names([one, one], tmp_path / "q")
    with pytest.raises(UsageError, match="a run is needed"):
        names([], tmp_path / "q")


def test_the_tag_is_that_of_the_first_line_which_is_no_comment(tmp_path: Path) -> None:
    records = read(tmp_path, QRELS, "# a comment with no tag\n\nq1 Q0 a 1 1 first\nq2 Q0 a 1 1 second\n")
    assert records.only("model") == "first"


@pytest.mark.skipif(os.name != "posix", reason="file names are bytes on posix alone")
def test_a_file_with_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.json"))
    path.write_text('{"q1": ["a"]}')
    (tmp_path / "q").write_text(QRELS)
    assert names([path], tmp_path / "q") == ["\\udcff.json"]


@pytest.mark.parametrize(
    "header", ["query-id\tcorpus-id\tscore\n", "\ufeffquery_id corpus_id  score\r\n", "Query-ID\tCorpus-ID\tScore\n"]
)
def test_judgements_as_beir_has_them(tmp_path: Path, header: str) -> None:
    fields = [line.split() for line in QRELS.splitlines()]
    beir = header + "".join(f"{topic}\t{document}\t{grade}\n" for topic, _, document, grade in fields)
    assert columns(read(tmp_path, beir, RUN)) == columns(read(tmp_path, QRELS, RUN))
    many = header + "".join(f"q{n}\td{n}\t1\n" for n in range(100_000))
    assert len(read(tmp_path, many, "q7 Q0 d7 1 1 t\nq99999 Q0 d99999 1 1 t\n")) == 2


@pytest.mark.parametrize("rows", [3, 100_000])
@pytest.mark.parametrize("more", [" and more text", "\t7\t\xff", "  # not a comment "])
def test_what_follows_the_tag_of_a_run_is_ignored(tmp_path: Path, rows: int, more: str) -> None:
    lines = [f"q{n % 3} Q0 d{n} 1 {n / 7} mine" for n in range(rows)]
    qrels = "q0 0 d0 1\nq1 0 d1 1\nq2 0 d2 1\n"
    plain = read(tmp_path, qrels, "\n".join(lines))
    text = "".join(f"{line}{more if n % 2 else ''}\n" for n, line in enumerate(lines))
    longer = read(tmp_path, qrels, text.encode("latin-1"))
    assert columns(longer) == columns(plain)
    assert longer.only("model") == "mine"
    with pytest.raises(InputError, match=f"run:{rows + 1}: 6 columns are expected .* this line has 5"):
        read(tmp_path, qrels, text.encode("latin-1") + b"q1 Q0 SECRET 1 1\n")


# -- what is refused, where, and without a value ---------------------------------------------------------------------

Q, R, J = QRELS, RUN, '{"q1": {"a": 1}}'
REFUSED: dict[str, tuple[str | bytes, str | bytes, str]] = {
    "a column too few": (Q + "q3 0 SECRET\n", R, "qrels:4: 4 columns are expected .* this line has 3"),
    "a column too many": (Q + "q3 0 SECRET 1 t\n", R, "qrels:4: 4 columns are expected .* this line has 5"),
    "three columns without a header": ("q1 a 1\n", R, "qrels:1: 4 columns are expected .* this line has 3"),
    "a header in a run": (Q, "query-id corpus-id score\nq1 a 1\n", "run:1: 6 columns are expected"),
    "a grade under a header": ("query-id\tcorpus-id\tscore\nq1\ta\t1\nq1\tSECRET\tx\n", R, "qrels:3: grade: a whole"),
    "a pair twice under a header": (
        "query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\ta\t1\nq1\ta\t0\n",
        R,
        "qrels:4: document: .* appears twice",
    ),
    "nothing under a header": ("query-id\tcorpus-id\tscore\n", R, "qrels: the file is empty"),
    "a run for judgements": (R, R, "qrels:1: 4 columns are expected"),
    "judgements for a run": (Q, Q, "run:1: 6 columns are expected"),
    "three columns in a long file": (Q, R * 40_000 + "q SECRET x\n", "run:160001: 6 columns"),
    "a score that is NaN": (Q, R + "q3 Q0 a 1 nan SECRET\n", "run:5: score: a finite number"),
    "an infinite score": (Q, R + "q3 Q0 a 1 -inf SECRET\n", "run:5: score: a finite number"),
    "a score beyond doubles": (Q, R + "q3 Q0 SECRET 1 1e999 t\n", "run:5: score: a finite number"),
    "a score in words": (Q, R + "q3 Q0 a 1 SECRET t\n", "run:5: score: a finite number"),
    "a score with an underscore": (Q, R + "q3 Q0 SECRET 1 1_0 t\n", "run:5: score: a finite number"),
    "a score in another script": (Q, R + "q3 Q0 SECRET 1 ١ t\n", "run:5: score: a finite number"),
    "a hexadecimal score": (Q, R + "q3 Q0 SECRET 1 0x10 t\n", "run:5: score: a finite number"),
    "a decimal comma": (Q, R + "q3 Q0 SECRET 1 1,5 t\n", "run:5: score: a finite number"),
    "a fractional grade": (Q + "q3 0 SECRET 1.5\n", R, "qrels:4: grade: a whole number"),
    "a grade with a point": (Q + "q3 0 SECRET 1.0\n", R, "qrels:4: grade: a whole number"),
    "a grade in words": (Q + "q3 0 a SECRET\n", R, "qrels:4: grade: a whole number"),
    "a hexadecimal grade": (Q + "q3 0 SECRET 0x10\n", R, "qrels:4: grade: a whole number"),
    "a grade in another script": (Q + "q3 0 SECRET ١\n", R, "qrels:4: grade: a whole number"),
    "a grade beyond 32 bits": (Q + "q3 0 SECRET 2147483648\n", R, "qrels:4: grade: a whole number .* less than"),
    "a low grade beyond 32 bits": (Q + "q3 0 SECRET -2147483648\n", R, "qrels:4: grade: a whole number"),
    "the lowest of 64 bits": (Q + "q3 0 SECRET -9223372036854775808\n", R, "qrels:4: grade: a whole number"),
    "a grade beyond 64 bits": (Q + "q3 0  SECRET 99999999999999999999\n", R, "qrels:4: grade: a whole number"),
    "a grade of 5,000 digits": (Q + "q3 0 SECRET " + "9" * 5000 + "\n", R, "qrels:4: grade: a whole number"),
    "a document twice in a run": (Q, R + "q1 Q0 a 1 7 SECRET\n", "run:5: document: .* twice under its topic"),
    "a document twice in judgements": (Q + "\nq1 1 a 1\n", R, "qrels:5: document: .* twice under its topic"),
    "the same line twice": (Q, R + R, "run:5: document: .* twice"),
    "a topic that is not UTF-8": (Q, R.encode() + b"\xff Q0 SECRET 1 1 t\n", "run:5: topic: not UTF-8"),
    "a document that is not UTF-8": (Q.encode() + b"SECRET 0 \xe9t\xe9 1\n", R, "qrels:4: document: not UTF-8"),
    "UTF-16": (Q.encode("utf-16"), R, "qrels: not UTF-8 but UTF-16"),
    "an empty file": ("", R, "qrels: the file is empty"),
    "an empty run": (Q, b"", "run: the file is empty"),
    "blanks": (Q, " \n\t\n", "run: the file is empty"),
    "a byte order mark alone": (Q, "\ufeff", "run: the file is empty"),
    "comments": (Q, "# SECRET\n#\n", "run: there are no lines but comments"),
    "no topic in common": (Q, "SECRET Q0 a 1 1 t\n", "run: no topic of this run was judged"),
    "a line without end": (Q, "q1 Q0 " + "x" * 5_000_000, "run:1: the line is longer than 4 MiB"),
    "a line without end, later": (Q, R * 30 + "SECRET" * 10**6 + "\n" + R, "run:121: the line is longer than 4 MiB"),
    "spaces without end": (Q, R + "q3 Q0 a 1 1 t" + " " * 5_000_000 + "\n" + R, "run:5: the line is longer"),
    "three columns after empty lines": (Q, R + "\n" * 2**20 + "q SECRET x\n", f"run:{2**20 + 5}: 6 columns"),
    "two byte order marks": (Q, "\ufeff\ufeffq1 Q0 SECRET 1 1 t\n", "run: no topic of this run was judged"),
    "JSON that ends early": ('{"SECRET": {"a": 1}', R, "qrels:1: the text ends early"),
    "JSON that is none": ('{\n"q1": SECRET}', R, "qrels:2: not valid JSON"),
    "JSON lines": (J + "\n" + '{"SECRET": {"a": 1}}', R, "qrels:2: not valid JSON"),
    "JSON that is not UTF-8": (b'{"q1": ["\xff"]}', R, "qrels: not UTF-8"),
    "a list of topics": ("[1, 2]", R, "qrels: an object by topic is expected"),
    "an object of nothing": ("{}", R, "qrels: an object by topic is expected"),
    "topics of nothing": ('{"q1": {}, "q2": {}}', R, "qrels: no document is judged"),
    "topics with empty lists": ('{"q1": []}', R, "qrels: no document is judged"),
    "numbers for topics": ('{"q1": 1}', R, "qrels: every topic holds an object by document, or .* a list"),
    "objects and lists": ('{"q1": {"a": 1}, "q2": ["a"]}', R, "qrels: every topic holds"),
    "a list of numbers": ('{"q1": [1]}', R, "qrels: q1: a list of document ids"),
    "a list with a null": ('{"q1": ["SECRET", null]}', R, "qrels: q1: a list of document ids"),
    "a list with a document twice": (Q, '{"q1": ["SECRET", "SECRET"]}', "run: q1: the document appears twice"),
    "a key twice": ('{"q1": {"SECRET": 1, "SECRET": 1}}', R, "qrels: q1: the key appears twice"),
    "a topic twice": ('{"q1": {"a": 1}, "q1": {"SECRET": 1}}', R, "qrels: q1: the key appears twice"),
    "a grade of text": ('{"q1": {"SECRET": "1"}}', R, "qrels: q1: a number is expected for every document"),
    "a grade that is true": ('{"q1": {"SECRET": true}}', R, "qrels: q1: a number is expected"),
    "a grade that is null": ('{"q1": {"SECRET": null}}', R, "qrels: q1: a number is expected"),
    "a grade that is NaN": ('{"q1": {"SECRET": NaN}}', R, "qrels: q1: a finite number"),
    "a fraction in JSON": ('{"q0": {"a": 1}, "q1": {"SECRET": 1.5}}', R, "qrels: q1: a whole number"),
    "a huge grade in JSON": ('{"q1": {"SECRET": 4294967297}}', R, "qrels: q1: a whole number"),
    "a huge float in JSON": ('{"q1": {"SECRET": 1e300}}', R, "qrels: q1: a whole number"),
    "a huger grade in JSON": ('{"q1": {"SECRET": 36893488147419103232}}', R, "qrels: q1: a whole number"),
    "a score that is Infinity": (Q, '{"q1": {"SECRET": -Infinity}}', "run: q1: a finite number"),
    "a score beyond doubles in JSON": (Q, '{"q1": {"SECRET": 1e999}}', "run: q1: a finite number"),
    "JSON nested without end": (Q, '{"q1":' * 100_000, "run: .* nested too deeply"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path: Path, case: str) -> None:
    qrels, run, problem = REFUSED[case]
    with pytest.raises(InputError, match=problem) as caught:
        read(tmp_path, qrels, run)
    assert "SECRET" not in str(caught.value)
    assert "é" not in str(caught.value)
    assert caught.value.file in (str(tmp_path / "qrels"), str(tmp_path / "run"))


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "q").write_text(QRELS)
    with pytest.raises(InputError, match="cannot be read: is a directory"):
        read_rankings(tmp_path, [tmp_path / "q"])
    with pytest.raises(InputError, match="cannot be read: no such file"):
        read_rankings(tmp_path / "q", [tmp_path / "none"])


@given(st.binary(max_size=200), st.booleans())
def test_bytes_of_any_kind_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, json_: bool
) -> None:
    folder = tmp_path_factory.mktemp("junk")
    for qrels, run in ((junk, RUN.encode()), (QRELS.encode(), junk), (QRELS.encode(), RUN.encode() + junk)):
        try:
            read(folder, b"{" + qrels if json_ else qrels, run)
        except SteelyardError:
            continue


@given(st.text(alphabet='q1a0x#. +-eE\t\n\r{}[]":,', max_size=60))
def test_text_of_any_kind_is_read_as_line_by_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """The fast way and the careful one agree: a comment at the end forces the careful one."""
    folder, found = tmp_path_factory.mktemp("any"), []
    if text.lstrip()[:1] in ("{", "["):
        return
    for content in (RUN + text, RUN + text + "\n#"):
        try:
            found.append(columns(read(folder, QRELS, content)))
        except InputError as problem:
            found.append({"problem": (problem.problem, problem.line, problem.field)})
    assert found[0] == found[1]


# -- size ------------------------------------------------------------------------------------------------------------


def test_a_million_lines_of_five_thousand_topics(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    topics, depth = 5_000, 200
    found = rng.integers(0, 1000, (topics, depth)) + np.arange(depth) * 1000
    with open(tmp_path / "run", "w") as file:
        for q in range(topics):
            file.writelines(f"{q} Q0 {d} 0 {-i} t\n" for i, d in enumerate(found[q].tolist()))
    with open(tmp_path / "qrels", "w") as file:
        file.writelines(f"{q} 0 {found[q, q % depth]} 1\n" for q in range(topics))
    (records,) = read_rankings(tmp_path / "qrels", [tmp_path / "run"])
    assert len(records) == topics
    assert values(("mrr",), records)["mrr"] == pytest.approx(float(np.mean(1 / (np.arange(topics) % depth + 1))))
