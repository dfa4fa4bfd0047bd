"""litellm, imported at the first call and off the event loop.

The import takes 1.5 to 1.8 s of CPU and 169 MB, and the first call another second, so both run in a
thread of their own, the call against a closed loopback port. Neither uses the network (measured
with litellm 1.106.2).
"""

from __future__ import annotations

import asyncio
import functools
import gc
import importlib
import logging
import os
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from solward import ProviderError
from solward_plugins.llm.vendor import Vendor

# Read at the import: no .env of a parent folder, no lists fetched from the network.
ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
}

# They log prompts at DEBUG, litellm through a handler of its own without scrubbing.
_SILENT = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
_QUIET = ("openai", "httpx", "httpcore")

# Nobody but the administrator can listen on the port, and nobody does (RFC 863).
_CLOSED = "http://127.0.0.1:9/v1"

_lock = threading.Lock()
_thread: ThreadPoolExecutor | None = None
_ready: dict[str, Future[Any]] = {}


async def library(vendor: Vendor) -> Any:
    """The litellm module, warmed up for the vendor; concurrent callers share one warm-up."""
    job = _ready.get(vendor.name) or _start(vendor)
    if job.done() and job.exception() is None:
        return job.result()
    try:
        # Shielded, so that one cancelled caller does not cancel it for the others.
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
    # litellm's warnings, and pydantic's about its models, can quote requests.
    warnings.filterwarnings("ignore", module=r"litellm\b")
    warnings.filterwarnings("ignore", "Item '\\w+' on TypedDict class", UserWarning)
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
    for name in _SILENT:
        logging.getLogger(name).disabled = True
    try:
        litellm: Any = importlib.import_module("litellm")
    except ModuleNotFoundError as error:
        if error.name != "litellm":
            raise
        # A model host has it (`solward models install`); so this is a process that asks by itself.
        words = "litellm is not installed beside Solward: pip install 'solward[llm]'"
        raise ProviderError(words) from None
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in _QUIET:
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))
    _lighten()
    _keep_refusals()
    _warm(litellm, vendor)
    _settle_gc()
    return litellm


def _settle_gc() -> None:
    """Have the garbage collector leave alone what litellm is made of, and look less often.

    Else each look goes through a million objects that stay, a quarter of a busy process's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def _lighten() -> None:
    """Leave out what of a call's processor time serves nobody here, a third of it all.

    litellm reckons each answer's price twice and tells its callbacks, of which there are none.
    OpenAI's SDK looks through the whole request, each tool's schema too, for values to convert,
    such as files; here all of it is JSON already.
    """
    utils: Any = importlib.import_module("litellm.utils")
    utils._dispatch_success_logging = _nothing
    utils.update_response_metadata = _nothing
    completions: Any = importlib.import_module("openai.resources.chat.completions.completions")
    left_out = (completions.NotGiven, completions.Omit)

    async def given(data: dict[str, Any], _expected_type: Any) -> dict[str, Any]:
        return {name: value for name, value in data.items() if not isinstance(value, left_out)}

    completions.async_maybe_transform = given


def _keep_refusals() -> None:
    """Keep a refusal of OpenAI's Responses, to which litellm sends newer models' requests with
    tools, where it keeps one of Chat Completions: it makes an empty answer of it."""
    name = "litellm.completion_extras.litellm_responses_transformation.transformation"
    bridge: Any = importlib.import_module(name).LiteLLMResponsesTransformationHandler
    transform = bridge.transform_response
    if hasattr(transform, "__wrapped__"):
        return

    @functools.wraps(transform)
    def transform_response(
        self: Any, model: str, raw_response: Any, *rest: Any, **named: Any
    ) -> Any:
        made = transform(self, model, raw_response, *rest, **named)
        parts = [
            part
            for item in getattr(raw_response, "output", None) or ()
            for part in getattr(item, "content", None) or ()
        ]
        said = "".join(str(getattr(part, "refusal", None) or "") for part in parts)
        if said:
            message = made.choices[0].message
            kept = getattr(message, "provider_specific_fields", None) or {}
            message.provider_specific_fields = {**kept, "refusal": said}
        return made

    bridge.transform_response = transform_response


def _nothing(*_arguments: Any, **_named: Any) -> None:
    """In place of a function of litellm."""


def _warm(litellm: Any, vendor: Vendor) -> None:
    """Make litellm import and cache what it needs for the vendor, by calls that stay local.

    A closed port refuses the first; litellm mocks the second, a stream.
    """
    arguments: dict[str, Any] = {
        "model": f"{vendor.prefix}/{vendor.default_model}",
        "messages": [{"role": "system", "content": "-"}, {"role": "user", "content": "-"}],
        "api_key": "none",
        "num_retries": 0,
        "max_retries": 0,
        "timeout": 5,
        "drop_params": True,
    }
    tool = {"name": "wait", "description": "Wait.", "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": tool}]
    with _errors_logged():
        litellm.completion(**arguments, tools=tools, api_base=_CLOSED)
    with _errors_logged():
        options = {"include_usage": True}
        mocked = {"mock_response": "-", "stream": True, "stream_options": options}
        list(litellm.completion(**arguments, **mocked))


@contextmanager
def _errors_logged() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        logging.getLogger(__name__).debug("litellm is warm (%s)", type(error).__name__)
