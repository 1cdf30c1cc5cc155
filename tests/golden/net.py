"""What every command prints and writes on the bundled examples, in a form that two machines share.

    python -m tests.golden.net           write tests/golden/net/*.txt from the program as it is

A scenario is a list of commands that run one after the other in one folder. For each the net holds the exit code, both
streams, and every file that came or changed. Time, version, paths and the last digits of numbers are taken out; so are
digests of what holds computed numbers, while digests of the examples and of whole numbers stay.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path

import numpy as np

from steelyard import __version__
from tests.support.commands import COMMANDS, command, steelyard

HERE = Path(__file__).resolve().parent
NET = HERE / "net"
EXAMPLES = HERE.parents[1] / "examples"
LONGEST = 60_000  # characters of one file or stream; of a longer one its beginning and its length are kept

TRIAGE = "examples/triage/answers.jsonl --cluster patient --resamples 300"
CALM = f"{TRIAGE} --where perturbation=none"
BIRCH = f"{TRIAGE} --where model=birch-2,perturbation=none"
ALDER = f"{TRIAGE} --where model=alder-1,perturbation=none"
CLINICAL = "examples/clinical"
INSURANCE = "examples/insurance/policies examples/insurance/queries-drifted.json --embedder hash"
RUN, TRAIN = "examples/phq8/run.json", "examples/phq8/train.json"
PER_QUERY = (
    "store/results/evaluation/runs/PosNeg/shifted/eval.perQuery.posneg.json "
    "store/results/evaluation/runs/PosNeg/shifted/eval.perQuery.baseline.json"
)
EVERY, STORE = "{table|json|markdown}", "{table|json|markdown|csv}"

# `{a|b}` stands for several commands, one with each word
SCENARIOS: dict[str, list[str]] = {
    "evaluate": [
        f"evaluate {BIRCH} -m accuracy -m f1 -m 'ece(bins=15)' -m aurc -m unsafe_answer_rate --by group.site "
        f"--format {EVERY}",
        f"evaluate {CALM} --task-file examples/triage/triage.task.yaml --format {EVERY} --out out",
        f"evaluate {TRIAGE} -m 'robustness_score(accuracy)' -m flip_rate -m 'fairness_gap(accuracy, by=group.site)'",
        f"evaluate {BIRCH} -m accuracy -m aurc --method {{percentile|bca}}",
        f"evaluate {BIRCH} -m accuracy -m confusion_matrix --level 0.9 --seed 7 --format json",
        "evaluate examples/phq8/run.json -m selective_accuracy -m mae -m rmse -m pearson --resamples 300",
        "evaluate examples/phq8/run.json -m token_f1",
        f"evaluate {CALM} -m clinical_accuracy --explain 1 --resamples 300 --format {EVERY}",
        f"evaluate {CALM} -m accuracy --explain 1",
        "evaluate examples/triage/nothing.jsonl",
        f"evaluate {CALM} -m acuracy",
        f"evaluate {CALM} -m accuracy --by group.sight",
    ],
    "files": [
        f"look examples/triage/answers.jsonl --format {STORE}",
        "look examples/triage/answers.jsonl --map item=patient --labels exact",
        "convert examples/triage/answers.jsonl answers.{parquet|csv|tsv|jsonl|arrow|jsonl.gz} --where patient=p01",
        "convert answers.csv some.jsonl --only item,target,prediction --where model=birch-2 --format json",
        "look some.jsonl --format json",
        "convert answers.csv alder.inspect.json --where model=alder-1,perturbation=none",
        "convert answers.csv both.inspect.json",
        "convert answers.csv answers.doc",
        "convert answers.csv answers.csv",
    ],
    "benchmark": [
        f"benchmark clinical {CLINICAL}/birch {CLINICAL}/alder --task medication_safety --task "
        "discharge_summary --resamples 300 --format {table|markdown}",
        "benchmark suite.yaml answers.csv --by group.site --resamples 300 --format json",
        "benchmark suite.yaml answers.csv --combined-weights diagnostics=0.6,safety=0.4 --combined-name index "
        "--resamples 300 --format md,csv --out out",
        "benchmark suite.yaml answers.csv --save --run-id kept --resamples 300",
        "gate --run kept --rule 'low(combined_score) >= 0.2' --rule 'low(category.safety) >= 0.2'",
        f"benchmark --categories --format {STORE}",
        "benchmark clinical --categories --category token_f1=diagnostics,exact_match=none",
        f"benchmark clinical {CLINICAL}/birch --combined-weights safty=1",
        "benchmark clincal answers",
        "benchmark clinical nothing",
    ],
    "compare": [
        f"compare {CALM} --versus model=alder-1,birch-2 -m accuracy -m selective_accuracy -m aurc -m f1_macro -m ece "
        f"--format {EVERY}",
        f"compare {CALM} --versus model=alder-1,birch-2 -m accuracy --by group.site --out out",
        f"compare {CALM} --versus model=alder-1,birch-3 -m accuracy",
    ],
    "gate": [
        f"evaluate {ALDER} --save --workflow Triage --run-id alder --label model=alder-1 --format json",
        f"evaluate {BIRCH} --save --workflow Triage --run-id birch --label model=birch-2 --format json",
        "gate --run birch --baseline alder --rule 'low(delta(accuracy)) >= -0.01' --rule 'high(delta(aurc)) <= 0.02' "
        "--rule 'low(answer_rate) >= 0.75' --rule 'failure_rate <= 0.02' --junit junit.xml --summary summary.md "
        f"--output gate.json --github --format {STORE}",
        "gate --run birch --baseline alder --rule 'low(delta(accuracy)) >= 0.1' --rule 'accuracy >= 0.99 for each "
        f"group.site' --format {STORE}",
        f"gate --run examples/triage/answers.jsonl --cluster patient --rule 'low(accuracy) >= 0.5 for each cell' "
        f"--rule 'parse_failure_rate <= 0.05 for each cell' --resamples 300 --format {STORE}",
        "gate --run birch --rule 'acuracy >= 0.5'",
    ],
    "runs": [
        f"evaluate {ALDER} --save --workflow Triage --run-id alder -m accuracy -m aurc -m f1 --by group.site",
        f"evaluate {BIRCH} --save --workflow Triage --run-id birch -m accuracy -m aurc -m f1 --by group.site",
        f"evaluate {CALM} --save --workflow Triage --run-id both -m accuracy --save-records",
        f"runs list --format {STORE}",
        f"runs show birch --format {EVERY}",
        f"runs compare -m accuracy --against alder --format {STORE}",
        f"runs best -m accuracy --format {STORE}",
        f"runs decide -m accuracy --eps 0.001 --format {STORE}",
        f"runs promote alder -m accuracy --reason first --format {EVERY}",
        "runs promote birch -m accuracy --reason second",
        f"runs pin alder --as anchor --format {EVERY}",
        f"runs active -m accuracy --format {STORE}",
        f"runs active --all --format {STORE}",
        f"runs history -m accuracy --format {STORE}",
        "runs rollback -m accuracy --reason third --format json",
        f"runs index --format {EVERY}",
        "runs index --rebuild --format json",
        f"runs metrics --format {STORE}",
        f"runs metrics --pivot --format {STORE}",
        f"runs metrics -m accuracy --format {STORE}",
        f"runs matrix matrix.yaml --dry --format {EVERY}",
        f"runs delete both --texts-only --yes --format {EVERY}",
        "runs delete both --yes",
        "runs delete alder --yes",
        "runs show nothing",
    ],
    "export": [
        f"evaluate {CALM} -m accuracy --by group.site --save --workflow Triage --run-id both",
        "export both records --to every-eval-ever --about developer=acme,organization=Acme",
        f"evaluate {BIRCH} -m accuracy -m 'ece(bins=15)' --out out",
        "export out/evaluation.json birch.json --to eee --about model=acme/birch-2,organization=Acme --format json",
        "export out/evaluation.json birch.json --to eee",
        "export both both.json --to eee",
        "export out/evaluation.json store --to mlfow",
    ],
    "rank": [
        f"rank examples/trec/qrels.txt examples/trec/first.txt -m ndcg@10 -m mrr -m map --resamples 300 "
        f"--format {EVERY} --per-query each-{{one}}.jsonl",
        f"rank examples/trec/qrels.txt examples/trec/first.txt examples/trec/second.txt -m ndcg@10 -m map "
        f"--resamples 300 --format {EVERY}",
    ],
    "retrieval": [
        f"retrieval run {INSURANCE} --workflow Baseline --run-id baseline --resamples 300 --format json",
        f"retrieval run {INSURANCE} --no-save --resamples 300 --format {EVERY}",
        f"shift train {INSURANCE} --workflow PosNeg --training-id drifted --resamples 300 --format json",
        "shift inspect drifted --format {table|json|markdown}",
        f"shift history --format {EVERY}",
        f"shift best --format {EVERY}",
        f"retrieval run {INSURANCE} --shift best --workflow PosNeg --run-id shifted --resamples 300",
        "retrieval eval vectors.npy vectors.npy --shift delta.json --baseline --resamples 300 "
        f"--gate-profile rank+cosine --no-save --format {EVERY}",
        "retrieval eval vectors.npy vectors.npy --shift delta.json --resamples 300 --run-id eval",
        f"retrieval run {INSURANCE} --qrels qrels.json --trec-run run.txt --depth 3 --no-save --resamples 300",
        "shift apply delta.json vectors.npy -o moved.npz",
        f"segment propose {PER_QUERY} --rule {{gap|learned|oracle}} -o segments-{{one}}.json",
        f"segment compare segments-learned.json --resamples 300 --format {EVERY}",
        "segment propose shifted --rule gap --tau 0.05 -o segments-run.json",
        f"runs compare -m map@1 --against baseline --format {STORE}",
    ],
    "selective": [
        f"selective {RUN} --mode few_shot --confidence llm,token_msp --coverage-grid 0.5,0.7 --bootstrap-resamples 300 "
        f"--format {EVERY} --output artifact-{{one}}.json",
        f"selective {RUN} --mode zero_shot {RUN} --mode few_shot --confidence token_msp --bootstrap-resamples 300 "
        f"--coverage-grid 0.2,0.4,0.6 --format {EVERY}",
        f"calibrate temperature {TRAIN} --mode few_shot --output temperature.json --format {EVERY}",
        f"calibrate fit {TRAIN} --mode few_shot --method {{logistic|linear|isotonic}} --features token_msp "
        "--output fitted-{one}.json",
        f"selective {RUN} --mode few_shot --confidence verbalized_calibrated --calibration temperature.json "
        "--coverage-grid 0.5 --bootstrap-resamples 300",
        f"selective {TRAIN} --mode few_shot --confidence verbalized_calibrated --calibration temperature.json",
    ],
    "asking": [
        f"run examples/ckd/spec.yaml --dry-run --format {EVERY}",
        f"run examples/ckd/spec.yaml --resamples 300 --limit 24 --format {EVERY}",
        "run examples/ckd/spec.yaml --resamples 300 --limit 20 --concurrency 2 --forget-replies --out out",
        "run examples/ckd/spec.yaml --resamples 300 --limit 20 --resume",
        "run examples/ckd/spec.yaml --limit 0",
        "run examples/ckd/nothing.yaml",
        f"doctor examples/ckd/spec.yaml --format {EVERY}",
        f"tasks --format {STORE}",
        f"tasks ckd_progression --format {EVERY}",
        "tasks ckd_regression",
        f"prompts examples/ckd/spec.yaml -n 2 --format {EVERY}",
        "prompts examples/ckd/spec.yaml -n 0",
        "prompts examples/triage_jira/spec.yaml -n 1",
    ],
    "reparsing": [
        "run examples/ckd/spec.yaml --resamples 300 --limit 20",
        "reparse ckd- --resamples 300 --format json",
        "reparse nothing",
        "reparse",
    ],
    "catalogue": [
        f"metrics --format {EVERY}",
        "metrics aurc --format {table|json|markdown}",
        "metrics fairness_gap",
        "schema {selective|gate-rules|run-spec|segments|per-query|calibrator|shift-training-result}",
    ],
}

MATRIX = """\
workflow: Matrix
variants:
  - name: first
    command: ["true", "one"]
    labels: {note: plain}
  - name: second
    command: ["false"]
