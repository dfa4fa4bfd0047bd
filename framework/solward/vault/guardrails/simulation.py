"""A simulated transaction: inner instructions read from JSON, and one wallet's view of it.

RPC nodes return inner instructions in compiled, partially decoded or parsed form. All forms become
invocations with the raw data.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from solders.pubkey import Pubkey

from solward.solana.accounts import nonce_authority
from solward.solana.message import ResolvedKey
from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    MEMO_PROGRAMS,
    RENT_SYSVAR,
    SYSTEM_PROGRAM,
    TOKEN_PROGRAMS,
    WRAPPED_SOL_MINT,
)
from solward.solana.protocol import TOKEN_UNWRAP_ALL, TOKEN_UNWRAP_SOME
from solward.solana.stakes import stake_account
from solward.solana.tokens import free_units, mint_account, token_account
from solward.support.base58 import b58decode
from solward.types.errors import LedgerError
from solward.types.guardrail import AuthorityChange
from solward.types.ledger import Account

_WORD: Final = re.compile(r"[A-Za-z0-9]{1,44}")
_AUTHORITY_TYPES: Final = ("mintTokens", "freezeAccount", "accountOwner", "closeAccount")


class UntrustedSimulation(LedgerError):
    """Raised if a simulation lacks data that judging needs, or has an unknown form."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One executed instruction, top-level or inner, with its accounts resolved.

    Attributes:
        program: base58 id of the called program.
        accounts: base58 addresses, in the instruction's order.
        data: the raw instruction data.
        top: index of the top-level instruction that it is or runs inside.
        inner: whether it runs inside a top-level instruction.
    """

    program: str
    accounts: tuple[str, ...]
    data: bytes
    top: int
    inner: bool = True


@dataclass(frozen=True, slots=True)
class Simulation:
    """The accounts before and after a simulated transaction, and its inner calls.

    An account that does not exist (or has 0 lamports) is None. An account that was not requested is
    absent; `analyse` refuses that for every writable key of the transaction.

    Attributes:
        pre: address -> state before: every key of the transaction, readonly keys too, and the Rent
            sysvar, without which rent is as high as in bounds.
        post: address -> state after, of at least every writable key.
        inner: all inner instructions, in order (see `inner_from_json`).
    """

    pre: Mapping[str, Account | None]
    post: Mapping[str, Account | None]
    inner: tuple[Invocation, ...] = ()


@dataclass(slots=True)
class View:
    """One wallet's view of a simulated transaction: who owns what, and the findings so far.

    Attributes:
        pocket: a pocket's key of this wallet that also signs, if any.
        regulated_mints: mints that the operator allows although issuers can take or stop holdings.
        initialised: token accounts initialised by the transaction -> (mint, owner).
        paid: receiver -> lamports that the wallet pays, with no inflow subtracted.
        lamports_out: lamports that leave other accounts under the wallet's control.
        tokens_out: mint -> units that leave by instructions, with no inflow subtracted.
        moved: mints that are transferred from or to the wallet.
        closed: each closed account of the wallet -> the receiver of its lamports.
        violations: (rule, reason) of each fact that no declaration can allow.
    """

    wallet: str
    simulation: Simulation
    pocket: str | None = None
    regulated_mints: frozenset[str] = frozenset()
    initialised: dict[str, tuple[str, str]] = field(default_factory=dict)
    paid: Counter[str] = field(default_factory=Counter)
    lamports_out: int = 0
    tokens_out: Counter[str] = field(default_factory=Counter)
    moved: set[str] = field(default_factory=set)
    closed: dict[str, str] = field(default_factory=dict)
    changes: dict[AuthorityChange, None] = field(default_factory=dict)
    violations: list[tuple[str, str]] = field(default_factory=list)

    def pre(self, address: str) -> Account | None:
        """Return the account before the transaction; None if it did not exist or had 0 lamports."""
        state = self.simulation.pre.get(address)
        return state if state is not None and state.lamports > 0 else None

    def post(self, address: str) -> Account | None:
        """Return the account after the transaction; None if it does not exist any more."""
        state = self.simulation.post.get(address)
        return state if state is not None and state.lamports > 0 else None

    def violate(self, rule: str, reason: str) -> None:
        """Add a violation, which no declaration can allow."""
        self.violations.append((rule, reason))

    def change(self, kind: str, account: str, to: str | None) -> None:
        """Add a change of control to `to`, unless `to` is the wallet itself."""
        if to != self.wallet:
            self.changes[AuthorityChange(kind, account, to)] = None

    def pay(self, receiver: str, lamports: int) -> None:
        """Add lamports that move from the wallet; a payment to itself moves nothing."""
        if receiver != self.wallet:
            self.paid[receiver] += lamports

    def close(self, account: str, receiver: str) -> None:
        """Add an account of the wallet that closes; a stranger replaces any other receiver."""
        if self.closed.get(account, self.wallet) == self.wallet:
            self.closed[account] = receiver

    def token(self, address: str) -> tuple[str, str] | None:
        """Return a token account's (mint, owner); the wallet if it owns the account at any time."""
        entries = [self.initialised[address]] if address in self.initialised else []
        for state in (self.pre(address), self.post(address)):
            account = token_account(state)
            if account is not None:
                entries.append((account.mint, account.owner))
        for entry in entries:
            if entry[1] == self.wallet:
                return entry
        return entries[0] if entries else None

    def owns_token(self, address: str) -> bool:
        """Return whether `address` is, was or becomes a token account of the wallet."""
        entry = self.token(address)
        return entry is not None and entry[1] == self.wallet

    def keeps_token(self, address: str) -> bool:
        """Return whether the token account `address` is the wallet's after the transaction."""
        after = token_account(self.post(address))
        entry = self.token(address) if after is None else (after.mint, after.owner)
        return entry is not None and entry[1] == self.wallet

    def controls(self, state: Account | None, address: str) -> bool:
        """Return whether the wallet owns `address` in `state`: its key, tokens, stake or nonce."""
        if state is None:
            return False
        token = token_account(state)
        stake = stake_account(state)
        return (
            address == self.wallet
            or (token is not None and token.owner == self.wallet)
            or (stake is not None and self.wallet in (stake.staker, stake.withdrawer))
            or nonce_authority(state) == self.wallet
        )

    def holds_alone(self, state: Account | None, address: str) -> tuple[int, int]:
        """Return lamports and token units of `state` that nobody but the wallet can take.

        A stake counts nothing if it is locked or the wallet is only its staker. A token account
        counts the units that no delegate may take, and its lamports if nobody else may close it.
        """
        if state is None or not self.controls(state, address):
            return 0, 0
        token, stake = token_account(state), stake_account(state)
        if stake is not None:
            is_free = stake.withdrawer == stake.staker == self.wallet and not stake.lockup.is_set
            return (state.lamports if is_free else 0), 0
        if token is None:
            return state.lamports, 0
        if token.close_authority not in (None, self.wallet):
            return 0, 0
        free = free_units(token, (self.wallet,))
        taken = token.amount - free if token.mint == WRAPPED_SOL_MINT else 0
        return state.lamports - taken, free

    def controls_mint(self, address: str) -> bool:
        """Return whether the wallet may mint or freeze the mint `address`, before or after."""
        for state in (self.pre(address), self.post(address)):
            mint = mint_account(address, state)
            if mint and self.wallet in (mint.mint_authority, mint.freeze_authority):
                return True
        return False


