"""Make logs with the real inspect_ai, offline, and write down what the package itself reads in them.

    python make_inspect_logs.py FOLDER          every shape, for `make interop`
    python make_inspect_logs.py FOLDER --small  the few that are committed in tests/data/inspect

The questions are invented, the model is a mock that replies by rule. FOLDER/facts.json maps each log to its samples and
metrics.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STATE = tempfile.mkdtemp()
os.environ |= {"XDG_DATA_HOME": STATE, "XDG_CACHE_HOME": STATE, "INSPECT_DISPLAY": "none", "INSPECT_LOG_LEVEL": "error"}

from inspect_ai import Epochs, Task, eval, score  # noqa: E402
from inspect_ai.dataset import Sample  # noqa: E402
from inspect_ai.log import read_eval_log, write_eval_log  # noqa: E402
from inspect_ai.log._recorders.chunked import convert_eval_logs_to_chunked  # noqa: E402
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # noqa: E402
from inspect_ai.model._model_output import Logprob, Logprobs, TopLogprob  # noqa: E402
from inspect_ai.scorer import (  # noqa: E402
    Score,
    accuracy,
    choice,
    includes,
    match,
    mean,
    pattern,
    scorer,
    std,
    stderr,
    var,
)
from inspect_ai.solver import Generate, TaskState, generate, multiple_choice, solver  # noqa: E402

FINDINGS = ("fever", "cough", "rash", "pain", "thirst", "nausea", "fatigue", "vertigo", "cramps", "chills")
REPLIES = ("ANSWER: A", "ANSWER: B", "I don't know", "ANSWER: A", "Perhaps it is the heart.", "ANSWER: A", "")
METRICS = [accuracy(), mean(), std(), var(), stderr(), stderr(cluster="patient")]


class Replies:
    """A model that goes through its replies, the next one at every call."""

    def __init__(self, stop_at: int | None = None, long: int = 0) -> None:
        self.calls, self.stop_at, self.long = 0, stop_at, long

    def __call__(self, *_: Any, **__: Any) -> ModelOutput:
        if self.calls == self.stop_at:
            os._exit(9)  # as a run that is killed
        text = REPLIES[self.calls % len(REPLIES)]
        text += f" {'because ' * self.long}" if text and self.long else ""
        output = ModelOutput.from_content("mockllm/model", text)
        output.usage = ModelUsage(input_tokens=5 + self.calls % 3, output_tokens=3, total_tokens=8 + self.calls % 3)
        likeliest = [TopLogprob(token="A", logprob=-0.1), TopLogprob(token="B", logprob=-2.4 - self.calls % 4)]
        output.choices[0].logprobs = Logprobs(content=[Logprob(token="A", logprob=-0.1, top_logprobs=likeliest)])
        self.calls += 1
        return output


def samples(count: int, *, texts: bool = False) -> list[Sample]:
    return [
        Sample(
            id=f"q/{place}" if texts else place + 1,
            input=f"Which organ does {finding} of case {place} point to?",
            target="A" if place % 3 else ["A", "B"][: 1 + texts],
            choices=["heart", "lung", "skin"],
            metadata={
                "patient": f"p{place // 3}",
                "site": {"name": "north" if place % 2 else "south"},
                "should_abstain": place % 4 == 2,
            },
        )
        for place, finding in zip(range(count), FINDINGS * 10, strict=False)
    ]


@scorer(metrics=[mean(), stderr()])
def graded() -> Any:
    """A score between none and full, without an answer; some cannot be made."""

    async def score(state: TaskState, target: Any) -> Score:
        if state.sample_id == 5 or (int(state.sample_id) % 4 == 0 and state.epoch == 1):
            return Score.unscored(reason="grader_failed")
        return Score(value=(len(state.output.completion) % 5) / 4)

    return score


@scorer(metrics={"form": [accuracy(), stderr()], "length": [mean(), std()]})
def rubric() -> Any:
    """Two scores at once."""

    async def score(state: TaskState, target: Any) -> Score:
        text = state.output.completion
        return Score(value={"form": "C" if text.startswith("ANSWER") else "I", "length": len(text)}, answer=text)

    return score


@solver
def breaking() -> Any:
    """Breaks for every fifth sample."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if int(str(state.sample_id)) % 5 == 0:
            raise ValueError("an invented fault")
        return await generate(state)

    return solve


def run(
    folder: Path, name: str, task: Task, model: Replies | None = None, format: str = "eval", **options: Any
) -> Path:
    """Run a task, and give its log a name."""
    logs = tempfile.mkdtemp()
    eval(
        task,
        model=get_model("mockllm/model", custom_outputs=model or Replies(), memoize=False),
        log_dir=logs,
        log_format=format,
        display="none",
        max_samples=1,
        max_connections=1,
        **options,
    )
    return Path(shutil.move(next(Path(logs).glob(f"*.{format}")), folder / f"{name}.{format}"))


def choices(count: int, *, texts: bool = False, **options: Any) -> Task:
    return Task(
        name="organs", dataset=samples(count, texts=texts), solver=multiple_choice(), scorer=choice(), **options
    )


