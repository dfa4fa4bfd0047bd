"""What is refused before an operation sees it, naming the field."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.promises import promise
from tests.support.services import NOBODY, STRANGER, Api, serving_api

from solward.support import jsontext
from solward_server.resources import PREFIX

# One service for all: nothing here changes what another test sees.
pytestmark = pytest.mark.asyncio(loop_scope="module")

TRANSFER = "/wallets/{wallet}/transfer"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    async with serving_api(tmp_path_factory.mktemp("bodies") / "home") as made:
        yield made


@promise("bodies-are-objects")
@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"not json",
        b'{"amount": NaN}',
        b'{"amount": Infinity}',
        b"\xff\xfe",
        b"[" * 30_000,
    ],
)
async def test_what_is_not_json_is_400(api: Api, data: bytes) -> None:
    answer = await api.post("/wallets", data=data)
    assert (answer.status, answer.error) == (400, "The request body must be valid JSON")


@promise("grants-refuse-unknown-fields")
async def test_a_field_that_stands_twice_is_400(api: Api) -> None:
    answer = await api.post("/wallets", data=b'{"name": "a", "tags": [], "name": "b"}')
    assert (answer.status, answer.error) == (
        400,
        "The request body is ambiguous: name stands twice",
    )


@promise("bodies-are-objects")
@pytest.mark.parametrize("data", [b"[]", b"1", b'"text"', b"null", b"true"])
async def test_what_is_no_object_is_400(api: Api, data: bytes) -> None:
    answer = await api.post("/wallets", data=data)
    assert (answer.status, answer.error) == (400, "The request body must be a JSON object")


@promise("body-max-64-kib")
async def test_more_than_64_kib_is_413_and_exactly_64_is_read(api: Api) -> None:
    empty = b'{"name": "x"}'
    whole = empty[:-1] + b" " * (64 * 1024 - len(empty)) + empty[-1:]
    assert (await api.post("/wallets", data=whole)).status == 200
    answer = await api.post("/wallets", data=whole + b" ")
    assert (answer.status, answer.error) == (
        413,
        "The request body must not be larger than 64 KiB",
    )


@promise("encoded-body-is-415")
@pytest.mark.parametrize("coding", ["gzip", "GZip", "deflate", "br", "zstd", "identity, gzip", "x"])
async def test_an_encoded_body_is_415_and_nothing_is_done(api: Api, coding: str) -> None:
    plain = b'{"name": "encoded"}'
    data = gzip.compress(plain) if "gzip" in coding.lower() else plain
    before = (await api.get("/wallets")).json
    headers = {"Content-Encoding": coding, "Content-Type": "application/json"}
    for path, prefix in (("/wallets", PREFIX), ("/freeze", PREFIX), ("/mcp", "")):
        answer = await api.post(path, data=data, headers=headers, prefix=prefix)
        assert (answer.status, answer.error) == (
            415,
            "The request body must not be encoded: leave out Content-Encoding. Nothing was done",
        )
        assert answer.headers["Accept-Encoding"] == "identity"
    assert (await api.post("/wallets", data=data, headers=headers, token="wrong")).status == 401
    assert (await api.get("/wallets", headers=headers)).json == before
    assert (await api.get("/freeze")).json["frozen"] is False


@promise("encoded-body-is-415")
@pytest.mark.parametrize("coding", ["identity", "Identity", "", "identity,identity"])
async def test_a_body_that_is_said_to_be_plain_is_read(api: Api, coding: str) -> None:
    answer = await api.post("/wallets", {"name": "plain"}, headers={"Content-Encoding": coding})
    assert answer.status == 200


@promise("400-names-its-field")
@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        (TRANSFER, {"amount": 1}, "to is required and must be a string"),
        (TRANSFER, {"to": STRANGER, "amount": 0}, "amount must be greater than 0"),
        ("/wallets", {"name": ""}, "name must be a string of 1 to 64 characters"),
        ("/wallets", {"name": "a\nb"}, "name must be text of 1 to 64 printable characters"),
        (
            "/wallets",
            {"tags": "blue"},
            "tags must be an array of at most 20 strings of 1 to 64 characters",
        ),
        ("/keys", {}, "name is required and must be a string"),
        (
            "/keys",
            {"name": "k", "rateLimit": 0},
            "rateLimit must be a whole number from 1 to 1000000",
        ),
        (
            "/keys",
            {"name": "k", "rateLimit": 1.5},
            "rateLimit must be a whole number from 1 to 1000000",
        ),
        ("/keys", {"name": "k", "rateLimit": "10"}, "rateLimit must be a number"),
        ("/keys", {"name": "k", "spendingLimitSol": -1}, "spendingLimitSol must be greater than 0"),
        (
            "/keys",
            {"name": "k", "spendingLimitSol": 10**10},
            "spendingLimitSol is larger than the ledger can hold",
        ),
        (
            "/keys",
            {"name": "k", "permissions": [1]},
            "permissions must be an array of at most 20 strings of 1 to 64 characters",
        ),
        ("/freeze", {"reason": 5}, "reason must be a string of 1 to 200 characters"),
    ],
)
async def test_a_wrong_field_is_400_and_named(
    api: Api, path: str, body: dict[str, Any], text: str
) -> None:
    wallet = await api.wallet()
    answer = await api.post(path.format(wallet=wallet), body)
    assert (answer.status, answer.error) == (400, text)
    assert await api.records(wallet) == []


@promise("404-texts")
@pytest.mark.parametrize("path", ["balance", "transactions", "limits", ""])
async def test_an_unknown_wallet_is_404(api: Api, path: str) -> None:
    answer = await api.get(f"/wallets/{NOBODY}/{path}".rstrip("/"))
    assert (answer.status, answer.error) == (404, "Wallet not found")


@pytest.mark.parametrize(
    "query",
    [
        "dryRun=1",
        "dryRun=",
        "dryRun",
        "dryRun=TRUE",
        "dryRun=false&dryRun=true",
        "dryRun=true&dryRun=no",
        "dryRun=true&dryRun=true",
        "dryRun=false&dryRun=false",
    ],
)
async def test_what_may_mean_a_dry_run_is_refused_rather_than_paid(api: Api, query: str) -> None:
    wallet = await api.wallet()
    answer = await api.post(f"/wallets/{wallet}/airdrop?{query}", {})
    assert (answer.status, answer.error) == (
        400,
        "dryRun must be true or false; nothing was sent",
    )
    assert await api.records(wallet) == []


@pytest.mark.parametrize("said", ["true", 1, 0, "", [], {}])
async def test_a_dry_run_of_the_body_that_is_no_boolean_is_refused_rather_than_paid(
    api: Api, said: Any
) -> None:
    wallet = await api.wallet()
    for path in ("airdrop", "airdrop?dryRun=false"):
        answer = await api.post(f"/wallets/{wallet}/{path}", {"dryRun": said})
        assert (answer.status, answer.error) == (
            400,
            "dryRun must be true or false; nothing was sent",
        )
    assert await api.records(wallet) == []


@pytest.mark.parametrize("written", ["dry_run", "dryrun", "DryRun", "dry-run", "dryRun[]"])
async def test_a_dry_run_that_is_written_otherwise_is_refused_rather_than_paid(
    api: Api, written: str
) -> None:
    wallet = await api.wallet()
    for path, body in (
        ("airdrop", {written: True}),
        (f"airdrop?{written}=true", {}),
        (f"skills/airdrop?{written}=true", {"amount": 1}),
    ):
        answer = await api.post(f"/wallets/{wallet}/{path}", body)
        assert answer.status == 400
        assert str(answer.error).startswith(f"{written} ")
        assert str(answer.error).endswith("Nothing was done")
    assert await api.records(wallet) == []


async def test_a_dry_run_that_query_or_body_asks_for_is_one(api: Api) -> None:
    wallet = await api.wallet()
    for path, said in (
        ("airdrop", True),
        ("airdrop?dryRun=false", True),
        ("airdrop?dryRun=true", False),
    ):
        answer = await api.post(f"/wallets/{wallet}/{path}", {"dryRun": said})
        assert (answer.status, answer.json["dryRun"]) == (200, True), answer.text
    assert await api.records(wallet) == []
    for said in (False, None):
        answer = await api.post(f"/wallets/{wallet}/airdrop", {"dryRun": said})
        assert answer.status == 200
    assert len(await api.records(wallet)) == 2


@pytest.mark.parametrize("said", [True, False, "true"])
async def test_a_skill_takes_no_dry_run_of_the_body(api: Api, said: Any) -> None:
    wallet = await api.wallet()
    answer = await api.post(f"/wallets/{wallet}/skills/airdrop", {"amount": 1, "dryRun": said})
    assert (answer.status, "dryRun" in answer.error) == (400, True)
    assert await api.records(wallet) == []


@promise("doubled-query-is-400")
@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/transactions", "limit"),
        ("/transactions", "before"),
        ("/audit", "limit"),
        ("/audit", "before"),
        ("/events", "types"),
        ("/events", "lastEventId"),
        ("/wallets/{wallet}/balance", "empty"),
    ],
)
async def test_a_field_of_the_query_that_is_given_twice_is_400_and_named(
    api: Api, path: str, field: str
) -> None:
    path = path.format(wallet=await api.wallet())
    answer = await api.get(f"{path}?{field}=1&{field}=1")
    assert (answer.status, answer.error) == (400, f"{field} must be given once")


@promise("large-bodies-delay-nobody")
async def test_the_event_loop_goes_on_while_a_large_body_is_parsed(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, _ = await api.key(spendingLimitSol=0)
    path = f"/wallets/{await api.wallet()}/pay"
    ticks, running, turns, most = 0, 0, list[int](), 0
    read = jsontext.read

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    def watched(text: bytes) -> Any:
        nonlocal running, most
        running += 1
        most, before = max(most, running), ticks
        try:
            return read(text)
        finally:
            running -= 1
            turns.append(ticks - before)

    monkeypatch.setattr(jsontext, "read", watched)
    deep = b'{"url":"\\u0041","headers":' + b'{"%b":' % (b"a" * 30) * 55
    data = deep + b"[" + b"0," * 300_000 + b"0]" + b"}" * 56
    ticking = asyncio.create_task(tick())
    answers = await asyncio.gather(*(api.post(path, data=data, token=token) for _ in range(3)))
    ticking.cancel()
    assert [each.status for each in answers] == [400] * 3
    assert len(turns) == 3
    assert min(turns) > 0
    # A principal takes one turn at a time.
    assert most == 1


@promise("large-bodies-delay-nobody")
async def test_a_large_body_that_is_refused_is_not_hashed(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumped: list[Any] = []
    dumps = jsontext.dumps

    def watched(value: Any, **options: Any) -> str:
        dumped.append(value)
        return dumps(value, **options)

    monkeypatch.setattr(jsontext, "dumps", watched)
    path, body = f"/wallets/{await api.wallet()}/pay", {"url": "https://a.example", "headers": [0]}
    answer = await api.post(path, body, headers={"Idempotency-Key": "refused"})
    assert answer.status == 400
    assert dumped.count(body) == 1, "only this test wrote it"
