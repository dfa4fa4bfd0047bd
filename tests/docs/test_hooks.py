from __future__ import annotations

import dataclasses
import inspect
import re

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.docs import context_page
from tests.support.plugins import Shelf
from tests.support.repository import DOCS

from solward import (
    CompletionRequest,
    Message,
    ProviderContext,
    ProviderError,
    ReadLedger,
    SkillContext,
    Store,
    hookspecs,
)
from solward.plugins import load_registry
from solward.plugins.hooks import HOOKS, OPTIONAL
from solward.solana.token_list import TokenList
from solward.types.manifest import ProblemCode

PAGE = (DOCS / "reference/hooks.md").read_text()
PLUGINS = (DOCS / "reference/plugins.md").read_text()
CONTEXT = context_page.PAGE.read_text()
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


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_the_context_page_has_every_member_and_every_field_of_what_a_skill_reads() -> None:
    sections = re.split(r"^###? ", CONTEXT, flags=re.MULTILINE)
    members = {each.split("\n")[0].removeprefix("context.") for each in sections}
    # The service ends a context.
    assert public(SkillContext) - {"end", "aclose"} <= members
    for path, kind in {"store": Store, "ledger": ReadLedger, "tokens": TokenList}.items():
        assert {f"{path}.{name}" for name in public(kind)} <= members
    for kind in context_page.TYPES:
        [said] = [each for each in sections if each.startswith(f"{kind.__name__}\n")]
        named = set(re.findall(r"\w+", said))
        assert public(kind) - {"to_json"} <= named
        assert {each.name for each in dataclasses.fields(kind)} <= named


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