def shapes(folder: Path) -> Iterator[Path]:
    """Every shape of log."""
    yield run(folder, "two_epochs", choices(10, epochs=2, metrics=METRICS))
    yield run(folder, "document", choices(10, texts=True, epochs=2, metrics=METRICS), format="json")
    several = Task(dataset=samples(12), solver=generate(), scorer=[match(), includes(), graded(), rubric()], epochs=2)
    yield run(folder, "several_scorers", several, Replies(long=30))
    yield run(folder, "graded", Task(dataset=samples(12), solver=generate(), scorer=graded(), epochs=2))
    patterns = Task(dataset=samples(10), solver=generate(), scorer=pattern(r"ANSWER: (\w)"))
    yield run(folder, "pattern", patterns)
    broken = Task(dataset=samples(12), solver=breaking(), scorer=match())
    yield run(folder, "errors", broken, fail_on_error=False)
    yield run(folder, "limits", choices(12), token_limit=9)
    yield run(folder, "limited", choices(12, texts=True), limit=7)
    reducers = Epochs(4, ["mean", "mode", "max", "median", "at_least_2", "pass_at_2", "pass_k_2"])
    yield run(folder, "reducers", choices(8, epochs=reducers, metrics=METRICS))
    stopped = Task(dataset=samples(12), solver=breaking(), scorer=match())
    yield run(folder, "stopped", stopped, fail_on_error=1)
    yield chunked(folder, folder / "two_epochs.eval")
    yield chunked(folder, folder / "several_scorers.eval")
    yield deflated(folder, folder / "two_epochs.eval")
    yield scored_again(folder, folder / "two_epochs.eval")
    yield unfinished(folder)


def small(folder: Path) -> Iterator[Path]:
    """The few that are committed."""
    yield run(folder, "two_epochs", choices(4, epochs=2, metrics=METRICS))
    texts = Task(name="texts", dataset=samples(2), solver=generate(), scorer=includes())
    yield chunked(folder, run(folder, "texts", texts, Replies(long=30)))
    (folder / "texts.eval").unlink()
    organs = Task(name="organs", dataset=samples(2, texts=True), solver=generate(), scorer=match())
    yield run(folder, "document", organs, format="json")
    yield unfinished(folder, 4, 3)


def chunked(folder: Path, log: Path) -> Path:
    """The log with its samples in parts."""
    converted = tempfile.mkdtemp()
    convert_eval_logs_to_chunked(str(log), converted, chunk_size=2, attachments_chunk_bytes=300)
    return Path(shutil.move(Path(converted) / log.name, folder / f"{log.stem}_chunked.eval"))


def deflated(folder: Path, log: Path) -> Path:
    """The log as earlier versions packed it."""
    path = folder / f"{log.stem}_deflated.eval"
    with zipfile.ZipFile(log) as packed, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in packed.namelist():
            archive.writestr(name, packed.read(name))
    return path


def scored_again(folder: Path, log: Path) -> Path:
    """The log with the scores of another scorer beside its own."""
    path = folder / f"{log.stem}_scored_again.eval"
    shutil.copy(log, path)
    again = score(read_eval_log(str(path)), [includes()], action="append", display="none")
    write_eval_log(again, str(path))
    return path


def unfinished(folder: Path, count: int = 10, stop_at: int = 7) -> Path:
    """What a run leaves behind that is killed."""
    logs = tempfile.mkdtemp()
    subprocess.run([sys.executable, __file__, logs, "--kill", str(count), str(stop_at)], check=False)
    return Path(shutil.move(next(Path(logs).glob("*.eval")), folder / "unfinished.eval"))


def killed(logs: str, count: int, stop_at: int) -> None:
    eval(
        choices(count, metrics=METRICS),
        model=get_model("mockllm/model", custom_outputs=Replies(stop_at), memoize=False),
        log_dir=logs,
        log_format="eval",
        log_buffer=1,
        display="none",
        max_samples=1,
        max_connections=1,
    )


def facts(path: Path) -> dict[str, Any]:
    """What the package itself reads in a log."""
    whole = path.with_name(path.name.replace("_chunked", ""))  # it reads only samples that are not in parts
    log = read_eval_log(str(whole), resolve_attachments=True)
    return {
        "status": log.status,
        "samples": [
            {
                "id": sample.id,
                "epoch": sample.epoch,
                "error": sample.error is not None,
                "limit": sample.limit is not None,
                "completion": sample.output.completion,
                "scores": json.loads(json.dumps({n: s.model_dump() for n, s in (sample.scores or {}).items()})),
            }
            for sample in log.samples or []
        ],
        "metrics": [
            [entry.scorer, entry.name, entry.reducer, key, metric.value]
            for entry in (log.results.scores if log.results else [])
            for key, metric in entry.metrics.items()
        ],
    }


def main(place: str, *options: str) -> None:
    if "--kill" in options:
        killed(place, *map(int, options[1:]))
        return
    folder = Path(place)
    folder.mkdir(parents=True, exist_ok=True)
    made = list(small(folder) if "--small" in options else shapes(folder))
    if "--small" not in options:
        (folder / "facts.json").write_text(json.dumps({path.name: facts(path) for path in made}))
    for path in made:
        print(path.name, path.stat().st_size)
    shutil.rmtree(STATE, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
