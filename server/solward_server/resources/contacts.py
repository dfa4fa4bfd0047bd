"""The address book: what the operator calls recipients, and the groups of the policy."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.credentials.credential import time_json
from solward.operations.contacts import Contacts
from solward.resources.answers import answer_example, answer_schema
from solward.resources.contacts import Contact, NewContact
from solward.resources.schema import address, array, flag, response_object, text
from solward.types.roles import Role
from solward.vault.store.contacts import ContactRow
from solward_server.http.auth import Access, admin
from solward_server.http.body import read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.operation import answer_of, body_of, operation, success
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
        new = NewContact.of(await read_body())
        return _shown(await contacts.put(new.address, new.name))

    @routes.delete("/contacts/<contact_id>")
    @admin(Role.POLICY)
    async def remove(contact_id: str) -> dict[str, Any]:
        await contacts.remove(contact_id)
        return {"address": contact_id, "removed": True}

    return routes


def _shown(row: ContactRow) -> dict[str, Any]:
    return {"address": row.address, "name": row.name, "createdAt": time_json(row.created_ms)}


_CONTACT, _LANDLORD = answer_schema(Contact), answer_example(Contact)

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
                {"contacts": [_LANDLORD, _LANDLORD | {"name": "@vendors", "createdAt": None}]},
            ),
        ),
        "post": operation(
            "putContact",
            "Name a recipient",
            tag="contacts",
            access=Access.ADMIN,
            description="Or rename it. No two names look alike, and no address that has a name "
            "can be taken for another one by its first and last characters.",
            body=body_of(NewContact),
            response=answer_of(Contact),
            errors={
                400: [
                    "address must be an address, base58 of 32 bytes",
                    "name is, or looks like, that of the contact "
                    f"{_LANDLORD['name']} ({_LANDLORD['address']})",
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
            parameters=[
                path_parameter("contactId", address("The recipient."), _LANDLORD["address"])
            ],
            response=success(
                response_object({"address": text("As given."), "removed": flag("Always true.")}),
                {"address": _LANDLORD["address"], "removed": True},
            ),
            errors={404: "Contact not found"},
        )
    },
}
