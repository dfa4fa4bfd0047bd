"""The most a transaction can take, from its bytes alone: each instruction that may name the wallet.

What each costs, and what refuses it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, CompiledInstruction, Instruction
from solders.keypair import Keypair
from solders.message import (
    Message,
    MessageAddressTableLookup,
    MessageHeader,
    MessageV0,
    MessageV1,
    TransactionConfig,
)
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction
from tests.promises import promise
from tests.support.programs import batch_of

from solward.solana.message import Call, MalformedTransaction, decode_transaction
from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    ED25519_PROGRAM,
    MEMO_PROGRAM,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    WRAPPED_SOL_MINT,
)
from solward.types.guardrail import Outflow
from solward.vault.guardrails.worst_case import NoBound, known_lines, worst_case

W, STRANGER, ACCOUNT, OTHER, MINT = (Pubkey(bytes([n]) * 32) for n in (7, 8, 9, 10, 11))
NATIVE = Pubkey.from_string(WRAPPED_SOL_MINT)
SYSVAR = Pubkey.from_string("SysvarC1ock11111111111111111111111111111111")
CLASSIC, EXTENDED = Pubkey.from_string(TOKEN_PROGRAM), Pubkey.from_string(TOKEN_2022_PROGRAM)
OWN = get_associated_token_address(W, MINT, CLASSIC)
OWN_EXTENDED = get_associated_token_address(W, MINT, EXTENDED)
RENT, RENT_2022 = 2_039_280, 2_248_080


def call(program: str, data: bytes, *accounts: Pubkey) -> Instruction:
    metas = [AccountMeta(each, each == W, True) for each in accounts]
    return Instruction(Pubkey.from_string(program), data, metas)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def system(number: int, data: bytes, *accounts: Pubkey) -> Instruction:
    return call(SYSTEM_PROGRAM, struct.pack("<I", number) + data, *accounts)


def stake(number: int, data: bytes, *accounts: Pubkey) -> Instruction:
    return call(STAKE_PROGRAM, struct.pack("<I", number) + data, *accounts)


def token(data: bytes, *accounts: Pubkey, program: str = TOKEN_PROGRAM) -> Instruction:
    return call(program, data, *accounts)


def pay(lamports: int, to: Pubkey = STRANGER) -> Instruction:
    return system(2, u64(lamports), W, to)


def opened(
    account: Pubkey,
    owner: Pubkey,
    mint: Pubkey = MINT,
    program: Pubkey = CLASSIC,
    data: bytes = b"\x01",
    funder: Pubkey = W,
) -> Instruction:
    accounts = (funder, account, owner, MINT, Pubkey.from_string(SYSTEM_PROGRAM), program)
    return call(ASSOCIATED_TOKEN_PROGRAM, data, *accounts)


def sent(units: int, to: Pubkey, source: Pubkey = ACCOUNT, mint: Pubkey = MINT) -> Instruction:
    return token(b"\x0c" + u64(units) + b"\x06", source, mint, to, W)


def message(*instructions: Instruction, payer: Pubkey = W) -> MessageV0:
    return MessageV0.try_compile(payer, list(instructions), [], Hash.default())


PAYERS = {"its own fee": W, "another's fee": Pubkey(bytes([12]) * 32)}
"""Who pays the fee and signs first: the wallet, or the sponsor of a payment."""


def bound(payer: Pubkey, *instructions: Instruction) -> tuple[int, int, dict[str, int]]:
    """(SOL, rent, tokens) beside the fee of one signature, which is the payer's."""
    found = worst_case(message(*instructions, payer=payer), str(W))
    assert found.fee_lamports == (5_000 if payer == W else 0)
    return found.lamports, found.rent_lamports, dict(found.tokens)


def create(
    lamports: int, space: int, owner: Pubkey, account: Pubkey = ACCOUNT, seeded: bool = False
) -> Instruction:
    tail = u64(lamports) + u64(space) + bytes(owner)
    if seeded:
        return system(3, bytes(W) + u64(3) + b"abc" + tail, W, account)
    return system(0, tail, W, account)


