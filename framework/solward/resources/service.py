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
_WEBHOOKS = ("approvals", "alerts", "slack", "telegram")
_WEBHOOK = Choice(
    "`failing` while its receiver does not accept deliveries; absent if the webhook is not set.",
    options=("ok", "failing"),
)
REASON = Text("Reason, shown in every refusal.", example="incident 7")
_WALLET = WalletId("One wallet; default the whole service.", cli="--wallet")
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
        Whole("The current slot; 0 if the ledger is down.", example=112), named="solana.slot"
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
            "The state of each webhook and chat that is set.",
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
    about="The answer comes within a second, always with 200.",
)


class Origin(StrEnum):
    """The source of a setting's value."""

    ARGUMENT = "argument"
    """An argument of the program, such as the command's `--port`."""
    ENVIRONMENT = "environment"
    ENV_FILE = ".env"
    DEFAULT = "default"


@resource
class Setting(Answer):
    """A setting of the service process that answers the request."""

    name: str = declared(Text("The environment variable.", example="MAX_SOL_PER_TRANSACTION"))
    value: str | None = declared(
        Text("The value in use; null for a secret or without a value.", example="2")
    )
    default: str | None = declared(
        Text("The default, given the other settings' values.", example="2")
    )
    source: str = declared(
        Choice("Where the value comes from.", options=tuple(Origin), example=Origin.DEFAULT)
    )
    secret: bool = declared(Flag("Whether the value is never shown."))
    set: bool = declared(Flag("Whether a value was given."))
    ceiling: bool = declared(
        Flag("Whether the setting limits all requests, grants, agents and keys.", example=True)
    )


LIST_SETTINGS = Call(
    "listSettings",
    "GET /settings",
    "List every setting of this process.",
    Setting,
    name="settings",
    listed="settings",
    about="See docs/reference/settings.md. Settings are read once, at the start. A secret's value"
    " is never shown, and a given address only with its scheme, host and port.",
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

    frozen: bool = declared(Flag("Whether the switch is on now."))
    wallet_id: str | None = declared(Text("The wallet; null for all.", example=None))


@resource
class SwitchOn(Switch):
    """A freeze switch that is on, with the reason."""

    frozen: bool = declared(Flag("Always true.", example=True))
    reason: str | None = declared(_STATED)


@resource
class FrozenWallet(Answer):
    """A wallet that is frozen by its own switch."""

    wallet_id: str = declared(Id("The wallet.", example=Example.WALLET))
    name: str = declared(Text("The wallet's name."))
    reason: str | None = declared(_STATED)
    since: datetime = declared(Time("When the wallet was frozen."))


@resource
class Frozen(Answer):
    """The frozen wallets, and whether the service is frozen."""

    service: bool = declared(
        Flag("Whether the service, with all wallets, is frozen.", example=True), named="frozen"
    )
    reason: str | None = declared(_STATED)
    since: datetime | None = declared(Time("When the service was frozen, or null."))
    frozen_wallets: int = declared(
        Whole("Number of wallets frozen by their own switch.", most=2**53 - 1)
    )
    wallets: tuple[FrozenWallet, ...] = declared(Json("Wallets, latest first, up to `limit`."))


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
    "Stop all new transactions of one wallet or of every wallet.",
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
    input_units: int = declared(Units("Amount sold, in smallest units."), read=int)
    output_units: int = declared(Units("Expected amount, in smallest units."), read=int)
    minimum_units: int = declared(
        Units("Minimum that must arrive, in smallest units.", example="4900000"), read=int
    )
    slippage_bps: int = declared(Whole("Allowed slippage in basis points.", example=70))
    price_impact: Decimal = declared(Number("A fraction: 0.003 is 0.3%.", example=0.003))


QUOTE_SWAP = Call(
    "quoteSwap",
    "POST /quote",
    "Get a quote for a swap.",
    SwapQuote,
    name=None,
    about="Nothing is sent, reserved or recorded.",
)
