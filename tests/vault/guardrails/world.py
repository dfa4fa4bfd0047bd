"""Every kind of account a wallet and a thief can have, and what the wallet loses on a real SVM.

Each address of the world has a list of states it may be in; a case draws one for each address it
uses. What the wallet controls is read from the accounts' bytes here and not through the code under
test, so that both would have to make the same mistake.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from solders.account import Account
from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import Message, MessageV0, MessageV1, TransactionConfig
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import FailedTransactionMetadata
from spl.token.instructions import get_associated_token_address
from tests.support.programs import PROGRAMS
from tests.vault.guardrails.bank import RENT_TOKEN, SOL, key, mint_data, token_data

from solward.solana.message import AnyMessage
from solward.solana.programs import (
    LOOKUP_TABLE_PROGRAM,
    STAKE_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_2022_WRAPPED_SOL_MINT,
    TOKEN_PROGRAM,
    VOTE_PROGRAM,
    WRAPPED_SOL_MINT,
)
from solward.solana.stakes import NEVER

SYSTEM: Final = key(SYSTEM_PROGRAM)
TOKEN: Final = key(TOKEN_PROGRAM)
TOKEN_2022: Final = key(TOKEN_2022_PROGRAM)
STAKE: Final = key(STAKE_PROGRAM)
NATIVE_MINTS: Final = frozenset({key(WRAPPED_SOL_MINT), key(TOKEN_2022_WRAPPED_SOL_MINT)})
SEED: Final = "x"
SEEDED: Final = (SYSTEM, STAKE, TOKEN, TOKEN_2022)
"""Owners whose addresses with that seed cases use."""

_RENT_STAKE: Final = 2_282_880
_ABSENT: Final = Account(0, b"", SYSTEM)

Accounts: TypeAlias = Mapping[Pubkey, Account | None]


def keypair(name: str) -> Keypair:
    return Keypair.from_seed(hashlib.sha256(name.encode()).digest())


@dataclass(frozen=True)
class MintAt:
    """A mint, and the token accounts of it that cases use.

    Attributes:
        own: the wallet's derived account.
        spare: another account the wallet was given, or owned and lost.
        theirs: the thief's derived account.
        lent: the thief's account, of which the wallet may be the delegate.
        shared: an account that needs the wallet's and the thief's signature.
        blank: memory for a token account that nobody has initialised.
    """

    address: Pubkey
    program: Pubkey
    decimals: int
    own: Pubkey
    spare: Pubkey
    theirs: Pubkey
    lent: Pubkey
    shared: Pubkey
    blank: Pubkey

    @property
    def accounts(self) -> tuple[Pubkey, ...]:
        return (self.own, self.spare, self.theirs, self.lent, self.shared, self.blank)


@dataclass(frozen=True)
class Loss:
    """What left the wallet's control in one transaction.

    Attributes:
        fee: lamports of network fee it paid.
        own: lamports that left its own account, the fee aside, never netted against inflows.
        lamports: lamports that left everything it controls, the fee aside, likewise.
        units: mint -> units that left, and units made of its mints that it did not get.
        powers: authorities that somebody else has now.
    """

    fee: int = 0
    own: int = 0
    lamports: int = 0
    units: Counter[Pubkey] = field(default_factory=Counter)
    powers: frozenset[tuple[str, Pubkey]] = frozenset()

    @property
    def kinds(self) -> frozenset[str]:
        """What was lost beside the fee."""
        found = {name for name, _ in self.powers}
        found |= {"lamports"} if self.lamports else set()
        found |= {"units"} if self.units else set()
        return frozenset(found)


class World:
    """One SVM, its addresses and the states they may be in.

    Attributes:
        keys: address -> key of everything the wallet and the thief sign with.
        states: address -> the accounts it may hold; a state listed twice is twice as likely.
        fresh: keys of the thief's with which new accounts are made.
    """

    def __init__(self) -> None:
        self.svm = LiteSVM().with_transaction_history(0).with_blockhash_check(False)
        self.wallet, self.thief = keypair("wallet"), keypair("thief")
        self.own, self.them = self.wallet.pubkey(), self.thief.pubkey()
        self.fresh = [keypair(f"fresh {number}").pubkey() for number in range(4)]
        self.keys = {each.pubkey(): each for each in (self.wallet, self.thief)}
        self.keys |= {
            each.pubkey(): each for each in map(keypair, map("fresh {}".format, range(4)))
        }
        self.names = {program.address: program.name for program in PROGRAMS}
        for program in PROGRAMS:
            self.svm.add_program(program.address, program.file())
        self.states: dict[Pubkey, list[Account]] = {}
        self.vote = self._vote_account()
        self._people()
        self.both = {program: self._multisig(program) for program in (TOKEN, TOKEN_2022)}
        self.mints = [
            self._mint("coin", TOKEN, 6, self.them),
            self._mint("own coin", TOKEN, 6, self.own),
            self._mint("wrapped", TOKEN, 9, None, at=key(WRAPPED_SOL_MINT)),
            self._mint("new coin", TOKEN_2022, 6, self.them),
            self._mint("own new coin", TOKEN_2022, 0, self.own),
            self._mint("taxed coin", TOKEN_2022, 6, self.them, fee=True),
            self._mint("new wrapped", TOKEN_2022, 9, None, at=key(TOKEN_2022_WRAPPED_SOL_MINT)),
        ]
        self.by_address = {mint.address: mint for mint in self.mints}
        self.stakes = [self._stake(number) for number in range(4)]
        self.nonces = [self._nonce(number) for number in range(2)]
        self.table = self._named("table", keypair("table").pubkey())
        self.pool = [*self.states, self.vote]

    # Addresses and their states.

    def _named(self, name: str, address: Pubkey) -> Pubkey:
        self.names[address] = name
        return address

    def _add(self, name: str, address: Pubkey, states: Sequence[Account]) -> Pubkey:
        self.states[address] = list(states)
        return self._named(name, address)

    def _people(self) -> None:
        self._add("wallet", self.own, [_coins(100 * SOL)] * 6 + [_coins(SOL), _coins(10_000_000)])
        self._add("thief", self.them, [_coins(100 * SOL)])
        self.stranger = self._add(
            "stranger", keypair("stranger").pubkey(), [_ABSENT, _coins(SOL), _coins(890_880)]
        )
        for number, fresh in enumerate(self.fresh):
            self._add(f"fresh {number}", fresh, [_ABSENT] * 6 + [_coins(SOL), _coins(1)])
        self.seeded: dict[tuple[Pubkey, Pubkey], Pubkey] = {}
        for who, base in (("own", self.own), ("their", self.them)):
            for owner in SEEDED:
                at = Pubkey.create_with_seed(base, SEED, owner)
                rich = 3 if owner == SYSTEM else 1
                states = [_ABSENT, _ABSENT, *[_coins(2 * SOL)] * rich]
                self.seeded[base, owner] = self._add(f"{who} seeded {owner}", at, states)
        # From these the wallet's signature moves SOL.
        self.payers = {self.own} | {self.seeded[self.own, owner] for owner in SEEDED}

    def _multisig(self, program: Pubkey) -> Pubkey:
        data = bytes([2, 2, 1]) + bytes(self.own) + bytes(self.them) + bytes(32 * 9)
        return self._add(
            f"both {program}", keypair(f"both {program}").pubkey(), [_holding(program, data)]
        )

    def _mint(
        self,
        name: str,
        program: Pubkey,
        decimals: int,
        authority: Pubkey | None,
        *,
        at: Pubkey | None = None,
        fee: bool = False,
    ) -> MintAt:
        address = at or keypair(name).pubkey()
        # A transfer fee of 10% for now and later: two authorities, the withheld sum, two settings.
        rate = struct.pack("<QQH", 0, 10**15, 1_000)
        extension = struct.pack("<HH", 1, 108) + bytes(64) + bytes(8) + rate * 2
        data = bytearray(mint_data(authority, 10**15, extension if fee else b""))
        data[44] = decimals
        if authority is not None:
            data[46:82] = b"\x01\0\0\0" + bytes(authority)
        self._add(name, address, [_holding(program, bytes(data))])

        def place(role: str) -> Pubkey:
            return keypair(f"{name} {role}").pubkey()

        mint = MintAt(
            address, program, decimals,
            own=get_associated_token_address(self.own, address, program),
            spare=place("spare"),
            theirs=get_associated_token_address(self.them, address, program),
            lent=place("lent"),
            shared=place("shared"),
            blank=place("blank"),
        )  # fmt: skip

        def held(owner: Pubkey, amount: int = 10**6, **options: Pubkey) -> Account:
            return self._tokens(mint, owner, amount, fee=fee, **options)

        def derived(owner: Pubkey, amount: int = 10**6) -> Account:
            return self._tokens(mint, owner, amount, fee=fee, derived=True)

        given = held(self.them, 5 * 10**5)
        mine, rich, empty = derived(self.own), derived(self.own, 10**12), derived(self.own, 0)
        # Made when rent was higher.
        above = Account(mine.lamports + 10**6, mine.data, mine.owner)
        # The derived account of Token-2022 has an owner that cannot be changed.
        lured = held(self.them, 5 * 10**5, delegate=self.own)
        owners = [given, lured] if program == TOKEN else []
        self._add(f"{name} own", mint.own, [*[mine] * 5, above, rich, empty, _ABSENT, *owners])
        old = held(self.own)
        old = Account(old.lamports + 5 * 10**5, old.data, old.owner)
        spare = [held(self.own), old, old, given]
        spare += [held(self.own, closer=self.them)]
        # The amount of wrapped SOL follows the lamports, so that what a delegate may take
        # of it would not be steady.
        spare += [held(self.own, delegate=self.them)] if address not in NATIVE_MINTS else []
        self._add(f"{name} spare", mint.spare, spare)
        theirs = held(self.them)
        hers = derived(self.them)
        self._add(f"{name} theirs", mint.theirs, [hers, hers, derived(self.them, 0), _ABSENT])
        lent = held(self.them, delegate=self.own)
        self._add(
            f"{name} lent", mint.lent, [lent, lent, theirs, held(self.own), held(self.own, 0)]
        )
        both = self.both[program]
        self._add(f"{name} shared", mint.shared, [held(both), held(both), held(self.own), theirs])
        blank = _holding(program, bytes(len(theirs.data)))
        self._add(f"{name} blank", mint.blank, [blank, blank, _ABSENT, held(self.own, 0)])
        return mint

    def _tokens(
        self,
        mint: MintAt,
        owner: Pubkey,
        amount: int,
        *,
        fee: bool,
        derived: bool = False,
        delegate: Pubkey | None = None,
        closer: Pubkey | None = None,
    ) -> Account:
        native = RENT_TOKEN if mint.address in NATIVE_MINTS else None
        amount = min(amount * 1_000, 10 * SOL) if native else amount
        data = bytearray(token_data(mint.address, owner, amount, native))
        if delegate is not None:
            data[72:108] = b"\x01\0\0\0" + bytes(delegate)
            data[121:129] = struct.pack("<Q", amount // 2)
        if closer is not None:
            data[129:165] = b"\x01\0\0\0" + bytes(closer)
        # Immutable owner, which every derived account has, and withheld fees.
        extensions = struct.pack("<HH", 7, 0) if derived else b""
        extensions += struct.pack("<HHQ", 2, 8, 0) if fee else b""
        if mint.program == TOKEN_2022 and extensions:
            data += b"\x02" + extensions
        lamports = max(RENT_TOKEN, (len(data) + 128) * 6960)
        if native:
            data[113:121] = struct.pack("<Q", lamports)
        return Account(lamports + (amount if native else 0), bytes(data), mint.program)

    def _stake(self, number: int) -> Pubkey:
        own, them = self.own, self.them
        blank = Account(_RENT_STAKE + SOL, bytes(200), STAKE)
        mine = [self._staked(own, own, active=active) for active in (False, True)]
        done = self._staked(own, own, active=True, done=True)
        locked = [self._staked(own, own, custodian=them), self._staked(own, own, custodian=own)]
        half = [
            self._staked(own, them),
            self._staked(them, own),
            self._staked(them, own, active=True),
        ]
        theirs = [self._staked(them, them), self._staked(them, them, active=True)]
        states = [*locked, *half, *theirs, blank, _ABSENT, *mine, done]
        # Two that can be split, merged and withdrawn from, one to split into, one locked.
        states += (mine * 5 + [done] * 4, mine * 3 + [done] * 6, [blank] * 16, locked * 6)[number]
        return self._add(f"stake {number}", keypair(f"stake {number}").pubkey(), states)

    def _staked(
        self,
        staker: Pubkey,
        withdrawer: Pubkey,
        *,
        active: bool = False,
        done: bool = False,
        custodian: Pubkey | None = None,
    ) -> Account:
        lockup = struct.pack("<qQ", 2**40 if custodian else 0, 0) + bytes(custodian or SYSTEM)
        meta = struct.pack("<Q", _RENT_STAKE) + bytes(staker) + bytes(withdrawer) + lockup
        kind, rest = 1, bytes(76)
        if active:
            # Effective since genesis, or activated and deactivated in the same epoch.
            epochs = (0, 0) if done else (NEVER, NEVER)
            rest = bytes(self.vote) + struct.pack("<QQQdQ", 3 * SOL, *epochs, 0.25, 0) + bytes(4)
            kind = 2
        data = struct.pack("<I", kind) + meta + rest
        return Account(_RENT_STAKE + 3 * SOL, data, STAKE)

    def _nonce(self, number: int) -> Pubkey:
        def held(authority: Pubkey) -> Account:
            head = struct.pack("<II", 1, 1) + bytes(authority)
            return Account(2 * SOL, head + bytes(32) + struct.pack("<Q", 5_000), SYSTEM)

        states = [
            held(self.own),
            held(self.own),
            held(self.them),
            Account(2 * SOL, bytes(80), SYSTEM),
        ]
        return self._add(f"nonce {number}", keypair(f"nonce {number}").pubkey(), states)

    def _vote_account(self) -> Pubkey:
        # What the Stake program reads of it when it delegates: a vote state of version 3 (Current)
        # with the identity, no votes, the authorised voter of epoch 0 and no credits.
        identity = bytes(keypair("validator").pubkey())
        data = struct.pack("<I", 2) + identity * 2 + bytes([0]) + bytes(8) + bytes(1)
        data += struct.pack("<QQ", 1, 0) + identity
        at = self._named("vote", keypair("vote").pubkey())
        self.svm.set_account(at, Account(30 * SOL, data.ljust(3_762, b"\0"), key(VOTE_PROGRAM)))
        return at

    # Running transactions.

    def prepare(self, addresses: Iterable[Pubkey], rng: random.Random) -> None:
        """Put each of `addresses` that has states into one of them."""
        for address in sorted({*addresses, self.own, self.them}, key=bytes):
            if address in self.states:
                self.svm.set_account(address, rng.choice(self.states[address]))

    def put_table(self, addresses: Sequence[Pubkey]) -> None:
        header = (1).to_bytes(4, "little") + b"\xff" * 8 + bytes(44)
        data = header + b"".join(map(bytes, addresses))
        self.svm.set_account(self.table, _holding(key(LOOKUP_TABLE_PROGRAM), data))

    def compile(
        self,
        payer: Pubkey,
        instructions: Sequence[Instruction],
        claimed: Sequence[Pubkey] | None = None,
        *,
        legacy: bool = False,
        config: TransactionConfig | None = None,
    ) -> AnyMessage:
        """`claimed` is what the lookup table is said to hold when the message is built; with a
        `config` it is of version 1."""
        if config is not None:
            return MessageV1.try_compile(payer, instructions, Hash.default(), config)
        if legacy:
            return Message.new_with_blockhash(instructions, payer, Hash.default())
        tables = [AddressLookupTableAccount(self.table, list(claimed))] if claimed else []
        return MessageV0.try_compile(payer, instructions, tables, Hash.default())

    def sign(self, message: AnyMessage) -> VersionedTransaction | None:
        """None where somebody must sign who is neither the wallet nor the thief."""
        signers = message.account_keys[: message.header.num_required_signatures]
        if any(address not in self.keys for address in signers):
            return None
        return VersionedTransaction(message, [self.keys[address] for address in signers])

    def read(self, addresses: Iterable[Pubkey]) -> dict[Pubkey, Account | None]:
        return {address: self.svm.get_account(address) for address in addresses}

    def simulate(
        self, transaction: VersionedTransaction, before: Accounts
    ) -> tuple[Accounts | None, int]:
        """The accounts as the transaction would leave them, None where it fails, and its fee."""
        result = self.svm.simulate_transaction(transaction)
        if isinstance(result, FailedTransactionMetadata):
            return None, result.meta().fee()
        written = dict(result.post_accounts())
        return {each: written.get(each, held) for each, held in before.items()}, result.meta().fee()

    def land(
        self, transaction: VersionedTransaction, before: Accounts
    ) -> tuple[Accounts | None, int]:
        """The accounts as the transaction left them, None where it failed, and its fee."""
        result = self.svm.send_transaction(transaction)
        if isinstance(result, FailedTransactionMetadata):
            return None, result.meta().fee()
        return self.read(before), result.fee()

    def exists(self, address: Pubkey) -> bool:
        return self.svm.get_account(address) is not None

    def remove(self, address: Pubkey) -> None:
        self.svm.set_account(address, _ABSENT)

    def name(self, address: Pubkey) -> str:
        """What the address is, for people."""
        return self.names.get(address, str(address))

    # What is the wallet's.

    def step(self, before: Accounts, after: Accounts) -> Loss:
        """What one instruction took, from the accounts around it."""
        own = max(0, _lamports(before.get(self.own)) - _lamports(after.get(self.own)))
        held, left = self._held(before), self._held(after)
        units = held[1] - left[1]
        # Units made for others are taken from what the wallet's units are a part of, and lent ones
        # are the wallet's to move: unless they came to it.
        moved = _minted(before, after, self.own) + _lent(before, after, self.own)
        lamports = held[0] - left[0] + sum(moved.pop(mint, 0) for mint in NATIVE_MINTS)
        for mint, change in moved.items():
            units[mint] += max(0, change - max(0, left[1][mint] - held[1][mint]))
        powers = _powers(before, self.own) - _powers(after, self.own, kept=True)
        return Loss(0, own, max(0, lamports), +units, frozenset(powers))

    def lamports_gone(self, before: Accounts, after: Accounts) -> int:
        """Lamports that the wallet alone could move before and cannot after, whatever happened to
        them between; units lent to it are not among them."""
        return max(0, self._held(before)[0] - self._held(after)[0])

    def commands(self, account: Account | None) -> bool:
        """Whether of a stake account nobody but the wallet is staker, withdrawer or custodian."""
        if account is None or not account.lamports or account.owner != STAKE:
            return True
        own, data = bytes(self.own), account.data
        return data[0] == 0 or (data[12:76] == own * 2 and not any(data[76:124]))

    def _held(self, accounts: Accounts) -> tuple[int, Counter[Pubkey]]:
        """Lamports and units (those of wrapped SOL are lamports) the wallet alone can move."""
        lamports, units = 0, Counter[Pubkey]()
        for address, account in accounts.items():
            if account is None or not account.lamports:
                continue
            owner, data = account.owner, account.data
            if owner == SYSTEM:
                mine = address in self.payers and not data
                nonce = len(data) == 80 and data[4] == 1 and data[8:40] == bytes(self.own)
                lamports += account.lamports if mine or nonce else 0
            elif owner == STAKE and len(data) == 200 and data[0] in (1, 2):
                lamports += account.lamports if data[44:76] == bytes(self.own) else 0
            elif owner in self.both and _is_token_account(account):
                if Pubkey(data[32:64]) not in (self.own, self.both[owner]):
                    continue
                amount, open_to_others = int.from_bytes(data[64:72], "little"), 0
                if data[72] and data[76:108] != bytes(self.own):
                    open_to_others = min(amount, int.from_bytes(data[121:129], "little"))
                mint = Pubkey(data[:32])
                if not (data[129] and data[133:165] != bytes(self.own)):
                    lamports += account.lamports
                    lamports -= open_to_others if mint in NATIVE_MINTS else 0
                if mint not in NATIVE_MINTS:
                    units[mint] += amount - open_to_others
        return lamports, units


def total(steps: Iterable[Loss]) -> Loss:
    """The sum of what each instruction took: what another one brought is not set against it."""
    fee = own = lamports = 0
    units, powers = Counter[Pubkey](), frozenset[tuple[str, Pubkey]]()
    for step in steps:
        fee, own, lamports = fee + step.fee, own + step.own, lamports + step.lamports
        units, powers = units + step.units, powers | step.powers
    return Loss(fee, own, lamports, units, powers)


def _coins(lamports: int) -> Account:
    return Account(lamports, b"", SYSTEM)


def _holding(program: Pubkey, data: bytes) -> Account:
    return Account((len(data) + 128) * 6960, data, program)


def _lamports(account: Account | None) -> int:
    return account.lamports if account is not None else 0


def _is_token_account(account: Account) -> bool:
    data = account.data
    plain = len(data) == 165 or (len(data) > 165 and len(data) != 355 and data[165] == 2)
    return plain and data[108] != 0


def _mint_supply(account: Account | None, authority: Pubkey) -> int | None:
    """The supply of a mint of `authority`'s, None for all else."""
    if account is None or account.owner not in (TOKEN, TOKEN_2022):
        return None
    data = account.data
    if not (len(data) == 82 or (len(data) > 165 and data[165] == 1)) or not data[45]:
        return None
    return int.from_bytes(data[36:44], "little") if data[4:36] == bytes(authority) else None


