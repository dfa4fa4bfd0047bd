"""What the ledger itself says of every transaction: the oracle of the money machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from solders.transaction import VersionedTransaction
from tests.support.engine import Bench

from solward.solana.programs import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward_localnet.ledger import Commit

# Bytes of the token accounts anybody opens here: classic, and Token-2022 with immutable owner.
_ACCOUNT_BYTES = {TOKEN_PROGRAM: 165, TOKEN_2022_PROGRAM: 170}


@dataclass(frozen=True, slots=True)
class Landed:
    """One transaction on the ledger.

    Attributes:
        payer: who paid the fee.
        before: lamports of each of its accounts before it.
        after: likewise after it.
    """

    signature: str
    payer: str
    fee: int
    err: Any
    before: Mapping[str, int]
    after: Mapping[str, int]

    def change(self, address: str) -> int:
        """Lamports an account won, negative what it lost."""
        return self.after.get(address, 0) - self.before.get(address, 0)

    @property
    def created(self) -> list[str]:
        """Accounts that had no lamports before."""
        return [each for each, held in self.after.items() if held and not self.before[each]]


class Watch:
    """Everything that lands, and what every account holds by the last transaction it was in."""

    def __init__(self) -> None:
        self.new: list[Landed] = []
        self._lamports: dict[str, int] = {}

    def __call__(self, commit: Commit) -> None:
        for stored in commit.transactions:
            keys = VersionedTransaction.from_bytes(stored.wire).message.account_keys
            names = [*map(str, keys), *stored.loaded_writable, *stored.loaded_readonly]
            self.new.append(
                Landed(
                    stored.signature,
                    names[0],
                    stored.fee,
                    stored.err,
                    dict(zip(names, stored.pre_balances, strict=True)),
                    dict(zip(names, stored.post_balances, strict=True)),
                )
            )

    async def check(self, bench: Bench) -> tuple[Landed, ...]:
        """What landed since it was last asked, after checking that no lamport came or went."""
        landed, self.new = tuple(self.new), []
        touched: set[str] = set()
        for each in landed:
            touched |= each.after.keys()
            gained = sum(each.after.values()) - sum(each.before.values())
            assert gained == -each.fee, f"{each.signature}: {gained} lamports but for the fee"
            for address, held in each.before.items():
                assert self._lamports.get(address, held) == held, f"{address} changed in between"
            if each.err is not None:
                moved = {a: each.change(a) for a in each.after if each.change(a)}
                assert moved == {each.payer: -each.fee}, f"a failed transaction moved {moved}"
            self._lamports.update(each.after)
        for address, account in (await bench.ledger.accounts(sorted(touched))).items():
            assert (account.lamports if account else 0) == self._lamports[address]
        return landed


async def rent_of(bench: Bench, landed: Landed) -> int:
    """What the accounts a transaction created must hold, by their sizes."""
    total = 0
    for account in (await bench.ledger.accounts(landed.created)).values():
        assert account is not None
        total += await bench.ledger.rent_exempt_minimum(len(account.data))
    return total


async def check_supply(bench: Bench, mint: str) -> None:
    """All accounts of a mint together hold its supply; wrapped SOL is backed by lamports."""
    state = await bench.ledger.account(mint)
    assert state is not None
    size = _ACCOUNT_BYTES[state.owner]
    held = await bench.ledger.program_accounts(state.owner, size=size, offset=0, key=mint)
    units = {a: int.from_bytes(each.data[64:72], "little") for a, each in held.items()}
    if mint != WRAPPED_SOL_MINT:
        assert sum(units.values()) == int.from_bytes(state.data[36:44], "little"), mint
        return
    rent = await bench.ledger.rent_exempt_minimum(size)
    for address, each in held.items():
        assert each.lamports == units[address] + rent, address


async def holdings(bench: Bench, owner: str) -> dict[str, int]:
    """mint -> units over all token accounts of an owner."""
    found: dict[str, int] = {}
    for each in await bench.ledger.holdings(owner):
        found[each.mint] = found.get(each.mint, 0) + each.units
    return found
