"""A caller's request to the engine: principal and limits, declaration, instructions or bytes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from solders.instruction import Instruction
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.types.entries import Put
from solward.types.guardrail import Intent
from solward.types.record import GENERATED_KEY, TransactionRecord
from solward.types.roles import is_admin
from solward.vault.custody import Pocket
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.store import spending
from solward.vault.store.holds import action_scope
from solward.vault.store.payments import PaidRequest


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """One use of the Idempotency-Key header: its scope and the request's fingerprint.

    Attributes:
        scope: `principal|method|path|key`, unique.
        fingerprint: SHA-256 of the canonical request body, hex.
    """

    scope: str
    fingerprint: str

    @property
    def is_generated(self) -> bool:
        """Whether a tool made it for a caller who chose none."""
        # The key itself may have a bar in it; what stands before it has none.
        return self.scope.split("|", 3)[-1].startswith(GENERATED_KEY)


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One run of an agent's cycle; it may spend while `fence` is the agent's fencing token."""

    agent_id: str
    cycle: int
    fence: int


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """One run of a schedule; it may spend while `fence` is the schedule's fencing token."""

    schedule_id: str
    fence: int


@dataclass(frozen=True, slots=True)
class Actor:
    """Who requests a transaction, and the limits that come with them.

    Attributes:
        principal: `admin`, `admin:<id>`, `key:<id>`, `agent:<id>` or `schedule:<id>`.
        agent_id: recorded as the transaction's `agentId`.
        limits: limit scopes beside the wallet's own, such as `("key:<id>", ScopeLimits(...))`.
        action_key: names one logical action for good; a second request with it returns the
            first one's record and sends nothing.
        idempotency: the HTTP caller's Idempotency-Key, when given.
        run: the agent's run that requests it; one whose fencing token was replaced, or whose agent
            was stopped, is refused.
        schedule: the schedule's run that requests it; one whose fencing token was replaced, or
            whose schedule is not active any more, is refused.
        api_key: hash of the secret of the stored API key or admin credential that requests it; one
            that was revoked or replaced, or has expired, is refused.
        checks: raise where what requests it has ended; called, as the three above are read, in the
            database transaction that reserves.
        trace: where the request came from, in the logs of every process that works on the
            transaction: a request's id, `agent:<id>:<cycle>` or `schedule:<id>:<due time>`.
        dry_run: everything is judged and nothing is sent: the engine raises `TrialEnded` where it
            would return a record.
        recipe: makes how to make what is asked for again, once a person approved it; None where
            only its caller can.
        approval: id of the approved hold that this carries out.
        via: what runs for the caller: `schedule:<id>`, `skill:<name>`, `plugin:<distribution>`.
        remember: entries of the plugin's store, written where the record is stored as pending.
        call: valid parameters of the skill that requests it; of what only its caller can make
            again, an approval is for these alone.
    """

    principal: str
    agent_id: str | None = None
    limits: tuple[tuple[str, ScopeLimits], ...] = ()
    action_key: str | None = None
    idempotency: IdempotencyKey | None = None
    dry_run: bool = False
    run: AgentRun | None = None
    schedule: ScheduleRun | None = None
    api_key: str | None = field(default=None, repr=False)
    checks: tuple[Callable[[], None], ...] = ()
    trace: str | None = None
    recipe: Callable[[], Mapping[str, Any]] | None = None
    approval: str | None = None
    via: tuple[str, ...] = ()
    remember: tuple[Put, ...] = field(default=(), repr=False)
    call: object = field(default=None, repr=False)

    @property
    def merged_key(self) -> tuple[str, str] | None:
        """Scope and fingerprint of the key by which a request that another one's hold stands for
        finds that hold again; None where it has no key, so that the next is another request.

        Of an agent's cycles only the last can run again, so each of its money calls has one scope.
        """
        if self.idempotency is not None:
            return self.idempotency.scope, self.idempotency.fingerprint
        if self.action_key is None:
            return None
        if self.run is None:
            return action_scope(self.action_key), ""
        return f"cycle|{self.run.agent_id}|{self.action_key.rpartition(':')[2]}", self.action_key

    @property
    def is_admins(self) -> bool:
        """Whether the operator asks: no grant binds it, and nothing is held for a person."""
        return is_admin(self.principal) or self.principal == "cli"

    def chain(self, wallet_id: str) -> tuple[str, ...]:
        """Return every principal a transaction of this wallet needs, the wallet's first."""
        who = () if self.is_admins else (self.principal,)
        return (f"wallet:{wallet_id}", *who, *self.via)

    async def lock(
        self,
        connection: AsyncConnection,
        wallet_id: str,
        scopes: Sequence[str] = (),
        agent: str | None = None,
    ) -> None:
        """Lock a wallet and scopes for what it requests (`spending.lock`), and check that what
        requests it has not ended.

        Raises:
            TakenOver, KeyRevoked, SkillError: it has.
        """
        run, schedule = self.run, self.schedule
        await spending.lock(
            connection,
            wallet_id,
            scopes,
            None if run is None else (run.agent_id, run.cycle, run.fence),
            self.api_key,
            agent,
            None if schedule is None else (schedule.schedule_id, schedule.fence),
        )
        for check in self.checks:
            check()


