"""`ETag` and 304: a client that polls reads what changed, and no client reads another's."""

from __future__ import annotations

import asyncio
import hashlib
import re
from pathlib import Path

import httpx
import pytest
from tests.promises import promise
from tests.support.services import NOBODY, SECRET, STRANGER, Answer, Api, serving_api, settings

from solward.service.service import Solward
from solward_server.listening import listen
from solward_server.serve import Address, serve

pytestmark = promise("not-modified-is-current")


POLLED = (
    "/transactions?limit=50",
    "/wallets/{wallet}/transactions",
    "/wallets?limit=50",
    "/wallets",
    "/wallets/{wallet}",
    "/wallets/{wallet}/balance",
    "/wallets/{wallet}/limits",
    "/wallets/{wallet}/pockets",
    "/wallets/{wallet}/stakes",
    "/agents",
    "/refusals",
    "/holds",
    "/payments",
    "/policy",
    "/skills",
    "/plugins",
    "/keys",
)


async def again(api: Api, path: str, known: str, **options: str) -> Answer:
    return await api.get(path, headers={"If-None-Match": known}, **options)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", POLLED)
async def test_what_did_not_change_is_304_without_a_body(shared_api: Api, path: str) -> None:
    wallet = await shared_api.wallet(1)
    path = path.format(wallet=wallet)
    first = await shared_api.get(path)
    tag = first.headers["ETag"]
    # Strong: a hash of these very bytes.
    assert tag == f'"{hashlib.sha256(first.text.encode()).hexdigest()[:32]}"'
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        unchanged = await again(shared_api, path, known)
        assert (unchanged.status, unchanged.text) == (304, "")
        assert unchanged.headers["ETag"] == tag
        assert unchanged.headers["Cache-Control"] == "no-store"
        assert set(re.split(", *", ",".join(unchanged.headers.getlist("Vary")))) == {
            "Authorization",
            "Origin",
        }
    for other in ('"x"', tag.strip('"')[:-1], "", '"', tag.upper()):
        assert (await again(shared_api, path, other)).text == first.text


async def test_over_http_a_304_has_the_tag_and_no_body_nor_type(tmp_path: Path) -> None:
    stop = asyncio.Event()
    address: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
    async with Solward.open(settings(tmp_path / "home")) as service:
        listening = listen("127.0.0.1", 0)
        served = asyncio.create_task(serve(service, listening, stop, ready=address.set_result))
        headers = {"Authorization": f"Bearer {SECRET}"}
        async with httpx.AsyncClient(base_url=(await address).url, headers=headers) as client:
            path = "/api/v1/wallets?limit=5"
            first = await client.get(path)
            known = {"If-None-Match": first.headers["ETag"]}
            # On one connection, which the next request uses too.
            for _time in range(3):
                unchanged = await client.get(path, headers=known)
                assert (unchanged.status_code, unchanged.content) == (304, b"")
                assert unchanged.headers["ETag"] == first.headers["ETag"]
                assert "content-type" not in unchanged.headers
                assert "content-length" not in unchanged.headers
            head = await client.head(path)
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["ETag"] == first.headers["ETag"]
            assert head.headers["Content-Length"] == str(len(first.content))
            assert (await client.head(path, headers=known)).status_code == 304
            await service.wallets.create("another")
            changed = await client.get(path, headers=known)
            assert [each["name"] for each in changed.json()["wallets"]] == ["another"]
        stop.set()
        await served


async def test_a_change_is_answered_in_full(api: Api) -> None:
    wallet = await api.wallet(2)
    paths = (
        "/transactions",
        f"/wallets/{wallet}/transactions",
        f"/wallets/{wallet}/balance",
        f"/wallets/{wallet}/limits",
    )
    before = {path: (await api.get(path)).headers["ETag"] for path in paths}
    sent = await api.post(f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.5})
    assert sent.status == 200
    for path, tag in before.items():
        changed = await again(api, path, tag)
        assert changed.status == 200
        assert changed.headers["ETag"] != tag
    listed = (await api.get("/wallets?limit=1")).headers["ETag"]
    assert (await api.call("PATCH", f"/wallets/{wallet}", {"tags": ["a"]})).status == 200
    tagged = await again(api, "/wallets?limit=1", listed)
    assert [each["tags"] for each in tagged.json["wallets"]] == [["a"]]


