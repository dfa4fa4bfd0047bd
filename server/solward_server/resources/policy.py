"""The policy: which principals are under which grants, and the address book."""

from __future__ import annotations

from typing import Any

from quart import Blueprint

from solward.operations.policies.replay import MAX_DAYS, MOST_CHANGES, ReplayVerdict
from solward.resources.examples import AGENT, WALLET
from solward.resources.fields import nullable
from solward.resources.schema import (
    array,
    choice,
    flag,
    identifier,
    ref,
    request_object,
    response_object,
    text,
    timestamp,
    whole,
)
from solward.types.errors import InvalidRequest, LedgerUnavailable
from solward.types.roles import Role
from solward_server.http.auth import Access, admin
from solward_server.http.body import body_whole, read_body
from solward_server.http.route_context import RouteContext
from solward_server.openapi.components import POLICY, SAID_GRANT
from solward_server.openapi.errors import Error
from solward_server.openapi.operation import operation, request_body, success
from solward_server.openapi.parameters import WALLET_ADDRESS

DEFAULT_DAYS = 30


def blueprint(context: RouteContext) -> Blueprint:
    """`/policy`; `/policy/check` and `/policy/replay`, which change nothing."""
    routes = Blueprint("policy", __name__)
    policies = context.service.policies

    @routes.get("/policy")
    @admin(Role.READ)
    async def show() -> dict[str, Any]:
        return await policies.show()

    @routes.put("/policy")
    @admin(Role.POLICY)
    async def replace() -> dict[str, Any]:
        return await policies.replace(await read_body())

    @routes.get("/policy/<principal>")
    @admin(Role.READ)
    async def show_one(principal: str) -> dict[str, Any]:
        return await policies.show_one(principal)

    @routes.put("/policy/<principal>")
    @admin(Role.POLICY)
    async def put(principal: str) -> dict[str, Any]:
        body = await read_body()
        if "grants" not in body:
            # As null it would take away every bound.
            raise InvalidRequest("grants is required and must be an array, or null")
        version = body.get("version")
        if version is not None:
            version = body_whole(body, "version", None, 0, 2**53)
        return await policies.put(principal, body["grants"], version=version)

    @routes.post("/policy/check")
    @admin(Role.READ)
    async def check() -> dict[str, Any]:
        return await policies.check(await read_body())

    @routes.post("/policy/replay")
    @admin(Role.READ)
    async def replay() -> dict[str, Any]:
        body = await read_body()
        days = body_whole(body, "days", DEFAULT_DAYS, 1, MAX_DAYS)
        draft = body.get("draft")
        drafted = None if draft is None else await policies.read(draft)
        return await context.service.replay_policy(days, drafted)

    return routes


_EXAMPLE = {
    "version": 3,
    "book": {"vendors": [WALLET_ADDRESS]},
    "grants": [
        {
            "who": f"agent:{AGENT}",
            "may": ["transfer"],
            "assets": {"USDC": {"perTx": "5", "per": {"24h": "20"}, "hold": "2"}},
            "to": ["@vendors"],
        }
    ],
    "readOnly": [],
}
_SENTENCES = [
    "Agent scout may transfer up to 5 USDC at once and 20 a day, to @vendors; above 2 USDC a person"
    " is asked."
]
_ANSWER = {"policy": _EXAMPLE, "sentences": _SENTENCES}
_ERRORS: dict[int, Error] = {
    400: "grants[0].assets.USDC.per: is missing; one to four windows such as "
    '{"24h": "20"} are expected',
    500: LedgerUnavailable("The ledger did not answer getAccountInfo (ConnectError)"),
}
_NO_PRINCIPAL: dict[int, Error] = {404: "principal: no agent has the id or name 'scout'"}
_CHANGED: dict[int, Error] = {409: "The policy was changed meanwhile: version 4 is in force"}
_PRINCIPAL = {
    "name": "principal",
    "in": "path",
    "required": True,
    "description": "Such as `agent:scout` or `key:<id>`: a kind, and an id or a unique name.",
    "schema": {"type": "string", "minLength": 3, "maxLength": 300},
    "example": f"agent:{AGENT}",
}
_ONE = response_object(
    {
        "principal": text("A principal: its kind and id."),
        "version": whole("Of the policy.", 0),
        "grants": nullable(array(POLICY["grants"]["items"], "Null where it is not under grants.")),
        "sentences": array(text("A sentence."), "What they say, one for each grant."),
    }
)
_ONE_ANSWER = {
    "principal": f"agent:{AGENT}",
    "version": 3,
    "grants": _EXAMPLE["grants"],
    "sentences": _SENTENCES,
}
_POLICY_FIELDS = POLICY | {"grants": array(SAID_GRANT, "In the order in which they are looked at.")}
_POLICY_BODY = request_object(_POLICY_FIELDS)
_REPLAYED = {
    "days": 30,
    "version": 3,
    "judged": 41,
    "refusedByOtherRules": 2,
    "judgedByOlderPolicy": 0,
    "changedSinceThen": 0,
    "changed": 1,
    "changes": [
        {
            "transactionId": "0d3c3a35-0b8e-4f2c-8f0a-5e2b4b8a5f10",
            "walletId": WALLET,
            "timestamp": "2026-11-21T10:40:00.000Z",
            "type": "token_transfer",
            "chain": [f"wallet:{WALLET}", f"agent:{AGENT}"],
            "then": "allowed",
            "inForce": "allowed",
            "now": "refused",
            "sentence": "6 USDC is more than the 5 USDC at once that grant 1 gives agent scout.",
            "olderPolicy": False,
        }
    ],
}
_OUTCOME = choice("What became of it.", *ReplayVerdict)
_REPLAY = response_object(
    {
        "days": whole("As asked.", 1, MAX_DAYS),
        "version": whole("Of the policy in force.", 0),
        "judged": whole("Transactions that grants judged.", 0),
        "refusedByOtherRules": whole("That another rule refused first.", 0),
        "judgedByOlderPolicy": whole("That were judged by an older policy.", 0),
        "changedSinceThen": whole("Of these, what the policy in force says otherwise.", 0),
        "changed": whole("What the draft says otherwise.", 0),
        "changes": array(
            response_object(
                {
                    "transactionId": identifier("Its record, or the hold in its place."),
                    "walletId": identifier("Its wallet."),
                    "timestamp": timestamp("When it was judged."),
                    "type": text("Of the transaction."),
                    "chain": array(text("A principal."), "Every principal it needs."),
                    "then": _OUTCOME,
                    "inForce": _OUTCOME,
                    "now": _OUTCOME,
                    "sentence": text("Why, by the draft; empty where that allows it."),
                    "olderPolicy": flag("Whether it was judged by an older policy."),
                }
            ),
            f"In order; the first {MOST_CHANGES}.",
        ),
    }
)

