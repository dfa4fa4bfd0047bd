"""Routes to create, list, rotate and revoke API keys and admin credentials, or show one's own."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from quart import Response

from solward.credentials.credentials import ADMIN_PREFIX, KEY_PREFIX, Credential, new_secret
from solward.operations.key_callers import limits_of
from solward.operations.policies.grant_report import limits_reports
from solward.resources import credentials as calls
from solward.resources.declare import answer_json
from solward.support.clock import iso, ms_of, now_ms, time_json
from solward.types.errors import WARNING_HEADER, InvalidRequest
from solward.types.money import sol_to_lamports
from solward.types.roles import Role, permissions_warning
from solward_server.http.auth import Caller, admin, caller, keyed
from solward_server.http.body import json_response, query_of, read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.route import Routes

_WARNING = {
    WARNING_HEADER: {
        "description": "Warning about `permissions` that limit nothing.",
        "schema": {"type": "string"},
    }
}

keys = Routes("keys", "API keys, which only the admin manages.")
admins = Routes("admins", "Admin credentials, which only the admin manages.")


@keys.serve(calls.CREATE_KEY, admin(Role.POLICY), {404: NO_WALLET}, response={"headers": _WARNING})
async def create_key(context: RouteContext) -> Response:
    new = calls.NewKey.of(await read_body(), context.service.settings)
    secret, key = new_key(new, caller())
    if key.wallet_id is not None:
        await context.service.wallets.get(key.wallet_id)
    if new.grants is not None:
        await context.service.policies.store_first_grants(key.principal, key.name, new.grants)
    try:
        await context.service.credentials.add(key)
    except BaseException:
        if new.grants is not None:
            await context.service.policies.forget(key.principal)
        raise
    return _secret_response(secret, key)


@keys.serve(calls.LIST_KEYS, admin(Role.READ))
async def list_keys(context: RouteContext) -> dict[str, Any]:
    found = await context.service.credentials.keys()
    if query_of(calls.ListedKeys).details:
        return {"keys": await _keys_details(context, found)}
    return {"keys": [answer_json(calls.ApiKey, key) for key in found]}


@keys.serve(calls.GET_OWN_KEY, keyed(Role.READ))
async def own_key(context: RouteContext) -> dict[str, Any]:
    key = caller().key
    return {"key": None if key is None else (await _keys_details(context, [key]))[0]}


@keys.serve(calls.ROTATE_KEY, admin(Role.POLICY), response={"headers": _WARNING})
async def rotate_key(context: RouteContext, key_id: str) -> Response:
    new = calls.NewSecret.of(await read_body())
    secret, hash_ = new_secret(KEY_PREFIX)
    key = await context.service.credentials.rotate(
        key_id, hash_, new.overlap_seconds, caller().until_ms
    )
    return _secret_response(secret, key, previousSecretUntil=time_json(key.previous_until_ms))


@keys.serve(calls.REVOKE_KEY, admin(Role.OPERATE))
async def revoke_key(context: RouteContext, key_id: str) -> dict[str, Any]:
    await context.service.keys.revoke(key_id)
    return {"id": key_id, "revoked": True}


@admins.serve(calls.CREATE_ADMIN, admin(Role.POLICY))
async def create_admin(context: RouteContext) -> dict[str, Any]:
    secret, credential = new_admin(calls.NewAdmin.of(await read_body()), caller())
    await context.service.credentials.add(credential)
    return {"adminSecret": secret} | _admin_json(credential)


@admins.serve(calls.LIST_ADMINS, admin(Role.READ))
async def list_admins(context: RouteContext) -> dict[str, Any]:
    return {"admins": [_admin_json(each) for each in await context.service.credentials.admins()]}


@admins.serve(calls.OWN_ADMIN, admin(Role.READ))
async def own_admin(context: RouteContext) -> dict[str, Any]:
    who = caller()
    return {"role": who.role, "admin": None if who.admin is None else _admin_json(who.admin)}


@admins.serve(calls.REVOKE_ADMIN, admin(Role.POLICY))
async def revoke_admin(context: RouteContext, admin_id: str) -> dict[str, Any]:
    revoked = await context.service.credentials.revoke(admin_id, is_admins=True)
    left = await context.service.credentials.admins()
    made = [_admin_json(each) for each in left if each.created_by == revoked.principal]
    return {"id": admin_id, "revoked": True, "made": made}


def new_key(new: calls.NewKey, maker: Caller) -> tuple[str, Credential]:
    """Return the secret of a new API key, and its record.

    Args:
        maker: the caller; the new key ends no later than the caller's credential.

    Raises:
        InvalidRequest: naming the field.
    """
    return _make_credential(
        KEY_PREFIX,
        new,
        maker,
        wallet_id=new.wallet_id,
        permissions=tuple(new.permissions),
        rate_limit=new.rate_limit,
        spending_limit_lamports=0 if new.read_only else _lamports(new.spending_limit_sol),
        max_costs_lamports=0 if new.read_only else _lamports(new.max_costs_sol_per_day),
        read_only=new.read_only,
    )


def new_admin(new: calls.NewAdmin, maker: Caller) -> tuple[str, Credential]:
    """Return the secret and the record of a new credential, whose role is at most the maker's."""
    asked, own = Role(new.role), maker.role or Role.READ
    if not own.allows(asked):
        raise InvalidRequest(f"role must be at most {own}, which is your role")
    return _make_credential(ADMIN_PREFIX, new, maker, role=asked)


def _make_credential(
    prefix: str, new: calls.NewKey | calls.NewAdmin, maker: Caller, **more: Any
) -> tuple[str, Credential]:
    until_ms = maker.until_ms
    expires_ms = None if new.expires_at is None else ms_of(new.expires_at)
    if expires_ms is not None and expires_ms <= now_ms():
        raise InvalidRequest("expiresAt must be in the future")
    # A new secret that ends later than the maker's own would extend its access.
    if until_ms is not None and (expires_ms is None or expires_ms > until_ms):
        raise InvalidRequest(
            f"expiresAt must be at most {iso(until_ms)}, when your credential ends"
        )
    secret, hash_ = new_secret(prefix)
    return secret, Credential(
        hash=hash_,
        name=new.name,
        created_by=maker.principal,
        created_ms=now_ms(),
        expires_ms=expires_ms,
        **more,
    )


def _lamports(sol: Decimal | int) -> int:
    # A limit of 0 makes a key that only reads; `sol_to_lamports` refuses 0.
    return 0 if sol == 0 else sol_to_lamports(sol)


def _secret_response(secret: str, key: Credential, **more: Any) -> Response:
    """Return the answer with a key's new secret; a header warns of permissions without effect.

    Args:
        more: fields besides those of every such answer.
    """
    response = json_response({"apiKey": secret, "id": key.id, "name": key.name} | more)
    told = permissions_warning(key.permissions, read_only=key.read_only)
    if told is not None:
        response.headers[WARNING_HEADER] = told
    return response


async def _keys_details(context: RouteContext, found: list[Credential]) -> list[dict[str, Any]]:
    """Return each key in its listed form, with its expiry, its limits and their use."""
    reports = await limits_reports(
        context.service.database, {key.principal: limits_of(key) for key in found}
    )
    requests = await context.service.limiter.request_counts()
    granted = await context.service.policies.grants_by_principal([key.principal for key in found])
    detailed: list[dict[str, Any]] = []
    for key in found:
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


def _admin_json(credential: Credential) -> dict[str, Any]:
    return answer_json(calls.AdminCredential, credential)
