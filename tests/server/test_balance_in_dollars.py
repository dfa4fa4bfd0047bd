"""What a wallet holds in dollars, by whoever says what assets are worth."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from tests.promises import promise
from tests.support.services import serving_api

from solward.service.holdings import worth
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.vault.grants.dollars import NoPrice, Price


@promise("balance-in-dollars")
async def test_it_is_shown_where_it_is_asked_for_and_what_has_no_price_is_named(
    tmp_path: Path,
) -> None:
    async with serving_api(tmp_path) as api:
        wallet = await api.wallet(2)
        path = f"/wallets/{wallet}/balance"
        body = {"name": "A", "symbol": "AAA", "decimals": 6, "initialSupply": 10}
        mine = (await api.post(f"/wallets/{wallet}/launch-token", body)).json["mint"]
        await api.post(f"/wallets/{wallet}/wrap-sol", {"amount": Decimal("0.5")})
        plain = (await api.get(path)).json
        assert set(plain) == {"sol", "tokens"}
        shown = (await api.get(f"{path}?usd=true")).json
        usd = shown.pop("usd")
        assert shown == plain
        prices = await api.service.prices.prices(["SOL"])
        assert isinstance(prices["SOL"], Price)
        sol = prices["SOL"].usd
        assert usd["unpriced"] == {mine: "the price source localnet has no price for this asset"}
        assert set(usd["assets"]) == {"SOL", WRAPPED_SOL_MINT}
        for asset, amount in (("SOL", plain["sol"]), (WRAPPED_SOL_MINT, Decimal("0.5"))):
            exact = Decimal(amount) * sol.numerator / sol.denominator
            assert 0 <= usd["assets"][asset] - exact < Decimal("0.000001")
        assert usd["total"] == sum(usd["assets"].values())
        assert (await api.get(f"{path}?usd=yes")).status == 400


@promise("balance-in-dollars")
def test_each_is_rounded_up_and_other_decimals_are_no_price() -> None:
    third = Price(Fraction(1, 3), 6, 0)
    held = {"SOL": (1, 9), "a": (1, 6), "b": (1, 5), "c": (0, 6), "d": (1, 6)}
    prices = {"SOL": Price(Fraction(100), 9, 0), "a": third, "b": third, "c": third}
    found = worth(held, prices | {"d": NoPrice("why")})
    assert found.micro_dollars == {"SOL": 1, "a": 1, "c": 0}
    assert found.total == 2
    assert set(found.unpriced) == {"b", "d"}
    assert found.unpriced["d"] == "why"