PATHS = {
    "/policy": {
        "get": operation(
            "getPolicy",
            "Who is under which grants",
            tag="policy",
            access=Access.ADMIN,
            response=success(ref("Policy"), _ANSWER),
        ),
        "put": operation(
            "replacePolicy",
            "Put every principal under exactly these grants",
            tag="policy",
            access=Access.ADMIN,
            description=(
                "A principal that the body does not name is no longer under grants. A grant that is"
                " written anew starts with what its principal moved in its windows."
            ),
            body=request_body(request_object(_POLICY_FIELDS, required=["grants"]), _EXAMPLE),
            response=success(ref("Policy"), _ANSWER),
            errors=_ERRORS | _CHANGED,
        ),
    },
    "/policy/{principal}": {
        "get": operation(
            "getGrants",
            "The grants of one principal",
            tag="policy",
            access=Access.ADMIN,
            parameters=[_PRINCIPAL],
            response=success(_ONE, _ONE_ANSWER),
            errors=_NO_PRINCIPAL,
        ),
        "put": operation(
            "replaceGrants",
            "Put one principal under exactly these grants",
            tag="policy",
            access=Access.ADMIN,
            description=("`[]` lets it only read; null takes it out of grants. At most 100."),
            parameters=[_PRINCIPAL],
            body=request_body(
                request_object(
                    {
                        "grants": nullable(array(SAID_GRANT, "In the order they are tried.", 100)),
                        "version": POLICY["version"],
                    },
                    required=["grants"],
                ),
                {"grants": _EXAMPLE["grants"]},
            ),
            response=success(_ONE, _ONE_ANSWER),
            errors=_ERRORS | _NO_PRINCIPAL | _CHANGED,
        ),
    },
    "/policy/replay": {
        "post": operation(
            "replayPolicy",
            "What a draft would have changed in the last days; nothing changes",
            tag="policy",
            access=Access.ADMIN,
            description="Without a draft the policy in force is replayed, which changes nothing.",
            body=request_body(
                request_object(
                    {
                        "days": whole("From now back.", 1, MAX_DAYS, default=DEFAULT_DAYS),
                        "draft": _POLICY_BODY,
                    }
                ),
                {"days": 30, "draft": _EXAMPLE},
                required=False,
            ),
            response=success(_REPLAY, _REPLAYED),
            errors=_ERRORS,
        )
    },
    "/policy/check": {
        "post": operation(
            "checkPolicy",
            "What a policy would say; nothing changes",
            tag="policy",
            access=Access.ADMIN,
            body=request_body(_POLICY_BODY, _EXAMPLE, required=False),
            response=success(ref("Policy"), _ANSWER),
            errors=_ERRORS,
        )
    },
}
