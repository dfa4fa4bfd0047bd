"""Admin credentials: create, list, revoke, and what the request's own may do."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.credentials.credential import Credential, time_json
from solward.support.clock import iso
from solward.types.roles import ADMIN, Role
from solward_server.http.auth import Access, admin, caller
from solward_server.http.body import read_body
from solward_server.http.new_credentials import new_admin
from solward_server.http.route_context import RouteContext
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.parameters import ADMIN_ID, CREDENTIAL
from solward_server.openapi.schema import (
    array,
    examples,
    flag,
    identifier,
    nullable,
    request_object,
    response_object,
    text,
    timestamp,
)


def blueprint(context: RouteContext) -> Blueprint:
    """`/admins`, `/admins/self` and `/admins/:id`."""
    routes = Blueprint("admins", __name__)
    credentials = context.service.credentials

    @routes.post("/admins")
    @admin(Role.POLICY)
    async def create() -> dict[str, Any]:
        body = await read_body()
        secret, credential = new_admin(body, caller())
        await credentials.add(credential)
        return {"adminSecret": secret} | _json(credential)

    @routes.get("/admins")
    @admin(Role.READ)
    async def listing() -> dict[str, Any]:
        return {"admins": [_json(each) for each in await credentials.admins()]}

    @routes.get("/admins/self")
    @admin(Role.READ)
    async def own() -> dict[str, Any]:
        who = caller()
        shown = None if who.admin is None else _json(who.admin)
        return {"role": who.role, "admin": shown}

    @routes.delete("/admins/<admin_id>")
    @admin(Role.POLICY)
    async def revoke(admin_id: str) -> dict[str, Any]:
        revoked = await credentials.revoke(admin_id, is_admins=True)
        left = await credentials.admins()
        made = [_json(each) for each in left if each.created_by == revoked.principal]
        return {"id": admin_id, "revoked": True, "made": made}

    return routes


def _json(admin: Credential) -> dict[str, Any]:
    """An admin credential as `GET /admins` lists it."""
    return {
        "id": admin.id,
        "name": admin.name,
        "role": admin.role,
        "createdBy": admin.created_by,
        "createdAt": iso(admin.created_ms),
        "lastUsedAt": time_json(admin.last_used_ms),
        "expiresAt": time_json(admin.expires_ms),
    }


_NAME = text("Who or what uses it; no other credential has it.", 64)
_ROLE = text("What it may do.", enum=[role.value for role in Role])
_FIELDS = {
    "id": identifier("The credential's."),
    "name": _NAME,
    "role": _ROLE,
    "createdBy": text(f"`{ADMIN}`, the admin secret, or `admin:<id>` of the one that made it."),
    "createdAt": timestamp("When it was made."),
    "lastUsedAt": nullable(timestamp("When it was last used; null: not yet.")),
    "expiresAt": nullable(timestamp("When it ends by itself; null: never.")),
}
_LISTED = {
    "id": CREDENTIAL,
    "name": "ana",
    "role": "operate",
    "createdBy": "admin",
    "createdAt": "2026-11-21T10:34:55.814Z",
    "lastUsedAt": None,
    "expiresAt": "2027-01-01T00:00:00.000Z",
}
_RECORD = response_object(_FIELDS)

PATHS = {
    "/admins": {
        "post": operation(
            "createAdmin",
            "Create an admin credential with a role",
            tag="admins",
            access=Access.ADMIN,
            description="It may do no more than who creates it, and ends no later.",
            body=request_body(
                request_object(
                    {
                        "name": _NAME,
                        "role": _ROLE,
                        "expiresAt": text(
                            "When it ends by itself: ISO 8601 with a zone, in the future.", 200
                        ),
                    },
                    required=["name", "role"],
                ),
                {"name": "ana", "role": "operate", "expiresAt": "2027-01-01T00:00:00Z"},
            ),
            response=success(
                response_object(
                    {
                        "adminSecret": text(
                            "The secret, shown this once.", pattern="^sa-[0-9a-f]{48}$"
                        )
                    }
                    | _FIELDS
                ),
                {"adminSecret": "sa-" + "2f0c95d0a6c4" * 4} | _LISTED,
            ),
            errors={400: "role must be one of read, operate, policy"},
        ),
        "get": operation(
            "listAdmins",
            "List the admin credentials",
            tag="admins",
            access=Access.ADMIN,
            response=success(
                response_object({"admins": array(_RECORD, "Oldest first.")}),
                {"admins": [_LISTED]},
            ),
        ),
    },
    "/admins/self": {
        "get": operation(
            "ownAdmin",
            "What the credential of the request may do",
            tag="admins",
            access=Access.ADMIN,
            response=success(
                response_object(
                    {"role": _ROLE, "admin": nullable(_RECORD)},
                ),
                examples(
                    credential={"role": "operate", "admin": _LISTED},
                    secret={"role": "policy", "admin": None},
                ),
            ),
        )
    },
    "/admins/{adminId}": {
        "delete": operation(
            "revokeAdmin",
            "Revoke an admin credential at once",
            tag="admins",
            access=Access.ADMIN,
            description="Its event streams and dashboard sessions end too. What it made stays; "
            "keys and credentials among it end no later than it would have.",
            parameters=[ADMIN_ID],
            response=success(
                response_object(
                    {
                        "id": identifier("The credential's."),
                        "revoked": flag("True.", const=True),
                        "made": array(_RECORD, "Credentials that it made, which stay."),
                    }
                ),
                {"id": CREDENTIAL, "revoked": True, "made": []},
            ),
            errors={404: "Admin credential not found"},
        )
    },
}
