"""What the service's records must say, given what the ledger says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sqlalchemy import select
from tests.operations.conservation.ledger import Landed
from tests.support.engine import Bench
from tests.support.localnet import rent

from solward.database.tables import attempts, reservations, transactions
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.tokens import TOKEN_ACCOUNT_BYTES, TOKEN_ACCOUNT_RENT
from solward.support.clock import now_ms
from solward.support.durations import MINUTE_MS
from solward.types.record import TransactionRecord, TransactionStatus, TransactionType
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.store import spending
from solward.vault.store import transactions as store
from solward.vault.store.attempts import AttemptState

# The types that pay for accounts beside their amount; a stake's amount is its whole account.
PAYS_RENT = {"swap", "token_launch", "mint_supply", "token_transfer", "wrap_sol"}
# Those that may open an account of the wallet itself, and those that close one.
OPENS_OWN = {"swap", "token_launch", "mint_supply", "wrap_sol"}
CLOSES = {"close_account", "unwrap_sol"}
_ENDED = {AttemptState.LANDED_OK, AttemptState.LANDED_ERR, AttemptState.DEAD}


def units_of(amount: Decimal | int, decimals: int) -> int:
    """Whole units of a record as smallest units, exactly."""
    scaled = Decimal(amount).scaleb(decimals)
    assert scaled == int(scaled)
    return int(scaled)


@dataclass(frozen=True, slots=True)
class Told:
    """What a confirmed record says of its wallet.

    Attributes:
        lamports: by which the wallet's own grew, without fee and rent.
        tokens: mint -> units by which its holding grew.
        counted: lamports that count against its limits.
        other: the account that got or gave the rest, and the lamports by which it grew.
        receiver: who owns the tokens that left, where they were sent.
    """

    lamports: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    counted: int = 0
    other: tuple[str, int] | None = None
    receiver: str | None = None

    @property
    def leaving(self) -> dict[str, int]:
        """mint -> units that count against its limit; wrapped SOL that is unwrapped stays."""
        out = {mint: -units for mint, units in self.tokens.items() if units < 0}
        return {mint: units for mint, units in out.items() if mint != WRAPPED_SOL_MINT}


def told(record: TransactionRecord, decimals: Mapping[str, int]) -> Told:
    """Read a confirmed record's details, as `docs/` documents them for each type."""
    said: Mapping[str, Any] = record.details
    kind = TransactionType(record.type)
    if kind is TransactionType.SWAP:
        return _swapped(said, decimals)
    if kind is TransactionType.TOKEN_LAUNCH:
        return Told(tokens={said["mint"]: units_of(said["supply"], said["decimals"])})
    if kind in (TransactionType.MINT_SUPPLY, TransactionType.BURN):
        units = units_of(said["amount"], decimals[said["mint"]])
        return Told(tokens={said["mint"]: units if kind is TransactionType.MINT_SUPPLY else -units})
    if kind is TransactionType.TOKEN_TRANSFER:
        units = units_of(said["amount"], decimals[said["mint"]])
        return Told(tokens={said["mint"]: -units}, receiver=said["to"])
    if kind is TransactionType.CLOSE_ACCOUNT:
        lamports = units_of(said["reclaimed"], 9)
        return Told(lamports, other=(said["account"], -lamports))
    if kind in (TransactionType.REVOKE_AUTHORITY, TransactionType.UNSTAKE):
        return Told()
    amount = units_of(said["amount"], 9)
    match kind:
        case TransactionType.AIRDROP:
            return Told(amount)
        case TransactionType.TRANSFER:
            if said["to"] == said["from"]:
                return Told(counted=amount)
            return Told(-amount, counted=amount, other=(said["to"], amount))
        case TransactionType.WRAP_SOL:
            return Told(-amount, {WRAPPED_SOL_MINT: amount}, amount)
        case TransactionType.UNWRAP_SOL:
            back = amount + units_of(said["reclaimed"], 9)
            return Told(back, {WRAPPED_SOL_MINT: -amount}, other=(said["account"], -back))
        case TransactionType.STAKE:
            return Told(-amount, counted=amount, other=(said["stakeAccount"], amount))
        case TransactionType.WITHDRAW_STAKE:
            return Told(amount, other=(said["stakeAccount"], -amount))
    raise AssertionError(f"nobody asked for a {kind}")


