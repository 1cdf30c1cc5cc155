"""llama.cpp with one model, as a process of its own: what the backend `llama_cpp` starts, by the path of this file.

It reads a line of JSON from its standard input, `{"gguf", "key", "context", "slots", "threads", "gpu_layers"}`, writes
one to its standard output, `{"address"}` or `{"failure"}`, and answers OpenAI's protocol on the loopback until its
standard input is closed: whoever started it has ended, or wants it to end. It keeps no prompt and shows no pages. This
file knows nothing of the rest of the package, so that starting it costs little.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    """Serve until nobody listens."""
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    asked = json.loads(sys.stdin.readline())
    try:
        server = _served(asked)
        answer = {"address": str(server.listening_address)}
    except Exception as problem:
        answer = {"failure": type(problem).__name__}
    print(json.dumps(answer), file=told, flush=True)
    if "address" in answer:
        sys.stdin.read()
    os._exit(0)  # requests may still be under way


def _served(asked: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = asked["gguf"]
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.api_keys = [asked["key"]]
    params.n_ctx, params.n_parallel = asked["context"] * asked["slots"], asked["slots"]
    params.n_gpu_layers = asked["gpu_layers"]
    if asked["threads"] is not None:
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = asked["threads"]
    params.warmup = params.ui = params.endpoint_slots = params.cache_prompt = False
    params.verbosity = params.cache_ram_mib = 0  # else it writes megabytes, and may keep 8 GiB of prompts
    params.offline = True
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
