"""What is searched: documents from a folder of texts or a JSON file, cut into pieces where they are long, as vectors.

    documents = read_documents("guidelines/")            # one .txt or .md file each, its name is the id
    documents = read_documents("guidelines.jsonl")       # {"id": "d1", "title": "…", "text": "…"}
    vectors, ingest = embedded(documents, embedder("hash"), chunk_size=200, overlap=20)

Every document has one vector in the end: of a long one, the mean of its pieces.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.errors import InputError, UsageError, printable
from steelyard.ground.files import read_plain, reason
from steelyard.records.table import Source
from steelyard.retrieval.rows import Names, Row, read_rows, same_for_all, unique_ids
from steelyard.texts.embedders.contract import Embedder
from steelyard.texts.vectors import Matrix, Vectors, checked, first_repeat

SUFFIXES = (".txt", ".md")
LARGEST_TEXT = 64 * 2**20  # bytes of one file in a folder
_FIELDS: Names = {"id": ("id", "docId"), "text": ("text", "content"), "vector": ("vector",), "title": ("title",)}
_WORD = re.compile(r"\S+")
_UNIT = 1e-4  # how far from 1 the length of a vector of length 1 may be


@dataclass(frozen=True, eq=False, kw_only=True)
class Documents:
    """Documents as texts, or as vectors where the file gave those; their texts are empty then.

    `ignored` counts the entries of a folder that are no documents.
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    vectors: Matrix | None
    sources: tuple[Source, ...]
    name: str
    ignored: int = 0

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True)
class Ingest:
    """How documents became vectors: what was read, what made the vectors, how the texts were cut."""

    documents: int
    chunks: int
    dimension: int
    provider: str
    model: str
    normalised: bool
    chunk_size: int | None
    overlap: int
    inputs: tuple[dict[str, str | None], ...]
    texts_sha256: str | None
    cached: int
    ignored_files: int

    def document(self) -> dict[str, Any]:
        """The same as JSON-ready values."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"schema_version": "1", "kind": "ingest", **fields, "inputs": [dict(each) for each in self.inputs]}


def read_documents(path: str | os.PathLike[str]) -> Documents:
    """The documents in a folder of `.txt` and `.md` files, or in a `.jsonl` or `.json` file."""
    name = os.fspath(path)
    return _folder(name) if os.path.isdir(name) else _file(name)


def chunks(text: str, *, size: int, overlap: int = 0) -> list[str]:
    """Pieces of `size` words, each of which begins with the last `overlap` words of the one before it.

    >>> chunks("one two three four five", size=3, overlap=1)
    ['one two three', 'three four five']
    """
    _check_cut(size, overlap)
    words = [word.span() for word in _WORD.finditer(text)]
    if len(words) <= size:
        return [text]
    step = size - overlap
    starts = range(0, len(words) - overlap, step)  # a further one would hold nothing new
    return [text[words[at][0] : words[min(at + size, len(words)) - 1][1]] for at in starts]


def embedded(
    documents: Documents,
    embedder: Embedder | None,
    *,
    chunk_size: int | None = None,
    overlap: int = 0,
    progress: Callable[[float], None] | None = None,
) -> tuple[Vectors, Ingest]:
    """One vector per document, and how it came about.

    With `chunk_size`, texts are cut into pieces of so many words; a document's vector is then the mean of its pieces'
    vectors, at length 1. Vectors that the file itself gave are taken as they are.
    """
    if chunk_size is None and overlap:
        raise UsageError("an overlap needs a chunk size")
    if chunk_size is not None:
        _check_cut(chunk_size, overlap)
    before = getattr(embedder, "cached", 0)
    count = len(documents)
    if documents.vectors is not None:
        if chunk_size is not None:
            raise UsageError(f"{printable(documents.name)} has vectors, not texts: there is nothing to cut")
        matrix, provider, model = documents.vectors, "given", ""
    elif embedder is None:
        raise UsageError(f"{printable(documents.name)} has texts; name an embedder that turns them into vectors")
    else:
        pieces = [
            [text] if chunk_size is None else chunks(text, size=chunk_size, overlap=overlap) for text in documents.texts
        ]
        counts = [len(each) for each in pieces]
        ids = [id for id, times in zip(documents.ids, counts, strict=True) for _ in range(times)]
        texts = [piece for each in pieces for piece in each]
        matrix = embedder.embed(ids, texts, what="documents", progress=progress)
        provider, model, count = embedder.provider, embedder.model, len(texts)
        if chunk_size is not None:
            matrix = _means(matrix, counts, printable(documents.name))
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    ingest = Ingest(
        documents=len(documents),
        chunks=count,
        dimension=matrix.shape[1],
        provider=provider,
        model=model,
        normalised=bool((np.abs(lengths - 1) < _UNIT).all()),
        chunk_size=chunk_size,
        overlap=overlap,
        inputs=tuple({"path": source.name, "sha256": source.sha256} for source in documents.sources),
        texts_sha256=None if documents.vectors is not None else _digest(documents),
        cached=getattr(embedder, "cached", 0) - before,
        ignored_files=documents.ignored,
    )
    sha256 = documents.sources[0].sha256 if len(documents.sources) == 1 else None
    return Vectors(name=documents.name, matrix=matrix, ids=documents.ids, gold=None, sha256=sha256), ingest


def _check_cut(size: int, overlap: int) -> None:
    if not 0 <= overlap < size:
        raise UsageError("a chunk has at least one word, and more words than it shares with the one before it")


def _means(matrix: Matrix, counts: list[int], name: str) -> Matrix:
    """The mean of each run of rows, at length 1."""
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    sums = np.add.reduceat(matrix, starts, axis=0, dtype=np.float64)
    means = checked(sums / np.array(counts)[:, None], f"the means of the chunks of {name}")
    return (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(matrix.dtype)


def _digest(documents: Documents) -> str:
    digest = hashlib.sha256()
    for part in (part for pair in zip(documents.ids, documents.texts, strict=True) for part in pair):
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def _file(name: str) -> Documents:
    rows, sha256 = read_rows(name, _FIELDS, what="documents")
    ids = unique_ids(rows)
    source = Source(name, sha256, len(rows))
    vectors = same_for_all(rows, "vector", Row.vector)
    if vectors is None:
        return Documents(ids=ids, texts=tuple(map(_text, rows)), vectors=None, sources=(source,), name=name)
    for row, vector in zip(rows, vectors, strict=True):
        if len(vector) != len(vectors[0]):
            raise row.error(
                f"has {len(vector)} numbers, the first has {len(vectors[0])}; embed all with the same model", "vector"
            )
    matrix = checked(np.stack(vectors), f"the documents of {printable(name)}")
    return Documents(ids=ids, texts=("",) * len(ids), vectors=matrix, sources=(source,), name=name)


def _text(row: Row) -> str:
    text = row.text("text")
    if text is None:
        raise row.error("is missing: a text or a vector is expected", "text")
    title = row.text("title") if row.value("title") != "" else None
    return text if title is None else f"{title}\n\n{text}"


def _folder(folder: str) -> Documents:
    try:
        entries = sorted(os.listdir(folder))
    except OSError as problem:
        raise InputError(f"cannot be read: {reason(problem)}", file=folder) from None
    files = [entry for entry in entries if not entry.startswith(".") and Path(entry).suffix.lower() in SUFFIXES]
    if not files:
        raise InputError("there are no .txt or .md files in this folder", file=folder)
    files.sort(key=lambda file: (Path(file).stem, file))
    ids = tuple(Path(file).stem for file in files)
    if repeat := first_repeat(ids):
        first, second = (os.path.join(folder, files[place]) for place in repeat)
        raise InputError(
            f"has the same id as {printable(first)}: the name without its suffix, capital letters aside; rename one",
            file=second,
        )
    texts, sources = [], []
    for file in files:
        path = os.path.join(folder, file)
        data = _plain(folder, path)
        texts.append(_decoded(path, data))
        sources.append(Source(path, hashlib.sha256(data).hexdigest(), 1))
    return Documents(
        ids=ids,
        texts=tuple(texts),
        vectors=None,
        sources=tuple(sources),
        name=folder,
        ignored=len(entries) - len(files),
    )


def _plain(folder: str, path: str) -> bytes:
    """The bytes of a file that is in the folder, or of one in it to which it leads."""
    target = os.path.realpath(path)
    if os.path.commonpath((os.path.realpath(folder), target)) != os.path.realpath(folder):
        raise InputError("is a link that leads out of the folder; put the file itself there", file=path)
    try:
        os.path.basename(path).encode()
        return read_plain(Path(target), LARGEST_TEXT)
    except OSError as problem:
        raise InputError(f"cannot be read: {reason(problem)}", file=path) from None
    except UnicodeEncodeError:
        raise InputError("the file's name is not UTF-8; rename it", file=path) from None


def _decoded(path: str, data: bytes) -> str:
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as problem:
        at = problem.start + (3 if data.startswith(codecs.BOM_UTF8) else 0)
        raise InputError(f"not UTF-8 text (byte {at}); convert the file to UTF-8", file=path) from None
    if not text.strip():
        raise InputError("the file is empty; remove it or write its text", file=path)
    return text
