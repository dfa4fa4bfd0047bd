from __future__ import annotations

import dataclasses
import inspect
import re

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.plugins import Shelf
from tests.support.repository import DOCS

from solward import (
    CompletionRequest,
    Message,
    ProviderContext,
    ProviderError,
    Quote,
    Stake,
    hookspecs,
)
from solward.plugins import load_registry
from solward.plugins.hooks import HOOKS, OPTIONAL
from solward.solana.balances import Balances, TokenBalance
from solward.solana.token_list import KnownToken
from solward.types.ledger import TokenHolding
from solward.types.manifest import ProblemCode
from solward.types.record import TransactionRecord

PAGE = (DOCS / "reference/hooks.md").read_text()
PLUGINS = (DOCS / "reference/plugins.md").read_text()
SPECIFIED = [name for name, each in vars(hookspecs).items() if hasattr(each, "solward_spec")]


def signature(hook: str) -> str:
    function = getattr(hookspecs, hook)
    awaited = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    parameters, _, answer = str(inspect.signature(function)).replace("'", "").partition(" -> ")
    line = f"{'async ' if awaited else ''}def {hook}{parameters} -> {answer}"
    if len(line) <= 100:
        return line
    return line.replace("(", "(\n    ", 1).replace(") ->", "\n) ->")


@pytest.mark.parametrize("hook", SPECIFIED)
def test_every_hook_is_documented_with_its_exact_signature(hook: str) -> None:
    assert f"```python\n{signature(hook)}\n```" in PAGE
    assert inspect.getdoc(getattr(hookspecs, hook))


def test_no_other_hook_is_documented() -> None:
    assert sorted(re.findall(r"^(?:async )?def (\w+)", PAGE, re.MULTILINE)) == sorted(SPECIFIED)


def test_every_hook_belongs_to_one_documented_group() -> None:
    grouped = [hook for hooks in (*HOOKS.values(), *OPTIONAL.values()) for hook in hooks]
    assert sorted(grouped) == sorted(SPECIFIED)
    assert [group for group in HOOKS if f"`{group}`" not in PAGE] == []


def test_what_reads_give_is_documented_with_the_fields_it_has() -> None:
    page = (DOCS / "how-to/write-a-skill.md").read_text()
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", page, re.MULTILINE)
    said = {first: set(re.findall(r"`(\w+)`", rest)) for first, rest in rows}
    assert {
        "`balances()`": {*fields_of(Balances), *fields_of(TokenBalance), "ui", "Decimal"},
        "`stakes()`": set(fields_of(Stake)),
        "`ledger.holdings(owner)`": set(fields_of(TokenHolding)),
        "`tokens.resolve(symbol, field)`": set(fields_of(KnownToken)),
        "`quote(...)`": set(fields_of(Quote)) - {"raw"},
    }.items() <= said.items()
    [records] = re.findall(r"^\| each operation, `history.*? \| (.*) \|$", page, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", records)) < set(fields_of(TransactionRecord))


def fields_of(kind: type) -> list[str]:
    return [each.name for each in dataclasses.fields(kind)]


def test_every_hook_asks_one_plugin_only() -> None:
    assert all(getattr(hookspecs, hook).solward_spec["firstresult"] for hook in SPECIFIED)


def test_every_problem_code_is_documented() -> None:
    _, loaded = PLUGINS.split("## What is loaded")
    assert re.findall(r"^\| `(\w+)` \|", loaded, re.MULTILINE) == [
        each.value for each in ProblemCode
    ]


async def test_the_provider_of_the_documentation_works(shelf: Shelf) -> None:
    source = (DOCS.parent / "examples/http_provider/mine.py").read_text()
    shelf.install("my-plugin", {"mine": source}, "solward.providers")
    provider = load_registry(entry_points=shelf.entry_points()).providers["mine"]
    answers = {"text": "Wait.", "status": 200}

    async def answer(http: web.Request) -> web.Response:
        asked = await http.json()
        assert http.headers["Authorization"] == "Bearer key"
        assert asked == {"model": "mine-1", "system": "Be brief.", "said": ["What now?"]}
        return web.json_response(answers, status=int(answers["status"]))

    app = web.Application()
    app.router.add_post("/complete", answer)
    request = CompletionRequest("mine-1", "Be brief.", (Message("user", "What now?"),))
    async with TestServer(app) as server:
        context = ProviderContext("key", str(server.make_url("")).rstrip("/"))
        assert (await provider.complete(request, {}, context)).text == "Wait."
        answers["status"] = 503
        with pytest.raises(ProviderError, match="check MINE_BASE_URL"):
            await provider.complete(request, {}, context)
