"""Computes the maximum that a transaction can take from a wallet; pure, from signed bytes alone.

A program can use only the accounts listed in the instruction that calls it. So an instruction that
does not list the wallet's key gets nothing from the wallet's signature, decoded or not. An
instruction that lists the key must be decoded, have an exact shape, and have the key at a position
whose meaning is known. No state is read: if state would matter, the bytes must contain the check (a
checked transfer states mint and decimals, CreateIdempotent checks the owner of an associated
account, the Stake program compares authorities). Everything else is refused.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from solders.message import MessageV1, TransactionConfig
from solders.pubkey import Pubkey

from solward.solana.accounts import key_at, max_rent
from solward.solana.message import (
    COMPUTE_BUDGET_SIZES,
    SET_UNIT_LIMIT,
    SET_UNIT_PRICE,
    AnyMessage,
    Call,
    MalformedTransaction,
    advances_nonce,
    batch_parts,
    check_message,
    is_batch,
    network_fee,
    top_level_calls,
)
from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    COMPUTE_BUDGET_PROGRAM,
    MEMO_PROGRAMS,
    PRECOMPILES,
    PROGRAM_NAMES,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_2022_WRAPPED_SOL_MINT,
    TOKEN_PROGRAM,
    TOKEN_PROGRAMS,
    WRAPPED_SOL_MINT,
)
from solward.solana.protocol import (
    ASSOCIATED_TOKEN_CREATE,
    ASSOCIATED_TOKEN_CREATE_IDEMPOTENT,
    TOKEN_AUTHORITIES,
    TOKEN_METADATA_INITIALIZE,
    TOKEN_TRANSFER_CHECKED_WITH_FEE,
    TOKEN_UNWRAP_ALL,
    TOKEN_UNWRAP_SOME,
    Stake,
    System,
    Token,
)
from solward.solana.tokens import (
    TOKEN_2022_MAX_ACCOUNT_RENT,
    TOKEN_ACCOUNT_RENT,
    TOKEN_METADATA_FIXED_BYTES,
    associated_address,
)
from solward.types.guardrail import SOL, Line, Operation, Outflow
from solward.types.money import SOL_DECIMALS

_NATIVE_MINTS = frozenset({WRAPPED_SOL_MINT, TOKEN_2022_WRAPPED_SOL_MINT})


class NoBound(Exception):
    """Raised if the wallet's key must not sign; `rule` names the guardrail that refused."""

    def __init__(self, reason: str, rule: str = "program_allowlist") -> None:
        super().__init__(reason)
        self.reason = reason
        self.rule = rule


def worst_case(message: AnyMessage, wallet: str) -> Outflow:
    """Return the maximum that `message` can take from `wallet` in any state of the ledger; pure.

    Raises:
        NoBound: the message may take more than its bytes say, or give control away.
        MalformedTransaction: the message is not well formed.
    """
    check_message(message)
    calls = top_level_calls(message)
    bound = _Bound(wallet, _created_mints(calls, wallet), _created_stakes(calls, wallet))
    if isinstance(message, MessageV1):
        _check_config(message.config)
    else:
        _check_compute_budget(calls)
    if advances_nonce(message):
        raise NoBound("a durable nonce would keep the transaction valid for ever")
    for call in calls:
        if call.program in PRECOMPILES:
            raise NoBound(f"program {call.program} charges a fee for each signature that it checks")
        if is_batch(call.program, call.data):
            _refuse_batch(call)
        if wallet not in call.accounts:
            continue
        accounts = tuple(account for account in call.accounts if account is not None)
        if len(accounts) < len(call.accounts):
            raise NoBound(
                f"an instruction of {_name(call.program)} names the wallet together with an account"
                " from a lookup table"
            )
        _add_call(_Call(call.program, call.data, accounts), bound)
    is_payer = str(message.account_keys[0]) == wallet
    return Outflow(
        lamports=bound.lamports,
        fee_lamports=network_fee(message) if is_payer else 0,
        rent_lamports=bound.rent,
        tokens={mint: units for mint, units in sorted(bound.tokens.items()) if units},
        lines=bound.lines_with_owners(),
    )