ADMIN = Actor("admin")


@dataclass(frozen=True, slots=True)
class PocketUse:
    """The pocket that signs a transaction beside the wallet.

    Attributes:
        mints: tokens it may hold on the way.
        output_mint: what a swap brings to the wallet's own account; None for SOL, and for what is
            no swap. A swap in one transaction asserts the account's sum. Two of one wallet and mint
            at once would count what the other brings, so the second is refused.
        asserted: with `output_mint`: that account, and the units it held when it was read. Where it
            holds more once no other purchase is open, one has ended meanwhile, and what it brought
            would count for this one.
        leaves: something stays in it, to be swept later.
        program: with `position`: the position whose pocket it is.
        stays: with `position`: what it holds afterwards stays in it.
        returns: of a use in steps: mint -> least units that wallet and pocket together must have
            more of after the call; under wrapped SOL's mint lamports too.
        venue: where a swap sells what goes into it; set by the service's own plan of a swap alone.
    """

    pocket: Pocket
    mints: tuple[str, ...] = ()
    output_mint: str | None = None
    asserted: tuple[str, int] | None = None
    leaves: bool = False
    program: str | None = None
    position: str | None = None
    stays: bool = False
    returns: Mapping[str, int] = field(default_factory=dict)
    venue: str | None = None


class HoldTaken(Exception):
    """An approval was used, or ended, meanwhile; nothing was stored."""


class HoldWaits(Exception):
    """What was approved cannot be carried out for now, for this reason; nothing was stored, and the
    approval is not used up."""


class PocketTaken(Exception):
    """Another process used the pocket's counter first; nothing was stored. Plan again."""


@dataclass(frozen=True, slots=True)
class PocketCall:
    """Instructions that a pocket signs alone, with the lookup tables they are compiled with."""

    instructions: tuple[Instruction, ...]
    tables: Mapping[str, tuple[str, ...]]


Build = Callable[[str], Awaitable[bytes | Sequence[Instruction] | PocketCall]]


@dataclass(frozen=True, slots=True)
class PocketDraft:
    """A use of a pocket in steps (`solward.vault.money.pocket.run`).

    Attributes:
        intent: of the funding, which the wallet signs alone.
        instructions: of the funding.
        use: the pocket; `leaves` is True, and what `returns` is checked in the simulation.
        build: called with the pocket's address once the funding is confirmed; what the pocket
            alone signs then: whole bytes, or instructions for which it pays the fee.
        tables: of `build`'s instructions; see `Draft`.
    """

    intent: Intent
    instructions: tuple[Instruction, ...]
    use: PocketUse
    build: Build
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def pocket(self) -> Pocket:
        """The pocket itself."""
        return self.use.pocket

    @property
    def funding(self) -> Draft:
        """The transaction that fills it."""
        return Draft(self.intent, self.instructions, pocket=self.use)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment(PaidRequest):
    """What a transaction pays for; its record has the type `payment`.

    Attributes:
        fee_payer: of a sponsored payment; None where the wallet pays the fee.
        most_compute_units: the highest limit of compute units that the seller takes.
        most_unit_price: the highest price of one, in micro-lamports.
    """

    fee_payer: str | None = None
    most_compute_units: int = 1_400_000
    most_unit_price: int = 5_000_000


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A payment whose bytes are durable and watched.

    Attributes:
        record: as stored; pending, or as it ended where the action was known.
        wire: for the seller; a sponsor's signature is zeros. None where the action was known: its
            bytes may be for another request.
    """

    record: TransactionRecord
    wire: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Draft:
    """A transaction to judge and send: the declaration and either instructions or bytes.

    Attributes:
        intent: what the caller declares.
        instructions: compiled by the engine with the wallet as fee payer.
        wire: a complete versioned transaction made elsewhere (a swap venue), where only the
            wallet's signature may be missing; its blockhash is kept.
        pocket: signs the instructions too, in one transaction with the wallet.
        tables: lookup table -> its addresses in order. Accounts of instructions that name the
            wallet are never looked up: what a table holds is a node's word.
        otherwise: assessed instead where the simulation of this one fails.
        payment: what it pays for, where a seller is paid for a request over HTTP.
        based_on: of a purchase, the same one on the units that its account holds by then.
        version: of the transaction that is built; in one of version 1 no table is used.
    """

    intent: Intent
    instructions: tuple[Instruction, ...] = ()
    wire: bytes | None = None
    pocket: PocketUse | None = None
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    otherwise: Draft | None = None
    payment: Payment | None = None
    based_on: Callable[[int], Draft] | None = field(default=None, compare=False, repr=False)
    version: int = 0

    def in_version_0(self) -> Draft:
        """Return the same one for a node that takes no other version."""
        based_on, otherwise = self.based_on, self.otherwise
        return replace(
            self,
            version=0,
            otherwise=None if otherwise is None else otherwise.in_version_0(),
            based_on=None if based_on is None else lambda units: based_on(units).in_version_0(),
        )