METADATA = bytes((210, 225, 30, 162, 88, 184, 77, 141)) + 3 * (u64(1)[:4] + b"x")
LAUNCH = (
    create(5_000_000, 234, EXTENDED, seeded=True),
    token(b"\x14" + b"\x06" + bytes(W) + b"\x00", ACCOUNT, program=TOKEN_2022_PROGRAM),
)
LAUNCHED_RENT = (128 + 234) * 6_960
DESCRIBED_RENT = (128 + 234 + 72 + 15) * 6_960


def describe(*accounts: Pubkey) -> Instruction:
    return token(METADATA, *accounts, program=TOKEN_2022_PROGRAM)


@promise("gross-sum", "burns-count-by-mint", "stake-and-wrap-count", "excess-comes-home")
@pytest.mark.parametrize("payer", PAYERS.values(), ids=PAYERS)
@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ([pay(5)], (5, 0, {})),
        ([pay(5), pay(6)], (11, 0, {})),
        ([pay(5, W)], (0, 0, {})),
        ([system(2, u64(5), STRANGER, W)], (0, 0, {})),
        # Rent beyond what an account needs, and wrapped SOL, come home.
        ([token(b"\x26", ACCOUNT, W, W)], (0, 0, {})),
        ([token(b"\x26", ACCOUNT, W, STRANGER)], (0, 0, {})),
        ([token(b"\x2d\x00", ACCOUNT, W, W)], (0, 0, {})),
        ([token(b"\x2d\x01" + u64(5), ACCOUNT, W, W)], (0, 0, {})),
        ([token(b"\x2d\x01" + u64(5), ACCOUNT, W, STRANGER)], (0, 0, {})),
        # Or leave, as SOL.
        ([token(b"\x2d\x01" + u64(5), ACCOUNT, STRANGER, W)], (5, 0, {})),
        ([token(b"\x2d\x01" + u64(5), ACCOUNT, STRANGER, W, program=TOKEN_2022_PROGRAM)],
         (5, 0, {})),
        # From a stranger's account, by its owner.
        ([token(b"\x26", OTHER, STRANGER, ACCOUNT), pay(1)], (1, 0, {})),
        # Wrapping counts when it is made.
        ([pay(5, get_associated_token_address(W, NATIVE, CLASSIC))], (5, 0, {})),
        ([create(9, 0, CLASSIC)], (9, 0, {})),
        ([create(9, 200, Pubkey.from_string(STAKE_PROGRAM), seeded=True)], (9, 0, {})),
        ([system(11, u64(9) + u64(1) + b"x" + bytes(32), ACCOUNT, W, STRANGER)], (9, 0, {})),
        ([system(11, u64(9) + u64(1) + b"x" + bytes(32), ACCOUNT, W, W)], (0, 0, {})),
        ([system(5, u64(9), ACCOUNT, STRANGER, SYSVAR, OTHER, W)], (9, 0, {})),
        ([system(5, u64(9), ACCOUNT, W, SYSVAR, OTHER, W)], (0, 0, {})),
        ([opened(OWN, W)], (0, RENT, {})),
        ([opened(OWN, W), opened(OWN, W)], (0, 2 * RENT, {})),
        ([opened(OWN_EXTENDED, W, program=EXTENDED)], (0, RENT_2022, {})),
        ([sent(5, STRANGER)], (0, 0, {str(MINT): 5})),
        ([sent(5, STRANGER, mint=NATIVE)], (5, 0, {})),
        ([sent(5, ACCOUNT)], (0, 0, {})),
        ([sent(5, OWN)], (0, 0, {str(MINT): 5})),
        ([opened(OWN, W), sent(5, OWN)], (0, RENT, {})),
        ([sent(5, OWN), opened(OWN, W)], (0, RENT, {str(MINT): 5})),
        ([opened(OWN, W, data=b""), sent(5, OWN)], (0, RENT, {str(MINT): 5})),
        ([opened(OWN, W), sent(5, OWN, mint=NATIVE)], (5, RENT, {})),
        ([token(b"\x0f" + u64(5) + b"\x06", ACCOUNT, MINT, W)], (0, 0, {str(MINT): 5})),
        ([token(b"\x0e" + u64(5) + b"\x06", MINT, STRANGER, W)], (0, 0, {str(MINT): 5})),
        # A classic account may have been given away, one of Token-2022 cannot.
        ([token(b"\x0e" + u64(5) + b"\x06", MINT, OWN, W)], (0, 0, {str(MINT): 5})),
        ([opened(OWN, W), token(b"\x0e" + u64(5) + b"\x06", MINT, OWN, W)], (0, RENT, {})),
        ([token(b"\x0e" + u64(5) + b"\x06", MINT, OWN_EXTENDED, W, program=TOKEN_2022_PROGRAM)],
         (0, 0, {})),
        ([token(b"\x1a\x01" + u64(5) + b"\x06" + u64(1), ACCOUNT, MINT, OTHER, W,
                program=TOKEN_2022_PROGRAM)], (0, 0, {str(MINT): 5})),
        ([token(b"\x09", ACCOUNT, W, W)], (0, 0, {})),
        ([token(b"\x09", ACCOUNT, W, STRANGER)], (0, 0, {})),
        ([token(b"\x05", ACCOUNT, W)], (0, 0, {})),
        ([token(b"\x06\x00\x00", MINT, W)], (0, 0, {})),
        ([token(b"\x06\x00\x00" + bytes(32), MINT, W)], (0, 0, {})),
        ([token(b"\x06\x01\x01" + bytes(W), MINT, W)], (0, 0, {})),
        ([token(b"\x06\x03\x00", ACCOUNT, W)], (0, 0, {})),
        ([stake(2, b"", ACCOUNT, OTHER, SYSVAR, MINT, STRANGER, W)], (0, 0, {})),
        ([stake(5, b"", ACCOUNT, SYSVAR, W)], (0, 0, {})),
        ([stake(3, u64(5), ACCOUNT, OTHER, W)], (0, 0, {})),
        ([stake(7, b"", ACCOUNT, OTHER, SYSVAR, MINT, W)], (0, 0, {})),
        ([stake(17, u64(5), ACCOUNT, OTHER, W)], (0, 0, {})),
        ([stake(4, u64(5), ACCOUNT, STRANGER, SYSVAR, MINT, W)], (5, 0, {})),
        ([stake(4, u64(5), ACCOUNT, W, SYSVAR, MINT, W)], (0, 0, {})),
        ([call(MEMO_PROGRAM, b"hello", W)], (0, 0, {})),
        # An undecoded program without the wallet's key gets nothing from its signature.
        ([call(str(OTHER), b"anything", ACCOUNT)], (0, 0, {})),
        # A mint: what its bytes need is rent, the excess is SOL.
        (LAUNCH, (5_000_000 - LAUNCHED_RENT, LAUNCHED_RENT, {})),
        ([*LAUNCH, describe(ACCOUNT, W, ACCOUNT, W)],
         (5_000_000 - DESCRIBED_RENT, DESCRIBED_RENT, {})),
        ([create(5_000_000, 82, CLASSIC)], (5_000_000, 0, {})),
    ],
)  # fmt: skip
def test_what_can_be_taken_is_summed_gross(
    instructions: Sequence[Instruction], expected: tuple[int, int, dict[str, int]], payer: Pubkey
) -> None:
    assert bound(payer, *instructions) == expected