def known_lines(calls: Sequence[Call], payer: str) -> tuple[Line, ...]:
    """Return the lines that `calls` take from `payer` by instructions of a known shape; pure.

    Unlike `worst_case`, this is no bound, because other instructions add nothing. Instructions that
    only a pocket may sign give lines of 0 units: transfers without a mint, and emptied accounts.
    """
    bound = _Bound(payer, _created_mints(calls, payer), _created_stakes(calls, payer))
    for call in calls:
        accounts = tuple(account for account in call.accounts if account is not None)
        if payer in accounts and len(accounts) == len(call.accounts):
            with suppress(NoBound):
                _add_call(_Call(call.program, call.data, accounts), bound)
            is_token = call.program in TOKEN_PROGRAMS and accounts[2:3] == (payer,)
            if is_token and (call.data[:1] in _TAKES_ALL or _unwraps_unstated(call.data)):
                bound.lines.append(Line(Operation.TRANSFER, SOL, 0, accounts[1]))
            elif is_token and call.data[:1] == bytes([Token.TRANSFER]):
                line = Line(Operation.TRANSFER, "", 0, accounts[1], program=call.program)
                bound.lines.append(line)
    return bound.lines_with_owners()


# The account's state decides what these instructions take: all of it, or all beyond its rent.
_TAKES_ALL = frozenset({bytes([Token.CLOSE_ACCOUNT]), bytes([Token.WITHDRAW_EXCESS_LAMPORTS])})


def _unwraps_unstated(data: bytes) -> bool:
    """Return whether this is an UnwrapLamports without a valid amount."""
    return data[:1] == bytes([Token.UNWRAP_LAMPORTS]) and not _states_amount(data)


def _states_amount(data: bytes) -> bool:
    return len(data) == 10 and data[:2] == TOKEN_UNWRAP_SOME


def _refuse_batch(call: Call) -> None:
    """Refuse a malformed batch, whoever signs it; well-formed batches were split before."""
    try:
        batch_parts(call.data, len(call.accounts))
    except MalformedTransaction as error:
        raise NoBound(f"an instruction of {_name(call.program)} is malformed: {error}") from None


@dataclass(frozen=True, slots=True)
class _Call:
    """One instruction that names the wallet and has only static accounts."""

    program: str
    data: bytes
    accounts: tuple[str, ...]

    def u64(self, start: int) -> int:
        return int.from_bytes(self.data[start : start + 8], "little")


@dataclass(slots=True)
class _Bound:
    """The maximum that the calls read so far can take.

    Attributes:
        mints: mint created in this transaction at the wallet's cost -> the rent by its bytes.
        stakes: stake accounts created in this transaction for the wallet alone.
        ensured: the wallet's classic associated accounts whose owner was checked earlier.
        owners: associated account that an instruction opens or checks -> its owner.
    """

    wallet: str
    mints: Mapping[str, int]
    stakes: Collection[str] = ()
    lamports: int = 0
    rent: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    lines: list[Line] = field(default_factory=list)
    ensured: set[str] = field(default_factory=set)
    owners: dict[str, str] = field(default_factory=dict)

    def pay(self, receiver: str, lamports: int) -> None:
        """Add SOL that leaves the wallet's own account, including SOL that the wallet wraps."""
        if receiver == self.wallet or not lamports:
            return
        self.lamports += lamports
        if receiver in self.stakes:
            operation = Operation.STAKE
        elif receiver in self.ensured and receiver == _wrapped_account(self.wallet):
            operation = Operation.WRAP
        else:
            operation = Operation.TRANSFER
        self.lines.append(Line(operation, SOL, lamports, receiver, decimals=SOL_DECIMALS))

    def take(
        self, operation: Operation, mint: str, units: int, call: _Call, account: str | None = None
    ) -> None:
        """Add units that a checked instruction takes; units of a native mint are lamports. The data
        ends with the decimals; in a transfer with a fee, the fee follows them."""
        if not units:
            return
        decimals = call.data[10 if call.data[0] == Token.TRANSFER_FEE_EXTENSION else 9]
        native = mint in _NATIVE_MINTS
        if native:
            self.lamports += units
        else:
            self.tokens[mint] += units
        asset = SOL if native else mint
        self.lines.append(
            Line(operation, asset, units, account, decimals=decimals, program=call.program)
        )

    def lines_with_owners(self) -> tuple[Line, ...]:
        return tuple(
            replace(line, owner=self.owners.get(line.account or "")) for line in self.lines
        )

    def launch(self, mint: str) -> None:
        """Add one line for a mint that is created, minted to the wallet, or given up."""
        line = Line(Operation.LAUNCH, mint, 0)
        if line not in self.lines:
            self.lines.append(line)


_Bounder: TypeAlias = Callable[[_Call, _Bound], None]


