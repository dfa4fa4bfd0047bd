"""The policy: the grants of principals, and the groups of the address book; and contacts, which are
the operator's names for recipients."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from solward.database.names import ContactRow
from solward.operations.contacts import Contacts
from solward.operations.policies.changes import read_policy
from solward.operations.policies.grant_documents import GrantPolicy
from solward.operations.policies.replay import replay_stored
from solward.resources import policy as calls
from solward.resources.declare import answer_json
from solward.service.service import Solward
from solward.types.errors import InvalidRequest, KeyRevoked, LedgerUnavailable, NotFound
from solward.types.roles import Role
from solward_server.http.auth import admin
from solward_server.http.body import read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import Error
from solward_server.openapi.route import Routes
from solward_server.resources.wallets import limits_of

_ERRORS: dict[int, Error] = {
    400: "grants[0].assets.USDC.per: is missing; one to four windows such as "
    '{"24h": "20"} are expected',
    500: LedgerUnavailable("The ledger did not answer getAccountInfo (ConnectError)"),
}
_CHANGED: dict[int, Error] = {409: "The policy was changed meanwhile: version 4 is in force"}

routes = Routes("policy", "Grants of principals, which only the admin manages.")
contacts = Routes("contacts", "The operator's names for recipients.")


@routes.serve(calls.GET_POLICY, admin(Role.READ))
async def show(context: RouteContext) -> dict[str, Any]:
    return await context.service.policies.show()


@routes.serve(calls.REPLACE_POLICY, admin(Role.POLICY), _ERRORS | _CHANGED)
async def replace(context: RouteContext) -> dict[str, Any]:
    return await context.service.policies.replace(await read_body())


@routes.serve(calls.GET_GRANTS, admin(Role.READ))
async def show_one(context: RouteContext, principal: str) -> dict[str, Any]:
    return await context.service.policies.show_one(principal)


@routes.serve(calls.REPLACE_GRANTS, admin(Role.POLICY), _ERRORS | _CHANGED)
async def put(context: RouteContext, principal: str) -> dict[str, Any]:
    body = await read_body()
    if "grants" not in body:
        # Read as null, it would take away every bound.
        raise InvalidRequest("grants is required and must be an array, or null")
    new = calls.NewGrants.of(body)
    return await context.service.policies.put(principal, new.grants, version=new.version)


@routes.serve(calls.CHECK_POLICY, admin(Role.READ), _ERRORS)
async def check(context: RouteContext) -> dict[str, Any]:
    return await context.service.policies.check(await read_body())


@routes.serve(calls.READ_GRANT, admin(Role.READ), _ERRORS)
async def read(context: RouteContext) -> dict[str, Any]:
    asked = calls.WrittenGrant.of(await read_body())
    return await context.service.policies.understand(asked.sentence)


@routes.serve(calls.REPLAY_POLICY, admin(Role.READ), _ERRORS)
async def replay(context: RouteContext) -> dict[str, Any]:
    asked = calls.ReplayRequest.of(await read_body())
    draft = None if asked.draft is None else await context.service.policies.read(asked.draft)
    service = context.service
    found = await replay_stored(
        service.database, service.tokens, asked.days, draft, newest=asked.newest
    )
    of = [] if draft is None else await _changed_wallets(service, draft)
    leaving = []
    for wallet_id in of[: calls.SHOWN_WALLETS]:
        limits = await limits_of(service, wallet_id, draft=draft.sets if draft else None)
        leaving.append(
            {"walletId": wallet_id, "before": limits["canLeave"], "after": limits["drafted"]}
        )
    return found | {"wallets": len(of), "canLeave": leaving}


async def _changed_wallets(service: Solward, draft: GrantPolicy) -> list[str]:
    """Return the wallets that principals may use whose grants a draft changes."""
    async with service.database.read() as connection:
        stored = await read_policy(connection)
    found: dict[str, None] = {}
    for who in sorted({*stored.sets, *draft.sets}):
        if stored.sets.get(who) == draft.sets.get(who):
            continue
        kind, _, own_id = who.partition(":")
        named = [each.wallet for each in draft.sets.get(who, ()) if each.wallet is not None]
        # A deleted principal keeps its grants, but uses no wallet.
        with suppress(NotFound, KeyRevoked):
            if kind == "agent":
                named = [(await service.agents.get(own_id)).wallet_id]
            elif kind == "schedule":
                named = [(await service.schedules.get(own_id)).wallet_id]
            elif kind == "wallet":
                named = [own_id]
            elif kind == "key":
                only = await service.keys.wallet_of(own_id)
                named = named or [each.id for each in await service.wallets.list()]
                named = named if only is None else [only]
            found |= dict.fromkeys(named)
    return [*found]


@contacts.serve(calls.LIST_CONTACTS, admin(Role.READ))
async def rows(context: RouteContext) -> dict[str, Any]:
    return {"contacts": list(map(_contact_json, await Contacts(context.service.database).rows()))}


@contacts.serve(
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
async def put_contact(context: RouteContext) -> dict[str, Any]:
    new = calls.NewContact.of(await read_body())
    return _contact_json(await Contacts(context.service.database).put(new.address, new.name))


@contacts.serve(calls.REMOVE_CONTACT, admin(Role.POLICY))
async def remove_contact(context: RouteContext, contact_id: str) -> dict[str, Any]:
    await Contacts(context.service.database).remove(contact_id)
    return {"address": contact_id, "removed": True}


def _contact_json(row: ContactRow) -> dict[str, Any]:
    return answer_json(calls.Contact, row)
