"""Schedules of a wallet: create, change, pause, resume, delete, and what their runs did."""

from __future__ import annotations

from typing import Any

from quart import Blueprint, Response

from solward.resources.answers import answer_example, answer_schema
from solward.resources.examples import SCHEDULE
from solward.resources.schedules import ChangedSchedule, NewSchedule, Schedule, ScheduleRun
from solward.resources.schema import array, flag, identifier, ref, response_object, timestamp, whole
from solward.schedules.schedule import Schedule as StoredSchedule
from solward.schedules.service import Maker
from solward.support.clock import ms_of
from solward.types.errors import InvalidRequest, NotFound, ScheduleBusy, SkillNotFound
from solward.types.roles import Role
from solward_server.http.auth import Access, caller, keyed
from solward_server.http.body import Body, json_response, query_limit, query_text, read_body
from solward_server.http.errors import SPENDS_NOTHING, Forbidden
from solward_server.http.idempotency import first_use, idempotency_key, replay
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import IN_FLIGHT, MISMATCH, NO_WALLET, TOO_MANY, Errors
from solward_server.openapi.operation import Operation, body_of, operation, success
from solward_server.openapi.parameters import IDEMPOTENCY_KEY, WALLET_ID, path_parameter, query

NOT_YOURS = "An API key changes the schedules that it made alone"
_NO_SCHEDULE = "Schedule not found"
_MOST_RUNS = 200


def blueprint(context: RouteContext) -> Blueprint:
    """`/wallets/:id/schedules` and what is under it."""
    routes = Blueprint("schedules", __name__, url_prefix="/wallets/<wallet_id>/schedules")
    schedules = context.service.schedules

    async def one_of(wallet_id: str, schedule_id: str) -> StoredSchedule:
        await context.wallet(wallet_id)
        schedule = await schedules.get(schedule_id)
        if schedule.wallet_id != wallet_id:
            raise NotFound(_NO_SCHEDULE)
        return schedule

    async def own(wallet_id: str, schedule_id: str) -> str:
        """The id of a schedule that the caller may change."""
        schedule = await one_of(wallet_id, schedule_id)
        await context.may_change()
        if caller().key is not None and schedule.made_by != caller().principal:
            raise Forbidden(NOT_YOURS)
        return schedule.id

    async def addressed(skill: object, body: Body) -> Body:
        """The body with the addresses of who is paid: later the names may be others'."""
        parameters = body.get("parameters")
        if not isinstance(skill, str) or not isinstance(parameters, dict):
            return body
        return {**body, "parameters": await context.addressed(skill, parameters)}

    @routes.get("")
    @keyed(Role.READ)
    async def listing(wallet_id: str) -> dict[str, Any]:
        wallet = await context.wallet(wallet_id)
        found = await schedules.list(wallet.id)
        return {"schedules": [each.to_json() for each in found]}

    @routes.post("")
    @keyed(Role.POLICY)
    async def create(wallet_id: str) -> dict[str, Any]:
        body = await read_body()
        wallet = await context.wallet(wallet_id)
        await context.may_change()
        await context.count_request()
        body = await addressed(body.get("skill"), body)
        return (await schedules.create(wallet.id, body, _maker())).to_json()

    @routes.get("/<schedule_id>")
    @keyed(Role.READ)
    async def one(wallet_id: str, schedule_id: str) -> dict[str, Any]:
        return (await one_of(wallet_id, schedule_id)).to_json()

    @routes.patch("/<schedule_id>")
    @keyed(Role.POLICY)
    async def change(wallet_id: str, schedule_id: str) -> dict[str, Any]:
        body = await read_body()
        own_id = await own(wallet_id, schedule_id)
        # The audit log keeps what it was and what it is.
        await context.count_request()
        body = await addressed((await schedules.get(own_id)).skill, body)
        return (await schedules.update(own_id, body, _maker())).to_json()

    @routes.delete("/<schedule_id>")
    @keyed(Role.POLICY)
    async def delete(wallet_id: str, schedule_id: str) -> dict[str, Any]:
        own_id = await own(wallet_id, schedule_id)
        await context.count_request()
        await schedules.delete(own_id)
        return {"id": schedule_id, "deleted": True}

    @routes.post("/<schedule_id>/pause")
    @keyed(Role.OPERATE)
    async def pause(wallet_id: str, schedule_id: str) -> dict[str, Any]:
        own_id = await own(wallet_id, schedule_id)
        await context.count_request()
        return (await schedules.pause(own_id)).to_json()

    @routes.post("/<schedule_id>/resume")
    @keyed(Role.POLICY)
    async def resume(wallet_id: str, schedule_id: str) -> dict[str, Any]:
        own_id = await own(wallet_id, schedule_id)
        await context.count_request()
        return (await schedules.resume(own_id, _maker())).to_json()

    @routes.post("/<schedule_id>/run")
    @keyed(Role.POLICY)
    async def run(wallet_id: str, schedule_id: str) -> Response:
        body = await read_body()
        own_id = await own(wallet_id, schedule_id)
        key = idempotency_key(body)
        if key is not None:
            stored = await first_use(context.service.database, key)
            if stored is not None:
                return replay(stored)
        await context.count_request()
        return json_response((await schedules.run_now(own_id, key)).to_json())

    @routes.get("/<schedule_id>/runs")
    @keyed(Role.READ)
    async def runs(wallet_id: str, schedule_id: str) -> dict[str, Any]:
        schedule = await one_of(wallet_id, schedule_id)
        limit = query_limit(highest=_MOST_RUNS)
        found = await schedules.runs(schedule.id, limit=limit, before_ms=_before())
        return {"runs": [each.to_json() for each in found]}

    return routes