@dataclass(frozen=True, slots=True)
class _Form:
    """The only shape in which an instruction may name the wallet.

    Attributes:
        accounts: the number of accounts.
        data: length of the data in bytes; None if `bound` checks it.
        wallet_at: the positions where the wallet's key may stand.
        bound: adds what it can take; the wallet is at one or more positions in `wallet_at`.
    """

    accounts: int
    data: int | None
    wallet_at: tuple[int, ...]
    bound: _Bounder


def _add_call(call: _Call, bound: _Bound) -> None:
    if call.program in MEMO_PROGRAMS:
        return
    forms = _FORMS.get(call.program)
    if forms is None:
        raise NoBound(
            f"program {call.program} would get the wallet's signature, and its effects are not"
            " known; run it with a pocket (context.pocket)"
        )
    kind = _form_key(call)
    if kind in _AUTHORITIES.get(call.program, frozenset()):
        raise NoBound(
            f"instruction {_kind_text(kind)} of {_name(call.program)} gives control away",
            "authority_change",
        )
    form = forms.get(kind)
    if form is None:
        raise NoBound(
            f"instruction {_kind_text(kind)} of {_name(call.program)} is not allowed with the"
            " wallet's key"
        )
    stands = {at for at, account in enumerate(call.accounts) if account == bound.wallet}
    exact = len(call.accounts) == form.accounts and form.data in (None, len(call.data))
    if not exact or not stands.issubset(form.wallet_at):
        raise NoBound(
            f"instruction {_kind_text(kind)} of {_name(call.program)} has {len(call.accounts)}"
            f" accounts and {len(call.data)} bytes, with the wallet at {sorted(stands)}; expected"
            f" {form.accounts} accounts"
            + (f", {form.data} bytes" if form.data is not None else "")
            + f" and the wallet only at {sorted(form.wallet_at)}"
        )
    form.bound(call, bound)


def _add_nothing(_call: _Call, _bound: _Bound) -> None:
    """Add nothing: the instruction takes nothing, whatever the state."""


# System.


def _transfer(call: _Call, bound: _Bound) -> None:
    if call.accounts[0] == bound.wallet:
        bound.pay(call.accounts[1], call.u64(4))


def _transfer_with_seed(call: _Call, bound: _Bound) -> None:
    # data: number, lamports, length of the seed, seed, owner.
    if len(call.data) != 12 + 8 + call.u64(12) + 32:
        raise NoBound("a System transfer with a seed is malformed")
    if call.accounts[1] == bound.wallet:
        bound.pay(call.accounts[2], call.u64(4))


def _withdraw(call: _Call, bound: _Bound) -> None:
    """Add a withdrawal from a nonce account or a stake account."""
    if call.accounts[4] == bound.wallet:
        bound.pay(call.accounts[1], call.u64(4))


def _create_account(call: _Call, bound: _Bound) -> None:
    _pay_new(call.accounts[1], call.u64(4), bound)


def _create_account_with_seed(call: _Call, bound: _Bound) -> None:
    # number, base, length of the seed, seed, lamports, space, owner.
    seed = call.u64(36)
    if len(call.data) != 44 + seed + 8 + 8 + 32 or call.accounts[0] != bound.wallet:
        raise NoBound("a CreateAccountWithSeed is malformed, or the wallet is not its funder")
    _pay_new(call.accounts[1], call.u64(44 + seed), bound)


def _pay_new(account: str, lamports: int, bound: _Bound) -> None:
    rent = min(lamports, bound.mints.get(account, 0))
    bound.rent += rent
    if account in bound.mints:
        bound.launch(account)
    bound.pay(account, lamports - rent)


def _created_mints(calls: Sequence[Call], wallet: str) -> dict[str, int]:
    """Return mint -> rent for its bytes, for the mints that `calls` create at the wallet's cost.

    An account of a token program counts as a mint if a later instruction initialises it as a mint.
    Metadata that is written into it makes it larger.
    """
    space: dict[str, tuple[str, int]] = {}
    mints: dict[str, int] = {}
    for call in calls:
        created = _created_account(call.data) if call.program == SYSTEM_PROGRAM else None
        if created is not None and len(call.accounts) >= 2 and call.accounts[0] == wallet:
            space[call.accounts[1] or ""] = created
        elif call.program in TOKEN_PROGRAMS and call.accounts:
            account = call.accounts[0] or ""
            owner, size = space.get(account, ("", 0))
            if owner != call.program:
                continue
            if call.data[:1] == bytes([Token.INITIALIZE_MINT_2]):
                mints[account] = size
            elif call.data[:8] == TOKEN_METADATA_INITIALIZE and account in mints:
                mints[account] += TOKEN_METADATA_FIXED_BYTES + len(call.data) - 8
    return {mint: max_rent(size) for mint, size in mints.items()}


