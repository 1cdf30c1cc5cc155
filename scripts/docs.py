"""Keeps the documentation true: runs every command that README and docs show, and writes what it printed below it.

python -m scripts.docs           write the outputs again
python -m scripts.docs --check   say which differ, change nothing
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.commands import command

ROOT = Path(__file__).resolve().parent.parent
STORES = re.compile(r"build/docs/[a-z]+")  # every page has its own
MEASURED = re.compile(r"\d[\d.,e+-]*(?= )")  # seconds, energy: never the same twice
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def pages() -> list[Path]:
    """Every page that may show commands."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def example() -> None:
    """Make the bundled examples that are not there."""
    for made in (
        "triage/answers.jsonl",
        "phq8/run.json",
        "phq8/train.json",
        "trec/qrels.txt",
        "clinical/birch/discharge_summary.jsonl",
        "insurance/queries-drifted.json",
    ):
        path = ROOT / "examples" / made
        if not path.exists():
            folder = ROOT / "examples" / made.partition("/")[0]
            subprocess.run([sys.executable, folder / "make.py"], check=True, capture_output=True)


def refreshed(text: str) -> str:
    """The page with the output of every shown command as it is now."""
    for store in set(STORES.findall(text)):
        shutil.rmtree(ROOT / store, ignore_errors=True)  # a run is never written over
    return BLOCK.sub(lambda found: f"```console\n{_run(found.group(1))}```", text)


def _run(block: str) -> str:
    lines = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {line}\n{_output(line)}" for line in lines)


def _output(line: str) -> str:
    name, *arguments = shlex.split(line)
    if name != "steelyard":
        raise SystemExit(f"only steelyard commands are shown, not {name}")
    done = command(*arguments, cwd=ROOT)
    said = [line for line in done.err.splitlines() if not line.startswith(("wrote", "saved", "asked", "evaluating"))]
    shown = re.sub(r"(?m)^it took .*$", lambda line: MEASURED.sub("…", line.group()), done.out)
    return shown + "".join(f"{line}\n" for line in said)


def catalogue() -> str:
    """docs/metrics.md: every metric with its formula, from the registry."""
    from steelyard.report.catalogue import reference
    from steelyard.report.formats import markdown

    return "# Metrics\n\nWritten by `make docs` from the registry.\n\n" + markdown.render(reference())


def published() -> dict[Path, str]:
    """docs/schemas and docs/pictures: the JSON Schema of every document, and what the pages show."""
    from steelyard.ground.json import dumps
    from steelyard.report.schemas import schemas

    found = {ROOT / f"docs/schemas/{name}.schema.json": dumps(schemas[name]()) for name in schemas}
    return found | {ROOT / f"docs/pictures/{name}.svg": text for name, text in _pictures().items()}


def _pictures() -> dict[str, str]:
    from steelyard.records.readers import read
    from steelyard.report.figures.drawing import draw
    from steelyard.report.figures.selective import selection_figures
    from steelyard.study.calibrating import calibrate
    from steelyard.study.selective import selective

    zero, few = (read(ROOT / "examples/phq8/run.json", where={"strategy": m}) for m in ("zero_shot", "few_shot"))
    train = read(ROOT / "examples/phq8/train.json", where={"strategy": "few_shot"})
    scaled = calibrate(train, "temperature", confidence="verbalized").calibrator
    shown = {
        "risk-coverage.llm": selective(few, confidence="llm"),
        "risk-coverage.token_msp": selective(zero, few, confidence="token_msp"),
        "reliability.verbalized_calibrated": selective(few, confidence="verbalized_calibrated", calibrators=[scaled]),
    }
    figures = {figure.name: figure for found in shown.values() for figure in selection_figures(found)}
    pictures = {name: draw(figures[name])["svg"].decode() for name in shown}
    pictures |= {f"held-out-gain.{name}": _gain(name) for name in ("drifted", "paraphrased")}
    return {**pictures, "benchmark-tasks": _tasks()}


def _tasks() -> str:
    """The combined score of the clinical example in every task."""
    from steelyard.report.figures.benchmark import task_figure
    from steelyard.report.figures.drawing import draw
    from steelyard.study.benchmark import benchmark

    return draw(task_figure(benchmark("clinical", ROOT / "examples/clinical/birch")))["svg"].decode()


def _gain(name: str) -> str:
    """What a shift learned from the insurance example gains on held-out queries."""
    from steelyard.report.figures.drawing import draw
    from steelyard.report.figures.retrieval import held_out_figure
    from steelyard.retrieval.corpus import load
    from steelyard.retrieval.shifts.training import train
    from steelyard.retrieval.wire import training_result
    from steelyard.texts.embedders import embedder

    folder = ROOT / "examples/insurance"
    corpus = load(folder / "policies", folder / f"queries-{name}.json", embedder("hash"))
    result = training_result(train(corpus), corpus, workflow="docs", training_id=name, created="", base_directory="")
    figure = held_out_figure(result)
    assert figure is not None
    return draw(figure)["svg"].decode()


def main() -> None:
    example()
    wanted = {page: refreshed(page.read_text()) for page in pages() if page.name != "metrics.md"}
    wanted[ROOT / "docs/metrics.md"] = catalogue()
    wanted |= published()
    stale = [page for page, text in wanted.items() if not page.exists() or page.read_text() != text]
    if "--check" in sys.argv:
        sys.exit("\n".join(f"{page.relative_to(ROOT)} is not up to date; run make docs" for page in stale))
    for page in stale:
        page.parent.mkdir(exist_ok=True)
        page.write_text(wanted[page])
        print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
