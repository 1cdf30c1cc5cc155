"""From texts to vectors: one file a way of doing it, `contract` says how to add one.

embedder("hash:256")                           # offline, no model: shared words and word parts
embedder("wordllama")                          # offline, a small model
embedder("openai:MODEL", base_url="http://…")  # a server that speaks OpenAI's protocol
embedder("npz:FILE")                           # vectors that were made elsewhere
"""

from __future__ import annotations

from steelyard.retrieval.embedders import hash, openai, precomputed, wordllama  # noqa: F401 - each adds its embedder
from steelyard.retrieval.embedders.contract import Checked, Embedder, embedder, embedders

__all__ = ["Checked", "Embedder", "embedder", "embedders"]