def _created_stakes(calls: Sequence[Call], wallet: str) -> frozenset[str]:
    """Return the stake accounts that `calls` create without a lockup and with the wallet as funder,
    staker and withdrawer. Nobody else can take anything out of such an account."""
    created: set[str] = set()
    stakes: set[str] = set()
    alone = bytes(Pubkey.from_string(wallet)) * 2 + _NO_LOCKUP
    for call in calls:
        if not call.accounts or not call.data:
            continue
        if call.program == SYSTEM_PROGRAM and call.accounts[0] == wallet:
            made = _created_account(call.data)
            if made is not None and made[0] == STAKE_PROGRAM and len(call.accounts) >= 2:
                created.add(call.accounts[1] or "")
        elif call.program == STAKE_PROGRAM and _call_number(call.data) == Stake.INITIALIZE:
            account = call.accounts[0] or ""
            if account in created and call.data[4:] == alone:
                stakes.add(account)
    return frozenset(stakes)


# Unix time, epoch and custodian of a stake's lockup.
_NO_LOCKUP = bytes(8 + 8 + 32)


@functools.lru_cache(maxsize=1_024)
def _wrapped_account(wallet: str) -> str:
    return associated_address(wallet, WRAPPED_SOL_MINT, TOKEN_PROGRAM)


def _created_account(data: bytes) -> tuple[str, int] | None:
    """Return (owner program, bytes) of a CreateAccount, with or without a seed; else None."""
    number = _call_number(data)
    if number == System.CREATE_ACCOUNT and len(data) == 52:
        at = 12
    elif number == System.CREATE_ACCOUNT_WITH_SEED and len(data) >= 92:
        at = len(data) - 40
    else:
        return None
    return key_at(data, at + 8), int.from_bytes(data[at : at + 8], "little")


# Associated Token.


def _open_associated(call: _Call, bound: _Bound) -> None:
    funder, account, owner, mint, system, program = call.accounts
    if program not in TOKEN_PROGRAMS or system != SYSTEM_PROGRAM:
        raise NoBound("an associated token account would be opened with unknown programs")
    if account != associated_address(owner, mint, program):
        raise NoBound(f"{account} is not the associated token account of {owner} for {mint}")
    bound.owners[account] = owner
    if funder == bound.wallet:
        classic = program == TOKEN_PROGRAM
        bound.rent += TOKEN_ACCOUNT_RENT if classic else TOKEN_2022_MAX_ACCOUNT_RENT
    checks_owner = call.data == ASSOCIATED_TOKEN_CREATE_IDEMPOTENT
    if checks_owner and owner == bound.wallet and program == TOKEN_PROGRAM:
        bound.ensured.add(account)


# SPL Token and Token-2022.


def _transfer_checked(call: _Call, bound: _Bound) -> None:
    source, mint, destination, _authority = call.accounts
    # A transfer to the same account checks its balance and moves nothing.
    if source == destination:
        return
    # Under Token-2022 a transfer fee, a hook or a pause may interfere, so the whole amount counts.
    if call.program == TOKEN_PROGRAM and _is_own_account(destination, mint, call, bound):
        return
    bound.take(Operation.TRANSFER, mint, call.u64(1), call, destination)


def _transfer_checked_with_fee(call: _Call, bound: _Bound) -> None:
    if call.program != TOKEN_2022_PROGRAM or call.data[:2] != TOKEN_TRANSFER_CHECKED_WITH_FEE:
        raise NoBound("this instruction of the transfer fee extension is not allowed")
    bound.take(Operation.TRANSFER, call.accounts[1], call.u64(2), call, call.accounts[2])


def _burn_checked(call: _Call, bound: _Bound) -> None:
    bound.take(Operation.BURN, call.accounts[1], call.u64(1), call)


def _mint_to_checked(call: _Call, bound: _Bound) -> None:
    mint, account, _authority = call.accounts
    if _is_own_account(account, mint, call, bound):
        bound.launch(mint)
    else:
        bound.take(Operation.TRANSFER, mint, call.u64(1), call, account)


