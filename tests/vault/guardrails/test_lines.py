"""What a transaction can take, line by line: operation, asset, units, recipient, from the bytes.

A line is only called a stake or a wrap where the bytes prove that the money stays the wallet's.
"""

from __future__ import annotations

from collections import Counter

import pytest
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from tests.promises import promise
from tests.vault.guardrails.test_worst_case import (
    ACCOUNT,
    CLASSIC,
    EXTENDED,
    LAUNCH,
    MINT,
    NATIVE,
    OTHER,
    OWN,
    OWN_EXTENDED,
    STRANGER,
    SYSVAR,
    W,
    call,
    create,
    describe,
    message,
    pay,
    sent,
    stake,
    system,
    token,
    u64,
)

from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_2022_WRAPPED_SOL_MINT,
    TOKEN_PROGRAM,
)
from solward.types.guardrail import SOL, Line, Operation, Outflow
from solward.vault.guardrails.worst_case import worst_case

STAKES = Pubkey.from_string(STAKE_PROGRAM)
NATIVE_2022 = Pubkey.from_string(TOKEN_2022_WRAPPED_SOL_MINT)
THEIRS = get_associated_token_address(STRANGER, MINT, CLASSIC)
THEIRS_EXTENDED = get_associated_token_address(STRANGER, MINT, EXTENDED)
WRAPPED = get_associated_token_address(W, NATIVE, CLASSIC)
THEIR_WRAPPED = get_associated_token_address(STRANGER, NATIVE, CLASSIC)


def lines(*instructions: Instruction) -> tuple[Line, ...]:
    found = worst_case(message(*instructions), str(W))
    assert_adds_up(found)
    return found.lines


def assert_adds_up(found: Outflow) -> None:
    """The lines are the bound taken apart: nothing is missing and nothing is counted twice."""
    sums = Counter[str]()
    for line in found.lines:
        assert line.units > 0 or line.operation == Operation.LAUNCH
        sums[line.asset] += line.units
    assert sums.pop(SOL, 0) == found.lamports
    assert +sums == Counter(found.tokens)


def to(
    account: Pubkey | None,
    units: int = 5,
    operation: Operation = Operation.TRANSFER,
    *,
    owner: Pubkey | None = None,
    asset: str = str(MINT),
    decimals: int = 6,
    program: str | None = TOKEN_PROGRAM,
) -> Line:
    at, who = (None if each is None else str(each) for each in (account, owner))
    return Line(operation, asset, units, at, who, decimals, program)


def sol(
    account: Pubkey,
    units: int = 5,
    operation: Operation = Operation.TRANSFER,
    owner: Pubkey | None = None,
) -> Line:
    return to(account, units, operation, owner=owner, asset=SOL, decimals=9, program=None)


def opening(
    owner: Pubkey,
    *,
    mint: Pubkey = MINT,
    program: Pubkey = CLASSIC,
    data: bytes = b"\x01",
    funder: Pubkey = W,
) -> Instruction:
    account = get_associated_token_address(owner, mint, program)
    accounts = (funder, account, owner, mint, Pubkey.from_string(SYSTEM_PROGRAM), program)
    return call(ASSOCIATED_TOKEN_PROGRAM, data, *accounts)


def initialized(
    staker: Pubkey = W, withdrawer: Pubkey = W, lockup: bytes = bytes(48), account: Pubkey = ACCOUNT
) -> Instruction:
    return stake(0, bytes(staker) + bytes(withdrawer) + lockup, account, SYSVAR)


def staked(units: int = 5, funder: Pubkey = W, owner: Pubkey = STAKES) -> Instruction:
    return system(0, u64(units) + u64(200) + bytes(owner), funder, ACCOUNT)


def burned(units: int, mint: Pubkey = MINT) -> Instruction:
    return token(b"\x0f" + u64(units) + b"\x06", ACCOUNT, mint, W)


