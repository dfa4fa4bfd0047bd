"""What a spending skill's examples move, to the smallest unit, on the embedded ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence

from solward.testing.conformance.observed_run import (
    Case,
    Run,
    WatchedSkill,
    observe_run,
    prepared,
)
from solward.testing.conformance.report import Finding, Outcome, joined
from solward.testing.stand import TestWallet
from solward.types.guardrail import SOL
from solward.types.record import TransactionStatus

MakeWallet = Callable[[], Awaitable[TestWallet]]
Units = Mapping[str, int]


async def check_money(
    skill: WatchedSkill, make_wallet: MakeWallet, cases: Sequence[Case]
) -> Finding:
    """Each example that lands moves what its records' transactions moved, the same on another
    wallet, and nothing on a frozen one."""
    trouble: list[str] = []
    differs: list[str] = []
    landed = 0
    for at, case in enumerate(cases):
        first, change = await _run(skill, await make_wallet(), case)
        signatures = _landed(first)
        if not signatures:
            continue
        landed += 1
        if change != await _moved(first.wallet, signatures):
            trouble.append(f"case {at}: its records do not account for what left the wallet")
        _, again = await _run(skill, await make_wallet(), case)
        if _out(change) != _out(again):
            differs.append(
                f"case {at}: {_outflow_text(change)} left one wallet and"
                f" {_outflow_text(again)} another"
            )
        stopped, change = await _run(skill, await make_wallet(), case, frozen=True)
        if _out(change) or stopped.crashed:
            trouble.append(f"case {at}, frozen: {_outflow_text(change)} left, {stopped.trouble}")
    if trouble:
        return Finding("money", Outcome.FAILED, joined(trouble))
    if differs:
        return Finding("money", Outcome.WARNING, joined(differs))
    if not landed:
        return Finding("money", Outcome.SKIPPED, "no example landed a transaction")
    detail = f"{landed} examples moved what their records say, the same twice, and nothing frozen"
    return Finding("money", Outcome.OK, detail)


async def _run(
    skill: WatchedSkill, wallet: TestWallet, case: Case, *, frozen: bool = False
) -> tuple[Run, Units]:
    """A case on a wallet, and the change of what that holds."""
    params = await prepared(case, wallet)
    if frozen:
        await wallet.stand.service.freeze(wallet.id, "the conformance kit")
    before = await _held(wallet)
    run = await observe_run(skill, wallet, params)
    after = await _held(wallet)
    return run, _changes(
        {name: after.get(name, 0) - before.get(name, 0) for name in before | after}
    )


def _landed(run: Run) -> list[str]:
    return [
        each.signature
        for each in run.records
        if each.status is TransactionStatus.CONFIRMED and each.signature is not None
    ]


async def _held(wallet: TestWallet) -> dict[str, int]:
    held: defaultdict[str, int] = defaultdict(int)
    for each in await wallet.stand.service.ledger.holdings(wallet.address):
        held[each.mint] += each.units
    return {**held, SOL: await wallet.lamports()}


async def _moved(wallet: TestWallet, signatures: Sequence[str]) -> Units:
    """What transactions did to a wallet, as the ledger has it."""
    moved: defaultdict[str, int] = defaultdict(int)
    options = {"encoding": "json", "maxSupportedTransactionVersion": 0}
    for signature in signatures:
        found = await wallet.stand.localnet.call("getTransaction", [signature, options])
        meta = found["meta"]
        loaded = meta.get("loadedAddresses") or {}
        keys = [
            *found["transaction"]["message"]["accountKeys"],
            *loaded.get("writable", ()),
            *loaded.get("readonly", ()),
        ]
        at = keys.index(wallet.address)
        moved[SOL] += meta["postBalances"][at] - meta["preBalances"][at]
        for sign, tokens in ((1, meta["postTokenBalances"]), (-1, meta["preTokenBalances"])):
            for each in tokens:
                if each["owner"] == wallet.address:
                    moved[each["mint"]] += sign * int(each["uiTokenAmount"]["amount"])
    return _changes(moved)


def _changes(units: Units) -> Units:
    return {name: value for name, value in units.items() if value}


def _out(units: Units) -> Units:
    return {name: value for name, value in units.items() if value < 0}


def _outflow_text(units: Units) -> str:
    return ", ".join(f"{-value} of {name}" for name, value in _out(units).items()) or "nothing"
