"""API keys: create, list, rotate, revoke."""

from __future__ import annotations

from typing import Any

from quart import Response

from solward.credentials.credential import KEY_PREFIX, Credential, new_secret
from solward.operations.key_callers import limits_of
from solward.operations.policies.grant_report import limits_reports
from solward.resources import credentials as calls
from solward.resources.answers import answer_json
from solward.support.clock import time_json
from solward.types.errors import WARNING_HEADER
from solward.types.roles import Role, unenforced
from solward_server.http.auth import admin, caller, keyed
from solward_server.http.body import json_response, query_of, read_body
from solward_server.http.new_credentials import new_key
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.route import Routes

_WARNING = {
    WARNING_HEADER: {
        "description": "What `permissions` seem to bind, and do not.",
        "schema": {"type": "string"},
    }
}

routes = Routes("keys", "API keys; the admin's alone.")


@routes.serve(
    calls.CREATE_KEY,
    admin(Role.POLICY),
    {404: NO_WALLET},
    response={"headers": _WARNING},
)
async def create(context: RouteContext) -> Response:
    new = calls.NewKey.of(await read_body(), context.service.settings)
    secret, key = new_key(new, caller())
    if key.wallet_id is not None:
        await context.service.wallets.get(key.wallet_id)
    if new.grants is not None:
        await context.service.policies.begin(key.principal, key.name, new.grants)
    try:
        await context.service.credentials.add(key)
    except BaseException:
        if new.grants is not None:
            await context.service.policies.forget(key.principal)
        raise
    return _with_secret(secret, key)


@routes.serve(calls.LIST_KEYS, admin(Role.READ))
async def listing(context: RouteContext) -> dict[str, Any]:
    keys = await context.service.credentials.keys()
    if query_of(calls.ListedKeys).details:
        return {"keys": await _detailed(context, keys)}
    return {"keys": [answer_json(calls.ApiKey, key) for key in keys]}


@routes.serve(calls.GET_OWN_KEY, keyed(Role.READ))
async def own(context: RouteContext) -> dict[str, Any]:
    key = caller().key
    return {"key": None if key is None else (await _detailed(context, [key]))[0]}


@routes.serve(calls.ROTATE_KEY, admin(Role.POLICY), response={"headers": _WARNING})
async def rotate(context: RouteContext, key_id: str) -> Response:
    new = calls.NewSecret.of(await read_body())
    secret, hash_ = new_secret(KEY_PREFIX)
    key = await context.service.credentials.rotate(
        key_id, hash_, new.overlap_seconds, caller().until_ms
    )
    return _with_secret(secret, key, previousSecretUntil=time_json(key.previous_until_ms))


@routes.serve(calls.REVOKE_KEY, admin(Role.OPERATE))
async def revoke(context: RouteContext, key_id: str) -> dict[str, Any]:
    await context.service.keys.revoke(key_id)
    return {"id": key_id, "revoked": True}


def _with_secret(secret: str, key: Credential, **more: Any) -> Response:
    """The answer that has a key's new secret, and says of its permissions that they bind nothing.

    Args:
        more: fields beside those of every such answer.
    """
    response = json_response({"apiKey": secret, "id": key.id, "name": key.name} | more)
    told = unenforced(key.permissions, read_only=key.read_only)
    if told is not None:
        response.headers[WARNING_HEADER] = told
    return response


async def _detailed(context: RouteContext, keys: list[Credential]) -> list[dict[str, Any]]:
    """Each key as it is listed, with when it ends, its limits and what is used of them."""
    reports = await limits_reports(
        context.service.database, {key.principal: limits_of(key) for key in keys}
    )
    requests = await context.service.limiter.used()
    granted = await context.service.policies.grants_by_principal([key.principal for key in keys])
    detailed: list[dict[str, Any]] = []
    for key in keys:
        report, used = reports[key.principal], requests.get(key.id, 0)
        rate = {"limit": key.rate_limit, "used": used, "left": max(0, key.rate_limit - used)}
        detailed.append(
            answer_json(calls.ApiKey, key)
            | key.ends_json()
            | {
                "rateLimit": rate,
                "spendingLimitSol": report["dailySpendingLimitSol"],
                "maxCostsSolPerDay": report["maxCostsSolPerDay"],
                "readOnly": key.read_only,
                **granted.get(key.principal, {"grants": None, "sentences": []}),
            }
        )
    return detailed