def minted(units: int, account: Pubkey, program: str = TOKEN_PROGRAM) -> Instruction:
    return token(b"\x0e" + u64(units) + b"\x06", MINT, account, W, program=program)


def given_up(kind: int, program: str = TOKEN_PROGRAM) -> Instruction:
    return token(bytes([6, kind, 0]), MINT, W, program=program)


LAUNCHED = Line(Operation.LAUNCH, str(MINT), 0)


@promise("transfer-counts-recipient", "minted-to-others-counts")
@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        # SOL.
        ([pay(5)], [sol(STRANGER)]),
        ([pay(5), pay(6)], [sol(STRANGER), sol(STRANGER, 6)]),
        ([pay(5, W)], []),
        ([pay(0)], []),
        ([system(2, u64(5), STRANGER, W)], []),
        ([create(9, 0, CLASSIC)], [sol(ACCOUNT, 9)]),
        ([create(9, 0, CLASSIC, seeded=True)], [sol(ACCOUNT, 9)]),
        ([system(11, u64(9) + u64(1) + b"x" + bytes(32), ACCOUNT, W, STRANGER)],
         [sol(STRANGER, 9)]),
        ([system(5, u64(9), ACCOUNT, STRANGER, SYSVAR, OTHER, W)], [sol(STRANGER, 9)]),
        # A token, whose recipient is an owner only where the bytes prove it.
        ([sent(5, THEIRS)], [to(THEIRS)]),
        ([opening(STRANGER), sent(5, THEIRS)], [to(THEIRS, owner=STRANGER)]),
        ([opening(STRANGER, data=b""), sent(5, THEIRS)], [to(THEIRS, owner=STRANGER)]),
        ([opening(STRANGER), sent(5, ACCOUNT, source=OTHER)], [to(ACCOUNT)]),
        ([opening(STRANGER, program=EXTENDED), sent(5, THEIRS)], [to(THEIRS)]),
        ([opening(STRANGER), sent(5, THEIRS), sent(6, ACCOUNT, source=OTHER)],
         [to(THEIRS, owner=STRANGER), to(ACCOUNT, 6)]),
        ([sent(5, ACCOUNT)], []),
        ([sent(0, THEIRS)], []),
        ([opening(W), sent(5, OWN)], []),
        ([sent(5, OWN)], [to(OWN)]),
        # A transfer with a fee states the decimals elsewhere.
        ([token(b"\x1a\x01" + u64(5) + b"\x06" + u64(1), ACCOUNT, MINT, THEIRS_EXTENDED, W,
                program=TOKEN_2022_PROGRAM)],
         [to(THEIRS_EXTENDED, program=TOKEN_2022_PROGRAM)]),
        # Burned is sent to nobody.
        ([burned(5)], [to(None, operation=Operation.BURN)]),
        # Wrapped SOL is SOL.
        ([opening(STRANGER, mint=NATIVE), sent(5, THEIR_WRAPPED, mint=NATIVE)],
         [to(THEIR_WRAPPED, owner=STRANGER, asset=SOL)]),
        ([sent(5, THEIRS, mint=NATIVE_2022)], [to(THEIRS, asset=SOL)]),
        # A mint of one's own.
        ([minted(5, OWN_EXTENDED, TOKEN_2022_PROGRAM)], [LAUNCHED]),
        ([opening(W), minted(5, OWN), given_up(0), given_up(1)], [LAUNCHED]),
        ([minted(5, THEIRS)], [to(THEIRS)]),
        ([given_up(0)], [LAUNCHED]),
        ([given_up(1)], [LAUNCHED]),
        ([given_up(3)], []),
        ([*LAUNCH, describe(ACCOUNT, W, ACCOUNT, W)],
         [Line(Operation.LAUNCH, str(ACCOUNT), 0), sol(ACCOUNT, 5_000_000 - 449 * 6_960)]),
        # What comes back or only changes its state.
        ([stake(5, b"", ACCOUNT, SYSVAR, W)], []),
        ([stake(4, u64(9), ACCOUNT, W, SYSVAR, OTHER, W)], []),
        ([stake(4, u64(9), ACCOUNT, STRANGER, SYSVAR, OTHER, W)], [sol(STRANGER, 9)]),
        ([token(b"\x09", ACCOUNT, W, W)], []),
    ],
)  # fmt: skip
def test_what_leaves_is_told_by_operation_and_recipient(
    instructions: list[Instruction], expected: list[Line]
) -> None:
    assert list(lines(*instructions)) == expected


