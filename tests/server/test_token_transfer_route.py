"""`POST /wallets/:id/token-transfer`: its fields, its answer, its dry run and its one payment."""

from __future__ import annotations

from decimal import Decimal

from solders.keypair import Keypair
from tests.promises import promise
from tests.support.localnet import rent
from tests.support.services import Api

TO = str(Keypair().pubkey())


async def holding_tokens(api: Api) -> tuple[str, str]:
    """A wallet, and a mint of which it holds 1000."""
    wallet = await api.wallet(1)
    body = {"name": "Demo coin", "symbol": "DEMO", "decimals": 6, "initialSupply": 1000}
    return wallet, (await api.post(f"/wallets/{wallet}/launch-token", body)).json["mint"]


@promise("token-transfer-fields")
async def test_it_answers_the_record_with_its_details_and_pays_once_per_key(api: Api) -> None:
    wallet, mint = await holding_tokens(api)
    path, once = f"/wallets/{wallet}/token-transfer", {"Idempotency-Key": "send"}
    body = {"mint": mint, "to": TO, "amount": Decimal("2.5")}
    answer = await api.post(path, body, headers=once)
    assert (answer.status, answer.json["type"]) == (200, "token_transfer")
    assert answer.json["status"] == "confirmed"
    assert body.items() <= answer.json["details"].items() <= answer.json.items()
    again = await api.post(path, body, headers=once)
    assert (again.status, again.text) == (200, answer.text)
    (token,) = (await api.get(f"/wallets/{wallet}/balance")).json["tokens"]
    assert token["uiBalance"] == Decimal("997.5")


async def test_a_dry_run_tells_tokens_and_rent_and_sends_nothing(api: Api) -> None:
    wallet, mint = await holding_tokens(api)
    body = {"mint": mint, "to": TO, "amount": 1}
    answer = await api.post(f"/wallets/{wallet}/token-transfer?dryRun=true", body)
    assert (answer.status, answer.json["allowed"]) == (200, True)
    effects = answer.json["effects"]
    assert effects["tokensOut"] == {mint: "1000000"}
    assert (effects["rent"], effects["solOut"]) == (Decimal(rent(170)).scaleb(-9), 0)
    assert len(await api.records(wallet)) == 2


async def test_emptied_accounts_are_told_on_request_and_nothing_else_is_taken(api: Api) -> None:
    wallet, mint = await holding_tokens(api)
    body = {"mint": mint, "to": TO, "amount": 1000}
    assert (await api.post(f"/wallets/{wallet}/token-transfer", body)).status == 200
    path = f"/wallets/{wallet}/balance"
    for query in ("", "?empty=false"):
        assert (await api.get(path + query)).json["tokens"] == []
    (token,) = (await api.get(f"{path}?empty=true")).json["tokens"]
    assert (token["mint"], token["uiBalance"], token["rawBalance"]) == (mint, 0, "0")
    answer = await api.get(f"{path}?empty=yes")
    assert (answer.status, answer.error) == (400, "empty must be true or false")
