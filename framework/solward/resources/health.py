"""Whether the service and its ledger answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from solward.resources.answers import Answer
from solward.resources.declare import Call, declared, resource
from solward.resources.fields import Choice, Flag, Shape, Text, Whole
from solward.resources.schema import choice, response_object, whole

# The contract has some of them twice.
_AGENTS = ("total", "running", "totalAgents", "runningAgents", "stoppedAgents", "idleAgents")
_WEBHOOKS = ("approvals", "alerts")
_WEBHOOK = choice(
    "`failing` while its receiver does not take what it is told; absent where the webhook is not"
    " set.",
    "ok",
    "failing",
)


@resource
class Health(Answer):
    """Whether the service and its ledger answer."""

    component: ClassVar = "Health"

    status: str = declared(
        Choice(
            "`degraded` while the ledger or the database does not answer.",
            options=("ok", "degraded"),
        )
    )
    version: str = declared(Text("The service's.", example="0.1.0"))
    ledger_healthy: bool = declared(
        Flag("Whether the ledger answers.", example=True), named="solana.healthy"
    )
    network: str = declared(
        Text("Such as localnet or devnet.", example="localnet"), named="solana.network"
    )
    slot: int = declared(
        Whole("0 where the ledger does not answer.", example=112), named="solana.slot"
    )
    agents: Mapping[str, int] = declared(
        Shape(
            "How many there are.",
            form=response_object({name: whole(name, 0) for name in _AGENTS}),
            example=dict.fromkeys(_AGENTS, 0),
        )
    )
    webhooks: Mapping[str, str] | None = declared(
        Shape(
            "Where any is set.",
            form=response_object(dict.fromkeys(_WEBHOOKS, _WEBHOOK), optional=_WEBHOOKS),
        ),
        default=None,
    )


GET_HEALTH = Call(
    "getHealth",
    "GET /health",
    "Is it up, which version, and does its ledger answer.",
    Health,
    name="health",
    about="Answers within a second, always with 200.",
)
