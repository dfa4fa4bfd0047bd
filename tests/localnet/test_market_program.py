"""The market's program on the real virtual machine, against `trade` and against attackers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from tests import market_source
from tests.market_source import INVALID_ACCOUNTS, INVALID_INSTRUCTION, SLIPPAGE_EXCEEDED
from tests.market_venue import pool_hop, swap_instruction, trade
from tests.sbpf import assemble
from tests.support.examples import examples
from tests.support.programs import SOL, WSOL, Machine, error_of, succeeded

from solward.solana.protocol import MOST_RENT_PER_BYTE
from solward_localnet.market import (
    AUTHORITY,
    MARKET_PROGRAM,
    POOL_BYTES,
    POOLS,
    genesis_accounts,
    program_file,
)


def test_the_file_is_what_its_source_is_assembled_to() -> None:
    assert assemble(market_source.SOURCE) == program_file()


def custom(code: int) -> str:
    return f"Custom({code})"


U64_MAX = 2**64 - 1
USDC, BONK = POOLS
SOURCE, TARGET = Pubkey.from_bytes(b"s" * 32), Pubkey.from_bytes(b"t" * 32)


@pytest.fixture
def machine() -> Machine:
    made = Machine()
    for address, account in genesis_accounts(MOST_RENT_PER_BYTE).items():
        made.put(address, account)
    return made


def amount_of_any_size(rng: random.Random) -> int:
    if rng.random() < 0.05:
        return rng.choice([1, 2, U64_MAX // 2, U64_MAX - 1])
    return rng.getrandbits(rng.randint(1, 64)) or 1


@pytest.mark.property
@pytest.mark.parametrize("pools", [(USDC,), (USDC, BONK)], ids=["one hop", "two hops"])
def test_the_program_gives_what_trade_says_to_the_unit(machine: Machine, pools: Any) -> None:
    rng = random.Random(len(pools))
    user, stranger = machine.wallet(), Keypair().pubkey()
    # Ordinary mints on both sides: wrapped SOL ends where lamports do, far below 2^64 twice.
    mints = [machine.mint() for _ in range(len(pools) + 1)]
    settled = 0
    while settled < examples(1_000):
        route = [(pool, rng.random() < 0.5) for pool in pools]
        first = paid = amount_of_any_size(rng)
        fits = True
        for index, (pool, sells_sol) in enumerate(route):
            _, vault_in, vault_out = pool_hop(pool, sells_sol)
            before, after = amount_of_any_size(rng), amount_of_any_size(rng)
            fits = fits and before + paid <= U64_MAX
            machine.tokens(mints[index], AUTHORITY, before, vault_in)
            machine.tokens(mints[index + 1], AUTHORITY, after, vault_out)
            paid = trade(paid, before, after).received
            # Nothing received is nothing that a second pool could be paid.
            fits = fits and (paid > 0 or index == len(route) - 1)
        if not fits:
            continue
        settled += 1
        machine.tokens(mints[0], user.pubkey(), first, SOURCE)
        machine.tokens(mints[-1], stranger, 0, TARGET)
        hops = [pool_hop(pool, sells_sol) for pool, sells_sol in route]
        swap = swap_instruction(user.pubkey(), SOURCE, TARGET, hops, first, paid)
        succeeded(machine.send([swap], user))
        assert (machine.units(SOURCE), machine.units(TARGET)) == (0, paid)


@dataclass
class Sale:
    """One SOL for USDC, the user's source and destination funded, to be varied by a test."""

    machine: Machine
    user: Keypair
    quoted: int

    def instruction(self, minimum: int | None = None) -> Instruction:
        least = self.quoted if minimum is None else minimum
        return swap_instruction(
            self.user.pubkey(), SOURCE, TARGET, [pool_hop(USDC, True)], SOL, least
        )

    def refused(self, instruction: Instruction, *signers: Keypair) -> str:
        before = self.money()
        error = error_of(self.machine.send([instruction], self.user, *signers))
        assert self.money() == before
        return error

    def money(self) -> list[int]:
        held = [SOURCE, TARGET, USDC.sol_vault, USDC.mint_vault, BONK.sol_vault, BONK.mint_vault]
        return [self.machine.units(account) for account in held]


