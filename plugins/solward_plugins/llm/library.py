"""litellm, imported at the first call and off the event loop.

The import takes 1.5 to 1.8 s of CPU and 169 MB, and the first call another second, so both run in a
thread of their own, the call against a closed loopback port. Neither uses the network (measured
with litellm 1.106.2).
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import importlib
import linecache
import logging
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from operator import attrgetter
from typing import Any

from solward import ProviderError
from solward_plugins.llm.answers import VendorTransport
from solward_plugins.llm.vendor import Vendor

# Read at the import: no .env of a parent folder, no lists fetched from the network. The last one at
# each call: OpenAI's requests go the way of the other vendors', whose client is kept. Else there is
# an OpenAI SDK between, with a new client for each key, and here a key is a call's placeholder.
ENVIRONMENT = {
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER": "True",
}

# These loggers write prompts at DEBUG, litellm through a handler of its own without scrubbing.
_SILENT = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")
_QUIET = ("openai", "httpx", "httpcore")

# Only the administrator can listen on this port, and the discard service (RFC 863) is never on.
_CLOSED = "http://127.0.0.1:9/v1"

_KEPT_MODELS = 256

_lock = threading.Lock()
_thread: ThreadPoolExecutor | None = None
_ready: dict[str, Future[Any]] = {}


async def library(vendor: Vendor) -> Any:
    """Return the litellm module, warmed up for the vendor; concurrent callers share one warm-up."""
    job = _ready.get(vendor.name) or _start_warm_up(vendor)
    if job.done() and job.exception() is None:
        return job.result()
    try:
        # The shield keeps one cancelled caller from cancelling the import for the others.
        return await asyncio.shield(asyncio.wrap_future(job))
    except Exception:
        with _lock:
            if _ready.get(vendor.name) is job:
                del _ready[vendor.name]
        raise


def _start_warm_up(vendor: Vendor) -> Future[Any]:
    global _thread
    with _lock:
        if vendor.name not in _ready:
            _thread = _thread or ThreadPoolExecutor(1, thread_name_prefix="litellm")
            _ready[vendor.name] = _thread.submit(_import_library, vendor)
        return _ready[vendor.name]


def _import_library(vendor: Vendor) -> Any:
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
        # A model host has litellm (`solward models install`), so this process is no host.
        words = "litellm is not installed beside Solward: pip install 'solward[llm]'"
        raise ProviderError(words) from None
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    for name in _QUIET:
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))
    _replace_slow_functions()
    _free_vocabulary(litellm)
    # Solward's reading of answers is put under every client that litellm makes: a `client` that
    # litellm is given, it does not pass on to OpenAI's Responses.
    handler: Any = importlib.import_module("litellm.llms.custom_httpx.http_handler")
    handler.AsyncHTTPHandler.create_async_transport = staticmethod(VendorTransport)
    _warm_up(litellm, vendor)
    _tune_memory()
    return litellm


def _free_vocabulary(litellm: Any) -> None:
    """Free Anthropic's vocabulary, which litellm reads at its import and keeps twice. It only
    counts a request's tokens, which the vendors report; without it litellm counts by tiktoken's."""
    litellm.disable_hf_tokenizer_download = True
    utils: Any = importlib.import_module("litellm.utils")
    utils.json_data = utils.claude_json_str = None


def _tune_memory() -> None:
    """Free the memory that only the import needed, 19 MB with the vocabulary, and make the garbage
    collector skip litellm's objects and run less often.

    Otherwise each run visits a million lasting objects, a quarter of a busy process's time.
    """
    # litellm's sources were read for the traceback of the failed call in `_warm_up`.
    linecache.clearcache()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    # Only glibc keeps free memory, and gives it back on demand.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _replace_slow_functions() -> None:
    """Replace functions of litellm that cost processor time in each call and have no use here.

    litellm computes each answer's price twice and calls its callbacks, of which there are none. It
    searches all tools of a request twice: for fields that only Anthropic has and `tool_definitions`
    never writes, and for patterns that OpenAI's validator refuses, with which no skill is loaded.
    It copies a model's entry in the price list, 80 fields, twice, and lists the names of its 171
    vendors twice, each by a property written in Python.
    """
    utils: Any = importlib.import_module("litellm.utils")
    utils._dispatch_success_logging = _do_nothing
    utils.update_response_metadata = _do_nothing
    main: Any = importlib.import_module("litellm.main")
    main._drop_anthropic_only_tool_keys = lambda tools: tools
    main._get_encoding = _do_nothing
    main.get_model_info_helper = _cache_by_model(main.get_model_info_helper)
    chat: Any = importlib.import_module("litellm.llms.openai.chat.gpt_transformation")
    chat.OpenAIGPTConfig._sanitized_tools_update_for_openai = lambda *_arguments: {}
    types: Any = importlib.import_module("litellm.types.utils")
    types.LlmProviders.value = property(attrgetter("_value_"))


def _cache_by_model(look_up: Callable[..., Mapping[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Return the look-up with a cache by model. Each call gets a copy, because the caller changes
    it; the copy is empty if the list lacks the model, as the caller makes it after an error."""
    known: dict[tuple[str, str], Mapping[str, Any]] = {}

    def listed(model: str, custom_llm_provider: str) -> dict[str, Any]:
        found = known.get((model, custom_llm_provider))
        if found is None:
            try:
                found = look_up(model=model, custom_llm_provider=custom_llm_provider)
            except Exception:
                found = {}
            if len(known) >= _KEPT_MODELS:
                known.clear()
            known[model, custom_llm_provider] = found
        return dict(found)

    return listed


def _do_nothing(*_arguments: Any, **_named: Any) -> None:
    """Do nothing, in place of a function of litellm."""


def _warm_up(litellm: Any, vendor: Vendor) -> None:
    """Make litellm import and cache everything for the vendor, through a call that stays local,
    because a closed port refuses it.

    No stream: litellm's mocked one counts tokens, by vocabularies of 75 MB that no vendor's needs.
    """
    tool = {"name": "wait", "description": "Wait.", "parameters": {"type": "object"}}
    try:
        litellm.completion(
            model=f"{vendor.prefix}/{vendor.default_model}",
            messages=[{"role": "system", "content": "-"}, {"role": "user", "content": "-"}],
            tools=[{"type": "function", "function": tool}],
            api_key="none",
            api_base=_CLOSED,
            timeout=5,
            num_retries=0,
            max_retries=0,
            drop_params=True,
            _skip_mcp_handler=True,
        )
    except Exception as error:
        logging.getLogger(__name__).debug("litellm is warm (%s)", type(error).__name__)
