"""The tutorial notebook runs from top to bottom in a real kernel, and is kept without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import nbclient
import nbformat
import pytest

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "tutorial" / "tutorial.ipynb"


def test_it_is_kept_without_outputs() -> None:
    code = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(code) > 10
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.filterwarnings("default")  # those of the kernel's own packages
def test_it_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    kinds = [set(o.get("data", {})) for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]
    assert sum("text/html" in kind for kind in kinds) >= 6  # records, evaluation, frames, comparison, decision
    assert sum("image/png" in kind for kind in kinds) == 3