def inner_from_json(value: object, keys: Sequence[ResolvedKey]) -> tuple[Invocation, ...]:
    """Return the calls in the `innerInstructions` of a simulation, with resolved accounts.

    Reads the compiled form (indexes into `keys`), the partially decoded form (addresses) and the
    parsed form of the System, Token, Associated Token and Memo programs. The simulation must
    request inner instructions, so null is an error.

    Raises:
        UntrustedSimulation: the value is null, or not fully understood.
    """
    if not isinstance(value, list):
        raise UntrustedSimulation("the simulation shows no inner instructions")
    calls: list[Invocation] = []
    for group in value:
        if not isinstance(group, Mapping) or not isinstance(group.get("instructions"), list):
            raise UntrustedSimulation("inner instructions have an unknown form")
        top = _index(group.get("index"), 256)
        calls.extend(_inner_call(item, keys, top) for item in group["instructions"])
    return tuple(calls)


def _inner_call(item: object, keys: Sequence[ResolvedKey], top: int) -> Invocation:
    if not isinstance(item, Mapping):
        raise UntrustedSimulation("an inner instruction has an unknown form")
    if "parsed" in item:
        return _read_parsed_call(item, top)
    accounts, data = item.get("accounts"), item.get("data")
    if not isinstance(accounts, list) or not isinstance(data, str):
        raise UntrustedSimulation("an inner instruction has an unknown form")
    try:
        raw = b58decode(data)
    except ValueError:
        raise UntrustedSimulation("an inner instruction's data is not base58") from None
    if "programIdIndex" in item:
        program = keys[_index(item["programIdIndex"], len(keys))].address
        names = tuple(keys[_index(index, len(keys))].address for index in accounts)
        return Invocation(program, names, raw, top)
    return Invocation(
        _address(item.get("programId")), tuple(_address(account) for account in accounts), raw, top
    )