async def test_a_caller_is_authorised_before_anything_is_compared(api: Api) -> None:
    own, other = await api.wallet(1), await api.wallet(1)
    key, key_id = await api.key(walletId=own)
    path = f"/wallets/{other}/transactions"
    tag = (await api.get(path)).headers["ETag"]
    for known in (tag, "*"):
        assert (await again(api, path, known, token="wrong")).status == 401
        assert (await api.get(path, token=None, headers={"If-None-Match": known})).status == 401
        assert (await again(api, path, known, token=key)).status == 404
        assert (await again(api, "/policy", known, token=key)).status == 401
        assert (await again(api, f"/wallets/{NOBODY}", known)).status == 404
    mine = await api.get("/transactions", token=key)
    assert (await again(api, "/transactions", mine.headers["ETag"], token=key)).status == 304
    assert (await api.call("DELETE", f"/keys/{key_id}")).status == 200
    assert (await again(api, "/transactions", mine.headers["ETag"], token=key)).status == 401


async def test_another_callers_tag_shows_that_callers_own_list(api: Api) -> None:
    own, _other = await api.wallet(1), await api.wallet(1)
    key, _id = await api.key(walletId=own)
    for path in ("/transactions", "/wallets", "/wallets?limit=50"):
        of_all = await api.get(path)
        of_own = await again(api, path, of_all.headers["ETag"], token=key)
        assert of_own.status == 200
        assert of_own.text != of_all.text
        assert of_own.headers["ETag"] != of_all.headers["ETag"]


async def test_what_is_not_read_by_get_or_is_public_or_fails_has_no_tag(api: Api) -> None:
    wallet = await api.wallet(1)
    body = {"to": STRANGER, "amount": 0.1}
    answers = [
        await api.get("/health", token=None, headers={"If-None-Match": "*"}),
        await api.post(f"/wallets/{wallet}/transfer", body, headers={"If-None-Match": "*"}),
        await api.get("/wallets?limit=0", headers={"If-None-Match": "*"}),
        await api.get("/metrics", prefix="", headers={"If-None-Match": "*"}),
    ]
    assert [each.status for each in answers] == [200, 200, 400, 200]
    assert all("ETag" not in each.headers for each in answers)


async def test_a_page_of_a_browser_may_send_a_tag_and_read_it(api: Api) -> None:
    origin = "http://localhost:3000"
    asked = {"Origin": origin, "Access-Control-Request-Method": "GET"}
    asked["Access-Control-Request-Headers"] = "authorization, if-none-match"
    allowed = await api.call("OPTIONS", "/wallets", token=None, headers=asked)
    assert "if-none-match" in allowed.headers["Access-Control-Allow-Headers"].lower()
    read = await api.get("/wallets", headers={"Origin": origin})
    assert "ETag" in read.headers["Access-Control-Expose-Headers"]
    known = {"Origin": origin, "If-None-Match": read.headers["ETag"]}
    unchanged = await api.get("/wallets", headers=known)
    assert unchanged.status == 304
    assert unchanged.headers["Access-Control-Allow-Origin"] == origin


@pytest.mark.more
async def test_a_list_of_more_wallets_than_a_read_is_whole_and_has_no_tag(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home") as api:
        made = [await api.service.wallets.create(f"w{number}") for number in range(1_001)]
        listed = await api.get("/wallets", headers={"If-None-Match": "*"})
        assert listed.status == 200
        assert "ETag" not in listed.headers
        made.sort(key=lambda each: (each.created_ms, each.id))
        assert listed.json["wallets"] == [each.to_json() for each in made]
