"""Text and numbers that no store and no calculation can hold, in every field of every route."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from copy import deepcopy
from typing import Any

import pytest
import pytest_asyncio
from tests.support import database as servers
from tests.support.agents import agent_body
from tests.support.examples import rest_is_long
from tests.support.services import NOBODY, STRANGER, Api, serving_api, several_apis, target

from solward.plugins import load_registry
from solward_server.http.errors import INTERNAL_ERROR
from solward_server.resources import PREFIX
from solward_server.resources.openapi import describe

# One service for all: what a request changes is of no concern to another.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.more]

DOCUMENT = describe(load_registry(demo=True), PREFIX)
JSON = "application/json"
MCP = {"Content-Type": JSON, "Accept": f"{JSON}, text/event-stream"}
PLENTY = {"demo": True, "max_transactions_per_minute": 100_000}

# JSON texts, each for any field: 400 that names the field.
UNFIT = {
    "nul": r'"a\u0000b"',
    "surrogate": r'"a\ud800b"',
    "nul_inside": r'{"a": ["\u0000"]}',
    "nul_key": r'{"\u0000": 1}',
    "huge": "1e999999999",
    "huge_negative": "-1e999999999",
    "tiny": "1e-999999999",
    "zero": "0e999999999",
    "no_exponent": "1e99999999999999999999999999",
    "whole": "9" * 4_000,
    "whole_negative": "-" + "9" * 20_000,
    "fraction": "0." + "1" * 20_000,
    "deep": "[" * 100 + "]" * 100,
    "deep_objects": '{"a":' * 100 + "1" + "}" * 100,
}
# An answer, whatever it is, that is no crash.
ODD = ("-0", "-0.0", "0e-399", "1e308", "9e398", "1e-400", "9" * 400, "0." + "1" * 400, "[]", "{}",
       "null", "true", '""', '"\\ud83d\\ude00"', r'"\u202e\u200b"', '"' + "x" * 9_000 + '"',
       "[" * 50 + "]" * 50)  # fmt: skip


def operations() -> Iterator[tuple[str, str, Any]]:
    """Every described request with a body, and its example."""
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                content = operation["requestBody"]["content"][JSON]
                yield method.upper(), path.removeprefix(PREFIX), content


BODIES = list(operations())
# Checks the signature of the whole body first, which no test here has.
WEBHOOK = "/holds/{holdId}/webhook"


def resolved(node: Any) -> Any:
    return target(DOCUMENT, node)


def example(content: Mapping[str, Any]) -> dict[str, Any]:
    found = content.get("example")
    if found is None and content.get("examples"):
        found = next(iter(content["examples"].values()))["value"]
    return json.loads(json.dumps(found or {}, default=float))


def places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where a body has a value, the innermost too."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else ()
    for key, each in inner or (enumerate(value) if isinstance(value, list) else ()):
        yield from places(each, (*path, key))


def bodies(content: Mapping[str, Any], value: str) -> Iterator[tuple[set[str], bytes]]:
    """The example with the value at each place, and for each field that it lacks; with the names of
    the field, the innermost and the outermost."""
    whole = example(content)
    declared = resolved(content["schema"]).get("properties", {})
    marker = "\ue000 here \ue000"
    for path in [*places(whole), *((name,) for name in declared if name not in whole)]:
        changed: Any = deepcopy(whole)
        inner = changed
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = marker
        names = [step for step in path if isinstance(step, str)]
        text = json.dumps(changed, ensure_ascii=False).replace(f'"{marker}"', value)
        yield {names[0], names[-1]}, text.encode()


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=rest_is_long(["sqlite", "postgresql"], "postgresql")
)
async def api(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Api]:
    home = tmp_path_factory.mktemp("unfit") / "home"
    async with AsyncExitStack() as stack:
        if request.param == "sqlite":
            yield await stack.enter_async_context(serving_api(home, **PLENTY))
            return
        postgres: servers.Postgres = request.getfixturevalue("postgres")
        url = postgres.fresh()
        stack.callback(postgres.drop, url)
        [made] = await stack.enter_async_context(several_apis(url, home, 1, **PLENTY))
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def named(api: Api) -> Mapping[str, str]:
    """What stands in paths."""
    wallet = await api.wallet(2)
    made = await api.post("/agents", agent_body(wallet))
    _, key = await api.key()
    assert made.status == 200, made.text
    schedules = "/wallets/{walletId}/schedules"
    [content] = [row[2] for row in BODIES if row[:2] == ("POST", schedules)]
    schedule = await api.post(f"/wallets/{wallet}/schedules", example(content))
    assert schedule.status == 200, schedule.text
    return {
        "scheduleId": schedule.json["id"],
        "plugin": "solward",
        "skill": "transfer",
        "name": "fee",
        "walletId": wallet,
        "agentId": made.json["id"],
        "keyId": key,
        "principal": f"wallet:{wallet}",
        "holdId": NOBODY,
    }


def bodies_of(rows: list[tuple[str, str, Any]]) -> Any:
    return pytest.mark.parametrize(
        ("method", "path", "content"),
        [pytest.param(*row, id=f"{row[0]} {row[1]}") for row in rows],
    )


@bodies_of([row for row in BODIES if row[1] not in ("/mcp", WEBHOOK)])
async def test_no_field_takes_what_nothing_can_hold(
    api: Api, named: Mapping[str, str], method: str, path: str, content: Mapping[str, Any]
) -> None:
    for what, value in UNFIT.items():
        for fields, data in bodies(content, value):
            answer = await api.call(method, path.format(**named), data=data)
            told = (what, fields, answer.status, answer.text[:200])
            assert answer.status == 400, told
            assert any(field in answer.error for field in fields), told


@bodies_of([row for row in BODIES if row[1] not in ("/mcp", WEBHOOK)])
async def test_fields_are_refused_as_the_description_says(
    api: Api, named: Mapping[str, str], method: str, path: str, content: Mapping[str, Any]
) -> None:
    shown = resolved(DOCUMENT["paths"][PREFIX + path][method.lower()]["responses"]["400"])
    texts = {each["value"]["error"] for each in shown["content"][JSON]["examples"].values()}
    fields = "|".join(resolved(content["schema"]).get("properties", {})) or "no field"
    # What depends on the wallet or the service's settings, and the flag that is read before the
    # body, are said otherwise.
    told = {
        each
        for each in texts
        if re.match(f"({fields}) (must be (?!at least|at most)|is required and)", each)
    }
    told.discard("dryRun must be true or false")
    answered = set()
    for value in ("-1", '"?\\n"', "null"):
        for _, data in bodies(content, value) if told - answered else ():
            answered.add((await api.call(method, path.format(**named), data=data)).text)
    assert {json.dumps({"error": each}, separators=(",", ":")) for each in told} <= answered


@bodies_of(BODIES)
async def test_no_field_makes_an_internal_error(
    api: Api, named: Mapping[str, str], method: str, path: str, content: Mapping[str, Any]
) -> None:
    prefix = "" if path == "/mcp" else PREFIX
    for value in (*ODD, *UNFIT.values()):
        for _, data in bodies(content, value):
            answer = await api.call(method, path.format(**named), data=data, prefix=prefix)
            assert INTERNAL_ERROR not in answer.text, (value[:50], data[:300], answer.text)


@pytest.mark.parametrize("value", UNFIT.values(), ids=UNFIT)
@pytest.mark.parametrize("field", ["to", "amount", "memo", "wallet"])
async def test_no_tool_takes_what_nothing_can_hold(
    api: Api, named: Mapping[str, str], field: str, value: str
) -> None:
    before = await api.records(named["walletId"])
    given = {"wallet": named["walletId"], "to": STRANGER, "amount": 1, "memo": "m", field: "here"}
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "transfer", "arguments": given},
    }
    data = json.dumps(call).replace('"here"', value).encode()
    answer = await api.post("/mcp", data=data, prefix="", headers=MCP)
    assert answer.status in (200, 400), answer.text
    assert INTERNAL_ERROR not in answer.text, answer.text
    if answer.status == 200 and "result" in answer.json:
        assert answer.json["result"]["isError"], answer.text
    assert await api.records(named["walletId"]) == before


PATHS = [
    pytest.param(method.upper(), path.removeprefix(PREFIX), id=f"{method.upper()} {path}")
    for path, methods in DOCUMENT["paths"].items()
    for method in methods
    if path.startswith(PREFIX) and "{" in path and "webhook" not in path
]


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_no_path_takes_a_nul(api: Api, method: str, path: str) -> None:
    for given in ("%00", "a%00b"):
        answer = await api.call(method, re.sub(r"\{\w+\}", given, path))
        refused = (400, "The path must not contain a NUL character")
        assert (answer.status, answer.error) == refused, answer.text
    for given in ("%ED%A0%80", "%FF", "%E2%80%AE", "x" * 5_000, "9" * 5_000):
        answer = await api.call(method, re.sub(r"\{\w+\}", given, path), data=b"")
        assert INTERNAL_ERROR not in answer.text, (given, answer.text)


async def test_who_has_no_credential_is_told_that_first(api: Api) -> None:
    assert (await api.get("/wallets/%00/balance", token=None)).status == 401
    assert (await api.post("/wallets", data=b'{"name": "\\u0000"}', token=None)).status == 401


QUERIES = [
    pytest.param(path.removeprefix(PREFIX), field["name"], id=f"{path}?{field['name']}")
    for path, methods in DOCUMENT["paths"].items()
    for field in map(resolved, methods.get("get", {}).get("parameters", ()))
    if field["in"] == "query"
]


@pytest.mark.parametrize(("path", "field"), QUERIES)
async def test_no_query_takes_a_nul_or_a_huge_number(
    api: Api, named: Mapping[str, str], path: str, field: str
) -> None:
    path = path.format(**named)
    answer = await api.get(f"{path}?{field}=%00")
    assert answer.status == 400, answer.text
    assert field in answer.error
    for given in ("1e999999999", "9" * 5_000, "-0", "%ED%A0%80", "%FF", "x" * 5_000, "%D9%A3"):
        answer = await api.get(f"{path}?{field}={given}")
        assert answer.status in (200, 400, 404), (given, answer.text)