def _minted(before: Accounts, after: Accounts, own: Pubkey) -> Counter[Pubkey]:
    made = Counter[Pubkey]()
    for address, account in before.items():
        old = _mint_supply(account, own)
        new = after.get(address)
        if old is not None and new is not None and new.lamports:
            made[address] = int.from_bytes(new.data[36:44], "little") - old
    return +made


def _lent(before: Accounts, after: Accounts, own: Pubkey) -> Counter[Pubkey]:
    """Units that left accounts of others with the wallet's key as their delegate."""
    gone = Counter[Pubkey]()
    for address, account in before.items():
        if account is None or account.owner not in (TOKEN, TOKEN_2022):
            continue
        old, new = account.data, after.get(address)
        if not _is_token_account(account) or new is None or len(new.data) < 165:
            continue
        if not old[72] or old[76:108] != bytes(own) or old[32:64] == bytes(own):
            continue
        # Its owner's transfers leave the allowance as it is.
        spent = _u64(old, 121) - _u64(new.data, 121)
        gone[Pubkey(old[:32])] += max(0, min(spent, _u64(old, 64) - _u64(new.data, 64)))
    return +gone


def _powers(accounts: Accounts, own: Pubkey, *, kept: bool = False) -> set[tuple[str, Pubkey]]:
    """Authorities of the wallet's; with `kept` those that nobody else has now."""
    found: set[tuple[str, Pubkey]] = set()
    mine = {bytes(own), bytes(32)} if kept else {bytes(own)}
    for address, account in accounts.items():
        data = account.data if account is not None and account.lamports else b""
        program = account.owner if data else SYSTEM
        if not data or (program == STAKE and data[0] not in (1, 2)):
            found |= {(name, address) for name in _POWERS} if kept else set()
        elif program == STAKE and len(data) == 200:
            if data[44:76] != bytes(own):
                continue
            found |= {("staker", address)} if data[12:44] in mine else set()
            if data[92:124] in {bytes(32), bytes(own)}:
                found.add(("lockup", address))
        elif program in (TOKEN, TOKEN_2022) and (
            len(data) == 82 or (len(data) > 165 and data[165] == 1)
        ):
            for name, at in (("mint authority", 0), ("freeze authority", 46)):
                holder = data[at + 4 : at + 36] if data[at] else bytes(32)
                found |= {(name, address)} if holder in mine else set()
    return found


_POWERS: Final = ("staker", "lockup", "mint authority", "freeze authority")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")
