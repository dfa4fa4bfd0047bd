"""The schedules of a service: create, change, pause, resume, delete, and read their runs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import record_act
from solward.database.database import Database, lock_exclusive
from solward.operations.key_callers import KeyCallers
from solward.operations.policies.changes import drop_set, lock_policy, put_set
from solward.operations.policies.documents import Policies
from solward.plugins.loaded import Registry
from solward.resources.schedules import Missed, NewSchedule, ScheduleStatus
from solward.runner import RunSkill, no_hook
from solward.schedules import store
from solward.schedules.runs import (
    RUNS_DONE,
    Now,
    ScheduleHook,
    ScheduleRunner,
    actor_of,
    ended_columns,
    run_once,
)
from solward.schedules.schedule import TERMS, Schedule, read_times
from solward.support import jsontext
from solward.support.clock import iso, now_ms
from solward.types.errors import (
    InvalidRequest,
    KeyRevoked,
    NotFound,
    ScheduleBusy,
)
from solward.types.events import EventKind
from solward.types.roles import is_admin
from solward.vault.custody import Wallets
from solward.vault.grants.model import Grant
from solward.vault.money.request import Actor, IdempotencyKey
from solward.vault.store import idempotency

MAX_OF_WALLET: Final = 50
MAX_OF_KEY: Final = 20
MAX_PARAMS: Final = 16_384

_WHEN_FIELDS: Final = ("every", "cron", "timeZone", "startAt", "endAt")
_LOCK: Final = "schedules"
_PAUSED: Final = "It was paused"
_NO_SCHEDULE: Final = "Schedule not found"


@dataclass(frozen=True, slots=True)
class Maker:
    """The principal that creates, changes or resumes a schedule.

    Attributes:
        principal: `admin`, `admin:<id>` or `key:<id>`.
        key_hash: the hash of the API key's secret in the request.
    """

    principal: str
    key_hash: str | None = field(default=None, repr=False)


class ScheduleService:
    """The schedules of a service. Methods for one schedule raise `NotFound` if it does not exist.

    Args:
        registry: returns the currently loaded plugins.
        me: the id of this process.
        hook: called after each phase of a run.
        now: the clock for due times; None for the clock of the limits' windows, which a single
            wrong clock cannot move ahead.
    """

    def __init__(
        self,
        *,
        database: Database,
        wallets: Wallets,
        policies: Policies,
        registry: Callable[[], Registry],
        keys: KeyCallers,
        run_skill: RunSkill,
        me: str,
        hook: ScheduleHook = no_hook,
        now: Now | None = None,
    ) -> None:
        self._database = database
        self._wallets = wallets
        self._policies = policies
        self._registry = registry
        self.keys = keys
        self.run_skill = run_skill
        self._now = self._window_ms if now is None else now
        self.runner = ScheduleRunner(
            database,
            me,
            self._now,
            registry,
            lambda schedule, due_ms: run_once(
                schedule, due_ms, registry=registry(), keys=self.keys, run_skill=self.run_skill
            ),
            hook,
        )

    async def create(self, wallet_id: str, body: Mapping[str, Any], maker: Maker) -> Schedule:
        """Create a schedule from a request body.

        Raises:
            InvalidRequest: a field is wrong, the wallet has a schedule with this name, or the
                wallet or the key has the maximum number of schedules; names the field.
            WalletNotFound: the wallet does not exist.
            SkillNotFound: no loaded skill has this name.
        """
        asked = NewSchedule.of(body)
        skill = self._registry().skill(asked.skill)
        wallet = await self._wallets.get(wallet_id)
        schedule_id = str(uuid.uuid4())
        grants = await self._read_grants(schedule_id, asked.name, body, maker)
        async with self._database.write() as connection:
            if grants is not None:
                await lock_policy(connection)
            # Locked, so that the counts and names read here are still valid at the commit.
            await lock_exclusive(connection, _LOCK)
            now = await self._now(connection)
            schedule = Schedule(
                id=schedule_id,
                wallet_id=wallet.id,
                skill=skill.spec.name,
                distribution=skill.distribution,
                made_by=maker.principal,
                key_hash=maker.key_hash,
                created_ms=now,
                **self._new_columns(asked, TERMS, now),
            )
            schedule = replace(schedule, next_due_ms=schedule.after(now))
            others = await store.list_schedules(connection, wallet.id)
            _check_name(schedule, others)
            is_keys = maker.key_hash is not None
            if sum((each.key_id is not None) is is_keys for each in others) >= MAX_OF_WALLET:
                whose = "API keys" if is_keys else "the operator"
                raise InvalidRequest(
                    f"A wallet has at most {MAX_OF_WALLET} schedules of {whose}; delete one"
                )
            if is_keys and await store.count(connection, maker.principal) >= MAX_OF_KEY:
                raise InvalidRequest(f"An API key has at most {MAX_OF_KEY} schedules; delete one")
            if grants is not None:
                await put_set(self._database, connection, schedule.principal, grants)
            await store.add(connection, schedule)
            record_act(
                connection, EventKind.SCHEDULE_CREATED, schedule.subject, after=schedule.terms()
            )
        self.runner.wake()
        return schedule

    async def list(self, wallet_id: str | None = None) -> Sequence[Schedule]:
        """Return the schedules of a wallet, or all for None; oldest first."""
        async with self._database.read() as connection:
            return await store.list_schedules(connection, wallet_id)

    async def get(self, schedule_id: str) -> Schedule:
        """Return one schedule."""
        async with self._database.read() as connection:
            return _or_not_found(await store.get(connection, schedule_id))

    async def actor(self, schedule_id: str) -> Actor:
        """Return the actor of a schedule's transactions, outside of any run.

        Raises:
            KeyRevoked: the secret to which the schedule is bound has ended.
        """
        return await actor_of(await self.get(schedule_id), self.keys)

    async def update(self, schedule_id: str, body: Mapping[str, Any], maker: Maker) -> Schedule:
        """Change fields of a schedule; a run in progress continues with the old fields.

        New `grants` take effect at once; null removes the schedule's grants. If an API key changes
        a schedule, this binds the schedule to the secret of that request.

        Raises:
            InvalidRequest: naming the field.
            SkillNotFound: the schedule's skill is not loaded, so its parameters cannot be checked.
        """
        asked = _changed_request(_readable(await self.get(schedule_id)), body)
        grants = await self._read_grants(schedule_id, asked.name, body, maker)
        async with self._database.write() as connection:
            if "grants" in body:
                await lock_policy(connection)
                await put_set(self._database, connection, f"schedule:{schedule_id}", grants)
            await lock_exclusive(connection, _LOCK)
            was = _readable(_or_not_found(await store.get(connection, schedule_id, lock=True)))
            now = await self._now(connection)
            columns = self._new_columns(_changed_request(was, body), body, now)
            if not columns:
                return was
            if maker.key_hash is not None:
                # Bound to this secret, so that the change does not outlast the secret.
                columns["key_hash"] = maker.key_hash
            schedule = replace(was, **columns)
            if "first_ms" in columns and was.next_due_ms is not None:
                columns["next_due_ms"] = schedule.after(now)
            is_active = was.status is ScheduleStatus.ACTIVE
            if is_active and schedule.is_done and was.running_due_ms is None:
                columns |= ended_columns(RUNS_DONE)
            if schedule.name != was.name:
                _check_name(schedule, await store.list_schedules(connection, was.wallet_id))
            schedule = await store.change(connection, was, **columns)
            record_act(
                connection,
                EventKind.SCHEDULE_CHANGED,
                schedule.subject,
                before=was.terms(),
                after=schedule.terms(),
            )
        self.runner.wake()
        return schedule

    async def pause(self, schedule_id: str) -> Schedule:
        """Pause a schedule: until it is resumed, it does not run and cannot reserve anything."""
        async with self._database.write() as connection:
            schedule = _or_not_found(await store.get(connection, schedule_id, lock=True))
            if schedule.status is not ScheduleStatus.ACTIVE:
                return schedule
            subject = schedule.subject | {"reason": _PAUSED}
            record_act(connection, EventKind.SCHEDULE_PAUSED, subject)
            paused = ScheduleStatus.PAUSED
            return await store.change(
                connection, schedule, status=paused, reason=_PAUSED, next_due_ms=None
            )

    async def resume(self, schedule_id: str, maker: Maker) -> Schedule:
        """Resume a schedule from its next due time on; past due times do not run.

        This binds it to the key's secret in the request, or to the key's current secret if the
        operator resumes it, and to the distribution that has its skill now.

        Raises:
            InvalidRequest: it has no due time or no run left, its parameters do not fit its skill
                any more, or the key that created it no longer exists.
            SkillNotFound: its skill is not loaded.
        """
        schedule = await self.get(schedule_id)
        if schedule.status is ScheduleStatus.ACTIVE:
            return schedule
        skill = self._registry().skill(schedule.skill)
        skill.parameters.validate(dict(schedule.params))
        key_hash = await self._key_hash(schedule, maker)
        async with self._database.write() as connection:
            schedule = _readable(_or_not_found(await store.get(connection, schedule_id, lock=True)))
            next_due_ms = schedule.after(await self._now(connection))
            if next_due_ms is None:
                raise InvalidRequest("The schedule has no due time left; change endAt first")
            if schedule.is_done:
                raise InvalidRequest(f"{RUNS_DONE}; change maxRuns first")
            record_act(connection, EventKind.SCHEDULE_RESUMED, schedule.subject)
            schedule = await store.change(
                connection,
                schedule,
                status=ScheduleStatus.ACTIVE,
                reason=None,
                failures=0,
                next_due_ms=next_due_ms,
                key_hash=key_hash,
                distribution=skill.distribution,
            )
        self.runner.wake()
        return schedule

    async def run_now(self, schedule_id: str, key: IdempotencyKey | None = None) -> Schedule:
        """Add the current time as a due time, so that the schedule runs now; return the schedule.

        Args:
            key: the request's Idempotency-Key; a second request with it adds nothing. The answer is
                stored with the key, in the transaction that adds the due time.

        Raises:
            InvalidRequest: the schedule is not active.
            ScheduleBusy: a run is active, or the schedule is already due.
            IdempotencyInFlight, IdempotencyMismatch: the key was used meanwhile.
        """
        async with self._database.write() as connection:
            schedule = _or_not_found(await store.get(connection, schedule_id, lock=True))
            if key is not None:
                await idempotency.claim(
                    connection, key.scope, key.fingerprint, schedule.principal, now_ms()
                )
            if _readable(schedule).status is not ScheduleStatus.ACTIVE:
                # An ended one is resumed only after a change of the bound that ended it.
                is_ended = schedule.status is ScheduleStatus.ENDED
                first = "change endAt or maxRuns, then resume it" if is_ended else "resume it first"
                said = f"The schedule is {schedule.status} ({schedule.reason}); {first}"
                raise InvalidRequest(said)
            due_ms = await self._now(connection)
            # A due time identifies its run, so a second run in this millisecond gets the next.
            while await store.has_run(connection, schedule_id, due_ms):
                due_ms += 1
            is_running = schedule.running_due_ms is not None
            if is_running or schedule.next_due_ms is None or schedule.next_due_ms <= due_ms:
                raise ScheduleBusy(is_running=is_running)
            # This replaces the regular due time, which is computed again at the end of the run.
            schedule = await store.change(connection, schedule, next_due_ms=due_ms)
            subject = schedule.subject | {"dueAt": iso(due_ms)}
            record_act(connection, EventKind.SCHEDULE_RUN_ASKED, subject)
            if key is not None:
                answer = jsontext.dumps(schedule.to_json())
                await idempotency.finish(connection, key.scope, 200, answer)
        self.runner.wake()
        return schedule

    async def delete(self, schedule_id: str) -> None:
        """Delete a schedule with its runs and grants, but not its transactions.

        A run in progress can reserve nothing more.
        """
        async with self._database.write() as connection:
            await lock_policy(connection)
            schedule = _or_not_found(await store.get(connection, schedule_id, lock=True))
            await drop_set(self._database, connection, schedule.principal)
            await store.remove(connection, schedule.id)
            record_act(
                connection, EventKind.SCHEDULE_DELETED, schedule.subject, before=schedule.terms()
            )

    async def runs(
        self, schedule_id: str, *, limit: int = 50, before_ms: int | None = None
    ) -> Sequence[dict[str, Any]]:
        """Return the routes' JSON of the runs before `before_ms`, newest first."""
        async with self._database.read() as connection:
            _or_not_found(await store.get(connection, schedule_id))
            return await store.runs(connection, schedule_id, limit, before_ms)

    async def _window_ms(self, connection: AsyncConnection) -> int:
        return (await self._database.moment(connection)).window_ms

    def _new_columns(self, asked: NewSchedule, given: Collection[str], now: int) -> dict[str, Any]:
        """Return the columns that a request's given fields set."""
        columns: dict[str, Any] = {}
        if "name" in given:
            columns["name"] = asked.name
        if "parameters" in given:
            params = dict(asked.parameters or {})
            self._registry().skill(asked.skill).parameters.validate(dict(params))
            if len(jsontext.dumps(params)) > MAX_PARAMS:
                raise InvalidRequest(f"parameters must be at most {MAX_PARAMS} characters as JSON")
            columns["params"] = params
        if "missed" in given:
            columns["missed"] = Missed(asked.missed)
        if "maxRuns" in given:
            columns["max_runs"] = asked.max_runs
        if any(each in given for each in _WHEN_FIELDS):
            columns |= asdict(read_times(asked, now)) | {"has_start": asked.start_at is not None}
        return columns

    async def _read_grants(
        self, schedule_id: str, name: str, body: Mapping[str, Any], maker: Maker
    ) -> Sequence[Grant] | None:
        if "grants" not in body:
            return None
        if not is_admin(maker.principal):
            raise InvalidRequest("only the operator sets grants; schedules use their API key's")
        if body["grants"] is None:
            return None
        who = f"schedule:{schedule_id}"
        return await self._policies.grants_of(who, name, body["grants"])

    async def _key_hash(self, schedule: Schedule, maker: Maker) -> str | None:
        if schedule.key_id is None:
            return None
        if maker.key_hash is not None:
            return maker.key_hash
        try:
            return await self.keys.secret_hash(schedule.key_id)
        except KeyRevoked:
            raise InvalidRequest(
                "The API key that made the schedule no longer exists; create a new schedule"
            ) from None


def _check_name(schedule: Schedule, others: Iterable[Schedule]) -> None:
    for each in others:
        if each.name == schedule.name and each.id != schedule.id:
            raise InvalidRequest(
                f"name: the wallet has a schedule named {each.name!r}, with the id {each.id}"
            )


def _changed_request(schedule: Schedule, body: Mapping[str, Any]) -> NewSchedule:
    """Return a whole request: the schedule's fields, changed by the fields of `body`."""
    terms = schedule.terms()
    if body.get("every") is not None:
        for each in ("cron", "timeZone"):
            terms.pop(each, None)
    elif body.get("cron") is not None:
        terms.pop("every", None)
    return NewSchedule.of(terms | dict(body))


def _or_not_found(schedule: Schedule | None) -> Schedule:
    if schedule is None:
        raise NotFound(_NO_SCHEDULE)
    return schedule


def _readable(schedule: Schedule) -> Schedule:
    if schedule.is_unreadable:
        raise InvalidRequest(f"{schedule.reason}. Nothing was changed; delete the schedule")
    return schedule
