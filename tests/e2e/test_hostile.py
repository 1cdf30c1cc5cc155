"""Every command, in every format, on names that would like to be more than names.

Each command has a case in `CASES`, and a test fails for one that has none. It runs twice: on plain words, and on the
same data with words that hold control characters, Markdown, formulas and the like. Both must look alike.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.ground.commas import pair_text
from steelyard.ground.json import dumps
from steelyard.report.formats import known
from steelyard.report.layout import columns_of
from tests.support.commands import COMMANDS, Done, command
from tests.support.hostile import BUILD_COMMANDS, PAYLOADS
from tests.support.markdown import number, outside_code, shape, visible
from tests.support.terminal import CODES, on_terminal

FILE = "=#|\x1b[31m\n## GATE: PASSED [x](e)\u202e<b>\x9b\udc9b"
FEW = ("--resamples", "100")
RULES = """
import json

def rule(item, prompt, *, labels, step):
    if item["number"] % 7 == 6:
        raise ValueError(prompt)
    return json.dumps({"answer": labels[item["number"] // step % 2], "confidence": 0.5})
"""
Arguments = tuple[Any, ...]


class World:
    """Data of one kind of words, and a store with runs, pointers and a training."""

    def __init__(self, folder: Path, payloads: tuple[str, ...] = (), *, file: str = "word") -> None:
        self.folder, self.payloads, self.prefix, self.root = folder, payloads, file, folder / "store"
        self.site = self.word("site", 0).replace("*", "").replace("\x00", "").replace("=", "")
        for name, share in (("a", 3), ("b", 2)):
            self.write(self.file(f"{name}.jsonl"), "".join(json.dumps(row) + "\n" for row in self.answers(share)))
        topics = {self.word("t", i): {self.word("d", j): (i * j) % 3 for j in range(8)} for i in range(12)}
        self.write(self.file("qrels.json"), json.dumps(topics))
        for name, step in (("one", 3), ("two", 5)):
            run = {
                t: {d: ((i + j) * step) % 7 / 7 for j, d in enumerate(ds)} for i, (t, ds) in enumerate(topics.items())
            }
            self.write(self.file(f"{name}.json"), json.dumps(run))
        self.write(self.file("people.json"), json.dumps(self.people()))
        self._retrieval()
        self.write(self.file("spec.yaml"), json.dumps(self.spec()))
        self._asking()
        self._suite()
        self._store()

    def word(self, role: str, i: int) -> str:
        """A name: what it is for and its number make it unlike all others. Plain ones sort as the others do."""
        if self.payloads:
            return f"{self.payloads[i % len(self.payloads)]} {role}{i}"
        return f"word{sorted(PAYLOADS).index(PAYLOADS[i % len(PAYLOADS)]):02} {role}{i}"

    def file(self, name: str) -> str:
        return f"{self.prefix}{name}"

    def named(self, name: str) -> str:
        """A file that another one names: in a text, half a character is its escape."""
        return self.file(name).replace("\udc9b", "x")

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def answers(self, share: int) -> list[dict[str, Any]]:
        labels = [self.word("label", i) for i in (0, 1, 3)]
        return [
            {
                "item": self.word("item", i),
                "cluster": self.word("patient", i // 3).strip("\t\ufeff"),  # white space around it would be said
                "model": self.word("model", 4 + m),
                "strategy": self.word("strategy", 5),
                "task": self.word("task", 6),
                "target": labels[i % 3],
                "prediction": None if i % 11 == 10 else labels[(i if i % share else i + 1) % 3],
                "confidence": ((7 * i) % 10) / 10,
                "group": {"site": self.word("site", i % 4), self.site: self.word("ward", 5 + i % 2)},
            }
            for i in range(60)
            for m in range(2)
        ]

    def people(self) -> dict[str, Any]:
        items = ("NoInterest", "Depressed", "Sleep", "Tired", "Appetite", "Failure", "Concentrating", "Moving")
        results = [
            {
                "participant_id": self.word("person", p),
                "success": True,
                "ground_truth_items": {item: (p + i) % 4 for i, item in enumerate(items)},
                "predicted_items": {item: None if i == 7 else (p * i) % 4 for i, item in enumerate(items)},
                "item_signals": {item: {"token_msp": ((p * i) % 10) / 10} for i, item in enumerate(items)},
            }
            for p in range(8)
        ]
        mode = self.word("mode", 3)
        about = {"run_id": self.word("run", 1), "timestamp": "2026-01-03T00:00:00Z", "git_commit": "abc"}
        return {
            "run_metadata": about,
            "experiments": [{"provenance": {"mode": mode}, "results": {"mode": mode, "results": results}}],
        }

    def _retrieval(self) -> None:
        rng = np.random.default_rng(0)
        docs, gold = rng.normal(size=(12, 6)), rng.integers(0, 12, 40)
        queries = docs[gold] + 0.4 * rng.normal(size=(40, 6)) + 2.0 * np.eye(6)[0]
        ids = [self.word("doc", i) for i in range(12)]
        texts = [{"id": i, "vector": list(v)} for i, v in zip(ids, docs, strict=True)]
        self.write(self.file("docs.json"), json.dumps(texts))
        rows = [
            {"id": self.word("query", i), "vector": list(v), "relevantDocId": ids[g]}
            for i, (v, g) in enumerate(zip(queries, gold, strict=True))
        ]
        self.write(self.file("queries.json"), json.dumps(rows))
        np.savez(self.folder / self.file("v.npz"), vectors=queries)
        self.write(self.file("delta.json"), json.dumps({"kind": "additive", "vector": [-2.0, 0, 0, 0, 0, 0]}))

    def spec(self) -> dict[str, Any]:
        command = ["true", self.word("argument", 1), self.word("argument", 3)]
        return {
            "workflow": "Matrix",
            "variants": [
                {"name": "first", "command": command, "labels": {"note": self.word("label", 2)}},
                {"name": "second", "command": ["false", self.word("argument", 5)]},
            ],
            "on_failure": "continue",
            "compare": {"metric": "accuracy"},
        }

    def _asking(self) -> None:
        """A task, a function to ask, and a run-spec."""
        rows = [
            {
                "id": self.word("item", i),
                "number": i,
                "text": self.word("question", i).replace("\n", " "),  # a line of a prompt is a line of its report
                "label": self.word("label", (1, 3)[i % 2]),
                "site": self.word("site", i % 4),
            }
            for i in range(24)
        ]
        self.write(self.named("items.jsonl"), "".join(json.dumps(row) + "\n" for row in rows))
        labels = [self.word("label", 1), self.word("label", 3)]
        prompt = "{{ number }}: {{ question }}"
        task = {"name": "t", "data": self.named("items.jsonl"), "id": "id", "question": "text", "target": "label",
                "labels": labels, "groups": ["site"], "prompt": prompt}  # fmt: skip
        self.write(self.named("t.task.yaml"), json.dumps(task))
        self.write("rules.py", RULES)
        models = [
            {"name": self.word("model", i), "backend": "callable",
             "options": {"function": "rules.py:rule", "labels": labels, "step": i}}
            for i in (3, 5)
        ]  # fmt: skip
        spec = {"id": "s", "description": self.word("description", 3), "task": self.named("t.task.yaml"),
                "models": models, "metrics": ["accuracy", "f1"], "save": {"labels": {"note": self.word("note", 3)}},
                "adaptation": {"strategy": ["zero-shot", "few-shot-2"]},
                "perturbations": ["upper", "name_prefix"]}  # fmt: skip
        self.write(self.file("run.yaml"), json.dumps(spec))

    def _suite(self) -> None:
        """A suite of two tasks, and two models' answers to it, in one file each."""
        cases = {
            task: [
                {"id": self.word("case", i), "target": self.word("label", i % 3), "site": self.word("site", i % 4)}
                for i in range(30)
            ]
            for task in ("first", "second")
        }
        tasks = []
        for task, rows in cases.items():
            data = self.named(f"{task}.cases.jsonl")
            self.write(data, "".join(json.dumps(row) + "\n" for row in rows))
            tasks.append({"name": task, "type": "qa", "data": data, "metrics": ["accuracy", "f1_macro"],
                          "fields": {"group.site": "site"}, "description": self.word("about", 3)})  # fmt: skip
        suite = {"name": self.word("suite", 2), "tasks": tasks, "combined": {"map": {"f1_macro": "safety"}}}
        self.write(self.file("suite.yaml"), dumps(suite))
        for name, share in (("c", 4), ("d", 3)):
            answers = [
                {"id": row["id"], "task": task, "model": self.word("model", share),
                 "prediction": row["target"] if i % share else self.word("label", 7)}
                for task, rows in cases.items() for i, row in enumerate(rows) if i < 28
            ]  # fmt: skip
            self.write(self.file(f"{name}.answers.jsonl"), "".join(json.dumps(row) + "\n" for row in answers))

    def _store(self) -> None:
        for run, name in (("one", "a"), ("two", "b"), ("extra", "a")):
            label = f"note={self.word('label', 5)}"
            pool = () if run == "extra" else ("--pool", "model")
            done = self.run("evaluate", self.file(f"{name}.jsonl"), "--save", "--run-id", run, "--by", "group.site",
                            *pool, "-m", "accuracy", "-m", "f1", "--label", label, *FEW)  # fmt: skip
            assert done.code == 0, done.err
        for i in range(8):
            reason = self.word("reason", i).replace("\x00", "").replace("\ud800", "")
            assert self.run("runs", "promote", ("one", "two")[i % 2], "-m", "accuracy", "--reason", reason).code == 0
        for path in (self.root / "results").rglob("one"):
            broken = path.with_name("broken")
            broken.mkdir()
            document = json.loads((path / "run.json").read_text())
            (broken / "run.json").write_text(json.dumps({**document, "Metrics": self.word("metric", 3)}))
            break
        asked = self.run("run", self.file("run.yaml"), "--root", self.file("asked"), "--format", "json", *FEW)
        assert asked.code == 0, asked.err
        self.asked = asked.json["run_id"]
        train = self.run("shift", "train", *self.corpus, "--training-id", "first", *FEW)
        assert train.code == 0, train.err
        shifted = self.run("retrieval", "run", *self.corpus, "--shift", "first", "--no-save", "--out", "out", *FEW)
        assert shifted.code == 0, shifted.err
        made = self.run("segment", "propose", *self.per_query, "--rule", "oracle", "-o", self.file("segments.json"))
        assert made.code == 0, made.err
        fit = self.run("calibrate", "fit", "--method", "linear", "--features", "token_msp", "--input",
                       self.file("people.json"), "--output", self.file("calibrator.json"))  # fmt: skip
        assert fit.code == 0, fit.err

    @property
    def corpus(self) -> Arguments:
        return self.file("docs.json"), self.file("queries.json")

    @property
    def per_query(self) -> Arguments:
        return "out/eval.perQuery.posneg.json", "out/eval.perQuery.baseline.json"

    def run(self, *arguments: Any) -> Done:
        with chdir(self.folder):
            return command(*arguments, root=self.root)


Case = Callable[[World, str], Arguments | list[Arguments]]
CASES: dict[str, Case] = {
    "run": lambda w, f: [
        (w.file("run.yaml"), "--root", w.file("other"), *FEW),
        (w.file("run.yaml"), "--dry-run"),
    ],
    "reparse": lambda w, f: (w.asked, "--root", w.file("asked"), *FEW),
    "doctor": lambda w, f: (w.file("run.yaml"), "--root", w.file("other")),
    "tasks": lambda w, f: [(), (w.named("t.task.yaml"),)],
    "prompts": lambda w, f: (w.file("run.yaml"), "-n", "2"),
    "benchmark": lambda w, f: [
        (w.file("suite.yaml"), w.file("c.answers.jsonl"), w.file("d.answers.jsonl"),
         "--by", "group.site", *FEW),
        (w.file("suite.yaml"), w.file("c.answers.jsonl"), "--out", w.file(f"bench-{f}"), *FEW),
        (w.file("suite.yaml"), "--categories"),
    ],
    "evaluate": lambda w, f: [
        (w.file("a.jsonl"), "-m", "accuracy", "-m", "f1", "-m", "fairness_gap(accuracy, by=group.site)",
         "--by", "group.site", "--by", f"group.{w.site}", *FEW),
        (w.file("a.jsonl"), *FEW),
        (w.file("a.jsonl"), "-m", "accuracy", "--pool", "model", "--out", w.file(f"out-{f}"), *FEW),
        (w.file("a.jsonl"), "-m", "exact_match", "--explain", "2", *FEW),
        (w.file("a.jsonl"), "-m", "accuracy", "--save", "--run-id", f"saved-{f}", "--root", w.file("other"), *FEW),
    ],
    "look": lambda w, f: [(w.file("a.jsonl"),), (w.file("a.jsonl"), "--labels", "exact")],
    "convert": lambda w, f: [
        (w.file("a.jsonl"), w.file(f"converted-{f}.jsonl")),
        (w.file("a.jsonl"), w.file(f"{f}.inspect.json"), "--where", pair_text("model", w.word("model", 4)),
         "--where", pair_text("group.site", w.word("site", 0))),  # whose texts Inspect reads as they are
    ],
    "export": lambda w, f: [
        ("extra", w.file(f"records-{f}"), "--to", "every-eval-ever", "--about", pair_text("developer", w.word("d", 3))),
        ("one", w.file(f"record-{f}.json"), "--to", "eee", "--about", pair_text("model", w.word("model", 4)),
         "--about", pair_text("benchmark", w.word("task", 5))),
    ],
    "compare": lambda w, f: [
        (w.file("a.jsonl"), w.file("b.jsonl"), "-m", "accuracy", "-m", "f1", "--by", "group.site", *FEW),
        (w.file("a.jsonl"), "--versus", f"model={w.word('model', 4)},{w.word('model', 5)}", "-m", "accuracy", *FEW),
    ],
    "gate": lambda w, f: [
        ("--run", w.file("a.jsonl"), "--baseline", w.file("b.jsonl"), "--rule", "accuracy >= 0.99 for each group.site",
         "--rule", "low(delta(f1_macro)) >= 0.5 for each cell", "--github", "--junit", f"j-{f}",
         "--summary", f"s-{f}", *FEW),
        ("--run", "one", "--baseline", "two", "--rule", "low(delta(accuracy)) >= 0.5",
         "--rule", f"f1.{json.dumps(w.word('label', 3))} >= 0.99", "--rule", "accuracy >= 0.99 for each group.site"),
        ("--run", "one", "--baseline", "active:accuracy", "--rule", "accuracy >= 0.5"),
    ],
    "rank": lambda w, f: [
        (w.file("qrels.json"), w.file("one.json"), w.file("two.json"), "-m", "ndcg@3", *FEW),
        (w.file("qrels.json"), w.file("one.json"), "--per-query", f"each-{f}", *FEW),
    ],
    "retrieval run": lambda w, f: [
        (*w.corpus, "--shift", w.file("delta.json"), "--no-save", *FEW),
        (*w.corpus, "--run-id", f"r-{f}", "--label", f"note={w.word('label', 1)}", *FEW),
    ],
    "retrieval eval": lambda w, f: (
        w.file("v.npz"), w.file("v.npz"), "--shift", w.file("delta.json"), "--baseline",
        "--gate-profile", "rank+cosine", *FEW,
    ),
    "shift train": lambda w, f: (*w.corpus, "--training-id", f"t-{f}", *FEW),
    "shift inspect": lambda w, f: ("first",),
    "shift history": lambda w, f: (),
    "shift best": lambda w, f: (),
    "shift apply": lambda w, f: (w.file("delta.json"), w.file("v.npz"), "-o", w.file("moved.npz")),
    "segment propose": lambda w, f: (*w.per_query, "--rule", "learned", "-o", w.file("proposed.json")),
    "segment compare": lambda w, f: (w.file("segments.json"), *FEW),
    "runs list": lambda w, f: (),
    "runs show": lambda w, f: ("one",),
    "runs compare": lambda w, f: ("-m", "accuracy"),
    "runs best": lambda w, f: ("-m", "accuracy"),
    "runs decide": lambda w, f: ("-m", "accuracy"),
    "runs promote": lambda w, f: ("two", "-m", "accuracy", "--reason", w.word("reason", 3)),
    "runs delete": lambda w, f: ("extra", "--texts-only", "--yes"),
    "runs pin": lambda w, f: ("one", "--as", "anchor", "--reason", w.word("reason", 5)),
    "runs active": lambda w, f: [("-m", "accuracy"), ("--all",)],
    "runs history": lambda w, f: ("-m", "accuracy"),
    "runs rollback": lambda w, f: ("-m", "accuracy", "--reason", w.word("reason", 1)),
    "runs index": lambda w, f: [(), ("--rebuild",)],
    "runs metrics": lambda w, f: [(), ("--pivot",)],
    "runs matrix": lambda w, f: [(w.file("spec.yaml"), "--dry"), (w.file("spec.yaml"),)],
    "selective": lambda w, f: [
        ("--input", w.file("people.json"), "--confidence", "token_msp", "--bootstrap-resamples", "100"),
        ("--input", w.file("people.json"), "--input", w.file("people.json"), "--confidence", "calibrated",
         "--allow-in-sample", "--calibration", w.file("calibrator.json"), "--bootstrap-resamples", "100"),
    ],
    "calibrate temperature": lambda w, f: (
        "--input", w.file("people.json"), "--confidence", "token_msp", "--output", w.file("temperature.json"),
    ),
    "calibrate fit": lambda w, f: (
        "--input", w.file("people.json"), "--method", "logistic", "--features", "token_msp",
        "--output", w.file("fit.json"),
    ),
    "metrics": lambda w, f: [(), ("accuracy",)],
    "schema": lambda w, f: ("selective",),
}  # fmt: skip


def formats(found: Any) -> tuple[str, ...]:
    return ("json", *known()) if any("--format" in p.opts for p in found.params) else ("",)


def test_every_command_is_tried() -> None:
    assert set(CASES) == set(COMMANDS)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, World]:
    folder = tmp_path_factory.mktemp("worlds")
    for name in ("plain", "hostile"):
        (folder / name).mkdir()
    return World(folder / "plain"), World(folder / "hostile", PAYLOADS, file=FILE)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The same in words that a build server would execute."""
    return World(tmp_path_factory.mktemp("built"), BUILD_COMMANDS, file="::error::f")


@pytest.mark.parametrize(("name", "format_"), [(name, f) for name, found in COMMANDS.items() for f in formats(found)])
def test_names_stay_names(worlds: tuple[World, World], name: str, format_: str) -> None:
    given = [CASES[name](world, format_) for world in worlds]
    plain, hostile = (each if isinstance(each, list) else [each] for each in given)
    style = ("--format", format_) if format_ else ()
    for one, two in zip(plain, hostile, strict=True):
        expected, done = (w.run(*name.split(), *some, *style) for w, some in zip(worlds, (one, two), strict=True))
        assert expected.code in (0, 1, 6), expected.err
        assert done.code == expected.code, done.err
        for text in (done.out, done.err):
            text.encode()
            assert visible(text), [c for c in text if not visible(c)]
        assert done.err.count("\n") == expected.err.count("\n")
        alike(expected.out, done.out, format_)
    for path in worlds[1].folder.glob("[js]-*"):
        assert visible(path.read_text())


def alike(expected: str, shown: str, format_: str) -> None:
    """Whether two outputs have the same shape."""
    if format_ == "json" or not format_:
        json.loads(shown or "{}", parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
        return
    assert shown.count("\n") == expected.count("\n")
    if format_ == "markdown":
        assert shape(shown) == shape(expected)
        shown, expected = outside_code(shown), outside_code(expected)
        assert [cells(line) for line in shown.splitlines()] == [cells(line) for line in expected.splitlines()]
        for special in (r"(?<!\\)<", r"(?<!\\)\]\("):
            assert len(re.findall(special, shown)) == len(re.findall(special, expected))
        assert sum(line.startswith("#") for line in shown.splitlines()) == expected.count("\n#") + expected.startswith(
            "#"
        )
    if format_ == "csv":
        rows, plain = (list(csv.reader(io.StringIO(text), strict=True)) for text in (shown, expected))
        assert [len(row) for row in rows] == [len(row) for row in plain]
        assert not [c for row in rows for c in row if c.lstrip()[:1] in tuple("=+-@") and not number(c)]


OURS = ("::error title=steelyard gate::", "::warning title=steelyard gate::")
EXECUTED = re.compile(r"^\s*::|##(vso)?\[", re.MULTILINE)


@pytest.mark.parametrize(("name", "format_"), [(name, f) for name, found in COMMANDS.items() for f in formats(found)])
def test_no_word_of_the_data_is_a_command_of_a_build_server(built: World, name: str, format_: str) -> None:
    given = CASES[name](built, format_)
    style = ("--format", format_) if format_ else ()
    for some in given if isinstance(given, list) else [given]:
        done = built.run(*name.split(), *some, *style)
        assert done.code in (0, 1, 6), done.err
        for text in (done.out, done.err):
            lines = [line.removeprefix(ours) for line in text.splitlines() for ours in OURS if line.startswith(ours)]
            lines += [line for line in text.splitlines() if not line.startswith(OURS)]
            assert [line for line in lines if EXECUTED.search(line)] == []


def cells(line: str) -> int:
    return len(re.findall(r"(?<!\\)(?:\\\\)*\|", line))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex is installed here")
def test_pdflatex_sets_the_report_of_every_command(worlds: tuple[World, World], tmp_path: Path) -> None:
    plain, pages = worlds[0], list[str]()
    for name in [name for name, found in COMMANDS.items() if "latex" in formats(found)]:
        given = CASES[name](plain, "latex")
        for some in given if isinstance(given, list) else [given]:
            pages.append(plain.run(*name.split(), *some, "--format", "latex").out)
    assert len(pages) >= 30
    # pictures are written next to a page: `demo` leaves room for them
    head = "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{booktabs}\\usepackage[demo]{graphicx}"
    body = "\n\\clearpage\n".join(pages)
    document = f"{head}\\usepackage{{textcomp}}\n\\begin{{document}}\n{body}\n\\end{{document}}\n"
    (tmp_path / "all.tex").write_text(document)
    words = ("pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize("name", [name for name, found in COMMANDS.items() if formats(found) != ("",)])
def test_every_report_fits_a_terminal_of_80_columns(worlds: tuple[World, World], name: str) -> None:
    world = worlds[1]
    given = CASES[name](world, "terminal")
    for some in given if isinstance(given, list) else [given]:
        with chdir(world.folder):
            screen = on_terminal(*name.split(), *some, root=world.root)
        text = CODES.sub("", screen)
        assert visible(text), [c for c in text if not visible(c)]
        lines = [line for line in text.split("\n") if not line.startswith("::")]  # those are for GitHub to read
        assert [line for line in lines if columns_of(line) > 80] == []
        assert text.strip()


FAILURES: dict[str, Callable[[World], Arguments]] = {
    "no such file": lambda w: ("evaluate", w.file("none.jsonl")),
    "no such files": lambda w: ("compare", w.file("none.jsonl"), w.file("a.jsonl")),
    "no such rankings": lambda w: ("rank", w.file("none.json"), w.file("one.json")),
    "no such documents": lambda w: ("retrieval", "run", w.file("none.json"), w.file("x.json")),
    "no such vectors": lambda w: ("retrieval", "eval", w.file("none.npz"), w.file("none.npz")),
    "no such run": lambda w: ("runs", "show", w.word("run", 3)),
    "no such runs": lambda w: ("runs", "promote", w.word("run", 5), "-m", "accuracy"),
    "no such run to judge": lambda w: ("gate", "--run", w.word("run", 3), "--rule", "accuracy >= 0"),
    "no such training": lambda w: ("shift", "inspect", w.word("run", 3)),
    "no such segments": lambda w: ("segment", "compare", w.file("none.json")),
    "no such calibrator": lambda w: ("selective", "--input", w.file("people.json"), "--calibration", w.file("none")),
    "no such mode": lambda w: ("selective", "--input", w.file("people.json"), "--mode", w.word("mode", 5)),
    "no such spec": lambda w: ("runs", "matrix", w.file("none.yaml")),
    "no such rules": lambda w: ("gate", "--run", "one", "--rules", w.file("none.yaml")),
    "no such evaluation": lambda w: ("export", w.file("none.json"), "x", "--to", "eee"),
    "no such form": lambda w: ("export", "one", "x", "--to", w.word("form", 3)),
    "no such fact": lambda w: ("export", "one", "x", "--to", "eee", "--about", pair_text(w.word("fact", 3), "x")),
    "several models": lambda w: ("convert", w.file("a.jsonl"), w.file("log.inspect.json")),
    "no such metric": lambda w: ("evaluate", w.file("a.jsonl"), "-m", w.word("metric", 3)),
    "no such key": lambda w: ("runs", "best", "-m", w.word("metric", 3)),
    "no such rule": lambda w: ("gate", "--run", "one", "--rule", w.word("rule", 3)),
    "no such column": lambda w: ("evaluate", w.file("a.jsonl"), "-m", "accuracy", "--by", w.word("column", 3)),
    "no such cluster": lambda w: ("evaluate", w.file("a.jsonl"), "-m", "accuracy", "--cluster", w.word("column", 5)),
    "no such value": lambda w: ("evaluate", w.file("a.jsonl"), "--where", f"model={w.word('nothing', 3)}"),
    "no such format": lambda w: ("runs", "list", "--format", w.word("format", 3)),
    "no such schema": lambda w: ("schema", w.word("schema", 3)),
    "no such workflow": lambda w: ("evaluate", w.file("a.jsonl"), "--save", "--workflow", w.word("workflow", 3), *FEW),
    "no such anchor": lambda w: ("runs", "pin", "one", "--as", w.word("anchor", 3)),
    "one run only": lambda w: ("rank", w.file("a.jsonl"), w.file("one.json")),
    "other answers": lambda w: ("compare", w.file("a.jsonl"), w.file("fewer.jsonl"), "-m", "accuracy"),
    "a text for a number": lambda w: ("evaluate", w.file("text.jsonl"), "-m", "aurc"),
    "an item twice": lambda w: ("evaluate", w.file("twice.jsonl"), "-m", "accuracy"),
    "no JSON": lambda w: ("evaluate", w.file("torn.jsonl"), "-m", "accuracy"),
    "a damaged calibrator": lambda w: (
        "selective",
        "--input",
        w.file("people.json"),
        "--calibration",
        w.file("x.json"),
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failures_are_one_line_that_quotes_no_data(worlds: tuple[World, World], name: str) -> None:
    world = worlds[1]
    rows = world.answers(3)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    world.write(world.file("fewer.jsonl"), "".join(text.splitlines(keepends=True)[:-6]))
    world.write(world.file("text.jsonl"), text + json.dumps({**rows[0], "item": "x", "confidence": "canary"}) + "\n")
    world.write(world.file("twice.jsonl"), text + json.dumps(rows[0]) + "\n")
    world.write(world.file("torn.jsonl"), text + '{"item": "canary')
    world.write(world.file("x.json"), json.dumps({"kind": "calibrator", "schema_version": "1", "target": "canary"}))
    done = world.run(*FAILURES[name](world))
    assert done.code in (2, 3, 5), done.err
    assert done.out == ""
    *remarks, last = done.err.splitlines()
    assert last.startswith("steelyard: error: ")
    assert not any(line.startswith("steelyard: error") for line in remarks)
    assert visible(done.err)
    data = ("canary", *(f" {role}" for role in ("item", "patient", "label", "ward", "person", "query", "doc")))
    assert not [word for word in data if re.search(rf"{word}\d|canary", done.err)]


def test_json_escapes_the_one_control_character_that_json_allows() -> None:
    assert "\\u007f" in dumps({"a": "\x7f"})
    assert visible(dumps({"a": "\x7f"}))
