"""WordLlama's static token vectors: a small model that runs on any machine, offline.

A text's vector is the mean of its tokens' vectors, at length 1. Weights and tokenizer are read from the installed
package's files; the package itself is never imported, because its loader downloads what it does not find. Long texts
are taken whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.errors import UsageError, printable
from steelyard.texts.embedders.contract import Progress, embedders, empty
from steelyard.texts.vectors import Matrix

MODEL = "l2_supercat_256"
_WEIGHTS = Path("weights", "l2_supercat_256.safetensors")
_TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")
_BATCH = 256  # texts at once
_SLICE = 8192  # tokens at once: a long text needs no more memory than a short one


class WordLlama:
    """The mean of token vectors."""

    provider = "wordllama"
    model = MODEL

    def __init__(self, folder: Path) -> None:
        try:
            from safetensors import safe_open
            from tokenizers import Tokenizer
        except ImportError:
            raise _not_installed() from None
        try:
            with safe_open(folder / _WEIGHTS, framework="np") as file:
                self._weights: npt.NDArray[np.float32] = file.get_tensor("embedding.weight").astype(np.float32)
            self._tokenizer: Any = Tokenizer.from_file(str(folder / _TOKENIZER))
        except Exception:  # the tokenizer's errors have no class of their own
            raise UsageError(
                f"the files of wordllama in {printable(folder)} are missing or damaged; install it again"
            ) from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def embed(self, ids: Sequence[str], texts: Sequence[str], *, what: str, progress: Progress | None = None) -> Matrix:
        vectors = np.empty((len(texts), self._weights.shape[1]), np.float32)
        for start in range(0, len(texts), _BATCH):
            batch = self._tokenizer.encode_batch(list(texts[start : start + _BATCH]), add_special_tokens=False)
            for row, encoded in enumerate(batch, start):
                if not encoded.ids:
                    raise empty(what, ids[row])
                vectors[row] = self._vector(np.array(encoded.ids))
            if progress is not None:
                progress(min(1.0, (start + _BATCH) / len(texts)))
        return vectors

    def _vector(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        total = np.zeros(self._weights.shape[1])
        for start in range(0, len(tokens), _SLICE):
            total += self._weights[tokens[start : start + _SLICE]].sum(0, dtype=np.float64)
        length = np.linalg.norm(total)
        return total / length if length else total


def factory(argument: str) -> WordLlama:
    if argument:
        raise UsageError(f"wordllama:{printable(argument)}: there is one model only; write `wordllama`")
    spec = find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise _not_installed()
    return WordLlama(Path(next(iter(spec.submodule_search_locations))))


def _not_installed() -> UsageError:
    return UsageError("the embedder 'wordllama' is not installed; pip install \"steelyard[embeddings]\"")


embedders.add("wordllama", factory)