def _is_own_account(account: str, mint: str, call: _Call, bound: _Bound) -> bool:
    """Return whether `account` is the wallet's associated account and certainly still its own.

    A classic account may have been given away, so an earlier CreateIdempotent must check its owner.
    Revoke is no such check, because it accepts the delegate's signature too. A Token-2022 account's
    owner is immutable.
    """
    if account != associated_address(bound.wallet, mint, call.program):
        return False
    return call.program == TOKEN_2022_PROGRAM or account in bound.ensured


def _close_account(call: _Call, bound: _Bound) -> None:
    if call.accounts[1] != bound.wallet:
        raise NoBound(
            f"account {call.accounts[0]} would be closed to {call.accounts[1]}, which is not the"
            f" wallet {bound.wallet}"
        )


def _withdraw_excess(call: _Call, bound: _Bound) -> None:
    if call.accounts[1] != bound.wallet:
        raise NoBound(
            f"the lamports of {call.accounts[0]} beyond its rent would go to {call.accounts[1]},"
            f" which is not the wallet {bound.wallet}, and the bytes do not state their number"
        )


def _unwrap(call: _Call, bound: _Bound) -> None:
    all_of_it = call.data == TOKEN_UNWRAP_ALL
    if not all_of_it and not _states_amount(call.data):
        raise NoBound("an UnwrapLamports is malformed")
    if bound.wallet == call.accounts[1]:
        return
    if all_of_it:
        raise NoBound(
            f"all wrapped SOL of {call.accounts[0]} would go to {call.accounts[1]}, which is not"
            f" the wallet {bound.wallet}, and the bytes do not state the amount"
        )
    bound.pay(call.accounts[1], call.u64(2))


def _set_authority(call: _Call, bound: _Bound) -> None:
    kind = call.data[1] if len(call.data) > 1 else -1
    # The data after an absent option is not read.
    to_nobody = len(call.data) in (3, 35) and call.data[2] == 0
    to_wallet = len(call.data) == 35 and call.data[2] == 1 and key_at(call.data, 3) == bound.wallet
    if kind not in _GIVEN_UP or not (to_nobody or to_wallet):
        name = TOKEN_AUTHORITIES.get(kind, f"authority {kind}")
        raise NoBound(f"{name} of {call.accounts[0]} would be given away", "authority_change")
    if kind in _OF_MINTS:
        bound.launch(call.accounts[0])


# The mint and freeze authority: these two are a mint's.
_OF_MINTS = frozenset({0, 1})
# Mint, freeze and close authority; the owner of a token account must stay.
_GIVEN_UP = frozenset({0, 1, 3})


def _write_metadata(call: _Call, bound: _Bound) -> None:
    metadata, update_authority, mint, mint_authority = call.accounts
    if metadata != mint or mint not in bound.mints or mint_authority != bound.wallet:
        raise NoBound(
            "metadata may be written only into a mint that this transaction creates for the wallet"
        )
    if update_authority != bound.wallet:
        text = f"update_authority of {mint} would pass to {update_authority}"
        raise NoBound(text, "authority_change")


_Kind: TypeAlias = int | bytes

_TOKEN_FORMS: Final[Mapping[_Kind, _Form]] = {
    Token.REVOKE: _Form(2, 1, (1,), _add_nothing),
    Token.SET_AUTHORITY: _Form(2, None, (1,), _set_authority),
    Token.CLOSE_ACCOUNT: _Form(3, 1, (1, 2), _close_account),
    Token.TRANSFER_CHECKED: _Form(4, 10, (3,), _transfer_checked),
    Token.MINT_TO_CHECKED: _Form(3, 10, (2,), _mint_to_checked),
    Token.BURN_CHECKED: _Form(3, 10, (2,), _burn_checked),
    Token.WITHDRAW_EXCESS_LAMPORTS: _Form(3, 1, (1, 2), _withdraw_excess),
    Token.UNWRAP_LAMPORTS: _Form(3, None, (1, 2), _unwrap),
    Token.TRANSFER_FEE_EXTENSION: _Form(4, 19, (3,), _transfer_checked_with_fee),
    TOKEN_METADATA_INITIALIZE: _Form(4, None, (1, 3), _write_metadata),
}

