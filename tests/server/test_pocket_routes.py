"""Pockets over REST: listed with what is at risk, swept by the admin, never among the wallets."""

from __future__ import annotations

from pathlib import Path

from solders.keypair import Keypair
from solders.pubkey import Pubkey
from tests.support.services import serving_api
from tests.support.swaps import pay_sol

from solward.context import PocketRequest
from solward.vault.money.request import ADMIN

LAMPORTS = 5_000_000


async def test_a_position_is_listed_at_risk_and_swept(tmp_path: Path) -> None:
    async with serving_api(tmp_path) as api:
        wallet = (await api.post("/wallets", {"name": "holder"})).json["walletId"]
        await api.post(f"/wallets/{wallet}/airdrop", {"amount": 1})
        assert (await api.get(f"/wallets/{wallet}/pockets")).json == {
            "walletId": wallet,
            "pockets": [],
        }
        program = str(Keypair().pubkey())

        async def build(address: str) -> list[object]:
            return [pay_sol(Pubkey.from_string(address), Keypair().pubkey(), 1_000_000)]

        request = PocketRequest(
            build=build,  # type: ignore[arg-type]
            lamports=LAMPORTS,
            program=program,
            position="pool 3",
            stays=True,
        )
        record = await api.service.operations.use_pocket(wallet, ADMIN, request)
        (shown,) = (await api.get(f"/wallets/{wallet}/pockets")).json["pockets"]
        assert shown["atRisk"] == {"SOL": str(LAMPORTS)}
        assert (shown["program"], shown["position"]) == (program, "pool 3")
        assert (shown["counter"], shown["transactionId"], shown["mints"]) == (1, record.id, [])
        wallets = (await api.get("/wallets")).json["wallets"]
        assert [each["id"] for each in wallets] == [wallet]

        for path, trial, where in (
            ("?dryRun=true", None, " in the query"),
            ("", {"dryRun": True}, ""),
        ):
            tried = await api.post(
                f"/wallets/{wallet}/pockets/{shown['address']}/sweep{path}", trial
            )
            error = f"dryRun{where} is unknown. Nothing was done"
            assert (tried.status, tried.error) == (400, error)
        assert (await api.get(f"/wallets/{wallet}/pockets")).json["pockets"] == [shown]

        swept = await api.post(f"/wallets/{wallet}/pockets/{shown['address']}/sweep")
        assert (swept.status, swept.json["status"]) == (200, "confirmed")
        assert (await api.get(f"/wallets/{wallet}/pockets")).json["pockets"] == []
        again = await api.post(f"/wallets/{wallet}/pockets/{shown['address']}/sweep")
        assert (again.status, again.error) == (404, "Pocket not found")