def _index(value: object, end: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < end:
        raise UntrustedSimulation("an inner instruction's index is out of range")
    return value


def _address(value: object) -> str:
    try:
        return str(Pubkey.from_string(str(value)))
    except ValueError:
        raise UntrustedSimulation("an inner instruction names no valid address") from None


def _read_parsed_call(item: Mapping[Any, Any], top: int) -> Invocation:
    # `{"program", "programId", "parsed": {"type", "info"}}`, as Agave answers for the programs it
    # knows. Kinds that are not listed here are refused, so nothing is judged half read.
    program, parsed = item.get("programId"), item.get("parsed")
    if isinstance(program, str) and program in MEMO_PROGRAMS and isinstance(parsed, str):
        return Invocation(program, (), parsed.encode(), top)
    if isinstance(program, str) and isinstance(parsed, Mapping):
        kind, info = parsed.get("type"), parsed.get("info")
        if isinstance(kind, str) and isinstance(info, Mapping):
            try:
                accounts, data = _rebuild_call(program, kind, info)
            except (KeyError, ValueError, TypeError, OverflowError):
                accounts, data = (), None
            if data is not None:
                return Invocation(program, accounts, data, top)
        raise UntrustedSimulation(
            f"an inner {_one_word(kind)!r} instruction of {_one_word(program)} is not understood"
        )
    raise UntrustedSimulation("a parsed inner instruction has an unknown form")


def _one_word(said: object) -> str:
    """Return a node's text if it is one word, such as a name or an address; else `unknown`."""
    return said if isinstance(said, str) and _WORD.fullmatch(said) else "unknown"


def _rebuild_call(
    program: str, kind: str, info: Mapping[Any, Any]
) -> tuple[tuple[str, ...], bytes | None]:
    if program == SYSTEM_PROGRAM:
        return _rebuild_system(kind, info)
    if program in TOKEN_PROGRAMS:
        return _rebuild_token(kind, info)
    if program == ASSOCIATED_TOKEN_PROGRAM and kind in ("create", "createIdempotent"):
        names = ("source", "account", "wallet", "mint", "systemProgram", "tokenProgram")
        return _names(info, *names), bytes([kind == "createIdempotent"])
    return (), None


def _rebuild_system(kind: str, info: Mapping[Any, Any]) -> tuple[tuple[str, ...], bytes | None]:
    if kind == "transfer":
        return _names(info, "source", "destination"), _u32(2) + _u64(info["lamports"])
    if kind == "createAccount":
        data = _u32(0) + _u64(info["lamports"]) + _u64(info["space"]) + _key(info["owner"])
        return _names(info, "source", "newAccount"), data
    if kind == "createAccountAllowPrefund":
        data = _u32(13) + _u64(info.get("lamports", 0)) + _u64(info["space"]) + _key(info["owner"])
        return _names(info, *(name for name in ("newAccount", "source") if name in info)), data
    if kind == "createAccountWithSeed":
        seed = str(info["seed"]).encode()
        data = _u32(3) + _key(info["base"]) + _u64(len(seed)) + seed
        data += _u64(info["lamports"]) + _u64(info["space"]) + _key(info["owner"])
        return _names(info, "source", "newAccount"), data
    if kind == "transferWithSeed":
        seed = str(info["sourceSeed"]).encode()
        data = _u32(11) + _u64(info["lamports"]) + _u64(len(seed)) + seed
        data += _key(info["sourceOwner"])
        return _names(info, "source", "sourceBase", "destination"), data
    if kind == "assign":
        return _names(info, "account"), _u32(1) + _key(info["owner"])
    if kind == "allocate":
        return _names(info, "account"), _u32(8) + _u64(info["space"])
    return (), None


def _rebuild_token(kind: str, info: Mapping[Any, Any]) -> tuple[tuple[str, ...], bytes | None]:
    if "signers" in info:
        return (), None
    simple = {
        "closeAccount": (9, ("account", "destination", "owner")),
        "syncNative": (17, ("account",)),
        "initializeImmutableOwner": (22, ("account",)),
        "revoke": (5, ("source", "owner")),
        "withdrawExcessLamports": (38, ("source", "destination", "authority")),
    }
    amounts = {
        "transfer": (3, ("source", "destination", "authority")),
        "approve": (4, ("source", "delegate", "owner")),
        "mintTo": (7, ("mint", "account", "mintAuthority")),
        "burn": (8, ("account", "mint", "authority")),
    }
    checked = {
        "transferChecked": (12, ("source", "mint", "destination", "authority")),
        "approveChecked": (13, ("source", "mint", "delegate", "owner")),
        "mintToChecked": (14, ("mint", "account", "mintAuthority")),
        "burnChecked": (15, ("account", "mint", "authority")),
    }
    if kind in simple:
        number, names = simple[kind]
        return _names(info, *names), bytes([number])
    if kind in amounts:
        number, names = amounts[kind]
        return _names(info, *names), bytes([number]) + _u64(info["amount"])
    if kind in checked:
        number, names = checked[kind]
        amount = info["tokenAmount"]
        data = bytes([number]) + _u64(amount["amount"]) + bytes([int(amount["decimals"])])
        return _names(info, *names), data
    if kind == "unwrapLamports":
        amount = info.get("amount")
        data = TOKEN_UNWRAP_ALL if amount is None else TOKEN_UNWRAP_SOME + _u64(amount)
        return _names(info, "source", "destination", "authority"), data
    if kind in ("initializeAccount2", "initializeAccount3"):
        number = 16 if kind == "initializeAccount2" else 18
        return _names(info, "account", "mint"), bytes([number]) + _key(info["owner"])
    if kind == "initializeAccount":
        return (*_names(info, "account", "mint", "owner"), RENT_SYSVAR), b"\x01"
    if kind == "setAuthority":
        target = "account" if "account" in info else "mint"
        new = info["newAuthority"]
        option = b"\x00" if new is None else b"\x01" + _key(new)
        data = bytes([6, _AUTHORITY_TYPES.index(info["authorityType"])]) + option
        return _names(info, target, "authority"), data
    if kind == "getAccountDataSize":
        return _names(info, "mint"), b"\x15"
    return (), None


def _names(info: Mapping[Any, Any], *names: str) -> tuple[str, ...]:
    return tuple(str(Pubkey.from_string(info[name])) for name in names)


def _key(value: str) -> bytes:
    return bytes(Pubkey.from_string(value))


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _u64(value: int | str) -> bytes:
    return int(value).to_bytes(8, "little")
