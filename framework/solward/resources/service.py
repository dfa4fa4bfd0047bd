"""The service itself: its health, the settings of its process, its freeze switch, and quotes for
swaps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import ClassVar

from solward.resources.declare import Answer, Call, Request, declared, resource
from solward.resources.fields import (
    Choice,
    Flag,
    Id,
    Json,
    Number,
    Shape,
    Text,
    Time,
    Units,
    WalletId,
    Whole,
)
from solward.resources.schema import response_object
from solward.resources.shared import LIMIT, Example

# The API has some of these numbers under two names.
_AGENTS = ("total", "running", "totalAgents", "runningAgents", "stoppedAgents", "idleAgents")
_WEBHOOKS = ("approvals", "alerts")
_WEBHOOK = Choice(
    "`failing` while its receiver does not accept deliveries; absent if the webhook is not set.",
    options=("ok", "failing"),
)
REASON = Text("Reason, shown in every refusal.", example="incident 7")
_WALLET = WalletId("The wallet; default the whole service.", cli="--wallet")
_STATED = Text("The reason given.", example="incident 7")


@resource
class Health(Answer):
    """The health of the service and of its ledger."""

    component: ClassVar = "Health"

    status: str = declared(
        Choice(
            "`degraded` while the ledger or the database does not answer.",
            options=("ok", "degraded"),
        )
    )
    version: str = declared(Text("The service's version.", example="0.1.0"))
    ledger_healthy: bool = declared(
        Flag("Whether the ledger answers.", example=True), named="solana.healthy"
    )
    network: str = declared(
        Text("The network, such as devnet.", example="localnet"), named="solana.network"
    )
    slot: int = declared(
        Whole("The slot; 0 if the ledger does not answer.", example=112), named="solana.slot"
    )
    agents: Mapping[str, int] = declared(
        Shape(
            "Numbers of agents.",
            form=response_object({name: Whole(name) for name in _AGENTS}),
            example=dict.fromkeys(_AGENTS, 0),
        )
    )
    webhooks: Mapping[str, str] | None = declared(
        Shape(
            "The webhooks' states, if any is set.",
            form=response_object(dict.fromkeys(_WEBHOOKS, _WEBHOOK), optional=_WEBHOOKS),
        ),
        default=None,
    )


GET_HEALTH = Call(
    "getHealth",
    "GET /health",
    "Get the health of the service and its ledger.",
    Health,
    name="health",
    about="Answers within a second, always with 200.",
)


class Origin(StrEnum):
    """The source of a setting's value."""

    ARGUMENT = "argument"
    """Of the program that made the settings, such as the command's `--port`."""
    ENVIRONMENT = "environment"
    ENV_FILE = ".env"
    DEFAULT = "default"


@resource
class Setting(Answer):
    """A setting of the service process that answers the request."""

    name: str = declared(Text("The environment variable.", example="MAX_SOL_PER_TRANSACTION"))
    value: str | None = declared(
        Text("The value in force; null for a secret, or if it has none.", example="2")
    )
    default: str | None = declared(
        Text("Its default with the other settings as they are.", example="2")
    )
    source: str = declared(
        Choice("Where the value comes from.", options=tuple(Origin), example=Origin.DEFAULT)
    )
    secret: bool = declared(Flag("Whether its value is never shown."))
    set: bool = declared(Flag("Whether somebody gave it a value."))
    ceiling: bool = declared(
        Flag("Whether it bounds all requests, grants, agents and keys.", example=True)
    )


LIST_SETTINGS = Call(
    "listSettings",
    "GET /settings",
    "List every setting of this process.",
    Setting,
    name="settings",
    listed="settings",
    about="See docs/reference/settings.md. They are read once, at the start. A secret's value is"
    " never shown; an address that was set shows scheme, host and port alone.",
)


@resource
class Freeze(Request):
    """A request to freeze a wallet or the service."""

    wallet_id: str | None = declared(_WALLET, default=None)
    reason: str | None = declared(REASON, default=None)


@resource
class Unfreeze(Request):
    """A request to unfreeze a wallet or the service."""

    wallet_id: str | None = declared(_WALLET, default=None)


@resource
class ListedFrozen(Request):
    """A request for the list of frozen wallets."""

    limit: int = declared(LIMIT, default=50)


@resource
class Switch(Answer):
    """The freeze switch of the service, or of one wallet."""

    frozen: bool = declared(Flag("Whether it is frozen now."))
    wallet_id: str | None = declared(Text("The wallet; null is all.", example=None))


@resource
class SwitchOn(Switch):
    """The freeze switch that stops transactions."""

    frozen: bool = declared(Flag("Whether it is frozen now.", example=True))
    reason: str | None = declared(_STATED)


@resource
class FrozenWallet(Answer):
    """A wallet that is frozen by its own switch."""

    wallet_id: str = declared(Id("The wallet.", example=Example.WALLET))
    name: str = declared(Text("Its name."))
    reason: str | None = declared(_STATED)
    since: datetime = declared(Time("When it was frozen."))


@resource
class Frozen(Answer):
    """The frozen wallets, and whether the service is frozen."""

    service: bool = declared(
        Flag("The service, and with it every wallet.", example=True), named="frozen"
    )
    reason: str | None = declared(_STATED)
    since: datetime | None = declared(Time("Null if the service is not frozen."))
    frozen_wallets: int = declared(
        Whole("How many wallets are frozen by themselves.", most=2**53 - 1)
    )
    wallets: tuple[FrozenWallet, ...] = declared(Json("The latest first, at most `limit`."))


LIST_FROZEN = Call(
    "listFrozen",
    "GET /freeze",
    "List frozen wallets, and whether the service is frozen.",
    Frozen,
    query=ListedFrozen,
    name="frozen",
)
FREEZE = Call(
    "freeze",
    "POST /freeze",
    "Stop every new transaction, of one wallet or of all.",
    SwitchOn,
    body=Freeze,
    about="Transactions already sent continue. A restart does not lift the freeze.",
)
UNFREEZE = Call("unfreeze", "POST /unfreeze", "Allow transactions again.", Switch, body=Unfreeze)


@resource
class SwapQuote(Answer):
    """The amount that a swap would buy at the present price."""

    input_token: str = declared(Text("The mint sold.", example=Example.ADDRESS))
    output_token: str = declared(Text("The mint bought.", example=Example.ADDRESS))
    input_units: int = declared(Units("Smallest units sold."), read=int)
    output_units: int = declared(Units("Smallest units that are expected."), read=int)
    minimum_units: int = declared(
        Units("Least that must arrive, after slippage.", example="4900000"), read=int
    )
    slippage_bps: int = declared(Whole("The slippage allowed.", example=70))
    price_impact: Decimal = declared(Number("A fraction: 0.003 is 0.3%.", example=0.003))


QUOTE_SWAP = Call(
    "quoteSwap",
    "POST /quote",
    "Get a quote for a swap.",
    SwapQuote,
    name=None,
    about="Nothing is sent, reserved or recorded.",
)
