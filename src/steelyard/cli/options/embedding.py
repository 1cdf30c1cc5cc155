"""Options of commands that embed or shift, and the corpus that they mean."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli.command import READS, Bundle, Reads, say
from steelyard.cli.progress import progress
from steelyard.errors import UsageError, counted
from steelyard.ground.keys import is_variable

API_KEY = "OPENAI_API_KEY"


def _files_of(text: str) -> list[str]:
    """The files that a shift or an embedder may mean: all of its text, or what stands behind a colon."""
    return [text, *filter(None, [text.partition(":")[2]])]


Docs = Annotated[
    str,
    typer.Argument(help="A folder of .txt and .md files, a .jsonl or .json file, or vectors in .npz, .npy."),
    READS,
]
Queries = Annotated[
    str,
    typer.Argument(help="A .json or .jsonl file with id, text and relevantDocId; or vectors in .npz, .npy."),
    READS,
]
EmbedderName = Annotated[
    str | None,
    typer.Option("--embedder", help="hash[:DIMENSION] (the default), wordllama, openai:MODEL, npz:FILE or npy:FILE."),
    Reads(_files_of),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="openai: the server, such as http://localhost:8080/v1.")
]
ApiKeyVariable = Annotated[
    str, typer.Option("--api-key-env", help="openai: the environment variable that holds the key.")
]
Cache = Annotated[
    Path | None, typer.Option("--cache", help="openai: a folder in which vectors are kept by content."), READS
]
ChunkSize = Annotated[
    int | None, typer.Option("--chunk-size", help="Cut documents into pieces of so many words; their mean counts.")
]
Overlap = Annotated[int, typer.Option("--overlap", help="Words that neighbouring pieces share.")]
ShiftName = Annotated[
    str | None,
    typer.Option("--shift", help="none, best, best:WORKFLOW, a training's id, or a .json, .npy file."),
    Reads(_files_of),
]
ShiftToApply = Annotated[
    str, typer.Argument(help="none, best, a training's id, or a .json, .npy or .npz file."), Reads(_files_of)
]
Scale = Annotated[float | None, typer.Option("--scale", help="How far along the shift; its own scale by default.")]
AllowCancelled = Annotated[
    bool, typer.Option("--allow-cancelled", help="Apply a shift that was cancelled when it was trained.")
]


@dataclass(frozen=True, kw_only=True)
class Texts(Bundle):
    """What is searched and for what, and what embeds it."""

    docs: Docs
    queries: Queries
    embedder: EmbedderName = None

    @property
    def files(self) -> tuple[str, str]:
        """The documents and the queries."""
        return self.docs, self.queries


@dataclass(frozen=True, kw_only=True)
class Embedding(Bundle):
    """How texts are embedded."""

    base_url: BaseUrl = None
    api_key_env: ApiKeyVariable = API_KEY
    cache: Cache = None
    chunk_size: ChunkSize = None
    overlap: Overlap = 0

    def corpus(self, texts: Texts, **more: Any) -> Any:
        """Documents and queries, embedded."""
        from steelyard.retrieval.corpus import load

        if texts.embedder is None and (self.base_url is not None or self.cache is not None):
            raise UsageError("--base-url and --cache belong to an embedder; name it: --embedder openai:MODEL")
        _check_name(self.api_key_env)
        embedder = None if texts.embedder is None else self._embedder(texts.embedder)
        with progress("embedding") as bar:
            corpus = load(
                *texts.files,
                embedder,
                chunk_size=self.chunk_size,
                overlap=self.overlap,
                progress=bar,
                **more,
            )
        if embedder is not None and embedder.damaged:
            say(
                f"note: {counted(embedder.damaged, 'damaged record')} of the cache "
                f"{'was' if embedder.damaged == 1 else 'were'} passed over and embedded again"
            )
        return corpus

    def _embedder(self, text: str) -> Any:
        """The embedder that the options mean; the key comes from the environment, never from the command line."""
        from steelyard.texts.embedders import embedder

        settings: dict[str, Any] = {"base_url": self.base_url, "cache": self.cache}
        if text.partition(":")[0] == "openai":
            settings["api_key"] = os.environ.get(self.api_key_env) or None
            if self.api_key_env != API_KEY and settings["api_key"] is None:
                raise UsageError(f"--api-key-env: the variable {self.api_key_env} is not set")
        return embedder(text, **settings)


def _check_name(variable: str) -> None:
    """Refuse what may be a key itself, and never show it."""
    if not is_variable(variable, os.environ):
        raise UsageError(
            "--api-key-env takes the name of an environment variable that holds the key, such as OPENAI_API_KEY; "
            "what was given does not look like a name"
        )
