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
    """One use of the Idempotency-Key header: the key's scope and the request's fingerprint.

    Attributes:
        scope: `principal|method|path|key`, unique.
        fingerprint: SHA-256 of the canonical request body, hex.
    """

    scope: str
    fingerprint: str

    @property
    def is_generated(self) -> bool:
        """True if a tool generated the key because the caller chose none."""
        # Only the key may contain a bar, so three splits leave the key whole.
        return self.scope.split("|", 3)[-1].startswith(GENERATED_KEY)


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One run of an agent's cycle. The run may spend while `fence` is the agent's fencing token."""

    agent_id: str
    cycle: int
    fence: int


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """One run of a schedule. The run may spend while `fence` is the schedule's fencing token."""

    schedule_id: str
    fence: int


@dataclass(frozen=True, slots=True)
class Actor:
    """The principal that requests a transaction, with its limits and the run it belongs to.

    Attributes:
        principal: `admin`, `admin:<id>`, `key:<id>`, `agent:<id>` or `schedule:<id>`.
        agent_id: recorded as the transaction's `agentId`.
        limits: limit scopes in addition to the wallet's, such as `("key:<id>", ScopeLimits(...))`.
        action_key: permanent name of one logical action. A second request with the same key returns
            the first request's record and sends nothing.
        idempotency: the HTTP caller's Idempotency-Key, if there is one.
        run: the agent's run that requests the transaction; refused if its fencing token was
            replaced or the agent was stopped.
        schedule: the schedule's run that requests the transaction; refused if its fencing token was
            replaced or the schedule is no longer active.
        api_key: hash of the secret of the requesting API key or admin credential; refused if the
            key or credential was revoked, replaced, or has expired.
        checks: functions that raise if the requester has ended. The database transaction that
            reserves calls them, and reads `run`, `schedule` and `api_key`.
        trace: the request's origin in the logs of every process that works on the transaction: a
            request's id, `agent:<id>:<cycle>` or `schedule:<id>:<due time>`.
        dry_run: True to judge everything and send nothing; the engine then raises `TrialEnded`
            instead of returning a record.
        recipe: returns how to repeat the request after a person approved it; None if only the
            caller can repeat it.
        approval: id of the approved hold that this request carries out.
        via: further principals: `schedule:<id>`, `skill:<name>`, `plugin:<distribution>`.
        remember: entries for the plugin's store, written when the record is stored as pending.
        call: validated parameters of the requesting skill. If only the caller can repeat the
            request, an approval is valid for these parameters alone.
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
        """Scope and fingerprint by which the next try finds the other request's hold that this
        request joined. None without a key, because the next try is then a new request.

        Only an agent's last cycle can run again, so all cycles share one scope for each call.
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
        """True for the operator, whom no grant binds and whose requests are never held."""
        return is_admin(self.principal) or self.principal == "cli"

    def chain(self, wallet_id: str) -> tuple[str, ...]:
        """Return all principals that must be allowed to use this wallet, the wallet first."""
        who = () if self.is_admins else (self.principal,)
        return (f"wallet:{wallet_id}", *who, *self.via)

    async def lock(
        self,
        connection: AsyncConnection,
        wallet_id: str,
        scopes: Sequence[str] = (),
        agent: str | None = None,
    ) -> None:
        """Lock a wallet and scopes (`spending.lock`), and check that the requester may still act.

        Raises:
            TakenOver, KeyRevoked, SkillError: the requester may not act any more.
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
    """A pocket that signs a transaction together with its wallet, and the purpose of its use.

    Attributes:
        mints: tokens that the pocket may hold in between.
        output_mint: the mint that a swap brings to the wallet's own account; None for SOL and for
            other uses. A swap in one transaction asserts the account's sum. Until it ends, a second
            swap of the same wallet and mint is refused, because each would count the other's units.
        asserted: with `output_mint`: the wallet's account, and its units when it was read. If the
            account has more when no other purchase is open, another purchase has ended meanwhile,
            and that purchase's units would count for this purchase.
        leaves: whether something stays in the pocket, to be swept later.
        program: with `position`: names the position that the pocket belongs to.
        stays: with `position`: whether the contents stay in the pocket afterwards.
        returns: for a use in steps: mint -> the minimum units that wallet and pocket together must
            gain by the call; lamports count under wrapped SOL's mint.
        venue: the venue to which a swap sells; set only for swaps that the service planned.
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
    """Raised if an approval was used or has ended meanwhile; nothing was stored."""


