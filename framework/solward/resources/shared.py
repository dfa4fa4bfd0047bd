"""Declarations that several resources share: ids of examples, lists, limits with their use, and the
amounts that grants still allow."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from solward.resources.declare import Answer, Request, answer_schema, declared, resource
from solward.resources.fields import (
    Amount,
    Flag,
    Id,
    Json,
    Shape,
    Text,
    Texts,
    Time,
    Units,
    WalletId,
    Whole,
)
from solward.resources.schema import mapping


class Example:
    """The ids, addresses and times that the examples of resources and operations share."""

    WALLET = "e05136c2-0095-4472-9b84-19b9e354eeee"
    ADDRESS = "Xyk1ak1fTvBzxDgQ8ypk1T4PfUfmQEXDnvC6Y6Ttnvh"
    STRANGER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
    MINT = "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"
    TOKEN_ACCOUNT = "GEVUHyWDGETFB2QXpKh43KZDyZZzHTQptZRqx1sA2wfu"  # noqa: S105 - an address
    STAKE = "6RDVFMTdCXVaW2iFUmvQ7UvLSYbbyTUNGKEGD2XmVMzs"
    VALIDATOR = "9QU2QSxhb24FUX3Tu2FpczXjpK3VYrvRudywSZaM29mF"
    WRAPPED = "4yzpwGH8prcWPpXbJKjyVCdBBCaUyKuomxgmmZr5MrYh"
    HOLD = "3f0e8a52-7a5c-4c0b-9d1e-5a0c6d2f4b18"
    TRANSACTION = "0d3c3a35-0b8e-4f2c-8f0a-5e2b4b8a5f10"
    AGENT = "b9f18163-42c5-477e-9824-368184e65079"
    KEY = "07e36977-7335-4ac1-bc2f-a8d680f0aec2"
    CREDENTIAL = "5c0e7c1d-6f0b-4f35-8a53-f6c5f60a4f0e"
    SCHEDULE = "5b0d0f4e-2f53-4f0e-9a55-1f6a0d8c7b21"
    MADE = "2026-11-21T10:34:55.814Z"


LIMIT = Whole("Maximum number of entries.", least=1, most=500)


@resource
class OfWallet(Request):
    """A request for a list, of all wallets or of one wallet."""

    wallet_id: str | None = declared(
        WalletId("Only entries of this wallet.", cli="--wallet"), default=None
    )
    limit: int = declared(LIMIT, default=50)


@resource
class Deleted(Answer):
    """The answer to a deletion."""

    id: str = declared(Id("The id of what was deleted."))
    deleted: bool = declared(Flag("Always true.", const=True))


@resource
class MinuteUse(Answer):
    """The use of a limit on transactions per minute; `limit` is None if there is no limit."""

    limit: int | None = declared(Whole("Maximum in any 60 seconds.", example=5))
    used: int = declared(Whole("Number in the last 60 seconds."))
    left: int | None = declared(Whole("Number that is still possible now.", example=4))


@resource
class RateUse(MinuteUse):
    """The use of a key's limit on requests that make transactions."""

    limit: int = declared(Whole("Maximum in any 60 seconds.", least=1, example=2))
    left: int = declared(Whole("Number that is still possible now."))


@resource
class DayUse(Answer):
    """The use of a limit on SOL in 24 hours; `limit` is None if there is no limit."""

    limit: Decimal | None = declared(Amount("Maximum SOL in any 24 hours.", example=10))
    spent: Decimal = declared(Amount("SOL spent in the last 24 hours.", example=0.6))
    reserved: Decimal = declared(Amount("SOL reserved by unfinished transactions.", example=0))
    left: Decimal | None = declared(Amount("SOL that may still be spent.", example=9.4))


@resource
class TokenUse(Answer):
    """The use of a limit on a token in 24 hours."""

    limit: str = declared(Units("Maximum units in any 24 hours."))
    spent: str = declared(Units("Units spent in the last 24 hours."))
    reserved: str = declared(Units("Units reserved by unfinished transactions."))
    left: str = declared(Units("Units that may still be spent."))


@resource
class GrantUse(Answer):
    """The use of a grant's limit on one asset in one window. Amounts are exact whole units."""

    asset: str = declared(
        Text("Symbol, mint, `*` (in dollars), `COSTS` (in SOL) or `RATE` (a number).")
    )
    window: str = declared(Text("The window, such as `24h`."))
    limit: str = declared(Text("The maximum in the window."))
    used: str = declared(Text("The amount used in the window that ends now."))
    left: str = declared(Text("The amount that may still leave."))
    sentence: str = declared(Text("The limit and its use in words."))
    room_at: datetime | None = declared(Time("When more is left, if little is now."), default=None)


@resource
class GrantRoom(Answer):
    """The amounts that a grant still allows."""

    id: str = declared(Text("The grant's id, a hash of its content."))
    number: int = declared(Whole("The grant's number in refusals.", least=1))
    sentence: str = declared(Text("The grant in words."))
    limits: tuple[GrantUse, ...] = declared(Json("The grant's limits by asset and window."))


@resource
class PrincipalRoom(Answer):
    """The amounts that a principal's grants still allow."""

    who: str = declared(Text("The principal, such as `agent:<id>`."))
    name: str = declared(Text("The principal's name for people."))
    grants: tuple[GrantRoom, ...] = declared(
        Json("Grants in written order; empty if the principal may do nothing.")
    )


@resource
class Limits(Answer):
    """Limits on transactions, their use, and the amounts that grants still allow."""

    max_sol: Decimal | None = declared(
        Amount("Maximum SOL in one transaction.", example=2), named="maxSolPerTransaction.limit"
    )
    max_transactions_per_minute: MinuteUse = declared(Json("Limit per minute, and its use."))
    daily_spending_limit_sol: DayUse = declared(Json("Limit on SOL in 24 hours, and its use."))
    max_costs_sol_per_day: DayUse = declared(Json("Limit on fees and rent, and its use."))
    daily_tokens: Mapping[str, Any] = declared(
        Shape("Limits by mint.", form=mapping(answer_schema(TokenUse), ""), example={})
    )
    grants: tuple[PrincipalRoom, ...] = declared(
        Json("What each principal's grants still allow.", example=[])
    )


@resource
class Bound(Answer):
    """The maximum amount of one asset that can leave a wallet."""

    most: str | None = declared(Text("Exact whole units; null if unlimited."))
    reason: str | None = declared(Text("Why the amount is unlimited."), default=None)
    dollars_beside: str | None = declared(
        Text("Amount in dollars that may leave in addition."), default=None
    )


@resource
class CanLeave(Answer):
    """The maximum amounts that can leave a wallet."""

    window: str = declared(Text("Always `24h`: any 24 hours.", example="24h"))
    assets: Mapping[str, Any] = declared(
        Shape(
            "By symbol or mint; `*`: dollars of all others, `COSTS`: SOL for fees and rent.",
            form=mapping(answer_schema(Bound), ""),
            example={"SOL": {"most": "10"}, "COSTS": {"most": "0.05"}, "*": {"most": "0"}},
        )
    )
    sentence: str = declared(
        Text(
            "The maximum amounts in words.",
            example="At most 10 SOL and 0.05 SOL of fees and rent can leave wallet savings today by"
            " anybody but the operator.",
        )
    )
    through: tuple[str, ...] = declared(
        Texts(
            "Principals without grants, through which unlimited amounts can leave.",
            each="A principal.",
        ),
        default=(),
    )
