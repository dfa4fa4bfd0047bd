"""Contacts: what the operator calls recipients."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.operations.contacts import MAX_CONTACTS, MAX_NAME, Contacts
from solward.resources.schema import (
    address,
    array,
    flag,
    request_object,
    response_object,
    text,
    timestamp,
)
from solward.support.clock import iso
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
        return {
            "contacts": [_shown(each) for each in await contacts.listed()],
            "book": [
                {"address": each.address, "name": each.name} for each in await contacts.book()
            ],
        }

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
    return {"address": row.address, "name": row.name, "createdAt": iso(row.created_ms)}


_EXAMPLE = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
_ADDRESS = path_parameter("contactId", address("The recipient."), _EXAMPLE)
_CONTACT = {
    "address": address("The recipient."),
    "name": text("What it is called.", MAX_NAME),
    "createdAt": timestamp("When it was named."),
}
_SHOWN_EXAMPLE = {
    "address": _EXAMPLE,
    "name": "Landlord",
    "createdAt": "2026-11-21T10:34:55.152Z",
}

PATHS = {
    "/contacts": {
        "get": operation(
            "listContacts",
            "Names of recipients",
            tag="contacts",
            access=Access.ADMIN,
            description="For tables and forms of people: a contact allows nothing, and no grant "
            "reads it. `book` has the names of the policy's address book, which is changed there.",
            response=success(
                response_object(
                    {
                        "contacts": array(response_object(_CONTACT), "By name.", MAX_CONTACTS),
                        "book": array(
                            response_object(
                                {
                                    "address": address("The recipient."),
                                    "name": text("`@name` of the policy's address book."),
                                }
                            ),
                            "By name.",
                        ),
                    }
                ),
                {"contacts": [_SHOWN_EXAMPLE], "book": [{"address": _EXAMPLE, "name": "@vendors"}]},
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
                request_object(
                    {
                        "address": address("The recipient."),
                        "name": text("What it is called.", MAX_NAME),
                    },
                    required=["address", "name"],
                ),
                {"address": _EXAMPLE, "name": "Landlord"},
            ),
            response=success(response_object(_CONTACT), _SHOWN_EXAMPLE),
            errors={
                400: [
                    "address must be an address, base58 of 32 bytes",
                    "name is, or looks like, that of the contact Landlord "
                    "(9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g)",
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
            parameters=[_ADDRESS],
            response=success(
                response_object({"address": text("As given."), "removed": flag("Always true.")}),
                {"address": _EXAMPLE, "removed": True},
            ),
            errors={404: "Contact not found"},
        )
    },
}
