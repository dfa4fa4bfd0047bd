"""Routes to create, change, pause, resume and delete schedules, and to list their runs."""

from __future__ import annotations

from typing import Any

from quart import Response

from solward.resources import schedules as calls
from solward.schedules.schedule import Schedule
from solward.schedules.service import Maker
from solward.support.clock import ms_of
from solward.types.errors import NotFound, ScheduleBusy, SkillNotFound
from solward.types.roles import Role
from solward_server.http.auth import caller, keyed
from solward_server.http.body import Body, json_response, query_of, read_body
from solward_server.http.errors import SPENDS_NOTHING, Forbidden
from solward_server.http.idempotency import first_answer, idempotency_key, replay
from solward_server.http.route_context import RouteContext
from solward_server.openapi.components import NOT_FOUND
from solward_server.openapi.errors import IN_FLIGHT, MISMATCH, TOO_MANY, Errors
from solward_server.openapi.route import Routes

NOT_YOURS = "An API key changes only schedules that it made"
_CHANGES: Errors = {403: [NOT_YOURS, SPENDS_NOTHING], 429: TOO_MANY}

routes = Routes("schedules", "Skills that run on a schedule, without a model.")


async def _find_schedule(context: RouteContext, wallet_id: str, schedule_id: str) -> Schedule:
    await context.wallet(wallet_id)
    schedule = await context.service.schedules.get(schedule_id)
    if schedule.wallet_id != wallet_id:
        raise NotFound(NOT_FOUND["schedule_id"])
    return schedule


async def _own_schedule(context: RouteContext, wallet_id: str, schedule_id: str) -> Schedule:
    """Return a schedule that the caller may change."""
    schedule = await _find_schedule(context, wallet_id, schedule_id)
    await context.may_change()
    if caller().key is not None and schedule.made_by != caller().principal:
        raise Forbidden(NOT_YOURS)
    return schedule


async def _schedule_to_change(context: RouteContext, wallet_id: str, schedule_id: str) -> Schedule:
    """Return a schedule that the caller is about to change, after counting the request."""
    schedule = await _own_schedule(context, wallet_id, schedule_id)
    await context.count_request()
    return schedule


async def _with_addresses(context: RouteContext, skill: object, body: Body) -> Body:
    """Return the body with recipients as addresses, because a name's address may change later."""
    parameters = body.get("parameters")
    if not isinstance(skill, str) or not isinstance(parameters, dict):
        return body
    return {**body, "parameters": await context.with_addresses(skill, parameters)}


def _caller_maker() -> Maker:
    return Maker(caller().principal, None if caller().key is None else caller().hash)


@routes.serve(calls.LIST_SCHEDULES, keyed(Role.READ))
async def list_schedules(context: RouteContext, wallet_id: str) -> dict[str, Any]:
    wallet = await context.wallet(wallet_id)
    found = await context.service.schedules.list(wallet.id)
    return {"schedules": [each.to_json() for each in found]}


@routes.serve(
    calls.CREATE_SCHEDULE,
    keyed(Role.POLICY),
    {
        400: 'either every, such as "1h", or cron, such as "0 9 1 * *", is required',
        403: SPENDS_NOTHING,
        404: str(SkillNotFound("nothing", ["transfer"])),
        429: TOO_MANY,
    },
)
async def create(context: RouteContext, wallet_id: str) -> dict[str, Any]:
    body = await read_body()
    wallet = await context.wallet(wallet_id)
    await context.may_change()
    await context.count_request()
    body = await _with_addresses(context, body.get("skill"), body)
    return (await context.service.schedules.create(wallet.id, body, _caller_maker())).to_json()


@routes.serve(calls.GET_SCHEDULE, keyed(Role.READ))
async def get_schedule(context: RouteContext, wallet_id: str, schedule_id: str) -> dict[str, Any]:
    return (await _find_schedule(context, wallet_id, schedule_id)).to_json()


@routes.serve(calls.CHANGE_SCHEDULE, keyed(Role.POLICY), _CHANGES)
async def change(context: RouteContext, wallet_id: str, schedule_id: str) -> dict[str, Any]:
    body = await read_body()
    own = await _schedule_to_change(context, wallet_id, schedule_id)
    body = await _with_addresses(context, own.skill, body)
    return (await context.service.schedules.update(own.id, body, _caller_maker())).to_json()


@routes.serve(calls.DELETE_SCHEDULE, keyed(Role.POLICY), _CHANGES)
async def delete(context: RouteContext, wallet_id: str, schedule_id: str) -> dict[str, Any]:
    own = await _schedule_to_change(context, wallet_id, schedule_id)
    await context.service.schedules.delete(own.id)
    return {"id": own.id, "deleted": True}


@routes.serve(calls.PAUSE_SCHEDULE, keyed(Role.OPERATE), _CHANGES)
async def pause(context: RouteContext, wallet_id: str, schedule_id: str) -> dict[str, Any]:
    own = await _schedule_to_change(context, wallet_id, schedule_id)
    return (await context.service.schedules.pause(own.id)).to_json()


@routes.serve(
    calls.RESUME_SCHEDULE,
    keyed(Role.POLICY),
    {400: "The schedule has no due time left; change endAt first", **_CHANGES},
)
async def resume(context: RouteContext, wallet_id: str, schedule_id: str) -> dict[str, Any]:
    own = await _schedule_to_change(context, wallet_id, schedule_id)
    return (await context.service.schedules.resume(own.id, _caller_maker())).to_json()


@routes.serve(
    calls.RUN_SCHEDULE,
    keyed(Role.POLICY),
    {
        400: "The schedule is paused (It was paused); resume it first",
        409: [IN_FLIGHT, str(ScheduleBusy(is_running=True))],
        422: MISMATCH,
        **_CHANGES,
    },
)
async def run(context: RouteContext, wallet_id: str, schedule_id: str) -> Response:
    body = await read_body()
    own = await _own_schedule(context, wallet_id, schedule_id)
    key = idempotency_key(body)
    if key is not None:
        stored = await first_answer(context.service.database, key)
        if stored is not None:
            return replay(stored)
    await context.count_request()
    return json_response((await context.service.schedules.run_now(own.id, key)).to_json())


@routes.serve(calls.LIST_RUNS, keyed(Role.READ))
async def runs(context: RouteContext, wallet_id: str, schedule_id: str) -> dict[str, Any]:
    schedule = await _find_schedule(context, wallet_id, schedule_id)
    only = query_of(calls.ListedRuns)
    before_ms = None if only.before is None else ms_of(only.before)
    found = await context.service.schedules.runs(schedule.id, limit=only.limit, before_ms=before_ms)
    return {"runs": found}
