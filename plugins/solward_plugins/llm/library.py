"""litellm, imported at the first call and off the event loop.

The import takes 1.5 to 1.8 s of CPU and 169 MB, and its first call stalls for another second, so
both happen in a thread of their own, the call against a closed loopback port. Neither goes to the
network (measured with litellm 1.106.2).
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from solward_plugins.llm.vendor import Vendor

# Read at the import: no .env of a parent folder, no lists fetched from the network.
ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
}

# They write prompts at DEBUG, litellm through a handler of its own that nothing scrubs.
_SILENT = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
_QUIET = ("openai", "httpx", "httpcore")

_lock = threading.Lock()
_thread: ThreadPoolExecutor | None = None
_ready: dict[str, Future[Any]] = {}


async def library(vendor: Vendor) -> Any:
    """The litellm module, warm for the vendor; however many ask at once, it is made ready once."""
    job = _ready.get(vendor.name) or _start(vendor)
    if job.done() and job.exception() is None:
        return job.result()
    try:
        # Shielded: one caller that gives up must not cancel it for the others.
        return await asyncio.shield(asyncio.wrap_future(job))
    except Exception:
        with _lock:
            if _ready.get(vendor.name) is job:
                del _ready[vendor.name]
        raise


def _start(vendor: Vendor) -> Future[Any]:
    global _thread
    with _lock:
        if vendor.name not in _ready:
            _thread = _thread or ThreadPoolExecutor(1, thread_name_prefix="litellm")
            _ready[vendor.name] = _thread.submit(_prepare, vendor)
        return _ready[vendor.name]


def _prepare(vendor: Vendor) -> Any:
    os.environ.update(ENVIRONMENT)
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in _SILENT:
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.disabled = True
    for name in _QUIET:
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))
    _warm(litellm, vendor)
    return litellm


def _warm(litellm: Any, vendor: Vendor) -> None:
    """One call that is refused: what litellm imports and caches for the vendor is then there."""
    with socket.socket() as closed:
        # Bound and not listening, so that nobody else can have the port and answer.
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        tool = {"name": "wait", "description": "Wait.", "parameters": {"type": "object"}}
        try:
            litellm.completion(
                model=f"{vendor.prefix}/{vendor.default_model}",
                messages=[{"role": "system", "content": "-"}, {"role": "user", "content": "-"}],
                tools=[{"type": "function", "function": tool}],
                api_key="none",
                api_base=address,
                num_retries=0,
                max_retries=0,
                timeout=5,
                drop_params=True,
            )
        except Exception as refused:
            logging.getLogger(__name__).debug("litellm is warm (%s)", type(refused).__name__)
