"""An engine on a real VM and a real SQLite, with a ledger that can be made to misbehave."""

from __future__ import annotations

import asyncio
import base64
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import (
    CreateAccountParams,
    CreateAccountWithSeedParams,
    create_account,
    create_account_with_seed,
)
from solders.token import ID as TOKEN_PROGRAM
from solders.transaction import VersionedTransaction
from spl.token.instructions import close_account, initialize_account, set_authority
from spl.token.models import (
    AuthorityType,
    CloseAccountParams,
    InitializeAccountParams,
    SetAuthorityParams,
)
from tests.support.database import refuse_changes_of_ended_records
from tests.support.localnet import land, rent

from solward.database.database import Database
from solward.operations.perform import Operations
from solward.operations.sol import plan_transfer
from solward.operations.venues import Venue
from solward.service.cluster import open_cluster
from solward.settings import Settings
from solward.solana.programs import CLOCK_SYSVAR, STAKE_PROGRAM
from solward.solana.token_list import TokenList, token_list
from solward.types.errors import LedgerRejected, LedgerUnavailable, TransactionError
from solward.types.guardrail import Intent
from solward.types.money import LAMPORTS_PER_SOL, lamports_to_sol, sol_to_lamports
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.custody import Wallet, Wallets
from solward.vault.guardrails.rules import Policy, ScopeLimits
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.transport import IN_PROCESS
from solward.vault.money.engine import Engine, EngineOptions
from solward.vault.money.judge.building import compile_instructions
from solward.vault.money.request import ADMIN, Actor, Draft
from solward.vault.store import transactions as store
from solward_localnet.jsonrpc import RpcError
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions

# An engine on a real VM and a real SQLite, with a ledger that can be made to misbehave.

if TYPE_CHECKING:
    from tests.support.rpc import Answers

LIMITS = ScopeLimits(
    max_lamports_per_tx=2 * LAMPORTS_PER_SOL,
    max_tx_per_minute=5,
    daily_lamports=10 * LAMPORTS_PER_SOL,
)
UNLIMITED = ScopeLimits()

Fault = Callable[[str, Sequence[Any]], Awaitable[Any]]


class Wire:
    """The transport to the localnet: counts calls, and lets a test put a fault before any.

    It is the process's own; a test may give it the `origin` of a remote one.
    """

    origin = IN_PROCESS

    def __init__(self, localnet: Localnet) -> None:
        self._localnet = localnet
        self.calls: Counter[str] = Counter()
        self.faults: dict[str, Fault] = {}

    async def call(self, method: str, params: Sequence[Any]) -> Any:
        self.calls[method] += 1
        fault = self.faults.get(method)
        if fault is not None:
            answer = await fault(method, params)
            if answer is not None:
                return answer
        return await self.direct(method, params)

    async def direct(self, method: str, params: Sequence[Any]) -> Any:
        """Past every fault."""
        try:
            return await self._localnet.call(method, params)
        except RpcError as error:
            raise LedgerRejected(error.code, error.message, error.data) from None

    async def close(self) -> None:
        return None

    def away(self, method: str) -> None:
        """Leave a method unanswered from now on."""

        async def fault(name: str, _params: Sequence[Any]) -> Any:
            raise LedgerUnavailable(f"The ledger did not answer {name}")

        self.faults[method] = fault


