"""API keys: create, list, rotate, revoke."""

from __future__ import annotations

from typing import Any

from quart import Blueprint, Response

from solward.credentials.credential import KEY_PREFIX, Credential, new_secret, time_json
from solward.operations.key_callers import limits_of
from solward.operations.policies.grant_report import limits_reports
from solward.resources.answers import answer_example
from solward.resources.credentials import (
    ApiKey,
    CreatedKey,
    KeyDetails,
    NewKey,
    NewSecret,
    RotatedKey,
)
from solward.resources.examples import KEY
from solward.resources.fields import nullable
from solward.resources.schema import (
    array,
    examples,
    flag,
    identifier,
    ref,
    response_object,
)
from solward.support.clock import iso
from solward.types.errors import WARNING_HEADER
from solward.types.roles import Role, unenforced
from solward_server.http.auth import Access, admin, caller, keyed
from solward_server.http.body import json_response, query_flag, read_body
from solward_server.http.new_credentials import new_key
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.operation import answer_of, body_of, operation, success
from solward_server.openapi.parameters import DETAILS, KEY_ID


def blueprint(context: RouteContext) -> Blueprint:
    """`/keys`, `/keys/self`, `/keys/:id` and `/keys/:id/rotate`."""
    routes = Blueprint("keys", __name__)
    policies, credentials = context.service.policies, context.service.credentials

    @routes.post("/keys")
    @admin(Role.POLICY)
    async def create() -> Response:
        new = NewKey.of(await read_body(), context.service.settings)
        secret, key = new_key(new, caller())
        if key.wallet_id is not None:
            await context.service.wallets.get(key.wallet_id)
        if new.grants is not None:
            await policies.begin(key.principal, key.name, new.grants)
        try:
            await credentials.add(key)
        except BaseException:
            if new.grants is not None:
                await policies.forget(key.principal)
            raise
        return _with_secret(secret, key)

    @routes.get("/keys")
    @admin(Role.READ)
    async def listing() -> dict[str, Any]:
        keys = await credentials.keys()
        if query_flag("details"):
            return {"keys": await _detailed(context, keys)}
        return {"keys": [_json(key) for key in keys]}

    @routes.get("/keys/self")
    @keyed(Role.READ)
    async def own() -> dict[str, Any]:
        key = caller().key
        return {"key": None if key is None else (await _detailed(context, [key]))[0]}

    @routes.post("/keys/<key_id>/rotate")
    @admin(Role.POLICY)
    async def rotate(key_id: str) -> Response:
        new = NewSecret.of(await read_body())
        secret, hash_ = new_secret(KEY_PREFIX)
        key = await credentials.rotate(key_id, hash_, new.overlap_seconds, caller().until_ms)
        return _with_secret(secret, key, previousSecretUntil=time_json(key.previous_until_ms))

    @routes.delete("/keys/<key_id>")
    @admin(Role.OPERATE)
    async def revoke(key_id: str) -> dict[str, Any]:
        await context.service.revoke_key(key_id)
        return {"id": key_id, "revoked": True}

    return routes


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


def _json(key: Credential) -> dict[str, Any]:
    """A key as `GET /keys` lists it, in the fields of the contract."""
    return {
        "id": key.id,
        "name": key.name,
        "walletId": key.wallet_id,
        "permissions": list(key.permissions),
        "createdAt": iso(key.created_ms),
        "lastUsedAt": time_json(key.last_used_ms),
    }


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
            _json(key)
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


_LISTED = answer_example(ApiKey)
_SHORT = {name: _LISTED[name] for name in _LISTED if name not in answer_example(KeyDetails)}
_WARNING = {
    WARNING_HEADER: {
        "description": "What `permissions` seem to bind, and do not.",
        "schema": {"type": "string"},
    }
}

PATHS = {
    "/keys": {
        "post": operation(
            "createKey",
            "Create an API key",
            tag="keys",
            access=Access.ADMIN,
            description="The key itself is in this answer and nowhere else. It ends no later than "
            "the admin credential that makes it.",
            body=body_of(NewKey),
            response=answer_of(CreatedKey, headers=_WARNING),
            errors={
                400: "name is required and must be a string",
                404: NO_WALLET,
            },
        ),
        "get": operation(
            "listKeys",
            "List API keys",
            tag="keys",
            access=Access.ADMIN,
            parameters=[DETAILS],
            response=success(
                response_object({"keys": array(ref("Key"), "Oldest first.")}),
                examples(keys={"keys": [_SHORT]}, details={"keys": [_LISTED]}),
            ),
            errors={400: "details must be true or false"},
        ),
    },
    "/keys/self": {
        "get": operation(
            "getOwnKey",
            "The API key of this request",
            tag="keys",
            access=Access.KEY,
            description="Null for the admin secret.",
            response=success(
                response_object({"key": nullable(ref("Key"))}),
                examples(key={"key": _LISTED}, admin={"key": None}),
            ),
            errors={},
        )
    },
    "/keys/{keyId}/rotate": {
        "post": operation(
            "rotateKey",
            "Give an API key another secret",
            tag="keys",
            access=Access.ADMIN,
            description="Limits, what is spent of them and the wallet it may use stay. The secret "
            "it had works until the overlap ends; one before that ends at once. An admin "
            "credential that has an end rotates no key that ends later.",
            parameters=[KEY_ID],
            body=body_of(NewSecret),
            response=answer_of(RotatedKey, headers=_WARNING),
            errors={
                400: "overlapSeconds must be a whole number from 0 to 86400",
                404: "API key not found",
            },
        )
    },
    "/keys/{keyId}": {
        "delete": operation(
            "revokeKey",
            "Revoke an API key at once",
            tag="keys",
            access=Access.ADMIN,
            parameters=[KEY_ID],
            response=success(
                response_object(
                    {"id": identifier("The key's."), "revoked": flag("True.", const=True)}
                ),
                {"id": KEY, "revoked": True},
            ),
            errors={404: "API key not found"},
        )
    },
}
