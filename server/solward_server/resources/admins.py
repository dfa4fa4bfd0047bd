"""Admin credentials: create, list, revoke, and what the request's own may do."""

from __future__ import annotations

from typing import Any

from solward.credentials.credential import Credential
from solward.resources import credentials as calls
from solward.resources.answers import answer_json
from solward.types.roles import Role
from solward_server.http.auth import admin, caller
from solward_server.http.body import read_body
from solward_server.http.new_credentials import new_admin
from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes

routes = Routes("admins", "Admin credentials, each with a role; the admin's alone.")


@routes.serve(calls.CREATE_ADMIN, admin(Role.POLICY))
async def create(context: RouteContext) -> dict[str, Any]:
    secret, credential = new_admin(calls.NewAdmin.of(await read_body()), caller())
    await context.service.credentials.add(credential)
    return {"adminSecret": secret} | _json(credential)


@routes.serve(calls.LIST_ADMINS, admin(Role.READ))
async def listing(context: RouteContext) -> dict[str, Any]:
    return {"admins": [_json(each) for each in await context.service.credentials.admins()]}


@routes.serve(calls.OWN_ADMIN, admin(Role.READ))
async def own(context: RouteContext) -> dict[str, Any]:
    who = caller()
    shown = None if who.admin is None else _json(who.admin)
    return {"role": who.role, "admin": shown}


@routes.serve(calls.REVOKE_ADMIN, admin(Role.POLICY))
async def revoke(context: RouteContext, admin_id: str) -> dict[str, Any]:
    revoked = await context.service.credentials.revoke(admin_id, is_admins=True)
    left = await context.service.credentials.admins()
    made = [_json(each) for each in left if each.created_by == revoked.principal]
    return {"id": admin_id, "revoked": True, "made": made}


def _json(admin: Credential) -> dict[str, Any]:
    return answer_json(calls.AdminCredential, admin)
