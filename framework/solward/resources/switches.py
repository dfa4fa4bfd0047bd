"""The freeze switch: it stops new transactions of the service or of one wallet at once."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from solward.resources import examples
from solward.resources.answers import Answer
from solward.resources.declare import Call, Request, declared, resource
from solward.resources.fields import Flag, Id, Json, Text, Time, WalletId, Whole
from solward.resources.lists import LIMIT

REASON = Text("Shown to whoever is refused.", example="incident 7")
_WALLET = WalletId("One wallet; left out, the whole service.", cli="--wallet")
_STATED = Text("As it was given.", example="incident 7")


@resource
class Freeze(Request):
    """What is to be frozen."""

    wallet_id: str | None = declared(_WALLET, default=None)
    reason: str | None = declared(REASON, default=None)


@resource
class Unfreeze(Request):
    """What is to be unfrozen."""

    wallet_id: str | None = declared(_WALLET, default=None)


@resource
class ListedFrozen(Request):
    """How much of what is frozen is listed."""

    limit: int = declared(LIMIT, default=50)


@resource
class Switch(Answer):
    """The freeze switch of the service, or of one wallet."""

    frozen: bool = declared(Flag("What it is now."))
    wallet_id: str | None = declared(Text("The wallet; null is all.", example=None))


@resource
class SwitchOn(Switch):
    """The freeze switch that stops transactions."""

    frozen: bool = declared(Flag("What it is now.", example=True))
    reason: str | None = declared(_STATED)


@resource
class FrozenWallet(Answer):
    """A wallet that is frozen by itself."""

    wallet_id: str = declared(Id("The wallet.", example=examples.WALLET))
    name: str = declared(Text("Its name."))
    reason: str | None = declared(_STATED)
    since: datetime = declared(Time("When it was frozen."))


@resource
class Frozen(Answer):
    """What is frozen."""

    service: bool = declared(
        Flag("The service, and with it every wallet.", example=True), named="frozen"
    )
    reason: str | None = declared(_STATED)
    since: datetime | None = declared(Time("Null where the service is not frozen."))
    frozen_wallets: int = declared(
        Whole("How many wallets are frozen by themselves.", most=2**53 - 1)
    )
    wallets: tuple[FrozenWallet, ...] = declared(Json("The latest first, at most `limit`."))


LIST_FROZEN = Call(
    "listFrozen",
    "GET /freeze",
    "What is frozen, since when and why.",
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
    about="What was sent already goes on to its end. A restart does not lift it.",
)
UNFREEZE = Call("unfreeze", "POST /unfreeze", "Allow transactions again.", Switch, body=Unfreeze)
CALLS: tuple[Call[Any], ...] = (LIST_FROZEN, FREEZE, UNFREEZE)
