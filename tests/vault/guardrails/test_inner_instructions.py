"""Every form in which nodes word inner instructions means the same, or is refused."""

from __future__ import annotations

from typing import Any

import pytest
from solders.pubkey import Pubkey
from spl.token.instructions import create_idempotent_associated_token_account
from tests.vault.guardrails.attacks import ATTACKS, Attack
from tests.vault.guardrails.bank import ROUTER, Bank

from solward.solana.message import ResolvedKey
from solward.solana.programs import (
    MEMO_PROGRAM,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_PROGRAM,
    TOKEN_PROGRAMS,
)
from solward.support.base58 import b58decode, b58encode
from solward.vault.guardrails.effects import analyse
from solward.vault.guardrails.simulation import (
    Invocation,
    Simulation,
    UntrustedSimulation,
    inner_from_json,
)
from solward_localnet.txjson import parsed_inner_instructions

A, B, C = (str(Pubkey.new_unique()) for _ in range(3))
KEYS = (ResolvedKey(A, True, True), ResolvedKey(B, True, False), ResolvedKey(C, False, False))


def test_compiled_and_partially_decoded_forms_mean_the_same() -> None:
    compiled = {"programIdIndex": 2, "accounts": [0, 1], "data": b58encode(b"\0\x02x")}
    decoded = {"programId": C, "accounts": [A, B], "data": b58encode(b"\0\x02x")}
    expected = (Invocation(C, (A, B), b"\0\x02x", 3),)
    for form in (compiled, decoded):
        assert inner_from_json([{"index": 3, "instructions": [form]}], KEYS) == expected
    assert inner_from_json([], KEYS) == ()
    assert b58decode(b58encode(b"\0\0")) == b"\0\0"


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        [None],
        [{"index": 0}],
        [{"index": -1, "instructions": []}],
        [{"index": True, "instructions": []}],
        [{"index": 0, "instructions": [None]}],
        [{"index": 0, "instructions": [{"programIdIndex": 3, "accounts": [], "data": ""}]}],
        [{"index": 0, "instructions": [{"programIdIndex": 2, "accounts": [9], "data": ""}]}],
        [{"index": 0, "instructions": [{"programIdIndex": 2, "accounts": [0], "data": "0"}]}],
        [{"index": 0, "instructions": [{"programIdIndex": 2, "accounts": None, "data": ""}]}],
        [{"index": 0, "instructions": [{"programId": "x", "accounts": [], "data": ""}]}],
        [{"index": 0, "instructions": [{"programId": C, "parsed": {"type": "x", "info": {}}}]}],
        [{"index": 0, "instructions": [{"programId": C, "parsed": "x"}]}],
        [
            {
                "index": 0,
                "instructions": [
                    {
                        "programId": TOKEN_PROGRAM,
                        "parsed": {"type": "transfer", "info": {"source": A}},
                    }
                ],
            }
        ],
    ],
)
def test_what_is_not_understood_is_refused(value: Any) -> None:
    with pytest.raises(UntrustedSimulation):
        inner_from_json(value, KEYS)


def test_a_parsed_memo_is_its_text() -> None:
    inner = [{"index": 0, "instructions": [{"programId": MEMO_PROGRAM, "parsed": "hi"}]}]
    assert inner_from_json(inner, KEYS) == (Invocation(MEMO_PROGRAM, (), b"hi", 0),)


def through_the_parser(calls: tuple[Invocation, ...], names: list[str]) -> list[dict[str, Any]]:
    return parsed_inner_instructions(
        [
            {
                "index": 0,
                "instructions": [
                    {
                        "programIdIndex": names.index(call.program),
                        "accounts": [names.index(account) for account in call.accounts],
                        "data": b58encode(call.data),
                        "stackHeight": 2,
                    }
                    for call in calls
                ],
            }
        ],
        names,
    )


