"""The address book: what the operator calls recipients, and the groups of the policy."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.credentials.credential import time_json
from solward.operations.contacts import MAX_NAME, Contacts
from solward.resources.fields import nullable
from solward.resources.schema import (
    address,
    array,
    flag,
    request_object,
    response_object,
    text,
    timestamp,
)
from solward.types.roles import Role
from solward.vault.store.contacts import ContactRow
from solward_server.http.auth import Access, admin
from solward_server.http.body import body_text, read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.parameters import path_parameter


def blueprint(context: RouteContext) -> Blueprint:
    """`/contacts` and `/contacts/:id`; the id is the address."""
    routes = Blueprint("contacts", __name__)
    contacts = Contacts(context.service.database)

    @routes.get("/contacts")
    @admin(Role.READ)
    async def listing() -> dict[str, Any]:
        return {"contacts": [_shown(each) for each in await contacts.listed()]}

    @routes.post("/contacts")
    @admin(Role.POLICY)
    async def put() -> dict[str, Any]:
        body = await read_body()
        address, name = body_text(body, "address"), body_text(body, "name", longest=MAX_NAME)
        return _shown(await contacts.put(address, name))

    @routes.delete("/contacts/<contact_id>")
    @admin(Role.POLICY)
    async def remove(contact_id: str) -> dict[str, Any]:
        await contacts.remove(contact_id)
        return {"address": contact_id, "removed": True}

    return routes


def _shown(row: ContactRow) -> dict[str, Any]:
    return {"address": row.address, "name": row.name, "createdAt": time_json(row.created_ms)}


_EXAMPLE = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
_NAMED = {
    "address": address("The recipient."),
    "name": text("What it is called.", MAX_NAME),
}
_CONTACT = response_object(
    _NAMED
    | {"createdAt": nullable(timestamp("When it was named; null: a member of the group `@name`."))}
)
_LANDLORD = {"address": _EXAMPLE, "name": "Landlord", "createdAt": "2026-11-21T10:34:55.152Z"}
_VENDORS = {"address": _EXAMPLE, "name": "@vendors", "createdAt": None}

PATHS = {
    "/contacts": {
        "get": operation(
            "listContacts",
            "The address book: names of recipients",
            tag="contacts",
            access=Access.ADMIN,
            description="Contacts by name, which allow nothing and which no grant reads, and behind"
            " them the members of the policy's groups, which are changed there.",
            response=success(
                response_object({"contacts": array(_CONTACT, "By name.")}),
                {"contacts": [_LANDLORD, _VENDORS]},
            ),
        ),
        "post": operation(
            "putContact",
            "Name a recipient",
            tag="contacts",
            access=Access.ADMIN,
            description="Or rename it. No two names look alike, and no address that has a name "
            "can be taken for another one by its first and last characters.",
            body=request_body(
                request_object(_NAMED, required=[*_NAMED]),
                {"address": _EXAMPLE, "name": "Landlord"},
            ),
            response=success(_CONTACT, _LANDLORD),
            errors={
                400: [
                    "address must be an address, base58 of 32 bytes",
                    f"name is, or looks like, that of the contact Landlord ({_EXAMPLE})",
                ]
            },
        ),
    },
    "/contacts/{contactId}": {
        "delete": operation(
            "removeContact",
            "Take a recipient's name away",
            tag="contacts",
            access=Access.ADMIN,
            parameters=[path_parameter("contactId", address("The recipient."), _EXAMPLE)],
            response=success(
                response_object({"address": text("As given."), "removed": flag("Always true.")}),
                {"address": _EXAMPLE, "removed": True},
            ),
            errors={404: "Contact not found"},
        )
    },
}
