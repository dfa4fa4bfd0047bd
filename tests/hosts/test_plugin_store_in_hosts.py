"""`context.store`, `remember` and `context.history` of third parties' plugins in their hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.hosts import Opened, opened_hosts
from tests.support.plugins import Shelf, shelf, skill_source

from solward import InvalidRequest, SkillError
from solward.hosts.capabilities import STORE_CALLS

pytestmark = pytest.mark.samples("test_what_is_kept_travels")

__all__ = ["shelf"]

ANY = '{"type": "object", "properties": {"do": {"type": "string"}}, "additionalProperties": False}'
# Runs what a test asks for; its last line is the answer.
DOES = """
names = {"context": context, "Put": Put, "Decimal": Decimal, "asyncio": asyncio}
names |= {"to": "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin", "keys": globals()}
lines = params["do"].strip().splitlines()
body = "\\n".join("    " + each for each in [*lines[:-1], "return " + lines[-1]])
exec("async def do():\\n" + body, names)
return str(await names["do"]())
"""


def source(name: str, effects: str = "Effects.SPEND") -> str:
    made = skill_source(name, schema=ANY, body=DOES, effects=effects)
    return f"from decimal import Decimal\nfrom solward import Put\n{made}"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Opened:
    return opened_hosts(monkeypatch, tmp_path)


@promise("plugin-entries-are-its-own")
async def test_what_is_kept_travels(shelf: Shelf, opened: Opened) -> None:
    shelf.install("acme", {"keeps": source("keeps"), "too": source("too", "Effects.READ")})
    shelf.install("other", {"also": source("also")})
    async with opened() as hosted:
        wallet = (await hosted.stand.wallet()).id
        second = (await hosted.stand.wallet("second")).id

        async def run(skill: str, do: str, on: str = wallet) -> str:
            told: str = await hosted.run(skill, on, do=do)
            return told

        value = "{'n': [Decimal('0.10'), None, 10**25]}"
        put = f"entry = await context.store.put('k', {value}, version=0)\nentry.version"
        assert await run("keeps", put) == "1"
        read = "entry = await context.store.get('k')\n(entry.value, entry.version, entry.status)"
        found = "({'n': [Decimal('0.10'), None, 10000000000000000000000000]}, 1, None)"
        # Of the distribution, whichever of its skills asks; and nobody else's.
        for skill in ("keeps", "too"):
            assert await run(skill, read) == found
        assert await run("also", "await context.store.list()") == "()"
        assert await run("keeps", "await context.store.list()", second) == "()"
        pay = (
            "record = await context.transfer(to=to, amount=Decimal('0.1'),"
            " remember=[Put('paid', 1, version=0), Put('last', 2)])\n"
            "entries = await context.store.list('', after='k', limit=5)\n"
            "[(e.key, e.value, e.status.value, e.transaction_id == record.id) for e in entries]"
        )
        paid = "[('last', 2, 'confirmed', True), ('paid', 1, 'confirmed', True)]"
        assert await run("keeps", pay) == paid
        with pytest.raises(SkillError, match="has version 2") as raised:
            await run("keeps", pay)
        assert raised.value.code == "store_changed"
        history = "[(e.type, e.status.value) for e in await context.history()]"
        assert await run("too", history) == "[('transfer', 'confirmed')]"
        assert await run("also", history) == "[]"
        filtered = "await context.history(status='failed', type='swap', since_ms=0, limit=1)"
        assert await run("keeps", filtered) == "()"
        assert await run("keeps", "await context.store.delete('k', version=1)") == "True"
        with pytest.raises(InvalidRequest, match="type must be one of transfer"):
            await run("keeps", "await context.history(type='gift')")
        with pytest.raises(InvalidRequest, match="PLUGIN_STORE_MAX_VALUE_BYTES"):
            await run("keeps", "await context.store.put('k', 'x' * 9000)")
        assert hosted.problems == {}


@promise("plugin-entries-are-its-own")
async def test_a_call_asks_so_often_and_no_more(shelf: Shelf, opened: Opened) -> None:
    shelf.install("acme", {"keeps": source("keeps")})
    async with opened() as hosted:
        wallet = (await hosted.stand.wallet()).id
        many = f"for n in range({STORE_CALLS}):\n    await context.store.get('k')\n"
        assert await hosted.run("keeps", wallet, do=f"{many}'done'") == "done"
        with pytest.raises(SkillError) as raised:
            await hosted.run("keeps", wallet, do=f"{many}await context.store.put('k', 1)")
        assert raised.value.code == "too_many_store_calls"
        assert await hosted.run("keeps", wallet, do="await context.store.list()") == "()"


@promise("plugin-entries-are-its-own")
async def test_what_its_own_process_is_made_to_send_is_checked_by_the_service(
    shelf: Shelf, opened: Opened
) -> None:
    """A plugin can change whatever checks it in its own process."""
    shelf.install("acme", {"keeps": source("keeps")})
    async with opened() as hosted:
        wallet = (await hosted.stand.wallet()).id
        imported = "from solward.context import OperationRequest as Asked\n"
        for call in (
            "calls.keep('put', key='a\\x00b', value=1, version=None)",
            "calls.keep('put', key='a b', value=1, version=None)",
            "calls.keep('put', key='k', value=1, version=-5)",
            "calls.keep('get', key='a' * 201)",
            "calls.keep('list', prefix='ä', after=None, limit=10)",
            "calls.keep('list', prefix='', after=None, limit=10**6)",
            "calls.money(Asked('transfer', {'to': to, 'amount': 1}), 1, [Put('a b', 1)])",
        ):
            with pytest.raises(InvalidRequest):
                await hosted.run(
                    "keeps", wallet, do=f"{imported}calls = context._calls\nawait {call}"
                )
        assert await hosted.run("keeps", wallet, do="await context.store.list()") == "()"
        assert await hosted.stand.service.history.newest(wallet, limit=5) == []
