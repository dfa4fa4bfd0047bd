"""Admin credentials: create, list, revoke, and what the request's own may do."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.credentials.credential import Credential, time_json
from solward.resources.answers import answer_example, answer_schema
from solward.resources.credentials import AdminCredential, CreatedAdmin, NewAdmin
from solward.resources.examples import CREDENTIAL
from solward.resources.fields import nullable
from solward.resources.schema import (
    array,
    examples,
    flag,
    identifier,
    response_object,
)
from solward.support.clock import iso
from solward.types.roles import Role
from solward_server.http.auth import Access, admin, caller
from solward_server.http.body import read_body
from solward_server.http.new_credentials import new_admin
from solward_server.http.route_context import RouteContext
from solward_server.openapi.operation import answer_of, body_of, operation, success
from solward_server.openapi.parameters import ADMIN_ID


def blueprint(context: RouteContext) -> Blueprint:
    """`/admins`, `/admins/self` and `/admins/:id`."""
    routes = Blueprint("admins", __name__)
    credentials = context.service.credentials

    @routes.post("/admins")
    @admin(Role.POLICY)
    async def create() -> dict[str, Any]:
        secret, credential = new_admin(NewAdmin.of(await read_body()), caller())
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


_LISTED = answer_example(AdminCredential)
_RECORD = answer_schema(AdminCredential)

PATHS = {
    "/admins": {
        "post": operation(
            "createAdmin",
            "Create an admin credential with a role",
            tag="admins",
            access=Access.ADMIN,
            description="It may do no more than who creates it, and ends no later.",
            body=body_of(NewAdmin),
            response=answer_of(CreatedAdmin),
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
                    {"role": _RECORD["properties"]["role"], "admin": nullable(_RECORD)},
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
