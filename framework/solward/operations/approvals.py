"""Holds: transactions that wait for a person, who approves or denies them.

An approval is stored first. Then the request is made again as if its principal made it now: it is
planned, simulated and judged by all rules except the rule that held it. The reservation's database
transaction uses up the approval, so it is paid at most once, even if a process dies.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.operations.declared import OPERATIONS
from solward.operations.perform import Operations
from solward.operations.plugin_draft import read_recipe
from solward.resources.holds import MAX_NOTE
from solward.support.clock import iso
from solward.support.tasks import in_background
from solward.types.errors import (
    HoldDecided,
    InvalidRequest,
    LedgerError,
    MayNotDecide,
    NotFound,
    SolwardError,
    StoreError,
    TransactionError,
)
from solward.types.record import Hold, HoldState
from solward.types.roles import is_admin
from solward.vault.money.plugin_entries import entries_from_recipe
from solward.vault.money.request import Actor, HoldTaken, HoldWaits
from solward.vault.money.reserve.hold_reservation import venue_of
from solward.vault.money.steps import Step, StepHook, no_hook
from solward.vault.store import holds as store
from solward.vault.store import spending
from solward.vault.store.holds import HoldRow

SWEEP_S: Final = 10.0
"""Seconds between two sweeps for expired holds and for approved holds of a dead process."""
CLOSE_WAIT_S: Final = 5.0
WEBHOOK: Final = "webhook"

MayApprove = Callable[[AsyncConnection, str, str | None], Awaitable[bool]]
"""Returns whether an API key, given as a principal, may approve payments by a wallet; None means
any wallet."""

_log = structlog.get_logger(__name__)


class Approvals:
    """Reads, approves, denies and expires the holds of a service."""

    def __init__(
        self,
        *,
        database: Database,
        operations: Operations,
        actors: Mapping[str, Callable[[str], Awaitable[Actor]]],
        wallet_of_key: Callable[[str], Awaitable[str | None]],
        process_id: str,
        may_approve: MayApprove,
        hook: StepHook = no_hook,
    ) -> None:
        # `actors` has, for each kind of principal, a function that returns a principal's actor
        # outside of requests and runs. `wallet_of_key` returns a key's only wallet, None for all.
        # Both raise `SolwardError` if the principal is gone or may not request any more.
        self._database = database
        self._operations = operations
        self._actors = actors
        self._wallet_of_key = wallet_of_key
        self._me = process_id
        self._may_approve = may_approve
        self._hook = hook
        self._running: dict[str, asyncio.Task[None]] = {}

    async def get(self, hold_id: str) -> Hold:
        """Return one hold, which expires first if it is overdue; raises `NotFound`."""
        return (await self._read_current(hold_id)).hold

    async def listed(
        self,
        *,
        wallet_id: str | None = None,
        principal: str | None = None,
        is_open: bool | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> list[Hold]:
        """Return holds, newest first.

        Args:
            principal: the requester.
            is_open: True for holds that may still move money, False for the others.
            before: id of a hold; only older holds are returned.

        Raises:
            InvalidRequest: `before` is not the id of a hold.
        """
        await self._expire_overdue()
        async with self._database.read() as connection:
            if before is not None and await store.get(connection, before) is None:
                raise InvalidRequest("before must be the id of a hold")
            return await store.list_holds(
                connection, wallet_id=wallet_id, principal=principal, is_open=is_open,
                limit=limit, before=before,
            )  # fmt: skip

    async def approve(self, hold_id: str, approver: str, note: str | None = None) -> Hold:
        """Approve a hold, carry it out, and return it.

        Approving an approved or executed hold changes nothing.

        Args:
            approver: `admin`, `admin:<id>`, `webhook` or `key:<id>`.

        Raises:
            NotFound: the hold does not exist, or the approver may not see it.
            MayNotDecide: the approver may not decide it.
            HoldDecided: it has ended, or cannot be approved now because transactions are frozen or
                the agent was stopped.
        """
        row = await self._read_decidable(hold_id, approver, note)
        if row.hold.state is HoldState.HELD:
            await self._check_agent(row.hold)
            async with self._database.write() as connection:
                await self._check_approver(connection, row.hold, approver)
                frozen = await spending.freeze_reason(connection, row.hold.wallet_id)
                if frozen is not None:
                    raise HoldDecided("Transactions are frozen; nothing was approved")
                moment = await self._database.moment(connection)
                # If its time is over, `_read_current` expires it below.
                if row.hold.expires_ms > moment.window_ms:
                    await store.move(
                        connection, hold_id, (HoldState.HELD,), HoldState.APPROVED,
                        by=approver, decided_by=approver, decided_ms=moment.database_ms,
                        note=note, owner=self._me,
                    )  # fmt: skip
            self._hook(Step.APPROVED)
            row = await self._read_current(hold_id)
        if row.hold.state is HoldState.APPROVED and row.owner == self._me and row.recipe:
            await asyncio.shield(self._start_task(row))
            row = await self._read_current(hold_id)
        if row.hold.state in (HoldState.DENIED, HoldState.EXPIRED):
            raise _decided_error(row.hold)
        return row.hold

    async def deny(self, hold_id: str, approver: str, note: str | None = None) -> Hold:
        """Deny a hold that waits, or that is approved and not yet carried out.

        Repeating the request then returns a blocked record.

        Raises:
            Same as `approve`.
        """
        row = await self._read_decidable(hold_id, approver, note)
        if row.hold.state is HoldState.DENIED:
            return row.hold
        if not row.hold.state.is_open:
            raise _decided_error(row.hold)
        text = f"{_approver_name(approver)} denied it" + (f": {note}" if note else "")
        async with self._database.write() as connection:
            await self._check_approver(connection, row.hold, approver)
            moment = await self._database.moment(connection)
            record = await store.refuse(
                connection, row, HoldState.DENIED, text, moment.database_ms,
                by=approver, decided_by=approver, decided_ms=moment.database_ms, note=note,
            )  # fmt: skip
        row = await self._read_current(hold_id)
        if record is None:
            raise _decided_error(row.hold)
        return row.hold

    async def may_decide(self, principal: str) -> bool:
        """Return whether a principal may decide others' holds, as an admin or by a grant."""
        if is_admin(principal) or principal == WEBHOOK:
            return True
        async with self._database.read() as connection:
            return await self._may_approve(connection, principal, None)

    async def sweep(self) -> None:
        """Expire overdue holds, and carry out the approved holds of a dead process."""
        await self._expire_overdue()
        async with self._database.read() as connection:
            left = await store.abandoned_holds(connection, self._me)
        for row in left:
            hold = row.hold
            if hold.id in self._running or not await self._is_known(hold.principal):
                continue
            async with self._database.write() as connection:
                ours = await store.claim(connection, hold.id, self._me, row.owner)
            if ours:
                self._start_task(row)

    async def close(self) -> None:
        """Wait a while for holds in progress; the next start carries out the others."""
        if self._running:
            await asyncio.wait(self._running.values(), timeout=CLOSE_WAIT_S)
        for task in list(self._running.values()):
            task.cancel()

    def _start_task(self, row: HoldRow) -> asyncio.Task[None]:
        known = self._running.get(row.hold.id)
        if known is not None:
            return known
        task = asyncio.create_task(self._carry_out(row), name=f"hold {row.hold.id}")
        self._running[row.hold.id] = task
        task.add_done_callback(lambda _done: self._running.pop(row.hold.id, None))
        return task

    async def _carry_out(self, row: HoldRow) -> None:
        hold = row.hold
        error: str
        try:
            actor = await self._actor_of(hold.principal)
            if actor is None:
                return
            for each in hold.chain:
                if each.startswith("schedule:") and each != hold.principal:
                    # A key's schedule ends with its secret, and so do its requests.
                    actor = await self._actor_of(each) or actor
            await self._repeat_request(row, actor)
        except (HoldWaits, LedgerError) as waits:
            await self._note_wait(row, str(waits))
            return
        except (HoldTaken, StoreError):
            # The approval is used already, or the database is away; the next sweep tries again.
            return
        except TransactionError as ended:
            _log.info("hold_ended", hold_id=hold.id, transaction_id=ended.record.id)
            return
        except SolwardError as refused:
            error = str(refused)
        except Exception as bug:
            # This may be a bug of a venue plugin, and its text may contain secrets.
            if await self._note_wait(row, f"it failed unexpectedly ({type(bug).__name__})"):
                _log.exception("hold_failed", hold_id=hold.id)
            return
        else:
            return
        async with self._database.write() as connection:
            moment = await self._database.moment(connection)
            text = f"it was approved, and cannot be carried out any more: {error}"
            await store.refuse(
                connection, row, HoldState.REFUSED, text, moment.database_ms, by="service"
            )

    async def _note_wait(self, row: HoldRow, why: str) -> bool:
        """Store why an approved hold waits; return whether the reason is new."""
        reason = f"it was approved, and waits: {why}"
        with contextlib.suppress(StoreError):
            async with self._database.write() as connection:
                await store.note_wait(connection, row.hold, reason)
        return reason not in row.hold.reasons

    async def _actor_of(self, principal: str) -> Actor | None:
        """Return a principal's actor; None if this process does not know its kind."""
        kind, _, own_id = principal.partition(":")
        made = self._actors.get(kind)
        return None if made is None else await made(own_id)

    async def _repeat_request(self, row: HoldRow, actor: Actor) -> None:
        hold, recipe = row.hold, row.recipe
        assert recipe is not None
        actor = replace(
            actor,
            action_key=row.action_key or hold.action,
            approval=hold.id,
            trace=row.trace,
            via=hold.chain[2:],
            remember=entries_from_recipe(recipe),
        )
        if "operation" in recipe:
            operation = OPERATIONS[recipe["operation"]]
            # Values that the plan chose because the caller omitted them, such as the validator.
            chosen = {
                each.json: hold.details[each.detail or each.json]
                for each in operation.fields
                if each.default is None and (each.detail or each.json) in hold.details
            }
            await self._operations.perform(
                operation.name,
                hold.wallet_id,
                actor,
                chosen | {name: it for name, it in recipe["params"].items() if it is not None},
                at_least=hold.arrives,
                venue=venue_of(hold),
            )
            return
        intent, instructions = read_recipe(recipe)
        await self._operations.transact(hold.wallet_id, actor, intent, instructions, None)

    async def _read_current(self, hold_id: str) -> HoldRow:
        async with self._database.read() as connection:
            row = await store.get(connection, hold_id)
            moment = await self._database.moment(connection)
        if row is None:
            raise NotFound("Hold not found")
        if row.hold.state.is_open and row.hold.expires_ms <= moment.window_ms:
            await self._expire_one(row)
            return await self._read_current(hold_id)
        return row

    async def _read_decidable(self, hold_id: str, approver: str, note: str | None) -> HoldRow:
        if note is not None and not (len(note) <= MAX_NOTE and note.isprintable()):
            raise InvalidRequest(f"note must be one line of at most {MAX_NOTE} characters")
        row = await self._read_current(hold_id)
        async with self._database.read() as connection:
            await self._check_approver(connection, row.hold, approver)
        return row

    async def _check_approver(self, connection: AsyncConnection, hold: Hold, approver: str) -> None:
        """Allow the operator, the webhook, and a key with a grant that did not make the request."""
        if is_admin(approver) or approver == WEBHOOK:
            return
        kind, _, key_id = approver.partition(":")
        if kind != "key" or approver in hold.chain:
            raise MayNotDecide("The principal that asked for a transaction may not approve it")
        if await self._wallet_of_key(key_id) is not None:
            raise MayNotDecide("A key that is limited to one wallet may not approve holds")
        if not await self._may_approve(connection, approver, hold.wallet_id):
            raise MayNotDecide("This key has no grant to approve")

    async def _check_agent(self, hold: Hold) -> None:
        """Refuse to approve a stopped agent's hold, which waits until the agent runs again."""
        if hold.agent_id is None:
            return
        async with self._database.read() as connection:
            is_stopped = await spending.is_stopped(connection, hold.agent_id)
        if is_stopped:
            raise HoldDecided("The agent was stopped; start it to approve the hold, or deny it")

    async def _is_known(self, principal: str) -> bool:
        with contextlib.suppress(SolwardError):
            return await self._actor_of(principal) is not None
        return True

    async def _expire_overdue(self) -> None:
        async with self._database.read() as connection:
            moment = await self._database.moment(connection)
            rows = await store.overdue_holds(connection, moment.window_ms)
        for row in rows:
            try:
                await self._expire_one(row)
            except StoreError:
                raise
            except Exception:
                # If one hold cannot be expired, the others must be expired all the same.
                _log.exception("hold_not_expired", hold_id=row.hold.id)

    async def _expire_one(self, row: HoldRow) -> None:
        async with self._database.write() as connection:
            await store.expire(connection, row, await self._database.moment(connection))


def _decided_error(hold: Hold) -> HoldDecided:
    when = f" since {iso(hold.expires_ms)}" if hold.state is HoldState.EXPIRED else ""
    return HoldDecided(f"The hold is {hold.state.value}{when}; nothing was changed")


def _approver_name(approver: str) -> str:
    if is_admin(approver):
        return "the operator"
    return "the webhook" if approver == WEBHOOK else approver


@asynccontextmanager
async def sweeping(approvals: Approvals) -> AsyncIterator[None]:
    """Sweep the holds every `SWEEP_S` seconds until the block ends."""

    async def run() -> None:
        while True:
            try:
                await approvals.sweep()
            except SolwardError as error:
                _log.warning("holds_not_swept", error=str(error))
            except Exception:
                _log.exception("holds_not_swept")
            await asyncio.sleep(SWEEP_S)

    try:
        async with in_background(run(), "solward-holds"):
            yield
    finally:
        await approvals.close()