_FORMS: Final[Mapping[str, Mapping[_Kind, _Form]]] = {
    SYSTEM_PROGRAM: {
        System.TRANSFER: _Form(2, 12, (0, 1), _transfer),
        System.TRANSFER_WITH_SEED: _Form(3, None, (1, 2), _transfer_with_seed),
        System.WITHDRAW_NONCE: _Form(5, 12, (1, 4), _withdraw),
        System.CREATE_ACCOUNT: _Form(2, 52, (0,), _create_account),
        System.CREATE_ACCOUNT_WITH_SEED: _Form(2, None, (0,), _create_account_with_seed),
    },
    ASSOCIATED_TOKEN_PROGRAM: {
        ASSOCIATED_TOKEN_CREATE_IDEMPOTENT: _Form(6, 1, (0, 2), _open_associated),
        **{data: _Form(6, len(data), (0, 2), _open_associated) for data in ASSOCIATED_TOKEN_CREATE},
    },
    STAKE_PROGRAM: {
        # The program requires equal authorities for the accounts between which these move SOL.
        Stake.DELEGATE: _Form(6, 4, (5,), _add_nothing),
        Stake.DEACTIVATE: _Form(3, 4, (2,), _add_nothing),
        Stake.SPLIT: _Form(3, 12, (2,), _add_nothing),
        Stake.MERGE: _Form(5, 4, (4,), _add_nothing),
        Stake.MOVE_STAKE: _Form(3, 12, (2,), _add_nothing),
        Stake.MOVE_LAMPORTS: _Form(3, 12, (2,), _add_nothing),
        # A sixth account would be the custodian of a lockup.
        Stake.WITHDRAW: _Form(5, 12, (1, 4), _withdraw),
    },
    TOKEN_PROGRAM: _TOKEN_FORMS,
    TOKEN_2022_PROGRAM: _TOKEN_FORMS,
}

# Instructions that give away authority, refused by the rule for authority changes.
_AUTHORITIES: Final[Mapping[str, frozenset[_Kind]]] = {
    SYSTEM_PROGRAM: frozenset(
        {
            System.ASSIGN,
            System.ASSIGN_WITH_SEED,
            System.ALLOCATE,
            System.ALLOCATE_WITH_SEED,
            System.AUTHORIZE_NONCE,
        }
    ),
    STAKE_PROGRAM: frozenset(
        {
            Stake.AUTHORIZE,
            Stake.AUTHORIZE_WITH_SEED,
            Stake.AUTHORIZE_CHECKED,
            Stake.AUTHORIZE_CHECKED_WITH_SEED,
            Stake.SET_LOCKUP,
            Stake.SET_LOCKUP_CHECKED,
        }
    ),
    **dict.fromkeys(TOKEN_PROGRAMS, frozenset({Token.APPROVE, Token.APPROVE_CHECKED})),
}


def _form_key(call: _Call) -> _Kind:
    """Return the instruction's key in `_FORMS`: a number, or the whole discriminator."""
    if call.program == ASSOCIATED_TOKEN_PROGRAM:
        return call.data
    if call.program in TOKEN_PROGRAMS:
        if call.program == TOKEN_2022_PROGRAM and call.data[:8] == TOKEN_METADATA_INITIALIZE:
            return TOKEN_METADATA_INITIALIZE
        return call.data[0] if call.data else -1
    return _call_number(call.data)


def _call_number(data: bytes) -> int:
    return int.from_bytes(data[:4], "little") if len(data) >= 4 else -1


def _kind_text(kind: _Kind) -> str:
    return kind.hex() or "0" if isinstance(kind, bytes) else str(int(kind))


def _name(program: str) -> str:
    return PROGRAM_NAMES.get(program, program)


def _check_config(config: TransactionConfig) -> None:
    """Refuse a message of version 1 without limits: a limit that is not set is 0 (SIMD-0385)."""
    for name, limit in (
        ("compute units", config.compute_unit_limit),
        ("bytes of loaded accounts", config.loaded_accounts_data_size_limit),
    ):
        if not limit:
            raise NoBound(f"the message has version 1 and no limit of {name}, so it can only fail")


def _check_compute_budget(calls: Sequence[Call]) -> None:
    """Refuse Compute Budget instructions that `network_fee` does not read as the network does.

    A price without a limit would be multiplied by a default that depends on the network's version.
    """
    found: set[int] = set()
    price = 0
    for call in calls:
        if call.program != COMPUTE_BUDGET_PROGRAM:
            continue
        kind = call.data[0] if call.data else -1
        if COMPUTE_BUDGET_SIZES.get(kind) != len(call.data) or kind in found:
            raise NoBound("a Compute Budget instruction is malformed, repeated or not known")
        if call.accounts:
            raise NoBound("a Compute Budget instruction has accounts")
        found.add(kind)
        if kind == SET_UNIT_PRICE:
            price = int.from_bytes(call.data[1:9], "little")
    if price and SET_UNIT_LIMIT not in found:
        raise NoBound("the message sets a price of compute units, but no limit of compute units")
