"""`MAX_PRICE_IMPACT_BPS` and `MAX_SLIPPAGE_BPS` bound every swap of a service."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from tests.support.services import serving_api


async def test_a_swap_beyond_the_services_settings_is_refused(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home", max_price_impact_bps=30, max_slippage_bps=100) as api:
        wallet = await api.wallet(2)
        body = {"inputToken": "SOL", "outputToken": "USDC", "amount": 1}
        # The pool's fee is 30 basis points, and a trade moves the price beside it.
        answer = await api.post(f"/wallets/{wallet}/swap", body)
        assert answer.status == 500
        assert answer.error == (
            "Transaction blocked by guardrail swap_bounds: the swap would move the price by 31 "
            "basis points, more than the 30 allowed; MAX_PRICE_IMPACT_BPS sets this limit"
        )
        answer = await api.post(f"/wallets/{wallet}/swap?dryRun=true", body)
        assert (answer.json["allowed"], answer.json["rule"]) == (False, "swap_bounds")
        answer = await api.post(f"/wallets/{wallet}/swap", {**body, "slippageBps": 101})
        assert answer.status == 400
        assert answer.error == "slippageBps must be at most 100 (MAX_SLIPPAGE_BPS)"
        (record,) = [r for r in await api.records(wallet) if r["type"] == "swap"]
        assert (record["status"], record["guardrailsApplied"][-1]) == ("blocked", "swap_bounds")
        assert Decimal(str((await api.get(f"/wallets/{wallet}/balance")).json["sol"])) == 2