REFUSED = {
    "assign": ([system(1, bytes(32), W)], "authority_change"),
    "allocate": ([system(8, u64(9), W)], "authority_change"),
    "authorize a nonce": ([system(7, bytes(32), ACCOUNT, W)], "authority_change"),
    "advance a nonce": ([system(4, b"", ACCOUNT, SYSVAR, STRANGER)], "program_allowlist"),
    "prefunded account": ([system(13, bytes(48), ACCOUNT, W)], "program_allowlist"),
    "the wallet as new account": ([system(0, bytes(48), OTHER, W)], "program_allowlist"),
    "malformed seed": ([system(11, u64(9) + u64(2) + b"x" + bytes(32), ACCOUNT, W, STRANGER)],
                       "program_allowlist"),
    "transfer with a third account": ([system(2, u64(5), W, STRANGER, OTHER)],
                                      "program_allowlist"),
    "another's associated address": ([opened(STRANGER, W)], "program_allowlist"),
    "another token program": ([opened(OWN, W, program=OTHER)], "program_allowlist"),
    "recover nested": ([call(ASSOCIATED_TOKEN_PROGRAM, b"\x02", ACCOUNT, MINT, OTHER, W)],
                       "program_allowlist"),
    "unchecked transfer": ([token(b"\x03" + u64(5), ACCOUNT, STRANGER, W)], "program_allowlist"),
    "unchecked burn": ([token(b"\x08" + u64(5), ACCOUNT, MINT, W)], "program_allowlist"),
    "approve": ([token(b"\x04" + u64(5), ACCOUNT, STRANGER, W)], "authority_change"),
    "approve checked": ([token(b"\x0d" + u64(5) + b"\x06", ACCOUNT, MINT, STRANGER, W)],
                        "authority_change"),
    "multisig": ([token(b"\x0c" + u64(5) + b"\x06", ACCOUNT, MINT, OTHER, STRANGER, W)],
                 "program_allowlist"),
    "hook": ([token(b"\x0c" + u64(5) + b"\x06", ACCOUNT, MINT, OTHER, W, STRANGER)],
             "program_allowlist"),
    "trailing data": ([token(b"\x0c" + u64(5) + b"\x06\x00", ACCOUNT, MINT, OTHER, W)],
                      "program_allowlist"),
    "another instruction of the fee extension": (
        [token(b"\x1a\x05" + u64(5) + b"\x06" + u64(1), ACCOUNT, MINT, OTHER, W,
               program=TOKEN_2022_PROGRAM)],
        "program_allowlist",
    ),
    "the fee extension on the first token program": (
        [token(b"\x1a\x01" + u64(5) + b"\x06" + u64(1), ACCOUNT, MINT, OTHER, W)],
        "program_allowlist",
    ),
    "close to a stranger": ([token(b"\x09", ACCOUNT, STRANGER, W)], "program_allowlist"),
    "owner": ([token(b"\x06\x02\x01" + bytes(STRANGER), ACCOUNT, W)], "authority_change"),
    "mint authority": ([token(b"\x06\x00\x01" + bytes(STRANGER), MINT, W)], "authority_change"),
    "withdraw excess": ([token(b"\x26", MINT, STRANGER, W)], "program_allowlist"),
    "unwrap all": ([token(b"\x2d\x00", ACCOUNT, STRANGER, W)], "program_allowlist"),
    "unwrap without an amount": ([token(b"\x2d\x01", ACCOUNT, W, W)], "program_allowlist"),
    "unwrap with an unknown option": ([token(b"\x2d\x02" + u64(5), ACCOUNT, W, W)],
                                      "program_allowlist"),
    "unwrap with trailing bytes": ([token(b"\x2d\x00\x00", ACCOUNT, W, W)],
                                   "program_allowlist"),
    "unwrap of a multisig": ([token(b"\x2d\x01" + u64(5), ACCOUNT, STRANGER, OTHER, W)],
                             "program_allowlist"),
    "reallocate": ([token(b"\x1d\x08\x00", ACCOUNT, W, STRANGER, W)], "program_allowlist"),
    "metadata of another mint": ([describe(MINT, W, MINT, W)], "program_allowlist"),
    "metadata for another authority": ([*LAUNCH, describe(ACCOUNT, STRANGER, ACCOUNT, W)],
                                       "authority_change"),
    "stake authorize": ([stake(1, bytes(32) + bytes(4), ACCOUNT, SYSVAR, W)], "authority_change"),
    "stake lockup": ([stake(6, bytes(3), ACCOUNT, W)], "authority_change"),
    "stake with a custodian": ([stake(4, u64(5), ACCOUNT, STRANGER, SYSVAR, MINT, W, OTHER)],
                               "program_allowlist"),
    "unknown stake": ([stake(15, b"", ACCOUNT, W)], "program_allowlist"),
    "precompile": ([call(ED25519_PROGRAM, b"\x01" + bytes(15))], "program_allowlist"),
    "undecoded with the wallet": ([call(str(OTHER), b"", ACCOUNT, W)], "program_allowlist"),
    "price without a limit": ([set_compute_unit_price(1), pay(1)], "program_allowlist"),
    "two limits": ([set_compute_unit_limit(1), set_compute_unit_limit(2), pay(1)],
                   "program_allowlist"),
}  # fmt: skip


