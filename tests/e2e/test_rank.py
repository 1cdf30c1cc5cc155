"""`steelyard rank` as a user meets it: documents, deltas, values query by query, messages and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.records.readers.trec import read_rankings
from steelyard.study.comparison import compare
from steelyard.study.evaluation import values
from steelyard.study.ranked_lists import STACK
from tests.support.commands import command
from tests.support.places import SHARED
from tests.support.trec import TOPICS, qrels_text, run_text


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """Judgements, a run, and a better one: the first with relevant documents moved up."""
    qrels, base, new = tmp_path / "qrels.txt", tmp_path / "base.run", tmp_path / "new.run"
    qrels.write_text(qrels_text())
    base.write_text(run_text(1, "alpha"))
    good = {tuple(line.split()[::2]) for line in qrels_text().splitlines() if not line.endswith(" 0")}
    with new.open("w") as file:
        for line in run_text(1, "beta").splitlines():
            topic, q0, document, rank, score, tag = line.split()
            lift = 0.3 if (topic, document) in good else 0.0
            file.write(f"{topic} {q0} {document} {rank} {float(score) + lift} {tag}\n")
    return qrels, base, new


def test_one_run(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    qrels, base, _ = files
    arguments = ("rank", qrels, base, "--resamples", 200)
    done = command(*arguments, "--format", "json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "out" / "evaluation.json").read_text()
    assert done.stdout == command(*arguments, "--format", "json").stdout
    document = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    (records,) = read_rankings(qrels, [base])
    wanted = values(STACK, records)
    assert {e["metric"]: e["value"] for e in document["estimates"]} == pytest.approx(wanted)
    assert all(e["slice"] == {} and e["n"] == e["clusters"] == TOPICS for e in document["estimates"])
    assert all(e["interval"][0] <= e["value"] <= e["interval"][1] for e in document["estimates"])
    assert document["kind"] == "evaluation"
    assert document["population"]["rows"] == TOPICS
    assert document["ranking"]["complete"] is False
    assert document["ranking"]["relevance_level"] == 1
    assert "32-bit" in document["ranking"]["ties"]
    assert [Path(i["path"]).name for i in document["inputs"]] == ["base.run", "qrels.txt"]
    assert all(len(i["sha256"]) == 64 for i in document["inputs"])
    assert "comparison" not in document


@pytest.mark.parametrize("style", ["table", "markdown"])
def test_renderings(files: tuple[Path, Path, Path], style: str) -> None:
    one = command("rank", *files[:2], "--resamples", 200, "--format", style)
    two = command("rank", *files, "--resamples", 200, "--format", style)
    assert one.returncode == two.returncode == 0, one.stderr + two.stderr
    for name in STACK:
        assert one.stdout.replace("\\", "").count(name) == 1
        said = name == STACK[0]  # that it decides
        assert two.stdout.replace("\\", "").count(name) == 3 + said
    assert "paired, query by query" in two.stdout
    assert "verdict" in two.stdout
    assert ("|" in one.stdout) == (style == "markdown")
    for side, tag in (("base", "alpha"), ("new ", "beta")):
        assert f"{side} {tag}, " in two.stdout
        assert two.stdout.count(f" {tag} ") == len(STACK)  # the column of models
    assert "model" not in one.stdout


def test_two_runs_are_compared_as_compare_does(files: tuple[Path, Path, Path]) -> None:
    done = command("rank", *files, "-m", "ndcg@10", "-m", "mrr", "-m", "map", "--format", "json", "--resamples", 500)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    tables = read_rankings(files[0], files[1:])
    for table, tag in zip(tables, ("alpha", "beta"), strict=True):
        found = {e["metric"]: e["value"] for e in document["estimates"] if e["slice"] == {"model": tag}}
        assert found == pytest.approx(values(("ndcg@10", "mrr", "map"), table))
    assert len(document["estimates"]) == 6
    deltas = {d["metric"]: d for d in document["comparison"]["deltas"]}
    for wanted in compare(*tables, ["ndcg@10", "mrr", "map"], resamples=500):
        delta = deltas[wanted.metric]
        assert delta["verdict"] == wanted.verdict == "better"
        for name in ("base", "new", "delta", "p_value", "p_adjusted"):
            assert delta[name] == getattr(wanted, name), name
        assert tuple(delta["interval"]) == wanted.interval
        assert delta["interval"][0] > 0
    assert document["comparison"]["kind"] == "comparison"
    assert [Path(i["path"]).name for i in document["inputs"]] == ["base.run", "qrels.txt", "new.run"]


def test_runs_with_one_tag_are_named_by_their_files(files: tuple[Path, Path, Path]) -> None:
    qrels, base, new = files
    new.write_text(new.read_text().replace(" beta", " alpha"))
    done = command("rank", qrels, base, new, "-m", "mrr", "--format", "json", "--resamples", 200)
    assert [e["slice"]["model"] for e in json.loads(done.stdout)["estimates"]] == ["base.run", "new.run"]


@pytest.mark.parametrize("level", [1, 2])
def test_values_query_by_query_can_be_evaluated_again(
    files: tuple[Path, Path, Path], tmp_path: Path, level: int
) -> None:
    out = tmp_path / "queries.jsonl"
    metrics = [part for name in STACK for part in ("-m", name)]
    done = command("rank", *files, "--per-query", out, "--format", "json", "-l", level, *metrics, "--resamples", 200)
    assert done.returncode == 0, done.stderr
    assert f"wrote {out}" in done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 2 * TOPICS
    names = list(rows[0])[2:]
    assert list(rows[0])[:2] == ["model", "item"]
    asked = [part for name in names for part in ("-m", f"mean({json.dumps(name)}, better=higher)")]
    again = command("evaluate", out, *asked, "--format", "json", "--resamples", 200)
    assert again.returncode == 0, again.stderr
    one, two = (
        {(e["metric"], e["slice"]["model"]): (e["value"], e["se"]) for e in json.loads(r.stdout)["estimates"]}
        for r in (done, again)
    )
    assert len(one) == len(two) == 2 * len(STACK)
    for (name, model), (value, se) in one.items():
        found = two[f"mean({json.dumps(name) if '@' in name or '(' in name else name}, better=higher)", model]
        assert found[0] == pytest.approx(value)
        assert found[1] == pytest.approx(se)  # not the interval: a mean of any scores has no bounds to allow for


def test_a_relevance_level_is_part_of_the_name(files: tuple[Path, Path, Path]) -> None:
    done = command("rank", *files[:2], "-l", 2, "-m", "mrr", "-m", "ndcg@5", "-m", "map(level=3)", "--format", "json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    found = {e["metric"]: e["value"] for e in document["estimates"]}
    assert list(found) == ["mrr(level=2)", "ndcg@5", "map(level=3)"]
    (records,) = read_rankings(files[0], [files[1]])
    assert found == pytest.approx(values(tuple(found), records))
    assert document["ranking"]["relevance_level"] == 2


def test_topics_that_a_run_lacks(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    qrels, base, _ = files
    short = tmp_path / "short.run"
    short.write_text(run_text(3, "short", range(10, TOPICS + 5)))
    arguments = ("-m", "mrr", "--format", "json", "--resamples", 200)
    part, whole = (json.loads(command("rank", qrels, short, *arguments, *c).stdout) for c in ((), ("-c",)))
    assert part["estimates"][0]["n"] == 20
    assert whole["estimates"][0]["n"] == TOPICS
    assert whole["estimates"][0]["value"] == pytest.approx(part["estimates"][0]["value"] * 20 / TOPICS)
    assert whole["ranking"]["complete"] is True
    assert any("10 judged topics are not in the run and left out" in w for w in part["warnings"])
    assert any("5 topics of the run without judgements" in w for w in part["warnings"])
    strict = command("rank", qrels, base, short, *arguments)
    assert strict.returncode == 3
    assert "Traceback" not in strict.stderr
    assert strict.stdout == ""
    both = command("rank", qrels, base, short, *arguments, "--align", "intersection")
    assert both.returncode == 0, both.stderr
    (delta,) = json.loads(both.stdout)["comparison"]["deltas"]
    tables = read_rankings(qrels, [base, short])
    assert delta["n"] == 20
    assert delta["delta"] == compare(*tables, ["mrr"], align="intersection", resamples=200)["mrr"].delta
    complete = command("rank", qrels, base, short, *arguments, "--complete")
    assert json.loads(complete.stdout)["comparison"]["deltas"][0]["n"] == TOPICS


@pytest.mark.parametrize("which", ["qrels", "run"])
def test_standard_input(files: tuple[Path, Path, Path], which: str) -> None:
    qrels, base, _ = files
    arguments = ("-m", "mrr", "--format", "json", "--resamples", 200)
    if which == "run":
        done = command("rank", qrels, "-", *arguments, stdin=base.read_text())
    else:
        done = command("rank", "-", base, *arguments, stdin=qrels.read_text())
    assert done.returncode == 0, done.stderr
    wanted = json.loads(command("rank", qrels, base, *arguments).stdout)
    assert json.loads(done.stdout)["estimates"] == wanted["estimates"]
    assert "<stdin>" in [i["path"] for i in json.loads(done.stdout)["inputs"]]


def test_json_on_standard_input(files: tuple[Path, Path, Path]) -> None:
    run = json.dumps({f"topic{q}": [f"doc{d}" for d in range(20)] for q in range(TOPICS)})
    done = command("rank", files[0], "-", "-m", "mrr", "--format", "json", "--resamples", 200, stdin=run)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["estimates"][0]["n"] == TOPICS


def test_the_published_files() -> None:
    qrels, run = SHARED / "trec" / "qrels.test", SHARED / "trec" / "results.test"
    if not qrels.exists():
        pytest.skip("needs ../shared/data")
    done = command("rank", qrels, run, "-m", "map", "-m", "mrr", "-m", "precision@5", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = {e["metric"]: round(e["value"], 4) for e in json.loads(done.stdout)["estimates"]}
    assert found == {"map": 0.1785, "mrr": 0.4064, "precision@5": 0.2667}


FAILURES: list[tuple[tuple[Any, ...], int, str]] = [
    (("{qrels}",), 2, "Missing argument"),
    (("{qrels}", "{base}", "{new}", "{base}"), 2, "rank takes one run or two, not 3"),
    (("{qrels}", "{base}", "{base}"), 2, "two runs are the same file"),
    (("{qrels}", "{base}", "{folder}/../{name}/base.run"), 2, "two runs are the same file"),
    (("-", "-"), 2, "standard input can be read once only"),
    (("{qrels}", "-", "-"), 2, "standard input can be read once only"),
    (("{qrels}", "{base}", "-m", "ndgc@10"), 2, "did you mean ndcg"),
    (("{qrels}", "{base}", "-m", "ndcg@0"), 2, "the cutoff is a whole number from 1"),
    (("{qrels}", "{base}", "-m", "ndcg@ten"), 2, "a whole number is expected after '@'"),
    (("{qrels}", "{base}", "-m", "ndcg@-1"), 2, "a whole number is expected after '@'"),
    (("{qrels}", "{base}", "-m", "hit"), 2, "hit needs the option k"),
    (("{qrels}", "{base}", "-m", "precision"), 2, "is not about rankings"),
    (("{qrels}", "{base}", "-m", "rprec@5"), 2, "rprec has no"),
    (("{qrels}", "{base}", "-m", "mrr(level=0)"), 2, "level"),
    (("{qrels}", "{base}", "-l", "0"), 2, "the relevance level is a whole number from 1"),
    (("{qrels}", "{base}", "-l", "0", "-m", "ndcg@10"), 2, "the relevance level is a whole number from 1"),
    (("{qrels}", "{base}", "-l", "high"), 2, "Invalid value for '--relevance-level'"),
    (("{qrels}", "{base}", "--align", "loose"), 2, "align is strict or intersection"),
    (("{qrels}", "{base}", "{new}", "--align", "loose"), 2, "align is strict or intersection"),
    (("{qrels}", "{base}", "--format", "xml"), 2, "--format is one of"),
    (("{qrels}", "{base}", "--level", "2"), 2, "level"),
    (("{qrels}", "{base}", "--per-query", "{base}"), 2, "is what would be read"),
    (("{qrels}", "{base}", "-m", "accuracy"), 2, "is not about rankings"),
    (("{qrels}", "{folder}"), 3, "cannot be read: is a directory"),
    (("{qrels}", "nowhere.run"), 3, "nowhere.run: cannot be read: no such file"),
    (("{base}", "{qrels}"), 3, "4 columns are expected"),
    (("{qrels}", "{base}", "-m", "mrr", "--out", "{base}"), 5, "cannot write"),
    (("{qrels}", "{base}", "-m", "mrr", "--per-query", "{base}/x"), 5, "cannot write"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), FAILURES)
def test_failures_have_a_class_and_one_clear_line(
    files: tuple[Path, Path, Path], arguments: tuple[str, ...], code: int, message: str
) -> None:
    qrels, base, new = files
    before = [file.read_bytes() for file in files]
    filled = [a.format(qrels=qrels, base=base, new=new, folder=qrels.parent, name=qrels.parent.name) for a in arguments]
    done = command("rank", *filled, "--resamples", 200)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize(
    ("qrels", "run"),
    [
        ("{s} 0 {s} 1\n{s} 0 {s} 1\n", "{s} Q0 {s} 1 1 {s}\n"),
        ("{s} 0 {s} {s}\n", "{s} Q0 {s} 1 1 {s}\n"),
        ("{s} 0 {s} 1\n", "{s} Q0 {s} 1 {s} {s}\n"),
        ("{s} 0 {s} 1\n", "{s} Q0 {s} {s} {s}\n"),
        ("{s} 0 {s} 1 {s}\n", "{s} Q0 {s} 1 1 {s} {s}\n"),
        ("{s} 0 {s} 1\n", "x{s} Q0 {s} 1 1 {s}\n"),
        ("{s} 0 {s} 1\n", "{s} Q0 {s} 1 1 {s}\n{s} Q0 {s} 1 1 {s}\n"),
        ('{{"q": {{"{s}": "{s}"}}}}', "q Q0 {s} 1 1 {s}\n"),
        ('{{"q": {{"{s}": 1, "{s}": 2}}}}', "q Q0 {s} 1 1 {s}\n"),
        ('{{"q": {{"{s}": 1.5}}}}', "q Q0 {s} 1 1 {s}\n"),
        ('{{"q": ["{s}", "{s}"]}}', "q Q0 {s} 1 1 {s}\n"),
        ('{{"q": ["{s}"', "q Q0 {s} 1 1 {s}\n"),
    ],
)
def test_values_of_the_data_never_reach_a_message(tmp_path: Path, qrels: str, run: str) -> None:
    secret = "SECRET-PATIENT-NAME"
    for name, text in (("qrels", qrels), ("run", run)):
        (tmp_path / name).write_text(text.format(s=secret))
    done = command("rank", tmp_path / "qrels", tmp_path / "run")
    assert done.returncode == 3, done.stderr
    assert secret not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_unmatched_topics_are_counted_and_not_named(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("a 0 d 1\nSECRET 0 d 1\n")
    (tmp_path / "one").write_text("a Q0 d 1 1 one\nSECRET Q0 d 1 1 one\n")
    (tmp_path / "two").write_text("a Q0 d 1 1 two\n")
    done = command("rank", tmp_path / "qrels", tmp_path / "one", tmp_path / "two", "-m", "mrr")
    assert done.returncode == 3
    assert "SECRET" not in done.stdout + done.stderr


def test_control_characters_never_reach_the_terminal(tmp_path: Path) -> None:
    hostile = "\x1b]0;owned\x07\x1b[31mred"
    (tmp_path / "qrels").write_text("a 0 d 1\nb 0 d 1\n")
    for name in "12":
        (tmp_path / name).write_text(f"a Q0 d 1 1 {hostile}{name}\nb Q0 d 1 1 t\n")
    done = command("rank", tmp_path / "qrels", tmp_path / "1", tmp_path / "2", "-m", "mrr", "--resamples", 200)
    assert done.returncode == 0, done.stderr
    assert "owned" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "\x07" not in done.stdout + done.stderr


def test_help_names_the_metrics() -> None:
    done = command("rank", "--help")
    assert done.returncode == 0
    for name in ("ndcg@k", "mrr", "map", "rprec", "--relevance-level", "--complete", "--per-query", "--align"):
        assert name in done.stdout


def test_tables_for_programs_are_one_per_file(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    out, queries = tmp_path / "out", tmp_path / "queries.csv"
    asked = ("rank", *files, "-m", "mrr", "--resamples", 100)
    done = command(*asked, "--format", "csv", "--out", out, "--per-query", queries)
    assert done.code == 0, done.err
    assert sorted(path.name for path in out.iterdir()) == ["comparison.csv", "evaluation.csv", "evaluation.json"]
    for name, first in (("evaluation.csv", "metric,model,value"), ("comparison.csv", "metric,base,new,delta")):
        lines = (out / name).read_text().splitlines()
        assert lines[0].startswith(first)
        assert "" not in lines
    assert queries.read_text().splitlines()[0] == "model,item,mrr"
    refused = command(*asked, "--out", tmp_path / "paper.tex")
    assert (refused.code, "reads like a file" in refused.err) == (2, True)


def test_other_commands_point_to_it(files: tuple[Path, Path, Path]) -> None:
    for path, kind in zip(files, ("judgements", "rankings", "rankings"), strict=True):
        done = command("look", path)
        assert (done.code, f"looks like TREC {kind}; `steelyard rank QRELS RUN`" in done.err) == (2, True), done.err