@pytest.fixture
def sale(machine: Machine) -> Sale:
    user = machine.wallet()
    machine.tokens(WSOL, user.pubkey(), SOL, SOURCE)
    machine.tokens(USDC.mint, Keypair().pubkey(), 0, TARGET)
    return Sale(machine, user, trade(SOL, USDC.sol, USDC.units).received)


def test_a_sale_moves_what_was_quoted_and_nothing_else(sale: Sale) -> None:
    done = succeeded(sale.machine.send([sale.instruction()], sale.user))
    assert sale.money() == [
        0,
        sale.quoted,
        USDC.sol + SOL,
        USDC.units - sale.quoted,
        BONK.sol,
        BONK.units,
    ]
    # A swap is far from the default limit of 200,000 units.
    assert done.compute_units_consumed() < 10_000


def test_a_token_route_moves_the_middle_from_vault_to_vault(machine: Machine) -> None:
    user = machine.wallet()
    machine.tokens(USDC.mint, user.pubkey(), 100_000_000, SOURCE)
    machine.tokens(BONK.mint, user.pubkey(), 0, TARGET)
    middle = trade(100_000_000, USDC.units, USDC.sol).received
    out = trade(middle, BONK.sol, BONK.units).received
    hops = [pool_hop(USDC, False), pool_hop(BONK, True)]
    swap = swap_instruction(user.pubkey(), SOURCE, TARGET, hops, 100_000_000, out)
    done = succeeded(machine.send([swap], user))
    assert machine.units(TARGET) == out
    assert machine.units(USDC.sol_vault) == USDC.sol - middle
    assert machine.units(BONK.sol_vault) == BONK.sol + middle
    assert done.compute_units_consumed() < 15_000


def test_one_unit_less_than_the_minimum_fails_and_says_so(sale: Sale) -> None:
    outcome = sale.machine.send([sale.instruction(sale.quoted + 1)], sale.user)
    assert custom(SLIPPAGE_EXCEEDED) in error_of(outcome)
    logs = outcome.meta().logs()  # type: ignore[union-attr]
    assert "Program log: the market gives less than the minimum out" in logs


@pytest.mark.parametrize(
    "data",
    [b"", b"\x01", bytes(17), b"\x01" + bytes(16), b"\x01" + bytes([1] * 15), b"\x02" + bytes(16)],
)
def test_other_data_is_refused(sale: Sale, data: bytes) -> None:
    made = sale.instruction()
    odd = Instruction(made.program_id, data, made.accounts)
    assert custom(INVALID_INSTRUCTION) in sale.refused(odd)


@pytest.mark.parametrize("count", [0, 1, 7, 9, 10, 12])
def test_another_number_of_accounts_is_refused(sale: Sale, count: int) -> None:
    made = sale.instruction()
    more = [AccountMeta(Keypair().pubkey(), False, False) for _ in range(5)]
    odd = Instruction(made.program_id, made.data, (made.accounts + more)[:count])
    assert custom(INVALID_ACCOUNTS) in sale.refused(odd)


def _with(
    instruction: Instruction, index: int, key: Pubkey, *, writable: bool = True
) -> Instruction:
    accounts = list(instruction.accounts)
    accounts[index] = AccountMeta(key, accounts[index].is_signer, writable)
    return Instruction(instruction.program_id, instruction.data, accounts)


def test_a_pool_of_somebodys_making_is_refused(sale: Sale) -> None:
    # The attacker's vault of a worthless mint, against the real vault of USDC.
    machine = sale.machine
    worthless = machine.tokens(machine.mint(), AUTHORITY, 1)
    names = bytes(worthless) + bytes(USDC.mint_vault)
    real = machine.svm.get_account(USDC.address)
    assert real is not None
    for owner in (Pubkey.default(), sale.user.pubkey()):
        forged = Keypair().pubkey()
        machine.put(forged, _owned(real, names, owner))
        attack = _with(_with(sale.instruction(0), 5, forged), 6, worthless)
        assert custom(INVALID_ACCOUNTS) in sale.refused(attack)