@dataclass(slots=True)
class Bench:
    """The parts, a funded wallet, and somebody to pay."""

    localnet: Localnet
    wire: Wire
    ledger: Ledger
    database: Database
    wallets: Wallets
    engine: Engine
    wallet: Wallet
    recipient: str = field(default_factory=lambda: str(Keypair().pubkey()))

    def operations(
        self,
        *,
        network: str = "localnet",
        tokens: TokenList | None = None,
        venues: Sequence[Venue] = (),
    ) -> Operations:
        """What the service does with the wallet."""
        return Operations(
            engine=self.engine,
            wallets=self.wallets,
            ledger=self.ledger,
            tokens=token_list(network) if tokens is None else tokens,
            network=network,
            venues=venues,
        )

    def draft(self, amount: Any, to: str | None = None) -> Draft:
        """A transfer of `amount` SOL."""
        return plan_transfer(self.wallet.address, to=to or self.recipient, amount=amount)

    async def transfer(
        self, amount: Any, actor: Actor = ADMIN, to: str | None = None
    ) -> TransactionRecord:
        return await self.engine.execute(self.wallet.id, actor, self.draft(amount, to))

    async def history(self) -> list[TransactionRecord]:
        async with self.database.read() as connection:
            return await store.history(connection, self.wallet.id, 500, None)

    async def lamports(self, address: str) -> int:
        return int((await self.wire.direct("getBalance", [address]))["value"])

    async def land(self, instructions: Sequence[Instruction], *signers: Keypair) -> str:
        """Put a transaction of somebody else on the ledger, past every fault; the first pays."""
        return await land(self.wire.direct, instructions, *signers)

    async def reserved_units(self) -> int:
        """All SOL units counted against the wallet in 24 hours."""
        from solward.support.clock import now_ms
        from solward.vault.store import spending

        scope = f"wallet:{self.wallet.id}"
        async with self.database.read() as connection:
            found = await spending.usage(connection, [scope], [], now_ms())
        return found[scope].units_last_day.get(spending.SOL_ASSET, 0)


def fast_slots(ledger: Ledger, slot_s: float = 0.01) -> None:
    """Wait as on a cluster whose slots take so long, however long they take."""
    for each in ledger._known.slot_times.values():
        each.measured_s = slot_s


@asynccontextmanager
async def open_bench(
    tmp_path: Path,
    *,
    limits: ScopeLimits = UNLIMITED,
    blocked: frozenset[str] = frozenset(),
    sol: int = 10,
    genesis: Callable[[], Mapping[Pubkey, Account]] | None = None,
    policy: Policy | None = None,
    localnet_options: Mapping[str, Any] = MappingProxyType({}),
    takes_version_1: bool = True,
    **engine_options: Any,
) -> AsyncIterator[Bench]:
    """Open everything; the wallet holds `sol` SOL."""
    async with AsyncExitStack() as stack:
        options = LocalnetOptions(
            test_control=True,
            genesis=genesis,
            takes_version_1=takes_version_1,
            **localnet_options,
        )
        localnet = await Localnet.open(None, options)
        stack.push_async_callback(localnet.close)
        wire = Wire(localnet)
        ledger = Ledger(wire)
        settings = Settings(_env_file=None, solward_home=tmp_path)
        database = await Database.open(None, tmp_path)
        stack.push_async_callback(database.close)
        await refuse_changes_of_ended_records(database)
        wallets = await Wallets.open(database, settings, tmp_path)
        policy = policy or Policy(blocked_addresses=blocked)
        engine_settings = EngineOptions(policy=policy, wallet_limits=limits, **engine_options)
        engine = Engine(ledger, database, wallets, engine_settings)
        stack.push_async_callback(engine.close)
        wallet = await wallets.create("bench")
        if sol:
            await localnet.call("requestAirdrop", [wallet.address, sol_to_lamports(sol)])
        engine.start()
        yield Bench(localnet, wire, ledger, database, wallets, engine, wallet)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with open_bench(tmp_path) as opened:
        yield opened


# A payer on RPC addresses of its own, such as those of faulty providers.


