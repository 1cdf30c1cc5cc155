"""From texts to vectors: one file a way of doing it, `contract` says how to add one.

embedder("hash:256")                           # offline, no model: shared words and word parts
embedder("wordllama")                          # offline, a small model
embedder("openai:MODEL", base_url="http://…")  # a server that speaks OpenAI's protocol
embedder("npz:FILE")                           # vectors that were made elsewhere
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from steelyard.texts.embedders.contract import Checked, Embedder, embedder, embedders

for _module in iter_modules(__path__):  # a file in this folder is known by being there
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Checked", "Embedder", "embedder", "embedders"]
