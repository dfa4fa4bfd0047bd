"""What the requests and answers of several resources have in common."""

from __future__ import annotations

from solward.resources.answers import Answer
from solward.resources.declare import Request, declared, resource
from solward.resources.fields import Flag, Id, WalletId, Whole

LIMIT = Whole("How many at most.", least=1, most=500)


@resource
class OfWallet(Request):
    """A list over all wallets, or one wallet's part of it."""

    wallet_id: str | None = declared(WalletId("Only this wallet's.", cli="--wallet"), default=None)
    limit: int = declared(LIMIT, default=50)


@resource
class Deleted(Answer):
    """What is deleted."""

    id: str = declared(Id("Its id."))
    deleted: bool = declared(Flag("True.", const=True))
