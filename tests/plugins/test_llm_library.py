"""litellm: imported late, quietly, and without a network."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.support.repository import ROOT

from solward.plugins.folders import models
from solward.settings.home import default_models_folder
from solward_plugins.llm import library

pytestmark = pytest.mark.samples("test_loading_every_provider_imports_no_litellm")

# Every address but loopback is refused, and noted.
FORBID = """
import json, socket, sys
strays = []
def refuse(address):
    strays.append(repr(address))
    raise OSError("no network in this test")
connect, lookup = socket.socket.connect, socket.getaddrinfo
def guarded(self, address):
    if self.family != socket.AF_UNIX and not str(address[0]).startswith(("127.", "::1")):
        refuse(address)
    return connect(self, address)
def resolved(host, *given, **named):
    if host not in (None, "127.0.0.1", "::1", "localhost"):
        refuse(host)
    return lookup(host, *given, **named)
socket.socket.connect, socket.getaddrinfo = guarded, resolved
"""


# As tests/conftest.py does.
FOLDER = f"sys.path.append({str(models.installed(default_models_folder()))!r})\n"


def run(program: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", FORBID + FOLDER + program],
        capture_output=True,
        text=True,
        timeout=100,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) | {"stderr": done.stderr}


def test_loading_every_provider_imports_no_litellm() -> None:
    told = run(
        "import solward_plugins.providers.vendors\n"
        "from solward.plugins import load_registry\n"
        "names = sorted(load_registry(['solward']).providers)\n"
        "heavy = sorted({'litellm', 'openai', 'tiktoken', 'aiohttp'} & set(sys.modules))\n"
        "print(json.dumps({'names': names, 'heavy': heavy, 'strays': strays}))\n"
    )
    assert told["names"] == ["anthropic", "gemini", "grok", "openai"]
    assert (told["heavy"], told["strays"]) == ([], [])


def test_import_warm_up_and_calls_stay_off_the_network_and_out_of_the_log() -> None:
    told = run(
        "import asyncio, logging, os, pathlib, tempfile\n"
        "logging.basicConfig(level='DEBUG')\n"
        "os.environ['LITELLM_LOG'] = 'DEBUG'\n"
        "where = pathlib.Path(tempfile.mkdtemp())\n"
        "(where / '.env').write_text('STRAY_VARIABLE=1')\n"
        "os.chdir(where)\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.support.models import VENDORS, WAIT, complete, streamed\n"
        "from tests.support.vendors.server import vendor_server\n"
        "async def main():\n"
        "    async with vendor_server() as server:\n"
        "        for vendor in VENDORS.values():\n"
        "            await complete(vendor, server, None, WAIT)\n"
        "            await streamed(vendor, server)\n"
        "        return server.served.total()\n"
        "served = asyncio.run(main())\n"
        "print(json.dumps({'served': served, 'strays': strays,"
        " 'stray': os.environ.get('STRAY_VARIABLE')}))\n"
    )
    assert (told["served"], told["strays"], told["stray"]) == (8, [], None)
    assert "What now?" not in told["stderr"]
    assert "LiteLLM" not in told["stderr"]


def test_many_that_ask_at_once_make_it_ready_once_without_stalling_the_loop() -> None:
    told = run(
        "import asyncio, threading, time\n"
        "from solward_plugins.llm import library\n"
        "from solward_plugins.providers.vendors import OPENAI\n"
        "VENDOR = OPENAI.vendor\n"
        "prepared = []\n"
        "prepare = library._import_library\n"
        "def counted(vendor):\n"
        "    prepared.append(threading.current_thread() is threading.main_thread())\n"
        "    return prepare(vendor)\n"
        "library._import_library = counted\n"
        "async def main():\n"
        "    first = asyncio.create_task(library.library(VENDOR))\n"
        "    others = [asyncio.create_task(library.library(VENDOR)) for _ in range(50)]\n"
        "    await asyncio.sleep(0)\n"
        "    first.cancel()\n"
        "    modules = await asyncio.gather(*others)\n"
        "    return len(set(map(id, modules)))\n"
        "print(json.dumps({'modules': asyncio.run(main()), 'prepared': prepared}))\n"
    )
    assert (told["modules"], told["prepared"]) == (1, [False])


def test_calls_share_a_client_whatever_their_keys_and_load_no_vocabulary() -> None:
    told = run(
        "import asyncio, httpx\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.support.models import VENDORS, WAIT, asked_of, complete, streamed\n"
        "from tests.support.vendors.server import vendor_server\n"
        "from solward import ProviderContext\n"
        "from solward_plugins.llm import call\n"
        "made, begin = [], httpx.AsyncClient.__init__\n"
        "def counted(self, *given, **named):\n"
        "    made.append(self)\n"
        "    begin(self, *given, **named)\n"
        "httpx.AsyncClient.__init__ = counted\n"
        "async def main():\n"
        "    async with vendor_server() as server:\n"
        "        for vendor in VENDORS.values():\n"
        "            await complete(vendor, server, None, WAIT)\n"
        "            await streamed(vendor, server)\n"
        "        first = len(made)\n"
        "        for vendor in VENDORS.values():\n"
        "            for number in range(3):\n"
        "                url = server.base_urls[vendor.base_url_env]\n"
        "                lent = ProviderContext(f'key-{number}', url)\n"
        "                await call.complete(vendor, asked_of(vendor, WAIT), {}, lent)\n"
        "        keys = {request.key for request in server.requests}\n"
        "        return first, len(made) - first, len(keys)\n"
        "first, more, keys = asyncio.run(main())\n"
        "loaded = sorted({'mcp.server', 'tokenizers'} & set(sys.modules))\n"
        "vocabulary = sys.modules['litellm.main']._encoding_cache is not None\n"
        "print(json.dumps({'first': first > 0, 'more': more, 'keys': keys, 'loaded': loaded,"
        " 'vocabulary': vocabulary}))\n"
    )
    del told["stderr"]
    assert told == {"first": True, "more": 0, "keys": 4, "loaded": [], "vocabulary": False}


def test_no_vocabulary_is_kept_and_tokens_are_counted_all_the_same() -> None:
    told = run(
        "from solward_plugins.llm import library\n"
        "from solward_plugins.providers.vendors import ANTHROPIC\n"
        "VENDOR = ANTHROPIC.vendor\n"
        "litellm = library._import_library(VENDOR)\n"
        "utils = sys.modules['litellm.utils']\n"
        "kept = [utils.json_data, utils.claude_json_str]\n"
        "model = VENDOR.default_model\n"
        "counted = litellm.token_counter(model=model, text='Send one SOL to Bob.')\n"
        "print(json.dumps({'kept': kept, 'counted': counted, 'strays': strays,"
        " 'its own': utils.uses_anthropic_tokenizer(model)}))\n"
    )
    assert told["kept"] == [None, None]
    assert told["its own"]
    assert 4 <= told["counted"] <= 8
    assert told["strays"] == []


def test_a_models_entry_is_looked_up_once_and_each_caller_has_its_own() -> None:
    asked: list[str] = []

    def look_up(*, model: str, custom_llm_provider: str) -> dict[str, Any]:
        asked.append(f"{custom_llm_provider}/{model}")
        if model == "new":
            raise ValueError("not on the list")
        return {"mode": "chat"}

    listed = library._cache_by_model(look_up)
    listed(model="a", custom_llm_provider="openai")["mode"] = "responses"
    assert listed(model="a", custom_llm_provider="openai") == {"mode": "chat"}
    assert listed(model="new", custom_llm_provider="xai") == {}
    assert listed(model="new", custom_llm_provider="xai") == {}
    assert asked == ["openai/a", "xai/new"]
