"""Options of commands that embed or shift, and the corpus that they mean."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.errors import UsageError

Docs = Annotated[
    str, typer.Option("--docs", help="A folder of .txt and .md files, a .jsonl or .json file, or vectors in a .npz.")
]
Queries = Annotated[
    str, typer.Option("--queries", help="A .json or .jsonl file with id, text and relevantDocId; or a .npz.")
]
EmbedderName = Annotated[
    str | None,
    typer.Option("--embedder", help="hash[:DIMENSION] (the default), wordllama, openai:MODEL, npz:FILE or npy:FILE."),
]
BaseUrl = Annotated[
    str | None, typer.Option("--base-url", help="openai: the server, such as http://localhost:8080/v1.")
]
ApiKeyVariable = Annotated[
    str, typer.Option("--api-key-env", help="openai: the environment variable that holds the key.")
]
Cache = Annotated[Path | None, typer.Option("--cache", help="openai: a folder in which vectors are kept by content.")]
ChunkSize = Annotated[
    int | None, typer.Option("--chunk-size", help="Cut documents into pieces of so many words; their mean counts.")
]
Overlap = Annotated[int, typer.Option("--overlap", help="Words that neighbouring pieces share.")]
ShiftName = Annotated[
    str | None, typer.Option("--shift", help="none, best, best:WORKFLOW, a training's id, or a .json, .npy file.")
]
Scale = Annotated[float | None, typer.Option("--scale", help="How far along the shift; its own scale by default.")]
AllowCancelled = Annotated[
    bool, typer.Option("--allow-cancelled", help="Apply a shift that was cancelled when it was trained.")
]
API_KEY = "OPENAI_API_KEY"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_KEY = re.compile(  # a vendor's prefix, many hexadecimal digits, or many characters of all kinds
    r"(sk|pk|hf|gh[a-z]|github_pat|xox[a-z])_(?=.*[0-9]).*|[0-9a-fA-F]{32,}"
    r"|(?=.*[0-9])([A-Za-z0-9]{20,}|(?=.*[a-z])(?=.*[A-Z]).{20,})"
)


def corpus(
    docs: str,
    queries: str,
    embedder: str | None,
    *,
    base_url: str | None,
    api_key_env: str,
    cache: Path | None,
    chunk_size: int | None,
    overlap: int,
) -> Any:
    """Documents and queries, embedded."""
    from steelyard.cli.options import progress, say
    from steelyard.retrieval.corpus import load

    if embedder is None and (base_url is not None or cache is not None):
        raise UsageError("--base-url and --cache belong to an embedder; name it: --embedder openai:MODEL")
    _check_name(api_key_env)
    made = None
    if embedder is not None:
        made = named(embedder, base_url=base_url, api_key_env=api_key_env, cache=cache)
    with progress("embedding") as bar:
        found = load(docs, queries, made, chunk_size=chunk_size, overlap=overlap, progress=bar)
    if made is not None and made.damaged:
        say(f"note: {made.damaged} damaged records of the cache were passed over; their texts were embedded anew")
    return found


def files_of(text: str | None) -> list[str]:
    """The files that a shift or an embedder may mean: all of its text, or what stands behind a colon."""
    return [] if text is None else [text, *filter(None, [text.partition(":")[2]])]


def _check_name(variable: str) -> None:
    """Refuse what may be a key itself, and never show it; a variable that is set is surely a name."""
    plain = _NAME.fullmatch(variable) is not None
    if not plain or (_KEY.fullmatch(variable) and variable not in os.environ):
        raise UsageError(
            "--api-key-env takes the name of an environment variable that holds the key, such as OPENAI_API_KEY; "
            "what was given does not look like a name"
        )


def named(text: str, *, base_url: str | None, api_key_env: str, cache: Path | None) -> Any:
    """The embedder that the options mean; the key comes from the environment, never from the command line."""
    import logging

    from steelyard.retrieval.embedders import embedder

    logging.getLogger("stamina").setLevel(logging.ERROR)  # attempts that are repeated are not news
    settings: dict[str, Any] = {"base_url": base_url, "cache": cache}
    if text.partition(":")[0] == "openai":
        settings["api_key"] = os.environ.get(api_key_env) or None
        if api_key_env != API_KEY and settings["api_key"] is None:
            raise UsageError(f"--api-key-env: the variable {api_key_env} is not set")
    return embedder(text, **settings)