class HoldWaits(Exception):
    """Raised with the reason if an approval cannot be carried out now; the approval stays valid."""


class PocketTaken(Exception):
    """Raised if another process used the pocket's counter first; nothing was stored. Plan anew."""


@dataclass(frozen=True, slots=True)
class PocketCall:
    """Instructions that a pocket signs alone, with the lookup tables they are compiled with."""

    instructions: tuple[Instruction, ...]
    tables: Mapping[str, tuple[str, ...]]


Build = Callable[[str], Awaitable[bytes | Sequence[Instruction] | PocketCall]]


@dataclass(frozen=True, slots=True)
class PocketDraft:
    """A use of a pocket in several transactions (`solward.vault.money.pocket.run`).

    Attributes:
        intent: the declaration for the funding, which only the wallet signs.
        instructions: the instructions of the funding.
        use: the pocket's use; `leaves` is True, and a simulation of the call checks `returns`.
        build: called with the pocket's address once the funding is confirmed. Returns what only the
            pocket signs: whole bytes, or instructions for which the pocket pays the fee.
        tables: lookup tables for `build`'s instructions; see `Draft`.
    """

    intent: Intent
    instructions: tuple[Instruction, ...]
    use: PocketUse
    build: Build
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def pocket(self) -> Pocket:
        """The pocket that is filled and used."""
        return self.use.pocket

    @property
    def funding(self) -> Draft:
        """The transaction that fills the pocket."""
        return Draft(self.intent, self.instructions, pocket=self.use)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment(PaidRequest):
    """A paid HTTP request with the seller's limits for the fee; its record has the type `payment`.

    Attributes:
        fee_payer: the sponsor's address; None if the wallet pays the fee.
        most_compute_units: the highest compute-unit limit that the seller accepts.
        most_unit_price: the highest price that the seller accepts, in micro-lamports a unit.
    """

    fee_payer: str | None = None
    most_compute_units: int = 1_400_000
    most_unit_price: int = 5_000_000


@dataclass(frozen=True, slots=True)
class HandedOverPayment:
    """A payment whose bytes are stored durably and watched on the ledger.

    Attributes:
        record: pending, or the stored record of an action that was requested before.
        wire: the bytes for the seller, with zeros for a sponsor's signature. None for an action
            that was requested before, because its bytes may be for another request.
    """

    record: TransactionRecord
    wire: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Draft:
    """A transaction to judge and send: the declaration and either instructions or bytes.

    Attributes:
        intent: the caller's declaration.
        instructions: compiled by the engine with the wallet as fee payer.
        wire: a complete versioned transaction made elsewhere (by a swap venue), in which only the
            wallet's signature may be missing. Its blockhash is not replaced.
        pocket: a pocket that signs the instructions together with the wallet, in one transaction.
        tables: lookup table -> its addresses in order. Accounts of instructions that name the
            wallet are never looked up, because only a node states a table's contents.
        otherwise: the draft to assess instead if the simulation of this draft fails.
        payment: the payment, if a seller is paid for an HTTP request.
        based_on: drafts the same purchase again for other units in its account.
        version: version of the transaction that is built; version 1 uses no lookup tables.
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
        """Return the same draft in version 0, for a node that refuses version 1."""
        based_on, otherwise = self.based_on, self.otherwise
        return replace(
            self,
            version=0,
            otherwise=None if otherwise is None else otherwise.in_version_0(),
            based_on=None if based_on is None else lambda units: based_on(units).in_version_0(),
        )
