"""Wallets over REST: how many a key may make, and listing them whole or in pages."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.services import NOBODY, Api, serving_api, several_apis

from solward.support import jsontext
from solward.types.errors import TooManyWallets
from solward.vault.custody import service
from solward.vault.custody.service import MOST_OF_A_KEY


@pytest.mark.more
@promise("key-makes-100-wallets")
async def test_a_key_makes_100_wallets_and_no_more(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home") as api:
        key, key_id = await api.key()
        other, _ = await api.key()
        made = await asyncio.gather(*(api.post("/wallets", {}, token=key) for _ in range(120)))
        assert Counter(answer.status for answer in made) == {200: 100, 500: 20}
        assert MOST_OF_A_KEY == 100
        refused = next(answer for answer in made if answer.status == 500)
        assert refused.error == str(TooManyWallets(100))
        assert len((await api.get("/wallets")).json["wallets"]) == 100
        # Neither another secret nor a restart gives room; others have theirs.
        new = (await api.post(f"/keys/{key_id}/rotate")).json["apiKey"]
        assert (await api.post("/wallets", {}, token=new)).status == 500
        assert (await api.post("/wallets", {}, token=other)).status == 200
        assert (await api.post("/wallets", {})).status == 200
    async with serving_api(tmp_path / "home") as api:
        assert (await api.post("/wallets", {}, token=key)).status == 500
        assert (await api.post("/wallets", {}, token=other)).status == 200


async def test_of_wallets_that_are_stored_together_each_key_gets_its_own(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST_OF_A_KEY", 3)
    keys = [(await api.key())[0] for _ in range(3)]
    made = await asyncio.gather(
        *(api.post("/wallets", {}, token=keys[n % 3]) for n in range(12)),
        *(api.post("/wallets", {}) for _ in range(5)),
    )
    assert Counter(answer.status for answer in made) == {200: 14, 500: 3}


@promise("key-makes-100-wallets")
@pytest.mark.more
async def test_processes_count_a_keys_wallets_together(postgres_url: str, tmp_path: Path) -> None:
    async with several_apis(postgres_url, tmp_path / "home", 2) as apis:
        key, _ = await apis[0].key()
        made = await asyncio.gather(
            *(apis[n % 2].post("/wallets", {}, token=key) for n in range(130))
        )
        assert Counter(answer.status for answer in made) == {200: 100, 500: 30}


@promise("wallets-oldest-first")
async def test_all_are_listed_oldest_first_however_many_pages_they_take(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "_PAGE", 4)
    # All in one millisecond.
    monkeypatch.setattr(service, "now_ms", lambda: 1_800_000_000_000)
    assert (await api.get("/wallets")).text == '{"wallets":[]}'
    made: list[str] = []
    for number in (1, 3, 4, 5, 9):
        while len(made) < number:
            made.append(await api.wallet())
        answer = await api.get("/wallets")
        assert [each["id"] for each in answer.json["wallets"]] == made
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.text == jsontext.dumps(answer.json)


@promise("wallets-oldest-first")
async def test_pages_are_newest_first_and_leave_none_out(api: Api) -> None:
    made = [await api.wallet() for _ in range(7)]

    async def page(query: str) -> list[str]:
        answer = await api.get(f"/wallets?{query}")
        assert answer.status == 200, answer.text
        return [each["id"] for each in answer.json["wallets"]]

    seen = await page("limit=3")
    while older := await page(f"limit=3&before={seen[-1]}"):
        seen += older
    assert seen == made[::-1]
    assert await page(f"before={made[2]}") == [made[1], made[0]]
    for query, told in (
        ("limit=0", "limit must"),
        ("limit=501", "limit must"),
        (f"before={NOBODY}", "before must"),
    ):
        refused = await api.get(f"/wallets?{query}")
        assert (refused.status, told in refused.error) == (400, True)


async def test_a_confined_key_learns_nothing_from_paging(api: Api) -> None:
    mine, other = await api.wallet(), await api.wallet()
    key, _ = await api.key(walletId=mine)
    for query in ("", "?limit=5"):
        listed = (await api.get(f"/wallets{query}", token=key)).json["wallets"]
        assert [each["id"] for each in listed] == [mine]
    assert (await api.get(f"/wallets?before={mine}", token=key)).json == {"wallets": []}
    told = {(await api.get(f"/wallets?before={each}", token=key)).error for each in (other, NOBODY)}
    assert told == {"before must be the id of a wallet"}
