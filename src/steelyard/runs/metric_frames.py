"""The numbers of all kept runs as frames, at full precision: one row per number, or one per run."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import pyarrow as pa

from steelyard.errors import UsageError
from steelyard.ground.frames import to_pandas, to_polars
from steelyard.naming import slice_text
from steelyard.runs.index import METRIC_COLUMNS, Index

if TYPE_CHECKING:
    import pandas
    import polars

    Frame: TypeAlias = pandas.DataFrame | polars.DataFrame | list[dict[str, str | float | None]]

_WHERE = ("workflow", "domain")  # with the id, they tell the runs of a tenant apart
As = Literal["auto", "pandas", "polars", "dicts"]


def metrics(root: str | Path, *, tenant: str | None = None, domain: str | None = None, as_: As = "auto") -> Frame:
    """Every number of the runs kept under a root: `run_id`, `metric_name`, `value`, `workflow`, `domain`.

    Ids are unique in a workflow of a domain only, so these tell runs apart that share one. A number of a slice has the
    slice in its name: `accuracy{model=m1}`. The frame is pandas' where that is installed,
    else polars', else a list of dictionaries; `as_` chooses one.

    >>> metrics("a root without runs", as_="dicts")
    []
    """
    _checked(as_)
    with Index(Path(root), tenant=tenant, domain=domain) as index:
        columns = (*METRIC_COLUMNS, *_WHERE)
        rows = [dict(zip(columns, row, strict=True)) for row in index.rows(of_runs=_WHERE)]
    return _frame(
        {
            "run_id": pa.array([row["run_id"] for row in rows], pa.string()),
            "metric_name": pa.array([f"{row['metric_name']}{row['slice'] or ''}" for row in rows], pa.string()),
            "value": pa.array([row["value"] for row in rows], pa.float64()),
            **{name: pa.array([row[name] for row in rows], pa.string()) for name in _WHERE},
        },
        as_,
    )


def metrics_pivot(root: str | Path, *, tenant: str | None = None, domain: str | None = None, as_: As = "auto") -> Frame:
    """The runs kept under a root as rows, the newest first, and their metrics as columns.

    `run_id`, `workflow` and `domain` come first; runs that share an id have a row each. A run of several models,
    strategies, tasks or perturbations has a column per metric and cell.

    >>> metrics_pivot("a root without runs", as_="dicts")
    []
    """
    _checked(as_)
    with Index(Path(root), tenant=tenant, domain=domain) as index:
        _, cells = index.cells()
    whose = {cell.path: (cell.run_id, cell.workflow, cell.domain) for cell in cells}
    runs: dict[str, dict[str, float]] = {path: {} for path in whose}
    for cell in cells:
        values = runs[cell.path]
        values |= {f"{name}{slice_text(dict(cell.cell))}": value for name, value in cell.values.items()}
    names: Sequence[str] = sorted({name for values in runs.values() for name in values})
    columns = {
        name: pa.array([each[place] for each in whose.values()], pa.string())
        for place, name in enumerate(("run_id", *_WHERE))
    }
    for name in names:
        columns[name] = pa.array([values.get(name) for values in runs.values()], pa.float64())
    return _frame(columns, as_)


def _checked(as_: str) -> None:
    if as_ not in get_args(As):
        raise UsageError(f"`as_=` is one of {', '.join(get_args(As))}")


def _frame(columns: dict[str, pa.Array], as_: As) -> Frame:
    table = pa.table(columns)
    if as_ == "auto":
        as_ = "pandas" if find_spec("pandas") else "polars" if find_spec("polars") else "dicts"
    if as_ == "dicts":
        return table.to_pylist()
    return to_pandas(table) if as_ == "pandas" else to_polars(table)
