"""Sums over all wallets: what was spent, transactions, balances, and what can leave."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from solward.resources.declare import Answer, Call, declared, resource, sol
from solward.resources.fields import Amount, Id, Json, Shape, Text, Texts, Time, Units, Whole
from solward.resources.schema import mapping, ref
from solward.resources.shared import Example
from solward.resources.wallets import decimals_by_asset

_COUNTS = mapping(Whole("Number of transactions.", least=0), "By status.")


@resource
class HourCount(Answer):
    """The transactions of an hour, as far as they are within 24 hours, by status."""

    start: datetime = declared(Time("The beginning of the hour."))
    counts: Mapping[str, int] = declared(
        Shape("By status.", form=_COUNTS, example={"confirmed": 3})
    )


@resource
class RefusalCause(Answer):
    """Refusals by one rule, of one wallet, principal, and limit on an asset; and the newest."""

    count: int = declared(Whole("Number of refusals.", least=1, example=41))
    rule: str = declared(Text("The rule that refused.", example="max_per_tx"))
    wallet_id: str = declared(Id("The wallet.", example=Example.WALLET))
    principal: str = declared(Text("The principal that asked.", example="admin"))
    transaction_id: str = declared(Id("The newest record.", example=Example.TRANSACTION))
    timestamp: datetime = declared(Time("When the newest was refused."))
    reason: str = declared(Text("The newest reason."))
    numbers: Mapping[str, str] = declared(
        Shape("The newest reason's numbers.", form=ref("RefusalNumbers")), default=None
    )


@resource
class DayTotals(Answer):
    """Sums over all wallets in 24 hours, and current prices."""

    wallets: int = declared(Whole("Number of wallets.", example=2))
    spent_sol: Decimal = declared(
        Units("SOL that limits count as spent or reserved."), named="spentLamports", read=sol
    )
    hours: tuple[HourCount, ...] = declared(Json("The hours within 24 hours, oldest first."))
    types: Mapping[str, Mapping[str, int]] = declared(
        Shape(
            "By type and status.",
            form=mapping(_COUNTS, ""),
            example={"transfer": {"confirmed": 3}},
        )
    )
    refused: int = declared(Whole("Number of refusals.", example=1))
    by_rule: Mapping[str, int] = declared(
        Shape(
            "Number of refusals by rule, largest first.",
            form=mapping(Whole("Number of refusals.", least=0), ""),
            example={"max_per_tx": 1},
        )
    )
    causes: tuple[RefusalCause, ...] = declared(Json("Causes of refusals, newest first, up to 20."))
    prices: Mapping[str, Decimal] = declared(
        Shape(
            "Dollars of one SOL or whole token, by `SOL` or mint; only of listed assets.",
            form=mapping(Amount("Dollars."), ""),
            example={},
        ),
        read=decimals_by_asset,
    )


@resource
class AssetTotal(Answer):
    """The sum of one asset over all wallets, and what of it can leave in 24 hours."""

    asset: str = declared(Text("`SOL`, a mint, or `*` for any other token.", example="SOL"))
    symbol: str | None = declared(Text("The symbol, if known.", example="SOL"), default=None)
    decimals: int = declared(Whole("Decimals of the asset.", most=255, example=9))
    held: int = declared(Units("The balances, wrapped SOL included."), read=int)
    wrapped: int = declared(Units("Wrapped SOL in `held`.", example="0"), read=int)
    bounded: int = declared(Units("What may leave wallets with a bound."), read=int)
    costs: int = declared(Units("Fees and rent that may leave.", example="0"), read=int)
    dollars: Decimal = declared(Amount("Dollars' worth that may leave too.", example=0))
    at_worst: int = declared(Units("The most of `held` that can leave."), read=int)
    unbounded: int = declared(Whole("Number of wallets without a bound.", least=0, example=0))
    reason: str | None = declared(Text("Why there is no bound."), default=None)


@resource
class BalanceTotals(Answer):
    """Balances of all wallets, and what can leave in 24 hours through all agents, keys and
    schedules together, without the operator's own actions."""

    assets: tuple[AssetTotal, ...] = declared(
        Json("SOL, listed tokens, others; those without a bound first.")
    )
    others: AssetTotal = declared(Json("Any token that no wallet holds."))
    more: int = declared(Whole("Number of further assets.", least=0, example=0))
    through: tuple[str, ...] = declared(
        Texts("Principals that no grant limits, up to 10.", each="A principal.", example=[])
    )
    through_more: int = declared(
        Whole("Number of further principals that no grant limits.", least=0, example=0)
    )
    wallets: int = declared(Whole("Number of wallets in the sums.", example=2))
    not_counted: tuple[str, ...] = declared(
        Texts("Names of wallets that could not be read.", each="A name.", example=[])
    )
    read_at: datetime = declared(Time("When the first of these balances was read."))


GET_DAY_TOTALS = Call(
    "getDayTotals",
    "GET /totals",
    "Get sums of 24 hours over all wallets.",
    DayTotals,
    name="day_totals",
)
GET_BALANCE_TOTALS = Call(
    "getBalanceTotals",
    "GET /totals/balances",
    "Get the balances of all wallets together, and what can leave.",
    BalanceTotals,
    name="balance_totals",
    about="The sums are kept for 30 seconds, or ten times as long as reading them took.",
)
