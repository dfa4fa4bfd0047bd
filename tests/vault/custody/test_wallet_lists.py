"""Lists of wallets as JSON: what the wallets say now, whoever changed their tags."""

from __future__ import annotations

import pytest
from sqlalchemy import update
from tests.support.engine import Bench

from solward.database import tables
from solward.support import jsontext
from solward.types.errors import InvalidRequest
from solward.vault.custody import Wallet

NAMES = ('a "quote" \\ /', "é€😀", "x" * 64)


def written(wallets: list[Wallet]) -> list[bytes]:
    return [jsontext.dumps(each.to_json()).encode() for each in wallets]


async def listed(bench: Bench) -> list[bytes]:
    return [text async for page in bench.wallets.pages_json() for text in page]


async def test_lists_are_the_bytes_of_their_wallets(bench: Bench) -> None:
    made = [bench.wallet]
    for number in range(520):
        tags = (NAMES[number % 3],) if number % 2 else ()
        made.append(await bench.wallets.create(NAMES[number % 3], tags))
    made.sort(key=lambda each: (each.created_ms, each.id))
    newest = written(made)[::-1]
    assert await listed(bench) == written(made)
    assert await bench.wallets.newest_json(500) == newest[:500]
    assert await bench.wallets.newest_json(7, made[300].id) == newest[220 + 1 :][:7]
    assert await bench.wallets.newest_json(7, made[0].id) == []


async def test_tags_that_another_process_sets_are_listed_at_once(bench: Bench) -> None:
    for tags in (["a"], ["b", "é"], [], ["a"]):
        async with bench.database.write() as connection:
            await connection.execute(update(tables.wallets).values(tags=tags))
        for texts in (await listed(bench), await bench.wallets.newest_json(5)):
            assert [jsontext.loads(each)["tags"] for each in texts] == [tags]


async def test_a_page_before_no_wallet_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidRequest, match="before must be the id of a wallet"):
        await bench.wallets.newest_json(5, "nobody")