def _swapped(said: Mapping[str, Any], decimals: Mapping[str, int]) -> Told:
    source, target = said["inputToken"], said["outputToken"]
    paid = units_of(said["inputAmount"], decimals[source])
    got = units_of(said["outputAmount"], decimals[target])
    if source == WRAPPED_SOL_MINT:
        return Told(-paid, {target: got}, counted=paid)
    if target == WRAPPED_SOL_MINT:
        return Told(got, {source: -paid})
    return Told(tokens={source: -paid, target: got})


def _rent_on_the_way(record: TransactionRecord) -> int:
    """Rent of the pocket's accounts in a swap, which one and the same transaction gives back: the
    debit is the most that could leave. A sale into SOL has two of them, any other one."""
    if record.type != TransactionType.SWAP:
        return 0
    return rent(TOKEN_ACCOUNT_BYTES) * (1 + (record.details["outputToken"] == WRAPPED_SOL_MINT))


@dataclass(frozen=True, slots=True)
class Fact:
    """What really became of a record.

    Attributes:
        address: of the record's wallet.
        landed: the transaction, None where none landed.
        rent: lamports the accounts it created must hold, where its type pays them as rent.
    """

    address: str
    landed: Landed | None = None
    rent: int = 0

    @property
    def fee(self) -> int:
        """What the wallet paid; a faucet pays its own."""
        return self.landed.fee if self.landed and self.landed.payer == self.address else 0


