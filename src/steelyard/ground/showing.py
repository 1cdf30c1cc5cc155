"""How results show themselves, without knowing who draws them: a port that the rooms above fill.

A class whose results people look at derives from `Shows` and says three things: a line or two (`__repr__`), plain data
(`to_dict`), and a tidy table (`to_arrow`). Formats and pictures belong to rooms above; the first time one is asked
for, the module that `presented_by` named is imported, and registers a `Presenter` for each class.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from steelyard.errors import UsageError, printable

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa
    from matplotlib.figure import Figure

Json: TypeAlias = dict[str, Any]  # a document: strings, numbers, lists and further documents, as `json` knows them


@dataclass(frozen=True, kw_only=True)
class Presenter:
    """What is made of a result for people: a text in a format by its name, the formats' suffixes, and a picture."""

    rendered: Callable[[Any, str], str]
    formats: Callable[[], dict[str, str]]  # the name of a format by its suffix
    plotted: Callable[[Any], Figure]


_presenters: dict[type, Presenter] = {}
_modules: list[str] = []


def presented_by(module: str) -> None:
    """Name the module that registers presenters; it is imported when the first result is shown."""
    _modules.append(module)


def present(kind: type, presenter: Presenter) -> None:
    """Register what shows the results of a class."""
    _presenters[kind] = presenter


def presenter_of(result: object) -> Presenter:
    """What shows a result."""
    for module in _modules:
        import_module(module)
    return next(_presenters[kind] for kind in type(result).__mro__ if kind in _presenters)


def not_over_input(file: Path, inputs: Iterable[str]) -> None:
    """Refuse to write over what a result was made from."""
    if file.exists() and any(os.path.exists(name) and os.path.samefile(file, name) for name in inputs):
        raise UsageError(f"{printable(file)} is what it was made from; name another file to write to")


class Shows:
    """A result that shows itself in notebooks, goes into frames and papers, and is saved by the suffix of a file."""

    def to_dict(self) -> Json:
        """Plain data: the JSON document."""
        raise TypeError(f"{type(self).__name__} has no document")

    def to_arrow(self) -> pa.Table:
        """A tidy table: one row per number."""
        raise TypeError(f"{type(self).__name__} has no table")

    def to_pandas(self) -> pandas.DataFrame:
        """The table of `to_arrow` as a pandas frame; whole numbers stay whole where values are missing.

        >>> import steelyard as sy
        >>> result = sy.evaluate([{"item": 1, "target": "a", "prediction": "a"}], "accuracy", resamples=0)
        >>> result.to_pandas()[["metric", "value", "n"]].values.tolist()
        [['accuracy', 1.0, 1]]
        """
        from steelyard.ground.frames import to_pandas

        return to_pandas(self.to_arrow())

    def to_polars(self) -> polars.DataFrame:
        """The table of `to_arrow` as a polars frame.

        >>> import steelyard as sy
        >>> result = sy.evaluate([{"item": 1, "target": "a", "prediction": "a"}], "accuracy", resamples=0)
        >>> result.to_polars().select("metric", "value", "n").rows()
        [('accuracy', 1.0, 1)]
        """
        from steelyard.ground.frames import to_polars

        return to_polars(self.to_arrow())

    def to_markdown(self) -> str:
        """The report as Markdown: the same tables and notes that the command prints.

        >>> import steelyard as sy
        >>> result = sy.evaluate([{"item": 1, "target": "a", "prediction": "a"}], "accuracy", resamples=0)
        >>> "| accuracy ↑ | 1.000 |" in result.to_markdown()
        True
        """
        return presenter_of(self).rendered(self, "markdown")

    def to_latex(self) -> str:
        """The report as LaTeX for a paper: booktabs tables, metrics by their titles, warnings as comments.

        >>> import steelyard as sy
        >>> result = sy.evaluate([{"item": 1, "target": "a", "prediction": "a"}], "accuracy", resamples=0)
        >>> "Accuracy" in result.to_latex()
        True
        """
        return presenter_of(self).rendered(self, "latex")

    def save(self, path: str | Path) -> Path:
        """Write a file by its suffix: `.json` the document, `.csv`, `.md`, `.tex`, `.html` or `.txt` what people read.

        A file that is there is replaced, whole or not at all, unless the result was made from it. Returns the path.

        >>> import tempfile
        >>> import steelyard as sy
        >>> result = sy.evaluate([{"item": 1, "target": "a", "prediction": "a"}], "accuracy", resamples=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sy.load(result.save(f"{folder}/evaluation.json"))["accuracy"].value
        1.0
        """
        from steelyard.ground.files import write_atomic
        from steelyard.ground.json import dumps

        file = Path(path)
        suffix = file.suffix.lower()
        not_over_input(file, self._inputs())
        if suffix == ".json":
            write_atomic(file, dumps(self.to_dict()))
            return file
        formats = presenter_of(self).formats()
        if suffix not in formats:
            known = ", ".join((".json", *formats))
            raise UsageError(f"{printable(file.name)}: results are saved as {known}; its suffix is none of them")
        write_atomic(file, presenter_of(self).rendered(self, formats[suffix]))
        return file

    def _inputs(self) -> Iterable[str]:
        """The files that the result was made from."""
        return ()

    def plot(self) -> Figure:
        """A Matplotlib figure; a notebook shows it, `savefig` writes it.

        >>> import steelyard as sy
        >>> result = sy.evaluate([{"item": 1, "target": "a", "prediction": "a"}], "accuracy", resamples=0)
        >>> len(result.plot().axes)
        1
        """
        return presenter_of(self).plotted(self)

    def _repr_html_(self) -> str:
        return presenter_of(self).rendered(self, "fragment")

    def _repr_markdown_(self) -> str:
        return self.to_markdown()
