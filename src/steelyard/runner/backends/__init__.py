"""Who is asked: one file per kind of backend, `contract` says how to add one.

openai      any server that speaks OpenAI's chat protocol: OpenAI, OpenRouter, vLLM, llama.cpp, LM Studio
callable    a function of yours, `module:function`
replay      answers that were recorded before
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from steelyard.runner.backends.contract import (
    Backend,
    Finding,
    Inference,
    Message,
    Options,
    Reply,
    Request,
    Token,
    backends,
)

for _module in iter_modules(__path__):  # a file in this folder is known by being there
    import_module(f"{__name__}.{_module.name}")

__all__ = ["Backend", "Finding", "Inference", "Message", "Options", "Reply", "Request", "Token", "backends"]
