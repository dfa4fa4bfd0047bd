"""Reading a pickle can run code of whoever wrote it, so nothing here reads or writes one."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from tests.promises import promise
from tests.support.repository import ROOT
from tests.support.vendors.scenarios import SAID


@promise("bad-message-ends-host")
def test_nothing_in_the_product_reads_or_writes_pickles() -> None:
    word = re.compile(r"\b(c?[Pp]ickle|shelve|marshal|dill|cloudpickle)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for room in ("framework", "plugins", "server")
        for path in sorted((ROOT / room).rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if word.search(line.partition("#")[0])
    ]
    assert found == []


@promise("bad-message-ends-host")
@pytest.mark.more
def test_a_service_that_has_asked_a_model_has_neither_litellm_nor_pickles() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKING], capture_output=True, text=True, timeout=100, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told == {"text": SAID, "litellm": False, "pickling": []}


ASKING = f"""
import asyncio, json, sys
sys.path[:0] = {[str(ROOT), *(str(ROOT / room) for room in ("framework", "plugins", "server"))]!r}
from tests.support.models import VENDORS, asked_of, lent
from tests.support.hosts import model_hosts
from tests.support.vendors.server import vendor_server
import solward.service.service, solward_server.serve

async def main():
    async with vendor_server() as server, model_hosts() as (_, providers):
        vendor = VENDORS["openai"]
        said = await providers["openai"].complete(asked_of(vendor), {{}}, lent(vendor, server))
    own = [
        module for name, module in sys.modules.items()
        if name.partition(".")[0].startswith("solward")
    ]
    pickling = [module.__name__ for module in own if "pickle" in vars(module)]
    print(json.dumps(
        {{"text": said.text, "litellm": "litellm" in sys.modules, "pickling": pickling}}
    ))

asyncio.run(main())
"""