def _owned(account: Any, data: bytes, owner: Pubkey) -> Any:
    return type(account)(account.lamports, data, owner)


@pytest.mark.parametrize("size", [0, 32, POOL_BYTES - 1, POOL_BYTES + 1])
def test_an_account_of_the_program_that_is_no_pool_is_refused(sale: Sale, size: int) -> None:
    real = sale.machine.svm.get_account(USDC.address)
    assert real is not None
    data = (bytes(real.data) + bytes(1))[:size]
    sale.machine.put(USDC.address, _owned(real, data, MARKET_PROGRAM))
    assert custom(INVALID_ACCOUNTS) in sale.refused(sale.instruction())


@pytest.mark.parametrize(
    ("index", "key"),
    [
        (6, lambda: BONK.sol_vault),
        (7, lambda: BONK.mint_vault),
        (5, lambda: BONK.address),
    ],
    ids=["vault paid", "vault paying", "pool"],
)
def test_accounts_of_another_pool_are_refused(
    sale: Sale, index: int, key: Callable[[], Pubkey]
) -> None:
    attack = _with(sale.instruction(0), index, key())
    assert custom(INVALID_ACCOUNTS) in sale.refused(attack)


@pytest.mark.parametrize(("index", "other"), [(2, 3), (3, 2), (3, 7), (2, 6), (6, 7), (7, 6)])
def test_an_account_twice_is_refused(sale: Sale, index: int, other: int) -> None:
    made = sale.instruction(0)
    attack = _with(made, index, made.accounts[other].pubkey)
    assert custom(INVALID_ACCOUNTS) in sale.refused(attack)


def test_a_route_through_one_pool_twice_is_refused(sale: Sale) -> None:
    hops = [pool_hop(USDC, True), pool_hop(USDC, False)]
    there_and_back = swap_instruction(sale.user.pubkey(), SOURCE, TARGET, hops, SOL, 0)
    assert custom(INVALID_ACCOUNTS) in sale.refused(there_and_back)


def test_a_token_program_of_somebodys_making_gets_no_signature_of_the_authority(
    sale: Sale,
) -> None:
    fake = sale.machine.program(program_file())
    attack = _with(sale.instruction(0), 0, fake, writable=False)
    # The program calls the token program by its address, which is then not there.
    assert "MissingAccount" in sale.refused(attack)


def test_another_authority_is_refused(sale: Sale) -> None:
    attack = _with(sale.instruction(0), 4, Keypair().pubkey(), writable=False)
    assert "PrivilegeEscalation" in sale.refused(attack)


def test_anothers_source_needs_the_others_signature(sale: Sale) -> None:
    owner = sale.machine.wallet()
    sale.machine.tokens(WSOL, owner.pubkey(), SOL, SOURCE)
    made = sale.instruction(0)
    # The thief signs as the user; the owner of the tokens does not.
    assert custom(4) in sale.refused(made)
    accounts = list(made.accounts)
    accounts[1] = AccountMeta(owner.pubkey(), is_signer=False, is_writable=False)
    unsigned = Instruction(made.program_id, made.data, accounts)
    assert "PrivilegeEscalation" in sale.refused(unsigned)


def test_a_source_of_another_mint_or_with_too_little_is_refused(sale: Sale) -> None:
    sale.machine.tokens(WSOL, sale.user.pubkey(), SOL - 1, SOURCE)
    assert custom(1) in sale.refused(sale.instruction(0))
    sale.machine.tokens(BONK.mint, sale.user.pubkey(), SOL, SOURCE)
    assert custom(3) in sale.refused(sale.instruction(0))


def test_an_emptied_pool_takes_no_money(sale: Sale) -> None:
    sale.machine.tokens(USDC.mint, AUTHORITY, 0, USDC.mint_vault)
    made = sale.instruction(1)
    assert custom(SLIPPAGE_EXCEEDED) in sale.refused(made)
