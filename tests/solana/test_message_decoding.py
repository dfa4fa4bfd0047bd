"""Only bytes that mean exactly one transaction are read; everything else is one clear error."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from solders.compute_budget import set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, CompiledInstruction, Instruction
from solders.keypair import Keypair
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from tests.support.examples import examples
from tests.vault.guardrails.attacks import pay
from tests.vault.guardrails.bank import SOL, Bank, key

from solward.solana.message import (
    MalformedTransaction,
    check_message,
    decode_transaction,
    lookup_tables,
    network_fee,
    required_signers,
    resolve,
)
from solward.solana.programs import ED25519_PROGRAM, SECP256R1_PROGRAM
from solward.types.errors import InvalidRequest


@pytest.mark.parametrize("version", ["legacy", "0", "1"])
def test_every_version_round_trips(bank: Bank, version: str) -> None:
    wire = bank.build([pay(bank, SOL)], version=version)
    transaction = decode_transaction(wire)
    assert bytes(transaction) == wire
    assert required_signers(transaction.message) == (bank.address,)
    assert network_fee(transaction.message) == 5_000
    keys = resolve(transaction.message)
    assert [(k.writable, k.signer) for k in keys] == [(True, True), (True, False), (False, False)]


@pytest.mark.parametrize("version", ["legacy", "0", "1"])
def test_truncated_and_trailing_bytes_are_refused(bank: Bank, version: str) -> None:
    wire = bank.build([pay(bank, SOL)], version=version)
    for bad in (b"", wire[:-1], wire + b"\0", wire[1:], bytes(5_000)):
        with pytest.raises(MalformedTransaction):
            decode_transaction(bad)
    assert issubclass(MalformedTransaction, InvalidRequest)


def compiled(bank: Bank, **changes: Any) -> Message:
    parts: dict[str, Any] = {
        "header": (1, 0, 1),
        "keys": [bank.own, bank.friend.pubkey(), key("11111111111111111111111111111111")],
        "program": 2,
        "accounts": bytes([0, 1]),
        **changes,
    }
    return Message.new_with_compiled_instructions(
        *parts["header"],
        parts["keys"],
        Hash.default(),
        [CompiledInstruction(parts["program"], b"\x02", parts["accounts"])],
    )


def test_bad_indexes_headers_and_duplicates_are_refused(bank: Bank) -> None:
    check_message(compiled(bank))
    program = key("11111111111111111111111111111111")
    for changes, words in (
        ({"program": 0}, "program index"),
        ({"program": 3}, "program index"),
        ({"accounts": bytes([0, 3])}, "account index"),
        ({"keys": [bank.own, bank.own, program]}, "twice"),
        ({"header": (0, 0, 1)}, "fee payer"),
        ({"header": (1, 1, 1)}, "fee payer"),
        ({"header": (1, 0, 3)}, "header counts"),
        ({"header": (4, 0, 0)}, "fee payer"),
    ):
        with pytest.raises(MalformedTransaction, match=words):
            check_message(compiled(bank, **changes))
    empty = Message.new_with_compiled_instructions(1, 0, 0, [bank.own], Hash.default(), [])
    with pytest.raises(MalformedTransaction, match="no instructions"):
        check_message(empty)


def test_a_missing_signature_slot_is_refused(bank: Bank) -> None:
    message = decode_transaction(bank.build([pay(bank, SOL)])).message
    bare = VersionedTransaction.populate(message, [])
    with pytest.raises(MalformedTransaction):
        decode_transaction(bytes(bare))


def table_bytes(*addresses: Pubkey, active: bool = True) -> bytes:
    slot = b"\xff" * 8 if active else bytes(8)
    return struct.pack("<I", 1) + slot + bytes(44) + b"".join(bytes(a) for a in addresses)


def test_06_tables_resolve_in_runtime_order(bank: Bank) -> None:
    """All writable addresses of all tables first, then all readonly ones."""
    a, b, c, d = (Pubkey.new_unique() for _ in range(4))
    one, two = bank.put_table([a, b]), bank.put_table([c, d])
    instructions = [
        transfer(TransferParams(from_pubkey=bank.own, to_pubkey=to, lamports=1_000_000))
        for to in (a, c)
    ]
    instructions[0] = Instruction(
        instructions[0].program_id,
        bytes(instructions[0].data),
        [*instructions[0].accounts, AccountMeta(b, False, False), AccountMeta(d, False, False)],
    )
    wire = bank.build(instructions, version="0", tables=[one, two])
    message = decode_transaction(wire).message
    data = {str(one): table_bytes(a, b), str(two): table_bytes(c, d)}
    assert set(lookup_tables(message)) == set(data)
    keys = resolve(message, data)
    assert [k.writable for k in keys[-4:]] == [True, True, False, False]
    assert {k.address for k in keys[-4:-2]} == {str(a), str(c)}
    # The runtime agrees: the lamports arrive where the resolved instruction says.
    effects = bank.effects(wire)
    assert effects.lamports_out == 2_000_000
    assert bank.simulate(wire)[2].post[str(c)] is not None


def test_a_table_that_cannot_be_trusted_is_refused(bank: Bank) -> None:
    a, b = Pubkey.new_unique(), Pubkey.new_unique()
    table = bank.put_table([a, b])
    message = decode_transaction(
        bank.build([pay(bank, SOL, b)], version="0", tables=[table])
    ).message
    name = str(table)
    for tables, words in (
        ({}, "cannot be read"),
        ({name: table_bytes(a)}, "out of range"),
        ({name: table_bytes(a, b, active=False)}, "deactivated"),
        ({name: bytes(56)}, "not a lookup table"),
        ({name: table_bytes(a, b)[:-1]}, "not a lookup table"),
        ({name: table_bytes(a, bank.own)}, "twice through a lookup table"),
    ):
        with pytest.raises(MalformedTransaction, match=words):
            resolve(message, tables)
    assert isinstance(message, MessageV0)
    assert lookup_tables(message) == (name,)


def test_precompile_signatures_pay_too(bank: Bank) -> None:
    extra = [
        Instruction(key(ED25519_PROGRAM), bytes([3, 0]), []),
        Instruction(key(SECP256R1_PROGRAM), bytes([2, 0]), []),
    ]
    message = decode_transaction(bank.build([*extra, pay(bank, SOL)])).message
    assert network_fee(message) == 5_000 * 6


def test_a_price_without_a_limit_uses_the_default_units(bank: Bank) -> None:
    price = set_compute_unit_price(1_000_000)
    wire = bank.build([price, pay(bank, SOL)])
    fee = network_fee(decode_transaction(wire).message)
    assert fee == 5_000 + 6_000
    before = bank.svm.get_balance(bank.own) or 0
    bank.svm.send_transaction(VersionedTransaction.from_bytes(wire))
    assert before - (bank.svm.get_balance(bank.own) or 0) == SOL + fee


def fuzz(bank: Bank, rounds: int, seed: int) -> int:
    rng = random.Random(seed)
    samples = [
        bank.build([pay(bank, SOL, Keypair().pubkey())], version=version)
        for version in ("legacy", "0", "1")
    ]
    read = 0
    for _ in range(rounds):
        raw = bytearray(rng.choice(samples))
        for _ in range(rng.randint(1, 4)):
            # The head of the message is where the counts are; signatures hardly matter.
            at = rng.randrange(len(raw)) if rng.random() < 0.5 else rng.randrange(60, 120)
            raw[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
        if rng.random() < 0.2:
            del raw[rng.randrange(len(raw)) :]
        try:
            transaction = decode_transaction(bytes(raw))
            keys = resolve(transaction.message)
        except MalformedTransaction:
            continue
        read += 1
        assert bytes(transaction) == bytes(raw)
        assert len({entry.address for entry in keys}) == len(keys)
        assert network_fee(transaction.message) >= 5_000
    return read


@pytest.mark.property
def test_mutated_bytes_are_read_exactly_or_refused(bank: Bank) -> None:
    rounds = examples(2_000)
    assert 0 < fuzz(bank, rounds, seed=1) < rounds


@pytest.mark.long
def test_mutated_bytes_are_read_exactly_or_refused_long(bank: Bank) -> None:
    assert fuzz(bank, 100_000, seed=2) > 0
