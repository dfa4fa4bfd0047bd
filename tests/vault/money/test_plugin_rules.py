"""A plugin's guardrail can refuse, and neither change what is counted nor hold up the database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.engine import UNLIMITED, open_bench

from solward.plugins.load import ThreadedRule
from solward.plugins.loaded import LoadedGuardrail
from solward.types.errors import GuardrailBlocked
from solward.types.guardrail import Hold, Intent, Request, TransactionEffects
from solward.types.money import LAMPORTS_PER_SOL
from solward.vault.guardrails.rules import RULES, Verdict
from solward.vault.money.judge import plugin_rules
from solward.vault.money.judge.plugin_rules import PluginRules
from solward.vault.money.request import Actor
from solward.vault.store import spending

WALLET = "So11111111111111111111111111111111111111112"
MINT = "Vote111111111111111111111111111111111111111"
INTENT = Intent("transfer", WALLET, lamports_out=5, tokens_out={MINT: 7}, details={"to": [MINT]})
EFFECTS = TransactionEffects(5, 5_000, tokens_out={MINT: 7})
# For tests alone: no check may wait for longer.
PATIENCE_S = 20


def rules(*checks: Callable[..., Any]) -> tuple[LoadedGuardrail, ...]:
    return tuple(
        LoadedGuardrail(check.__name__, "rules", "1.0", ThreadedRule(check)) for check in checks
    )


def fine(_intent: Intent, _effects: TransactionEffects) -> str | None:
    return None


def greedy(intent: Any, effects: Any) -> str | None:
    """Changes everything it is given, as far down as it goes."""
    for given in (intent.tokens_out, intent.tokens_in, intent.details, effects.tokens_out):
        given.clear()
    for value, names in ((intent, ("lamports_out",)), (effects, ("lamports_out", "fee_lamports"))):
        for name in names:
            object.__setattr__(value, name, 0)
    return None


@promise("guardrail-gets-copies", "plugins-only-refuse")
async def test_they_run_last_and_can_only_refuse() -> None:
    def never(_intent: Intent, _effects: TransactionEffects) -> str | None:
        return "not on a Sunday"

    def broken(_intent: Intent, _effects: TransactionEffects) -> str | None:
        raise ValueError("secret")

    def leaves(_intent: Intent, _effects: TransactionEffects) -> str | None:
        raise SystemExit

    def allows(_intent: Intent, _effects: TransactionEffects) -> Any:
        return True

    async def judged(*checks: Callable[..., Any], found: Verdict | None = None) -> Verdict:
        found = found or Verdict(("max_per_tx",))
        return await PluginRules(rules(*checks)).judge(found, INTENT, EFFECTS)

    refused = await judged(fine, never, fine)
    assert refused == Verdict(("max_per_tx", "fine", "never"), "never", "not on a Sunday")
    assert (await judged(broken)).reason == "the rule failed: ValueError"
    assert (await judged(leaves)).reason == "the rule failed: SystemExit"
    assert not (await judged(allows)).allowed
    first = Verdict(("max_per_tx",), "max_per_tx", "too much")
    assert await judged(fine, found=first) == first
    unseen = await PluginRules(rules(never)).judge(Verdict(("max_per_tx",)), INTENT, None)
    assert unseen == Verdict(("max_per_tx",))


async def test_one_can_have_a_person_decide_and_a_refusal_beats_it() -> None:
    def asks(_intent: Intent, _effects: TransactionEffects) -> Hold:
        return Hold("a lot")

    def asks_too(_intent: Intent, _effects: TransactionEffects) -> Hold:
        return Hold("x" * 1_000)

    def never(_intent: Intent, _effects: TransactionEffects) -> str:
        return "no"

    class Sly(Hold):
        pass

    def sly(_intent: Intent, _effects: TransactionEffects) -> Hold:
        return Sly("?")

    async def judged(*checks: Callable[..., Any]) -> Verdict:
        return await PluginRules(rules(*checks)).judge(Verdict(()), INTENT, EFFECTS)

    held = await judged(asks, fine, asks_too)
    assert held.allowed
    assert held.hold == f"asks: a lot; asks_too: {'x' * 499}…"
    assert held.applied == ("asks", "fine", "asks_too")
    refused = await judged(asks, never)
    assert (refused.allowed, refused.rule, refused.reason) == (False, "never", "no")
    assert not (await judged(sly)).allowed


@promise("reason-is-one-line")
async def test_a_reason_is_one_line_of_bounded_length_that_turns_nothing() -> None:
    def refuses(_intent: Intent, _effects: TransactionEffects) -> str:
        return "too much\n\u202e.devorppA\x1b[2J" + "x" * 1_000

    verdict = await PluginRules(rules(refuses)).judge(Verdict(()), INTENT, EFFECTS)
    began = "too much \ufffd.devorppA\ufffd[2J"
    assert verdict.reason == began + "x" * (499 - len(began)) + "…"


async def test_it_sees_who_asks(tmp_path: Path) -> None:
    seen: list[Request | None] = []

    def looks(_intent: Intent, effects: TransactionEffects) -> str | None:
        seen.append(effects.request)
        return None

    async with open_bench(tmp_path, plugin_guardrails=rules(looks)) as bench:
        wallet = bench.wallet.id
        key = Actor("key:k1", via=("skill:pay", "plugin:tips"))
        await bench.transfer(1, key)
        assert seen == [Request(wallet, key="k1", skill="pay", plugin="tips")]
        seen.clear()
        await bench.transfer(1, Actor("agent:a1", agent_id="a1"))
        assert seen == [Request(wallet, agent="a1")]


async def test_each_is_given_copies() -> None:
    before = (replace(INTENT), replace(EFFECTS))
    seen: list[tuple[Intent, TransactionEffects]] = []

    def second(intent: Intent, effects: TransactionEffects) -> str | None:
        seen.append((intent, effects))
        return None

    await PluginRules(rules(greedy, second)).judge(Verdict(()), INTENT, EFFECTS)
    assert seen == [before]
    assert (INTENT.tokens_out, INTENT.details) == ({MINT: 7}, {"to": [MINT]})


@promise("guardrail-gets-copies")
async def test_what_one_changes_is_not_what_is_counted(tmp_path: Path) -> None:
    limits = replace(UNLIMITED, daily_lamports=LAMPORTS_PER_SOL)
    async with open_bench(tmp_path, limits=limits, plugin_guardrails=rules(greedy)) as bench:
        record = await bench.transfer(1)
        assert record.guardrails_applied == (*RULES, "greedy")
        assert await bench.reserved_units() == LAMPORTS_PER_SOL
        with pytest.raises(GuardrailBlocked, match="daily_limit"):
            await bench.transfer(1)


async def test_a_refusal_is_stored_with_the_rules_name(tmp_path: Path) -> None:
    def weekdays(_intent: Intent, _effects: TransactionEffects) -> str | None:
        return "not on a Saturday"

    async with open_bench(tmp_path, plugin_guardrails=rules(fine, weekdays)) as bench:
        with pytest.raises(GuardrailBlocked, match="weekdays: not on a Saturday"):
            await bench.transfer(1)
        [record] = await bench.history()
        assert record.guardrails_applied == (*RULES, "fine", "weekdays")
        assert await bench.reserved_units() == 0


@promise("guardrail-gets-copies")
async def test_the_database_can_be_written_while_one_thinks(tmp_path: Path) -> None:
    asked, go = threading.Event(), threading.Event()

    def slow(_intent: Intent, _effects: TransactionEffects) -> str | None:
        asked.set()
        return None if go.wait(PATIENCE_S) else "nobody could write"

    async with open_bench(tmp_path, plugin_guardrails=rules(slow)) as bench:
        paying = asyncio.create_task(bench.transfer(1))
        assert await asyncio.to_thread(asked.wait, PATIENCE_S)
        async with bench.database.write() as connection:
            await spending.set_frozen(connection, "wallet:another", True)
        go.set()
        assert (await paying).status == "confirmed"


@promise("guardrail-gets-copies", "plugins-only-refuse")
async def test_built_in_rules_judge_again_after_the_plugins(tmp_path: Path) -> None:
    both = threading.Barrier(2)

    def together(_intent: Intent, _effects: TransactionEffects) -> str | None:
        both.wait(PATIENCE_S)
        return None

    limits = replace(UNLIMITED, daily_lamports=LAMPORTS_PER_SOL)
    async with open_bench(tmp_path, limits=limits, plugin_guardrails=rules(together)) as bench:
        # Each is within the limit when the plugin is asked; together they are not.
        ended = await asyncio.gather(bench.transfer(1), bench.transfer(1), return_exceptions=True)
        [blocked] = [each for each in ended if isinstance(each, GuardrailBlocked)]
        assert blocked.record.guardrails_applied[-1] == blocked.rule == "daily_limit"
        assert await bench.reserved_units() == LAMPORTS_PER_SOL


async def test_a_freeze_counts_while_a_plugin_thinks(tmp_path: Path) -> None:
    asked, go = threading.Event(), threading.Event()

    def slow(_intent: Intent, _effects: TransactionEffects) -> str | None:
        asked.set()
        go.wait(PATIENCE_S)
        return None

    async with open_bench(tmp_path, plugin_guardrails=rules(slow)) as bench:
        paying = asyncio.create_task(bench.transfer(1))
        assert await asyncio.to_thread(asked.wait, PATIENCE_S)
        async with bench.database.write() as connection:
            await spending.set_frozen(connection, f"wallet:{bench.wallet.id}", True)
        go.set()
        with pytest.raises(GuardrailBlocked, match="frozen"):
            await paying


@promise("guardrail-gets-copies")
async def test_one_that_hangs_refuses_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = threading.Event()

    def hangs(_intent: Intent, _effects: TransactionEffects) -> str | None:
        go.wait(PATIENCE_S)
        return None

    monkeypatch.setattr(plugin_rules, "TIME_LIMIT_S", 0.05)
    found = PluginRules(rules(hangs))
    hung = await found.judge(Verdict(()), INTENT, EFFECTS)
    assert hung.reason == "the rule did not answer within 0.05 s"
    threads = threading.active_count()
    again = await found.judge(Verdict(()), INTENT, EFFECTS)
    assert again.reason == "the rule has not answered an earlier transaction yet"
    assert threading.active_count() == threads
    go.set()
    monkeypatch.setattr(plugin_rules, "TIME_LIMIT_S", PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S):
        while not (await found.judge(Verdict(()), INTENT, EFFECTS)).allowed:
            await asyncio.sleep(0)


@pytest.mark.parametrize("stricter", [True, False])
async def test_what_was_judged_while_they_were_exchanged_is_judged_by_the_new_ones(
    tmp_path: Path, stricter: bool
) -> None:
    asked, go = threading.Event(), threading.Event()

    def slow(_intent: Intent, _effects: TransactionEffects) -> str | None:
        asked.set()
        go.wait(PATIENCE_S)
        return None if stricter else "the old one's word"

    def newer(_intent: Intent, _effects: TransactionEffects) -> str | None:
        return "the new one's word" if stricter else None

    async with open_bench(tmp_path, plugin_guardrails=rules(slow)) as bench:
        paying = asyncio.create_task(bench.transfer(1))
        assert await asyncio.to_thread(asked.wait, PATIENCE_S)
        bench.engine.use_guardrails(rules(newer))
        go.set()
        if stricter:
            with pytest.raises(GuardrailBlocked, match="newer: the new one's word"):
                await paying
            assert await bench.reserved_units() == 0
        else:
            assert (await paying).guardrails_applied == (*RULES, "newer")