@pytest.mark.parametrize("seeded", [False, True])
def test_a_stake_that_the_wallet_alone_commands_stays_its_own(seeded: bool) -> None:
    made = create(9, 200, STAKES, seeded=seeded)
    assert lines(made, initialized()) == (sol(ACCOUNT, 9, Operation.STAKE),)
    # What is added to it too.
    added = pay(3, ACCOUNT)
    assert lines(made, initialized(), added) == (
        sol(ACCOUNT, 9, Operation.STAKE), sol(ACCOUNT, 3, Operation.STAKE),
    )  # fmt: skip


@promise("commanded-stake-is-transfer")
@pytest.mark.parametrize(
    "instructions",
    [
        [staked()],
        # Others may command it, or hold it.
        [staked(), initialized(staker=STRANGER)],
        [staked(), initialized(withdrawer=STRANGER)],
        [staked(), initialized(lockup=bytes(47) + b"\x01")],
        [staked(), initialized(lockup=b"\x01" + bytes(47))],
        [staked(), initialized(lockup=bytes(16) + bytes(STRANGER))],
        [staked(), initialized(lockup=bytes(47))],
        [staked(), initialized(lockup=bytes(49))],
        # Another account, another program, or one that exists: initialised by whom?
        [staked(), initialized(account=OTHER)],
        [staked(owner=CLASSIC), initialized()],
        [initialized(), staked()],
        [initialized(), pay(5, ACCOUNT)],
        [staked(0, funder=STRANGER), initialized(), pay(5, ACCOUNT)],
    ],
)
def test_money_in_a_stake_that_others_may_command_is_sent(
    instructions: list[Instruction],
) -> None:
    assert lines(*instructions) == (sol(ACCOUNT),)


@promise("commanded-stake-is-transfer")
@pytest.mark.parametrize(
    ("instructions", "expected"),
    [
        ([opening(W, mint=NATIVE), pay(5, WRAPPED)], sol(WRAPPED, 5, Operation.WRAP, W)),
        # Nothing checks its owner before the money is there.
        ([pay(5, WRAPPED)], sol(WRAPPED)),
        ([pay(5, WRAPPED), opening(W, mint=NATIVE)], sol(WRAPPED, owner=W)),
        # This one fails where it exists and says nothing of its owner where it does not fail.
        ([opening(W, mint=NATIVE, data=b""), pay(5, WRAPPED)], sol(WRAPPED, owner=W)),
        ([opening(W, mint=NATIVE, program=EXTENDED), pay(5, WRAPPED)], sol(WRAPPED)),
        ([opening(W), pay(5, WRAPPED)], sol(WRAPPED)),
        # Another account than that of wrapped SOL.
        ([opening(W), pay(5, OWN)], sol(OWN, owner=W)),
        ([opening(STRANGER, mint=NATIVE), pay(5, THEIR_WRAPPED)],
         sol(THEIR_WRAPPED, owner=STRANGER)),
    ],
)  # fmt: skip
def test_sol_is_wrapped_where_the_bytes_check_whose_account_it_is(
    instructions: list[Instruction], expected: Line
) -> None:
    assert lines(*instructions) == (expected,)


def test_the_lines_stand_in_the_order_of_the_instructions() -> None:
    found = lines(
        burned(1), pay(2), opening(STRANGER), sent(3, THEIRS), pay(4, OTHER), sent(5, THEIRS)
    )
    assert [line.units for line in found] == [1, 2, 3, 4, 5]