@dataclass(frozen=True, slots=True)
class Books:
    """What the records and the budgets must agree with.

    Attributes:
        limits: scope -> its limits, of every wallet and key.
        decimals: mint -> decimals, of every mint a record may name.
        facts: record id -> its fact, of every record there is.
    """

    limits: Mapping[str, ScopeLimits]
    decimals: dict[str, int]
    facts: dict[str, Fact] = field(default_factory=dict)

    async def check(self, bench: Bench) -> None:
        """Every record agrees with its fact, and exactly what landed counts against limits."""
        async with bench.database.read() as connection:
            rows = (await connection.execute(select(transactions))).all()
            kept = (await connection.execute(select(reservations))).all()
            tried = (
                await connection.execute(select(attempts.c.state, attempts.c.landed_slot))
            ).all()
            still = list((await spending.reserved_by_scope(connection, self.limits)).values())
            records = {each.id: each for each in await store.history(connection, None, 500, None)}
        states = {state for state, _ in tried}
        assert states <= _ENDED, f"an attempt is left in one of {states}"
        assert all(AttemptState(state).landed == bool(slot) for state, slot in tried), tried
        assert not any(still), f"still reserved: {still}"
        assert records.keys() == self.facts.keys() == {row.id for row in rows}, "a record too many"
        expected: dict[tuple[str, str, str], int] = {}
        for row in rows:
            record, fact = records[row.id], self.facts[row.id]
            own = "faucet" if record.type == TransactionType.AIRDROP else "wallet"
            scopes = [f"{own}:{record.wallet_id}"]
            if row.principal in self.limits:
                scopes.append(row.principal)
            for asset, units in self._counted(record, fact, row.held_lamports).items():
                expected |= {(row.id, scope, asset): units for scope in scopes}
        self._credit(records, expected)
        found = {(each.transaction_id, each.scope, each.asset): each.units for each in kept}
        for (record_id, scope, asset), units in list(expected.items()):
            # SOL that pools pass on inside a swap may have been the wallet's, for all that balances
            # show: it keeps counting, up to what was reserved.
            costs = found.get((record_id, scope, asset), 0)
            swapped = records[record_id].type == TransactionType.SWAP
            most = units + 3 * TOKEN_ACCOUNT_RENT
            if asset == spending.COSTS_ASSET and swapped and units <= costs <= most:
                expected[record_id, scope, asset] = costs
        wrong = {
            key: (found.get(key), expected.get(key))
            for key in found.keys() | expected.keys()
            if found.get(key) != expected.get(key)
        }
        assert not wrong, f"counted, and not as expected: {wrong}"
        confirmed = [each for each in records.values() if each.status == "confirmed"]
        await _check_on_ledger(bench, [str(each.signature) for each in confirmed])
        self._check_limits(kept)

    def _counted(self, record: TransactionRecord, fact: Fact, held: int) -> dict[str, int]:
        """asset -> units that must count against limits, after checking the record's own fields."""
        landed = fact.landed
        if record.status is TransactionStatus.BLOCKED:
            assert (landed, record.signature, record.fee_lamports, held) == (None, None, None, 0)
            return {}
        if record.status is TransactionStatus.FAILED:
            # One that failed before it was sent has no fee at all, one that expired a fee of 0.
            assert (record.fee_lamports or 0) == held == fact.fee, f"{record.type}: a wrong fee"
            if landed is None:
                return {}
            assert landed.err is not None
            assert landed.signature == record.signature
            said = told(record, self.decimals)
            costs = {spending.COSTS_ASSET: fact.fee} if fact.fee else {}
            return {spending.SOL_ASSET: 0} | costs | dict.fromkeys(said.leaving, 0)
        assert record.status is TransactionStatus.CONFIRMED, f"{record.type}: {record.status}"
        assert landed is not None, f"{record.type} is confirmed, and not on the ledger"
        assert landed.err is None, f"{record.type} is confirmed, and failed on the ledger"
        assert landed.signature == record.signature
        said = told(record, self.decimals)
        assert record.fee_lamports == fact.fee, f"{record.type}: a wrong fee"
        assert held >= -landed.change(fact.address), f"{record.type} settled below its debit"
        due = fact.rent + _rent_on_the_way(record)
        assert held == said.counted + fact.fee + due, f"{record.type}: a wrong debit"
        # The embedded ledger's word is enough: rent that did not leave counts no more.
        paid = fact.fee + fact.rent
        costs = {spending.COSTS_ASSET: paid} if paid else {}
        return {spending.SOL_ASSET: said.counted, **costs, **said.leaving}

    def _credit(
        self, records: Mapping[str, TransactionRecord], expected: dict[tuple[str, str, str], int]
    ) -> None:
        """Take the rent of accounts that the service closed off what opened them last."""
        opened: dict[str, tuple[str, int]] = {}
        for record_id, fact in self.facts.items():
            record, landed = records[record_id], fact.landed
            if landed is None or record.status is not TransactionStatus.CONFIRMED:
                continue
            if record.type in OPENS_OWN:
                wrapped = units_of(record.details["amount"], 9) if record.type == "wrap_sol" else 0
                for account in landed.created:
                    opened[account] = record_id, landed.after[account] - wrapped
            elif record.type in CLOSES:
                opening, paid = opened.pop(record.details["account"], ("", 0))
                for key in [key for key in expected if key[::2] == (opening, spending.COSTS_ASSET)]:
                    expected[key] -= min(paid, units_of(record.details["reclaimed"], 9))

    def _check_limits(self, kept: Sequence[Any]) -> None:
        since = now_ms() - MINUTE_MS
        for scope, limit in self.limits.items():
            ours = [each for each in kept if each.scope == scope]
            spent: Counter[str] = Counter()
            for each in ours:
                spent[each.asset] += each.units
            recent = [each for each in ours if each.created_ms > since]
            if limit.max_tx_per_minute is not None:
                assert len({each.transaction_id for each in recent}) <= limit.max_tx_per_minute
            if limit.daily_lamports is not None:
                assert spent[spending.SOL_ASSET] <= limit.daily_lamports
            for mint, units in limit.daily_tokens.items():
                assert spent[mint] <= units


async def _check_on_ledger(bench: Bench, signatures: list[str]) -> None:
    if not signatures:
        return
    for status in await bench.ledger.statuses(signatures, search_history=True):
        assert status is not None
        assert status.err is None