def _maker() -> Maker:
    return Maker(caller().principal, None if caller().key is None else caller().hash)


def _before() -> int | None:
    value = query_text("before")
    if value is None:
        return None
    try:
        return ms_of(value)
    except (ValueError, OverflowError):
        raise InvalidRequest("before must be the dueAt of a run") from None


_SCHEDULE_ID = path_parameter("scheduleId", identifier("The schedule."), SCHEDULE)

COMPONENTS = {
    "Schedule": answer_schema(Schedule),
    "ScheduleRun": answer_schema(ScheduleRun),
}
_EXAMPLE = answer_example(Schedule)
_SCHEDULE = success(ref("Schedule"), _EXAMPLE)


def _operation(name: str, summary: str, **more: Any) -> Operation:
    """One of a schedule, answered with it where nothing else is said."""
    usual: dict[str, Any] = {"parameters": [WALLET_ID, _SCHEDULE_ID], "response": _SCHEDULE}
    usual["errors"] = {404: [_NO_SCHEDULE, NO_WALLET]}
    return operation(name, summary, tag="schedules", access=Access.KEY, **usual | more)


def _change(name: str, summary: str, errors: Errors | None = None, **more: Any) -> Operation:
    """One that changes the caller's own."""
    usual = {403: [NOT_YOURS, SPENDS_NOTHING], 404: [_NO_SCHEDULE, NO_WALLET], 429: TOO_MANY}
    return _operation(name, summary, errors={**usual, **(errors or {})}, **more)


PATHS = {
    "/wallets/{walletId}/schedules": {
        "get": _operation(
            "listSchedules",
            "A wallet's schedules",
            parameters=[WALLET_ID],
            response=success(
                response_object({"schedules": array(ref("Schedule"), "Oldest first.")}),
                {"schedules": [_EXAMPLE]},
            ),
            errors={404: NO_WALLET},
        ),
        "post": _operation(
            "createSchedule",
            "Run a skill on a wallet at times",
            description="It has the rights of who makes it: a key's has the key's limits and grants"
            " and ends with the key. Unknown fields are refused.",
            parameters=[WALLET_ID],
            body=body_of(NewSchedule),
            errors={
                400: 'either every, such as "1h", or cron, such as "0 9 1 * *", is required',
                403: SPENDS_NOTHING,
                404: [NO_WALLET, str(SkillNotFound("nothing", ["transfer"]))],
                429: TOO_MANY,
            },
        ),
    },
    "/wallets/{walletId}/schedules/{scheduleId}": {
        "get": _operation("getSchedule", "One schedule"),
        "patch": _change(
            "changeSchedule",
            "Change a schedule; a run that goes on keeps what it began with",
            {400: "skill cannot be changed; create another schedule"},
            body=body_of(ChangedSchedule),
        ),
        "delete": _change(
            "deleteSchedule",
            "Delete a schedule with its runs; its transactions stay",
            response=success(
                response_object(
                    {"id": identifier("The schedule's."), "deleted": flag("True.", const=True)}
                ),
                {"id": SCHEDULE, "deleted": True},
            ),
        ),
    },
    "/wallets/{walletId}/schedules/{scheduleId}/pause": {
        "post": _change("pauseSchedule", "Run it no more until it is resumed; takes effect at once")
    },
    "/wallets/{walletId}/schedules/{scheduleId}/resume": {
        "post": _change(
            "resumeSchedule",
            "Run it again from the next due time on",
            {400: "It has no due time left; change endAt first"},
        )
    },
    "/wallets/{walletId}/schedules/{scheduleId}/run": {
        "post": _change(
            "runSchedule",
            "Run it once more, now",
            {
                400: "The schedule is paused (It was paused); resume it first",
                409: [IN_FLIGHT, str(ScheduleBusy(is_running=True))],
                422: MISMATCH,
            },
            description="This moment becomes a due time beside its own: the run has the same rights"
            " and counts like any other. `nextRunAt` of the answer is its `dueAt` among the runs.",
            parameters=[WALLET_ID, _SCHEDULE_ID, IDEMPOTENCY_KEY],
            response=success(ref("Schedule"), _EXAMPLE | {"nextRunAt": "2026-11-22T14:30:00.512Z"}),
        )
    },
    "/wallets/{walletId}/schedules/{scheduleId}/runs": {
        "get": _operation(
            "listScheduleRuns",
            "What became of a schedule's due times",
            description="The latest 200 are kept.",
            parameters=[
                WALLET_ID,
                _SCHEDULE_ID,
                query("limit", whole("How many at most.", 1, _MOST_RUNS, default=50)),
                query("before", timestamp("The `dueAt` of a run: only older ones.")),
            ],
            response=success(
                response_object({"runs": array(ref("ScheduleRun"), "Newest first.")}),
                {"runs": [answer_example(ScheduleRun)]},
            ),
            errors={400: "before must be the dueAt of a run", 404: [_NO_SCHEDULE, NO_WALLET]},
        )
    },
}