on_failure: continue
compare: {metric: accuracy}
"""

SUITE = """\
name: small
tasks:
  - {name: one, type: qa, data: one.csv, fields: {group.site: site}, metrics: [accuracy, f1_macro]}
  - {name: two, type: communication, data: two.csv, fields: {group.site: site}, metrics: [accuracy]}
combined: {map: {f1_macro: safety}}
"""


def folder() -> Path:
    """A new folder with the examples and what else the scenarios read."""
    made = Path(tempfile.mkdtemp(prefix="net-"))
    shutil.copytree(EXAMPLES, made / "examples")
    for name in ("triage", "phq8", "trec", "insurance", "clinical"):
        subprocess.run([sys.executable, made / "examples" / name / "make.py"], check=True, capture_output=True)
    (made / "matrix.yaml").write_text(MATRIX)
    (made / "suite.yaml").write_text(SUITE)
    cases = {task: [(f"{task}{i}", "abc"[i % 3], "xy"[i % 2]) for i in range(12)] for task in ("one", "two")}
    for task, rows in cases.items():
        (made / f"{task}.csv").write_text("id,target,site\n" + "".join(f"{','.join(row)}\n" for row in rows))
    answers = [f"{task},{id_},{'a' if i % 4 == 1 else label}\n" for task, rows in cases.items()
               for i, (id_, label, _) in enumerate(rows) if i != 7]  # fmt: skip
    (made / "answers.csv").write_text("task,id,prediction\n" + "".join(answers))
    grid = np.arange(60.0).reshape(12, 5) % 7 + np.eye(12, 5)
    np.save(made / "vectors.npy", grid)
    rows = json.loads((made / "examples/insurance/queries-drifted.json").read_text())
    relevant = {row["id"]: {row["relevantDocId"]: 2, "pet-plus-riverdale": 1} for row in rows[:40]}
    (made / "qrels.json").write_text(json.dumps(relevant))
    (made / "delta.json").write_text('{"kind": "additive", "vector": [-0.5, 0, 0.25, 0, 0]}')
    return made


def commands(line: str) -> Iterator[str]:
    """The commands that one line stands for; `{one}` is the word that was filled in."""
    choice = re.search(r"\{([a-z0-9|+._-]*\|[a-z0-9|+._-]*)\}", line)
    if choice is None:
        yield line
        return
    for word in choice[1].split("|"):
        yield from commands((line[: choice.start()] + word + line[choice.end() :]).replace("{one}", word))


def shown(name: str) -> str:
    """What the commands of a scenario print and write, as the net keeps it."""
    where = folder()
    try:
        with chdir(where):
            plain = Plain(where)
            return "".join(_step(line, plain) for each in SCENARIOS[name] for line in commands(each))
    finally:
        shutil.rmtree(where)


def _step(line: str, plain: Plain) -> str:
    before = _files(plain.folder)
    words, plainly = shlex.split(line), {"COLUMNS": "120", "NO_COLOR": "1"}
    if words[0] == "metrics":  # in a process of its own: other tests register metrics in this one
        done = steelyard(*words, **plainly)
    else:
        done = command(*words, root=plain.folder / "store", **plainly)
    after = _files(plain.folder)
    written = [path for path in sorted(after) if before.get(path) != after[path]]
    parts = [f"$ steelyard {line}", f"exit {done.code}"]
    parts += [f"-- {name}\n{plain.text(text)}" for name, text in (("out", done.out), ("err", done.err)) if text]
    parts += [f"-- wrote {plain.text(path)}\n{plain.file(plain.folder / path)}" for path in written]
    parts += [f"-- removed {path}" for path in sorted(before.keys() - after.keys())]
    return "".join(f"{part.rstrip()}\n" for part in parts) + "\n"


def _files(where: Path) -> dict[str, bytes]:
    """What is there, but for the index, which can be made again, for locks, and for replies."""
    unlike = r"\.(sqlite|lock|db)|^journal$"  # a journal holds times, and is written as replies come
    paths = (path for path in where.rglob("*") if path.is_file() and not re.search(unlike, path.name))
    return {path.relative_to(where).as_posix(): path.read_bytes() for path in paths if ".git" not in path.parts}


class Plain:
    """Takes out of a text what another machine or another day would write differently."""

    def __init__(self, where: Path) -> None:
        self.folder = where
        self.known = {hashlib.sha256(content).hexdigest() for content in _files(where).values()}

    def text(self, text: str) -> str:
        text = text.replace(str(self.folder), "<folder>").replace(__version__, "<version>")
        text = re.sub(r"\b[0-9a-f]{64}\b", lambda m: m[0] if m[0] in self.known else "<digest>", text)
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.\d]*(Z|\+00:00)?", "<time>", text)
        text = re.sub(r"\b1[7-9]\d{8}\b", "<time>", text)  # in seconds
        text = re.sub(r"(?<![\w.])\d{8}[T_-]\d{6}[.\d]*Z?\b", "<time>", text)
        text = re.sub(r"<time>-[0-9a-f]{6}\b", "<run>", text)
        text = re.sub(r"(requests in |it took |\"(?:wall_)?seconds\": )[\d.]+(e-\d+)?", r"\1<seconds>", text)
        text = re.sub(r"-?\d+\.\d{6,}(e[+-]\d+)?|-?\d\.\d+e[+-]\d+", lambda m: f"{float(m[0]):.9g}", text)
        text = re.sub(r"`[^`]* --help`", "`<command> --help`", text)  # how the program is called depends on its start
        text = re.sub(r"(?m)(duration_ms\":|^\W*\w+Evaluator .*\S) +\d+\.\d+( \||,)?$", r"\1 <ms>\2", text)
        kept = text[:LONGEST]
        return kept if kept == text else f"{kept}\n… {text.count(chr(10))} lines in all"

    def file(self, path: Path) -> str:
        content = path.read_bytes()
        if path.suffix == ".npz":
            return "\n".join(self._arrays(content))
        try:
            return self.text(content.decode())
        except UnicodeDecodeError:
            return f"{len(content) > 0} bytes of {path.suffix}"

    def _arrays(self, content: bytes) -> Iterable[str]:
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            for name in arrays:
                array = arrays[name]
                if array.dtype.kind == "f":
                    what = f"|sum| {np.nansum(np.abs(array)):.9g}"
                elif name == "header" or array.dtype == np.uint8:
                    what = self.text(array.tobytes().decode(errors="replace"))
                else:
                    what = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
                yield f"{name} {array.dtype.str} {array.shape} {what}"


def options() -> str:
    """Every command with its arguments and options: names, what they take, default and help."""
    lines: list[str] = []
    for name, each in COMMANDS.items():
        lines += [f"steelyard {name}: {each.help}"]
        for p in each.params:
            facts = [
                f"default {p.default!r}",
                *(word for word in ("required", "multiple", "hidden") if getattr(p, word, 0)),
            ]
            lines += [f"  {' '.join([*p.opts, *p.secondary_opts])}: {', '.join(facts)}"]
            lines += [f"    {getattr(p, 'help', None)}"]
        lines += [""]
    return "\n".join(lines)


def nets() -> dict[str, Callable[[], str]]:
    """What the net holds, by the name of its file, and how each is made."""
    return {**{name: partial(shown, name) for name in SCENARIOS}, "options": options}


def main() -> None:
    NET.mkdir(exist_ok=True)
    for name, made in nets().items():
        path, text = NET / f"{name}.txt", made()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {path.relative_to(HERE)}")


if __name__ == "__main__":
    main()
