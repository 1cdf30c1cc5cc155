"""Who is asked: one file per kind of backend, `contract` says how to add one.

openai      any server that speaks OpenAI's chat protocol: OpenAI, OpenRouter, vLLM, llama.cpp, LM Studio
anthropic   Anthropic's messages protocol
ollama      an Ollama server, by its own protocol
llama_cpp   a GGUF file, run by llama.cpp in a process of its own: no server to install
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
