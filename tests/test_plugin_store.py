"""What a plugin keeps for a wallet: whose it is, its versions and its bounds."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.plugins import keeping_context, keeping_skill

from solward import (
    Effects,
    GuardrailBlocked,
    InvalidRequest,
    Put,
    SkillError,
    TransactionFailed,
    TransactionStatus,
)
from solward.testing import TestWallet, open_stand
from solward.types.errors import KeyRevoked, TakenOver
from solward.vault.money.plugin_entries import WriteBudget
from solward.vault.money.request import ADMIN, Actor, AgentRun, ScheduleRun

ELSEWHERE = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"


async def test_an_entry_is_read_as_it_was_written(wallet: TestWallet) -> None:
    store = keeping_context(wallet).store
    assert await store.get("last") is None
    value = {"amount": Decimal("0.10"), "list": [1, None, True, "ä"], "deep": {"n": 10**30}}
    written = await store.put("last", value)
    assert written == await store.get("last")
    assert (written.value, written.transaction_id, written.status) == (value, None, None)
    assert str(written.value["amount"]) == "0.10"
    again = await store.put("last", None)
    assert again.version > written.version
    assert await store.delete("last")
    assert await store.get("last") is None
    assert not await store.delete("last")


async def test_entries_are_listed_by_prefix_in_pages(wallet: TestWallet) -> None:
    store = keeping_context(wallet).store
    for key in ("b", "a/2", "a/10", "a/1", "a0", "A/1", "a/~"):
        await store.put(key, key)
    keys = [each.key for each in await store.list("a/")]
    assert keys == ["a/1", "a/10", "a/2", "a/~"]
    assert [each.key for each in await store.list()] == sorted({*keys, "b", "a0", "A/1"})
    page = await store.list("a/", limit=2)
    rest = await store.list("a/", after=page[-1].key)
    assert [each.key for each in (*page, *rest)] == keys


async def test_of_two_writers_of_one_version_one_is_told(wallet: TestWallet) -> None:
    store = keeping_context(wallet).store

    refused: set[str] = set()

    async def count() -> None:
        while True:
            entry = await store.get("count")
            value, version = (0, 0) if entry is None else (entry.value, entry.version)
            try:
                await store.put("count", value + 1, version=version)
            except SkillError as error:
                refused.add(error.code)
            else:
                return

    await asyncio.gather(*(count() for _ in range(12)))
    found = await store.get("count")
    assert found is not None
    assert found.value == 12
    assert refused == {"store_changed"}


async def test_a_version_is_given_once_though_its_entry_was_deleted(wallet: TestWallet) -> None:
    store = keeping_context(wallet).store
    first = await store.put("k", 1)
    await store.delete("k", version=first.version)
    second = await store.put("k", 2, version=0)
    assert second.version > first.version
    with pytest.raises(SkillError, match="has version") as raised:
        await store.put("k", 3, version=first.version)
    assert raised.value.code == "store_changed"
    with pytest.raises(SkillError, match="another call changed the entry"):
        await store.delete("k", version=first.version)
    with pytest.raises(SkillError, match="'new' does not exist"):
        await store.put("new", 1, version=second.version)


@promise("plugin-entries-are-its-own")
async def test_it_is_of_one_distribution_and_one_wallet(wallet: TestWallet) -> None:
    other = await wallet.stand.wallet("other")
    await keeping_context(wallet).store.put("k", "mine")
    stores = (
        keeping_context(wallet, "another").store,
        keeping_context(wallet, "Keeper-2").store,
        keeping_context(other).store,
    )
    for store in stores:
        assert await store.get("k") is None
        assert await store.list() == ()
        assert not await store.delete("k")
        await store.put("k", "theirs")
    mine = await keeping_context(wallet, "KEEPER").store.get("k")  # a name has many spellings
    assert mine is not None
    assert mine.value == "mine"


async def test_a_key_is_plain_ascii(wallet: TestWallet, subtests: pytest.Subtests) -> None:
    for key in (
        "",
        " ",
        "a b",
        "a\x00",
        "a\n",
        "ä",
        "a\u0301",
        "\u202ek",
        "x" * 201,
        "k\x7f",
        None,
        3,
        b"k",
    ):
        with subtests.test(key=key):
            context = keeping_context(wallet)
            for call in (
                context.store.get(key),
                context.store.put(key, 1),
                context.store.delete(key),
                context.store.list(after=key) if key is not None else context.store.get(key),
                context.transfer(to=ELSEWHERE, amount=Decimal("0.1"), remember=Put(key, 1)),
            ):
                with pytest.raises(InvalidRequest, match="printable ASCII"):
                    await call
            assert await wallet.records() == []


@pytest.mark.more
@promise("plugin-entries-are-its-own")
async def test_a_key_is_no_path_and_no_pattern(
    wallet: TestWallet, subtests: pytest.Subtests
) -> None:
    for key in ("../b/k", "%", "_", "k%", "/", "..", "plugin:another", "*", "'--", "\\", "{}"):
        with subtests.test(key=key):
            mine, others = keeping_context(wallet).store, keeping_context(wallet, "another").store
            await others.put("k", 1)
            await mine.put("kk", 1)
            await mine.put(key, "here")
            assert [each.key for each in await mine.list(key)] == [key]
            assert [each.key for each in await others.list()] == ["k"]
            assert await mine.delete(key)
            assert [each.key for each in await mine.list()] == ["kk"]


async def test_a_value_is_json(wallet: TestWallet, subtests: pytest.Subtests) -> None:
    for value in (
        0.5,
        float("nan"),
        Decimal("NaN"),
        {1: 2},
        "\ud800",
        b"x",
        object(),
        10**5000,
        {"a": {1, 2}},
    ):
        with subtests.test(kind=type(value).__name__):
            with pytest.raises(InvalidRequest, match="value must be JSON"):
                await keeping_context(wallet).store.put("k", value)
            assert await keeping_context(wallet).store.list() == ()


@pytest.mark.more
async def test_a_value_is_not_too_deep(wallet: TestWallet) -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidRequest, match="at most 32 levels"):
        await keeping_context(wallet).store.put("k", value)


async def test_a_version_is_a_number(wallet: TestWallet, subtests: pytest.Subtests) -> None:
    for version in (-1, True, "1", 1.0, 2**63):
        with subtests.test(version=version), pytest.raises(InvalidRequest, match="version must be"):
            await keeping_context(wallet).store.put("k", 1, version=version)


async def test_a_page_is_bounded(wallet: TestWallet, subtests: pytest.Subtests) -> None:
    said = "limit must be a whole number from 1 to 200"
    for limit in (0, 201, True, "1", None):
        with subtests.test(limit=limit), pytest.raises(InvalidRequest, match=said):
            await keeping_context(wallet).store.list(limit=limit)


@promise("plugin-entries-are-its-own")
async def test_bounds_are_named(tmp_path: Path) -> None:
    bounds = {"max_keys": 3, "max_value_bytes": 20, "max_bytes": 40}
    named = {f"plugin_store_{name}": value for name, value in bounds.items()}
    async with open_stand(tmp_path, **named) as stand:
        wallet = await stand.wallet()
        store = keeping_context(wallet).store
        with pytest.raises(InvalidRequest, match=r"22 bytes .* 20 \(PLUGIN_STORE_MAX_VALUE_BYTES"):
            await store.put("k", "x" * 20)
        for key in "abc":
            await store.put(key, 1)
        with pytest.raises(SkillError, match=r"4 keys; the maximum is 3 \(PLUGIN_STORE_MAX_KEYS"):
            await store.put("d", 1)
        await store.put("a", "x" * 18)
        with pytest.raises(
            SkillError, match=r"bytes; the maximum is 40 \(PLUGIN_STORE_MAX_BYTES\)"
        ):
            await store.put("b", "x" * 18)
        # What was refused is not there, and what is full can be emptied and used again.
        assert [each.value for each in await store.list()] == ["x" * 18, 1, 1]
        await store.delete("a")
        await store.put("b", "x" * 18)
        # Another wallet's and another plugin's are not full by it.
        await keeping_context(wallet, "another").store.put("d", "x" * 18)
        with pytest.raises(SkillError, match="PLUGIN_STORE_MAX_KEYS") as raised:
            await keeping_context(wallet).transfer(
                to=ELSEWHERE, amount=Decimal("0.1"), remember=[Put("e", 1), Put("f", 1)]
            )
        assert raised.value.code == "store_full"
        with pytest.raises(InvalidRequest, match="PLUGIN_STORE_MAX_VALUE_BYTES"):
            await keeping_context(wallet).transfer(
                to=ELSEWHERE, amount=Decimal("0.1"), remember=Put("e", "x" * 20)
            )
        assert await wallet.records() == []
        assert await wallet.lamports() == 10 * 10**9


async def test_a_skill_that_reads_keeps_what_it_likes_and_pays_nothing(wallet: TestWallet) -> None:
    context = keeping_context(wallet, effects=Effects.READ)
    await context.store.put("k", 1)
    with pytest.raises(SkillError, match="may not transact"):
        await context.transfer(to=ELSEWHERE, amount=Decimal("0.1"), remember=Put("paid", 1))
    assert [each.key for each in await context.store.list()] == ["k"]


@promise("plugin-entries-are-its-own")
async def test_it_ends_with_the_call(wallet: TestWallet) -> None:
    context = keeping_context(wallet)
    await context.store.put("k", 1)
    store = context.store
    context.end()
    for call in (
        store.get("k"),
        store.put("k", 2),
        store.delete("k"),
        store.list(),
        context.history(),
    ):
        with pytest.raises(SkillError, match="has ended"):
            await call
    found = await keeping_context(wallet).store.get("k")
    assert found is not None
    assert found.value == 1


async def test_a_call_of_nobodys_plugin_has_no_store(wallet: TestWallet) -> None:
    entries = wallet.stand.service.operations.entries
    with pytest.raises(SkillError, match="Only a plugin's skill has a store"):
        await entries.keep("put", wallet.id, ADMIN, key="k", value=1)


async def test_a_dry_run_stores_nothing(wallet: TestWallet) -> None:
    service = wallet.stand.service
    await keeping_context(wallet).store.put("there", 1)
    trying = service.skill_runs.context(
        keeping_skill(wallet, "keeper"), wallet.record, Actor("admin", dry_run=True)
    )
    entry = await trying.store.put("k", 1)
    assert entry.value == 1
    assert await trying.store.delete("there")
    with pytest.raises(SkillError, match="another call changed the entry"):
        await trying.store.put("there", 1, version=0)
    assert [each.key for each in await trying.store.list()] == ["there"]


# With a money call.


async def test_a_money_call_remembers_with_its_record(wallet: TestWallet) -> None:
    context = keeping_context(wallet)
    record = await context.transfer(
        to=ELSEWHERE, amount=Decimal("0.1"), remember=[Put("bought", {"n": 1}), Put("last", 2)]
    )
    entries = await context.store.list()
    assert [(each.key, each.value) for each in entries] == [("bought", {"n": 1}), ("last", 2)]
    assert {each.transaction_id for each in entries} == {record.id}
    assert {each.status for each in entries} == {TransactionStatus.CONFIRMED}
    assert not any(each.failed for each in entries)
    assert len({each.version for each in entries}) == 2


@promise("one-pays-per-entry-version")
async def test_of_two_calls_at_once_for_one_period_one_pays(wallet: TestWallet) -> None:
    before = await wallet.lamports()

    async def buy() -> str:
        context = keeping_context(wallet)
        try:
            await context.transfer(
                to=ELSEWHERE, amount=Decimal("0.1"), remember=Put("2026-11", 1, version=0)
            )
        except SkillError as error:
            return error.code
        return "bought"

    answers = await asyncio.gather(*(buy() for _ in range(8)))
    assert sorted(answers) == ["bought", *["store_changed"] * 7]
    assert len(await wallet.records()) == 1
    assert before - await wallet.lamports() == 10**8 + 5_000


@promise("refused-is-not-remembered")
async def test_what_is_refused_is_not_remembered(wallet: TestWallet) -> None:
    context = keeping_context(wallet)
    with pytest.raises(GuardrailBlocked):
        await context.transfer(to=ELSEWHERE, amount=Decimal(3), remember=Put("k", 1))
    await wallet.stand.service.switches.freeze(wallet.id)
    with pytest.raises(GuardrailBlocked, match="frozen"):
        await context.transfer(to=ELSEWHERE, amount=Decimal("0.1"), remember=Put("k", 1))
    assert await context.store.list() == ()
    # Its plugins go on to keep what moves no money.
    await context.store.put("seen", 1)
    assert [each.key for each in await context.store.list()] == ["seen"]
    statuses = {each.status for each in await context.history()}
    assert statuses == {TransactionStatus.BLOCKED}


@promise("refused-is-not-remembered")
async def test_what_cannot_succeed_is_not_remembered(tmp_path: Path) -> None:
    limits = {"max_sol_per_transaction": 1000, "daily_spending_limit_sol": 1000}
    async with open_stand(tmp_path, **limits) as stand:
        wallet = await stand.wallet()
        context = keeping_context(wallet)
        with pytest.raises(TransactionFailed):
            await context.transfer(to=ELSEWHERE, amount=Decimal(500), remember=Put("k", 1))
        assert await context.store.list() == ()


@promise("refused-is-not-remembered")
async def test_a_dry_run_of_a_money_call_remembers_nothing(wallet: TestWallet) -> None:
    from solward.vault.money.outcomes import TrialEnded

    trying = wallet.stand.service.skill_runs.context(
        keeping_skill(wallet, "keeper"), wallet.record, Actor("admin", dry_run=True)
    )
    with pytest.raises(TrialEnded):
        await trying.transfer(to=ELSEWHERE, amount=Decimal("0.1"), remember=Put("k", 1))
    assert await keeping_context(wallet).store.list() == ()


async def test_remember_takes_entries_of_different_keys(wallet: TestWallet) -> None:
    context = keeping_context(wallet)
    for remember, text in (
        ([Put("k", 1), Put("k", 2)], "each key once"),
        ([Put(f"k{n}", 1) for n in range(17)], "at most 16"),
        ({"k": 1}, "must be a Put"),
        (["k"], "must be a Put"),
        ([Put("k", 1, version=-1)], "version must be"),
    ):
        with pytest.raises(InvalidRequest, match=text):
            await context.transfer(
                to=ELSEWHERE,
                amount=Decimal("0.1"),
                remember=remember,  # type: ignore[arg-type]
            )
    assert await wallet.records() == []


@promise("plugin-entries-are-its-own")
async def test_who_may_not_act_any_more_writes_nothing(wallet: TestWallet) -> None:
    entries = wallet.stand.service.operations.entries
    via = ("skill:keeps", "plugin:keeper")
    ended = (
        (Actor("key:k1", api_key="of nobody", via=via), KeyRevoked),
        (Actor("agent:a1", run=AgentRun("a1", 1, 1), via=via), TakenOver),
        (Actor("schedule:s1", schedule=ScheduleRun("s1", 1), via=via), TakenOver),
    )
    for actor, error in ended:
        with pytest.raises(error):
            await entries.keep("put", wallet.id, actor, key="k", value=1)
        with pytest.raises(error):
            await entries.keep("delete", wallet.id, actor, key="k", version=None)
    assert await keeping_context(wallet).store.list() == ()


async def test_history_is_of_the_plugin_and_filtered(wallet: TestWallet) -> None:
    mine, others = keeping_context(wallet), keeping_context(wallet, "another")
    first = await mine.transfer(to=ELSEWHERE, amount=Decimal("0.1"))
    await others.transfer(to=ELSEWHERE, amount=Decimal("0.1"))
    await wallet.run("transfer", to=ELSEWHERE, amount=Decimal("0.1"))
    wrapped = await mine.wrap_sol(amount=Decimal("0.1"))
    with pytest.raises(GuardrailBlocked):
        await mine.transfer(to=ELSEWHERE, amount=Decimal(3))
    assert [(each.type, each.status.value) for each in await mine.history()] == [
        ("transfer", "blocked"),
        ("wrap_sol", "confirmed"),
        ("transfer", "confirmed"),
    ]
    assert (await mine.history())[-1] == first
    assert [each.id for each in await mine.history(type="wrap_sol")] == [wrapped.id]
    assert len(await mine.history(status="blocked")) == 1
    assert len(await mine.history(limit=2)) == 2
    assert [each.id for each in await mine.history(before=wrapped.id)] == [first.id]
    assert await mine.history(since_ms=wrapped.created_ms + 10**6) == ()
    assert len(await mine.history(since_ms=first.created_ms)) == 3
    # Another's record is no place in this one's history.
    [others_record] = await others.history()
    assert await mine.history(before=others_record.id) == ()
    other = await wallet.stand.wallet("other")
    assert await keeping_context(other).history() == ()


async def test_a_filter_that_is_none_is_named(
    wallet: TestWallet, subtests: pytest.Subtests
) -> None:
    for filters, text in (
        ({"type": "gift"}, "type must be one of transfer"),
        ({"status": "lost"}, "status must be one of pending"),
        ({"since_ms": -1}, "since_ms must be"),
        ({"since_ms": 1.5}, "since_ms must be"),
        ({"since_ms": 2**70}, "since_ms must be"),
        ({"before": ""}, "before must be"),
        ({"before": "x" * 65}, "before must be"),
        ({"limit": 0}, "limit must be"),
        ({"limit": 101}, "limit must be"),
        ({"limit": True}, "limit must be"),
    ):
        with subtests.test(filters=filters), pytest.raises(InvalidRequest, match=text):
            await keeping_context(wallet).history(**filters)


@promise("entry-with-its-record")
async def test_what_is_remembered_is_of_the_records_own_transaction(wallet: TestWallet) -> None:
    database = wallet.stand.service.database
    begun: list[str] = []

    async def transactions_of(remember: tuple[Put, ...]) -> int:
        context = keeping_context(wallet)
        del begun[:]
        await context.transfer(to=ELSEWHERE, amount=Decimal("0.1"), remember=remember)
        return begun.count("write")

    await transactions_of(())
    database.on_transaction = begun.append
    assert await transactions_of((Put("k", 1),)) == await transactions_of(())


@promise("plugin-store-bounded")
async def test_a_plugin_writes_so_often_a_minute_and_others_go_on(tmp_path: Path) -> None:
    async with open_stand(tmp_path, plugin_store_writes_per_minute=3) as stand:
        wallet, other = await stand.wallet(), await stand.wallet()
        store = keeping_context(wallet).store
        await store.put("k", 1)
        await keeping_context(other).store.put("k", 1)
        await store.delete("k")
        for write in (
            store.put("k", 2),
            store.delete("k"),
            keeping_context(other).store.put("k", 2),
        ):
            with pytest.raises(SkillError, match=r"3 writes.*_PER_MINUTE\).* in \d+ s"):
                await write
        assert await store.get("k") is None
        await keeping_context(wallet, "another").store.put("k", 1)
        # What a money call remembers is bounded with the money.
        await keeping_context(wallet).transfer(
            to=ELSEWHERE, amount=Decimal("0.1"), remember=[Put("e", 1)]
        )
        assert await store.get("e") is not None


def test_the_next_minute_has_room_again() -> None:
    now = [100.0]
    budget = WriteBudget(2, lambda: now[0])
    budget.count_write("acme")
    now[0] += 59.5
    budget.count_write("acme")
    with pytest.raises(SkillError, match="in 1 s") as raised:
        budget.count_write("acme")
    assert raised.value.code == "store_busy"
    now[0] += 0.5
    budget.count_write("acme")
    budget.count_write("acme")