@dataclass(slots=True)
class Payer:
    """The product's cluster, engine and database on some addresses, and a wallet that pays."""

    localnet: Localnet
    database: Database
    engine: Engine
    wallet: Wallet

    def draft(self, to: str, lamports: int) -> Draft:
        """A payment that is to be made."""
        return plan_transfer(self.wallet.address, to=to, amount=lamports_to_sol(lamports))

    async def pay(self, to: str, lamports: int) -> TransactionRecord | TransactionError:
        """One payment, as its caller sees it."""
        try:
            return await self.engine.execute(self.wallet.id, ADMIN, self.draft(to, lamports))
        except TransactionError as error:
            return error

    async def records(self) -> list[TransactionRecord]:
        """Every record, the newest first."""
        found: list[TransactionRecord] = []
        async with self.database.read() as connection:
            while True:
                before = found[-1].id if found else None
                page = await store.history(connection, self.wallet.id, 500, before)
                found += page
                if len(page) < 500:
                    return found

    async def settled(self, seconds: float) -> list[TransactionRecord]:
        """The records once none is pending; as they are after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            records = await self.records()
            pending = [each for each in records if each.status is TransactionStatus.PENDING]
            if not pending or time.monotonic() > deadline:
                return records
            await asyncio.sleep(0.1)

    async def on_ledger(self, address: str) -> int:
        """What an address has, by the ledger itself."""
        return int((await self.localnet.call("getBalance", [address]))["value"])


@asynccontextmanager
async def payer(
    home: Path, localnet: Localnet, *urls: str, confirm_wait_s: float = 45.0
) -> AsyncIterator[Payer]:
    """A payer that knows these addresses only; the wallet has 1,000 SOL."""
    home.mkdir(exist_ok=True)
    settings = Settings(
        _env_file=None,
        solward_home=home,
        api_secret="a-secret-for-tests-of-at-least-32-bytes",
        solana_network="localnet",
        solana_rpc_url=",".join(urls),
    )
    async with AsyncExitStack() as stack:
        database = await Database.open(None, home)
        stack.push_async_callback(database.close)
        cluster = await stack.enter_async_context(open_cluster(settings))
        wallets = await Wallets.open(database, settings, home)
        options = EngineOptions(Policy(), ScopeLimits(), confirm_wait_s=confirm_wait_s)
        engine = Engine(cluster.ledger, database, wallets, options, verify_cluster=cluster.verify)
        stack.push_async_callback(engine.close)
        wallet = await wallets.create("payer")
        await localnet.call("requestAirdrop", [wallet.address, 1_000 * LAMPORTS_PER_SOL])
        engine.start()
        yield Payer(localnet, database, engine, wallet)


# What an owner does with the wallet's key past the service, as with an imported key.

STAKE = Pubkey.from_string(STAKE_PROGRAM)
CLOCK_META = AccountMeta(Pubkey.from_string(CLOCK_SYSVAR), False, False)
RENT_SYSVAR = Pubkey.from_string("SysvarRent111111111111111111111111111111111")


async def by_hand(bench: Bench, *instructions: Instruction) -> None:
    """Land instructions signed by the wallet that no guardrail has seen."""
    draft = Draft(Intent(type="other", wallet=bench.wallet.address), instructions)
    blockhash = (await bench.ledger.latest_blockhash()).blockhash
    unsigned = compile_instructions(draft, blockhash, None)
    signer = await bench.wallets.signer(bench.wallet.id)
    message = unsigned.message
    signature = Signature.from_bytes(await signer.sign(bytes(to_bytes_versioned(message))))
    signed = VersionedTransaction.populate(message, [signature])
    wire = base64.b64encode(bytes(signed)).decode()
    options = {"encoding": "base64", "preflightCommitment": "processed"}
    await bench.wire.direct("sendTransaction", [wire, options])


def authorize(bench: Bench, account: str, role: int, to: Pubkey) -> Instruction:
    """Give the staker's (0) or the withdrawer's (1) authority away."""
    data = struct.pack("<I", 1) + bytes(to) + struct.pack("<I", role)
    return Instruction(STAKE, data, [_writable(account), CLOCK_META, _signer(bench)])


def deactivate(bench: Bench, account: str) -> Instruction:
    data = struct.pack("<I", 5)
    return Instruction(STAKE, data, [_writable(account), CLOCK_META, _signer(bench)])


async def locked_stake(bench: Bench, *, epoch: int) -> str:
    """A stake of 2 SOL, initialised and not delegated, locked before an epoch."""
    owner = Pubkey.from_string(bench.wallet.address)
    account = Pubkey.create_with_seed(owner, "by hand", STAKE)
    create = create_account_with_seed(
        CreateAccountWithSeedParams(
            from_pubkey=owner, to_pubkey=account, base=owner, seed="by hand",
            lamports=2 * 10**9, space=200, owner=STAKE,
        )
    )  # fmt: skip
    data = struct.pack("<I", 0) + bytes(owner) * 2 + struct.pack("<qQ", 0, epoch) + bytes(32)
    metas = [_writable(str(account)), AccountMeta(RENT_SYSVAR, False, False)]
    await by_hand(bench, create, Instruction(STAKE, data, metas))
    return str(account)


def _writable(account: str) -> AccountMeta:
    return AccountMeta(Pubkey.from_string(account), False, True)


def _signer(bench: Bench) -> AccountMeta:
    return AccountMeta(Pubkey.from_string(bench.wallet.address), True, False)


# What an attacker does between signature and ledger: state that changes after judgement.

TOKEN_RENT = rent(165)


@asynccontextmanager
async def front_run(bench: Bench, act: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """`act` once, when the next signed transaction is on its way; fails where none was sent."""
    done = False

    async def first(_method: str, _params: Any) -> None:
        nonlocal done
        if not done:
            done = True
            await act()

    bench.wire.faults["sendTransaction"] = first
    try:
        yield
    finally:
        del bench.wire.faults["sendTransaction"]
    assert done, "nothing was sent"


async def thief(bench: Bench) -> Keypair:
    """A key with SOL of its own."""
    key = Keypair()
    await bench.localnet.call("requestAirdrop", [str(key.pubkey()), 10**9])
    return key


async def put_accounts(bench: Bench, accounts: Mapping[Pubkey, Account]) -> None:
    """Accounts replaced on the ledger, as when a program is upgraded by whoever made it."""
    await bench.localnet._enqueue(lambda ledger, _params: ledger.vm.put(accounts), [])


class Trap:
    """A token account that is `shown`'s when it is looked at, and the thief's later.

    The thief keeps the right to close it, and its address' key.
    """

    def __init__(self, ledger: Answers, shown: Pubkey, thief: Keypair, mint: Pubkey) -> None:
        self._ledger, self._shown, self._thief, self._mint = ledger, shown, thief, mint
        self._key = Keypair()

    @classmethod
    def of(cls, bench: Bench, thief: Keypair, mint: Pubkey) -> Trap:
        """One that is shown as the bench's wallet's."""
        return cls(bench.wire.direct, Pubkey.from_string(bench.wallet.address), thief, mint)

    @property
    def address(self) -> Pubkey:
        return self._key.pubkey()

    def _open(self) -> list[Instruction]:
        thief = self._thief.pubkey()
        return [
            create_account(
                CreateAccountParams(
                    from_pubkey=thief,
                    to_pubkey=self.address,
                    lamports=TOKEN_RENT,
                    space=165,
                    owner=TOKEN_PROGRAM,
                )
            ),
            initialize_account(
                InitializeAccountParams(
                    program_id=TOKEN_PROGRAM, account=self.address, mint=self._mint, owner=thief
                )
            ),
        ]

    def _give(self, authority: AuthorityType, to: Pubkey) -> Instruction:
        return set_authority(
            SetAuthorityParams(
                program_id=TOKEN_PROGRAM,
                account=self.address,
                authority=authority,
                current_authority=self._thief.pubkey(),
                new_authority=to,
            )
        )

    async def set(self) -> None:
        """Make it `shown`'s, but for the right to close it."""
        give = [
            self._give(AuthorityType.CLOSE_ACCOUNT, self._thief.pubkey()),
            self._give(AuthorityType.ACCOUNT_OWNER, self._shown),
        ]
        await land(self._ledger, [*self._open(), *give], self._thief, self._key)

    async def spring(self) -> None:
        """Close it and open it again, as the thief's own."""
        thief = self._thief.pubkey()
        closing = close_account(
            CloseAccountParams(
                program_id=TOKEN_PROGRAM, account=self.address, dest=thief, owner=thief
            )
        )
        await land(self._ledger, [closing, *self._open()], self._thief, self._key)