def test_parsed_rent_and_wrapped_sol_read_as_their_bytes() -> None:
    keys = (*KEYS, ResolvedKey(TOKEN_PROGRAM, False, False))
    to = {"source": A, "destination": B, "authority": C}
    for kind, info, data in (
        ("withdrawExcessLamports", to, b"\x26"),
        ("unwrapLamports", to, b"\x2d\x00"),
        ("unwrapLamports", to | {"amount": None}, b"\x2d\x00"),
        ("unwrapLamports", to | {"amount": "5"}, b"\x2d\x01\x05" + bytes(7)),
    ):
        form = {"programId": TOKEN_PROGRAM, "parsed": {"type": kind, "info": info}}
        expected = (Invocation(TOKEN_PROGRAM, (A, B, C), data, 0),)
        assert inner_from_json([{"index": 0, "instructions": [form]}], keys) == expected
    multisig = {"type": "unwrapLamports", "info": to | {"signers": [A]}}
    form = {"programId": TOKEN_PROGRAM, "parsed": multisig}
    with pytest.raises(UntrustedSimulation):
        inner_from_json([{"index": 0, "instructions": [form]}], keys)


def test_creating_a_token_account_reads_the_same_parsed(bank: Bank) -> None:
    create = create_idempotent_associated_token_account(bank.own, Pubkey.new_unique(), bank.mint)
    transaction, keys, compiled = bank.simulate(bank.build([create]))
    parsed = through_the_parser(compiled.inner, [entry.address for entry in keys])
    assert all("parsed" in item for item in parsed[0]["instructions"])
    inner = inner_from_json(parsed, keys)
    assert [call.program for call in inner] == [call.program for call in compiled.inner]
    message = transaction.message
    one = analyse(message, keys, compiled, bank.address)
    two = analyse(message, keys, Simulation(compiled.pre, compiled.post, inner), bank.address)
    assert (one.rent_lamports, one.created) == (two.rent_lamports, two.created)
    assert two.violations == ()


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])
def test_a_parsed_attack_reads_the_same_or_is_refused(bank: Bank, attack: Attack) -> None:
    """As bytes and as an RPC node words it, an inner instruction has the same accounts and data."""
    instructions = attack.make(bank)
    names = sorted(
        {str(meta.pubkey) for one in instructions for meta in one.accounts}
        | {str(one.program_id) for one in instructions}
    )
    calls = tuple(
        Invocation(
            str(one.program_id), tuple(str(meta.pubkey) for meta in one.accounts), one.data, 0
        )
        for one in instructions
    )
    keys = tuple(ResolvedKey(name, True, False) for name in names)
    for original in calls:
        try:
            (read,) = inner_from_json(through_the_parser((original,), names), keys)
        except UntrustedSimulation:
            continue
        assert (read.program, read.data) == (original.program, bytes(original.data))
        assert read.accounts == original.accounts[: len(read.accounts)]


def test_an_inner_instruction_from_nowhere_is_refused(bank: Bank) -> None:
    transaction, keys, full = bank.simulate(
        bank.build([create_idempotent_associated_token_account(bank.own, bank.own, bank.mint)])
    )
    for call, words in (
        (Invocation(TOKEN_PROGRAM, (), b"", 5), "no outer instruction"),
        (Invocation(TOKEN_PROGRAM, (ROUTER,), b"", 0), "not in the message"),
    ):
        bad = Simulation(full.pre, full.post, (call,))
        with pytest.raises(UntrustedSimulation, match=words):
            analyse(transaction.message, keys, bad, bank.address)


@pytest.mark.parametrize("program", [STAKE_PROGRAM, SYSTEM_PROGRAM, *sorted(TOKEN_PROGRAMS)])
def test_a_truncated_instruction_is_a_violation_and_never_a_panic(bank: Bank, program: str) -> None:
    transaction, keys, full = bank.simulate(
        bank.build([create_idempotent_associated_token_account(bank.own, bank.own, bank.mint)])
    )
    known = (*keys, *(ResolvedKey(each, False, False) for each in (program, ROUTER)))
    accounts = (bank.address, ROUTER, bank.address, bank.address)
    width = 1 if program in TOKEN_PROGRAMS else 4
    refused = 0
    for kind in range(40):
        for rest in (b"", b"\x01", b"\x00\x01short", b"\x01" * 33):
            call = Invocation(program, accounts, kind.to_bytes(width, "little") + rest, 0)
            seen = Simulation(full.pre, full.post, (call,))
            effects = analyse(transaction.message, known, seen, bank.address)
            refused += any("malformed" in reason for _rule, reason in effects.violations)
    assert refused > 5
