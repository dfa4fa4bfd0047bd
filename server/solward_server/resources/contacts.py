"""The address book: what the operator calls recipients, and the groups of the policy."""

from __future__ import annotations

from typing import Any

from solward.database.names import ContactRow
from solward.operations.contacts import Contacts
from solward.resources import policy as calls
from solward.resources.declare import answer_json
from solward.types.roles import Role
from solward_server.http.auth import admin
from solward_server.http.body import read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.route import Routes

routes = Routes("contacts", "What the operator calls recipients.")


@routes.serve(calls.LIST_CONTACTS, admin(Role.READ))
async def listing(context: RouteContext) -> dict[str, Any]:
    return {"contacts": list(map(_shown, await Contacts(context.service.database).listed()))}


@routes.serve(
    calls.PUT_CONTACT,
    admin(Role.POLICY),
    {
        400: [
            "address must be an address, base58 of 32 bytes",
            "name is, or looks like, that of the contact Landlord"
            " (9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g)",
        ]
    },
)
async def put(context: RouteContext) -> dict[str, Any]:
    new = calls.NewContact.of(await read_body())
    return _shown(await Contacts(context.service.database).put(new.address, new.name))


@routes.serve(calls.REMOVE_CONTACT, admin(Role.POLICY))
async def remove(context: RouteContext, contact_id: str) -> dict[str, Any]:
    await Contacts(context.service.database).remove(contact_id)
    return {"address": contact_id, "removed": True}


def _shown(row: ContactRow) -> dict[str, Any]:
    return answer_json(calls.Contact, row)