@promise("undecoded-is-refused", "no-later-claims", "excess-comes-home")
@pytest.mark.parametrize("payer", PAYERS.values(), ids=PAYERS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_bounded_is_refused(name: str, payer: Pubkey) -> None:
    instructions, rule = REFUSED[name]
    with pytest.raises(NoBound) as refused:
        worst_case(message(*instructions, payer=payer), str(W))
    assert refused.value.rule == rule


def judged(*instructions: Instruction) -> Outflow | tuple[str, str]:
    try:
        return worst_case(message(*instructions), str(W))
    except NoBound as refused:
        return refused.reason, refused.rule


SENT, CLOSED = sent(5, STRANGER), token(b"\x09", ACCOUNT, W, W)
EXCESS, UNWRAPPED = token(b"\x26", ACCOUNT, W, W), token(b"\x2d\x01" + u64(7), ACCOUNT, OTHER, W)
BATCHES: dict[str, tuple[Instruction, ...]] = {
    "one": (SENT,),
    "two that leave": (SENT, UNWRAPPED),
    "beside what takes nothing": (EXCESS, SENT, CLOSED),
    "of a stranger's": (token(b"\x03" + u64(9), ACCOUNT, OTHER, STRANGER), SENT),
    "that gives control away": (EXCESS, token(b"\x04" + u64(5), ACCOUNT, STRANGER, W)),
    "that closes to a stranger": (SENT, token(b"\x09", ACCOUNT, STRANGER, W)),
    "unchecked": (token(b"\x03" + u64(5), ACCOUNT, STRANGER, W),),
    "of a multisig": (token(b"\x0c" + u64(5) + b"\x06", ACCOUNT, MINT, OTHER, STRANGER, W),),
    "into the own account": (sent(5, OWN), SENT),
    "with a fee": (token(b"\x1a\x01" + u64(5) + b"\x06" + u64(1), ACCOUNT, MINT, OTHER, W),),
}


@promise("batch-is-its-instructions")
@pytest.mark.parametrize("program", [TOKEN_PROGRAM, TOKEN_2022_PROGRAM])
@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_is_judged_as_its_instructions_alone(name: str, program: str) -> None:
    alone = [
        Instruction(Pubkey.from_string(program), bytes(one.data), one.accounts)
        for one in BATCHES[name]
    ]
    owner_checked = opened(OWN, W)
    found = judged(owner_checked, batch_of(*alone))
    assert found == judged(owner_checked, *alone)
    # Whatever else a batch holds, and whoever the others belong to.
    theirs = token(b"\x05", OTHER, STRANGER, program=program)
    assert judged(owner_checked, batch_of(theirs, *alone, theirs)) == found


MALFORMED: dict[str, tuple[Instruction, str]] = {
    "empty": (batch_of(), "a batch has no instructions"),
    "a trailing byte": (batch_of(SENT, tail=b"\x00"), "a batch has a trailing byte"),
    "data that is cut off": (batch_of(SENT, tail=b"\x00\x02\x05"),
                             "instruction 2 of a batch has 1 bytes of data, expected 2"),
    "too few accounts": (batch_of(SENT, tail=b"\x01\x01\x05"),
                         "instruction 2 of a batch has 0 accounts left, expected 1"),
    "without data": (batch_of(SENT, tail=b"\x00\x00"), "instruction 2 of a batch has no data"),
    "nested": (batch_of(CLOSED, batch_of(SENT)), "instruction 2 of a batch is a batch itself"),
    "more accounts": (token(b"\xff\x01\x01\x11", ACCOUNT, W),
                      "1 accounts of a batch belong to none"),
    "nested, of strangers": (batch_of(batch_of(token(b"\x05", OTHER, STRANGER))),
                             "is a batch itself"),
}  # fmt: skip


@promise("batch-is-its-instructions")
@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_batch_is_refused_by_what_is_wrong(name: str) -> None:
    made, named = MALFORMED[name]
    for program in (TOKEN_PROGRAM, TOKEN_2022_PROGRAM):
        one = Instruction(Pubkey.from_string(program), bytes(made.data), made.accounts)
        with pytest.raises(NoBound, match=named) as refused:
            worst_case(message(pay(1), one), str(W))
        assert refused.value.rule == "program_allowlist"


@promise("no-later-claims")
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_sponsors_durable_nonce_is_refused_wherever_it_is_advanced(at: int) -> None:
    """With one, what the wallet signed could be landed at any time."""
    sponsor = PAYERS["another's fee"]
    steps = [sent(5, STRANGER), call(MEMO_PROGRAM, b"hello", W)]
    steps.insert(at, system(4, b"", ACCOUNT, SYSVAR, sponsor))
    with pytest.raises(NoBound, match="durable nonce"):
        worst_case(message(*steps, payer=sponsor), str(W))


@promise("no-later-claims")
@pytest.mark.parametrize(
    "step",
    [
        system(2, u64(9), PAYERS["another's fee"], STRANGER),
        token(b"\x0c" + u64(9) + b"\x06", OTHER, MINT, STRANGER, PAYERS["another's fee"]),
        opened(OWN, W, funder=PAYERS["another's fee"]),
        system(2, u64(9), PAYERS["another's fee"], W),
    ],
    ids=["its transfer", "its token transfer", "an account of the wallet's", "a gift"],
)
def test_what_a_sponsor_signs_for_itself_takes_nothing_of_the_wallet(step: Instruction) -> None:
    sponsor = PAYERS["another's fee"]
    budget = [set_compute_unit_limit(100_001), set_compute_unit_price(5_000_000)]
    found = worst_case(message(*budget, step, sent(5, STRANGER), payer=sponsor), str(W))
    assert (found.costs, found.lamports, dict(found.tokens)) == (0, 0, {str(MINT): 5})


@promise("undecoded-is-refused", "undecoded-gets-no-key")
def test_an_undecoded_program_with_the_wallets_key_is_referred_to_a_pocket() -> None:
    with pytest.raises(NoBound, match=r"context\.pocket"):
        worst_case(message(call(str(OTHER), b"", W)), str(W))


@promise("fee-counts-signatures")
def test_the_fee_is_every_signature_and_the_whole_priority_fee() -> None:
    budget = [set_compute_unit_limit(100_001), set_compute_unit_price(1_000_000)]
    found = worst_case(message(*budget, pay(1)), str(W))
    assert found.fee_lamports == 5_000 + 100_001
    assert found.costs == 105_001


@promise("accounts-in-the-message")
def test_an_account_of_a_lookup_table_beside_the_wallet_is_refused() -> None:
    """The table's content is what an RPC node says it is."""
    table = MessageAddressTableLookup(OTHER, b"\x00", b"")
    made = MessageV0(
        MessageHeader(1, 0, 2),
        [W, Pubkey.from_string(SYSTEM_PROGRAM), ACCOUNT],
        Hash.default(),
        [CompiledInstruction(1, struct.pack("<IQ", 2, 5), bytes([0, 3]))],
        [table],
    )
    with pytest.raises(NoBound, match="lookup table"):
        worst_case(made, str(W))


def test_an_account_of_a_lookup_table_without_the_wallet_is_no_concern() -> None:
    table = MessageAddressTableLookup(OTHER, b"\x00", b"")
    made = MessageV0(
        MessageHeader(1, 0, 2),
        [W, Pubkey.from_string(SYSTEM_PROGRAM), ACCOUNT],
        Hash.default(),
        [CompiledInstruction(2, b"anything", bytes([3]))],
        [table],
    )
    assert worst_case(made, str(W)) == Outflow(0, 5_000, 0)


V1 = {"compute_unit_limit": 1_000, "loaded_accounts_data_size_limit": 1 << 20}


def v1(*instructions: Instruction, **config: int) -> MessageV1:
    return MessageV1.try_compile(W, instructions, Hash.default(), TransactionConfig(**V1 | config))


@promise("message-versions")
def test_legacy_messages_and_those_of_version_1_are_bounded() -> None:
    assert worst_case(Message.new_with_blockhash([pay(5)], W, Hash.default()), str(W)).lamports == 5
    assert worst_case(v1(pay(5)), str(W)) == worst_case(message(pay(5)), str(W))


@promise("message-versions")
def test_the_fee_of_version_1_is_the_configs_and_no_instructions() -> None:
    budget = [set_compute_unit_limit(1_400_000), set_compute_unit_price(10**9)] * 2
    assert worst_case(v1(pay(5), *budget, priority_fee=777), str(W)).fee_lamports == 5_777
    assert worst_case(v1(pay(5)), str(W)).fee_lamports == 5_000


@promise("message-versions")
@pytest.mark.parametrize(
    ("limit", "named"),
    [
        ("compute_unit_limit", "compute units"),
        ("loaded_accounts_data_size_limit", "bytes of loaded accounts"),
    ],
)
def test_version_1_without_a_limit_is_refused(limit: str, named: str) -> None:
    with pytest.raises(NoBound, match=f"version 1 and no limit of {named}"):
        worst_case(v1(pay(5), **{limit: 0}), str(W))


def _other_mask(wire: bytearray, mask: int) -> None:
    wire[4:8] = mask.to_bytes(4, "little")


def _twice(wire: bytearray) -> None:
    # After 0x81, header, mask, blockhash and two counts: the second address becomes the first.
    wire[42 + 32 : 42 + 64] = wire[42 : 42 + 32]


ODD: dict[str, tuple[Callable[[bytearray], None], str]] = {
    "one fee bit": (lambda wire: _other_mask(wire, 0b1101), "config mask"),
    "an unknown bit": (lambda wire: _other_mask(wire, 0b101100), "config mask"),
    "trailing bytes": (lambda wire: wire.extend(b"x"), "cannot be decoded|serialise back"),
    "cut off": (lambda wire: wire.__delitem__(slice(-1, None)), "cannot be decoded"),
    "an address twice": (_twice, "duplicate|twice"),
    "heap of 33,000": (lambda wire: _config_value(wire, 33_000), "multiple of 1024"),
    "heap of 300 KiB": (lambda wire: _config_value(wire, 300 << 10), "multiple of 1024"),
    "a program out of range": (lambda wire: _program(wire, 9), "not well formed|out of range"),
}


def _config_value(wire: bytearray, heap: int) -> None:
    at = wire.index((64 << 10).to_bytes(4, "little"))
    wire[at : at + 4] = heap.to_bytes(4, "little")


def _program(wire: bytearray, index: int) -> None:
    at = wire.index((64 << 10).to_bytes(4, "little")) + 4
    wire[at] = index


@pytest.mark.parametrize("kind", ODD)
def test_an_odd_message_of_version_1_is_refused_by_what_is_wrong(kind: str) -> None:
    change, named = ODD[kind]
    sound = v1(pay(5), priority_fee=7, heap_size=64 << 10)
    whole = bytes(VersionedTransaction.populate(sound, [Signature.default()]))
    assert decode_transaction(whole).message == sound
    wire = bytearray(whole)
    change(wire)
    with pytest.raises(MalformedTransaction, match=named):
        decode_transaction(bytes(wire))


def test_version_1_has_at_most_64_addresses() -> None:
    def to_each(count: int) -> MessageV1:
        return v1(*(pay(number, Pubkey(bytes([100, number]) * 16)) for number in range(count)))

    # The wallet, the System program, and the receivers.
    assert worst_case(to_each(62), str(W)).lamports == sum(range(62))
    with pytest.raises(MalformedTransaction, match="not well formed"):
        worst_case(to_each(63), str(W))


@pytest.mark.parametrize("data", ["2d00", "2d0000", "2d01" + "01" * 9, "26", "09"])
def test_whom_an_unbounded_amount_goes_to_is_told(data: str) -> None:
    """The token program reads nothing behind an amount, nor behind an absent one."""
    account, receiver, payer = (str(Keypair().pubkey()) for _ in range(3))
    call = Call(TOKEN_PROGRAM, bytes.fromhex(data), (account, receiver, payer))
    assert receiver in {line.account for line in known_lines([call], payer)}
