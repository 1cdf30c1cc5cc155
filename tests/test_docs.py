"""What the documentation shows is what the program does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import docs
from steelyard.runner.plan import planned
from steelyard.runner.spec import load_spec
from tests.support.places import ROOT

pytestmark = pytest.mark.slow

YAML = re.compile(r"```yaml\n(.*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
DRAWN_BY = re.compile(r"Matplotlib v[0-9.]+")


@pytest.fixture(scope="module", autouse=True)
def _example() -> None:
    docs.example()


@pytest.mark.parametrize("page", [p for p in docs.pages() if p.name != "metrics.md"], ids=lambda p: p.name)
def test_shown_outputs_are_the_real_ones(page: Path) -> None:
    text = page.read_text()
    assert docs.refreshed(text) == text, "run make docs"


def test_published_schemas_and_pictures_are_current() -> None:
    drawn_elsewhere = False
    for path, text in docs.published().items():
        shown = path.read_text()
        if DRAWN_BY.findall(shown) != DRAWN_BY.findall(text):
            drawn_elsewhere = True
            continue
        assert shown == text, f"{path.name}: run make docs"
    if drawn_elsewhere:
        pytest.skip("another version of Matplotlib drew the pictures, and draws letters in its own way")


def test_the_metric_reference_is_the_registry() -> None:
    script = "import sys; from scripts import docs; sys.stdout.write(docs.catalogue())"
    done = subprocess.run(  # in a process of its own: other tests register metrics in this one
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert (ROOT / "docs/metrics.md").read_text() == done.stdout, "run make docs"


def blocks() -> list[tuple[str, str]]:
    return [
        (f"{page.name}-{i}", code) for page in docs.pages() for i, code in enumerate(PYTHON.findall(page.read_text()))
    ]


@pytest.mark.parametrize("code", [code for _, code in blocks()], ids=[name for name, _ in blocks()])
def test_shown_code_runs(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr


def test_shown_specs_are_specs(tmp_path: Path) -> None:
    shown = YAML.findall((ROOT / "docs/running.md").read_text())
    specs = [text for text in shown if text.startswith("id:")]
    assert len(specs) > 3
    for text in specs:
        (tmp_path / "spec.yaml").write_text(text)
        assert planned(load_spec(tmp_path / "spec.yaml")).count > 0
    for name in ("ckd", "triage_jira"):
        (shown_spec,) = [text for text in specs if text.startswith(f"id: {name}\n")]
        assert shown_spec.splitlines() == [
            line
            for line in (ROOT / "examples" / name / "spec.yaml").read_text().splitlines()
            if not line.startswith(("#", "description"))
        ]


def test_links_between_pages_lead_somewhere() -> None:
    for page in docs.pages():
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
