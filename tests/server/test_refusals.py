"""What was refused and why over REST: rule, numbers, and what the bytes could take."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tests.support.services import NOBODY, STRANGER, Api

from solward.operations.policies import refusals as store


async def pay(api: Api, wallet: str, sol: str, **options: Any) -> Any:
    body = {"to": STRANGER, "amount": Decimal(sol)}
    return await api.post(f"/wallets/{wallet}/transfer", body, **options)


async def refusals(api: Api, query: str = "", **options: Any) -> Any:
    answer = await api.get(f"/refusals{query}", **options)
    assert answer.status == 200, answer.text
    return answer.json


async def test_a_refusal_has_its_rule_its_numbers_and_what_could_leave(api: Api) -> None:
    wallet = await api.wallet(2)
    key, key_id = await api.key(spendingLimitSol=Decimal("0.5"))
    assert (await pay(api, wallet, "0.75", token=key)).status == 500
    (found,) = (await refusals(api))["refusals"]
    reason = (
        "0.75 SOL is more than the 0.5 SOL left of the 0.5 SOL allowed in 24 hours; 0 SOL is spent"
        " or reserved (limit of the API key)"
    )
    assert found["refusal"] == {
        "rule": "spending_limit_check",
        "reason": reason,
        "numbers": {
            "asked": "0.75", "limit": "0.5", "left": "0.5", "used": "0", "unit": "SOL",
            "window": "24 hours",
        },
    }  # fmt: skip
    assert (found["principal"], found["error"]) == (f"key:{key_id}", reason)
    (line,) = found["couldLeave"]["lines"]
    assert line == {
        "operation": "transfer", "asset": "SOL", "units": "750000000", "account": STRANGER,
        "decimals": 9,
    }  # fmt: skip
    assert int(found["couldLeave"]["costsLamports"]) >= 5_000
    assert (await api.get(f"/transactions/{found['id']}")).json == found


async def test_what_was_not_simulated_says_its_rule_and_no_bytes(api: Api) -> None:
    wallet = await api.wallet()
    assert (await pay(api, wallet, "3")).status == 500
    (found,) = (await refusals(api))["refusals"]
    assert found["refusal"]["rule"] == "max_per_tx"
    assert found["refusal"]["numbers"] == {"asked": "3", "limit": "2", "unit": "SOL"}
    assert "couldLeave" not in found


async def test_what_was_made_has_no_refusal(api: Api) -> None:
    wallet = await api.wallet(2)
    await pay(api, wallet, "0.25")
    record = (await api.records(wallet))[0]
    found = (await api.get(f"/transactions/{record['id']}")).json
    assert "refusal" not in found
    assert found["couldLeave"]["lines"][0]["units"] == "250000000"
    assert found["status"] == "confirmed"
    assert (await refusals(api))["refusals"] == []


async def test_of_one_wallet_only_its_refusals_are_listed(api: Api) -> None:
    wallet, other = await api.wallet(2), await api.wallet()
    for each in (wallet, wallet, other):
        await pay(api, each, "3")
    whole = await refusals(api, "?limit=1")
    assert [each["walletId"] for each in whole["refusals"]] == [other]
    one = await refusals(api, f"?walletId={wallet}")
    assert [each["walletId"] for each in one["refusals"]] == [wallet, wallet]


async def test_only_the_newest_records_are_searched(api: Api) -> None:
    wallet = await api.wallet(2)
    await pay(api, wallet, "3")
    for _ in range(3):
        await pay(api, wallet, "0.1")
    async with api.service.database.read() as connection:
        for among, listed in ((3, 0), (4, 1)):
            assert len(await store.list_refused(connection, None, 5, among)) == listed


async def test_a_confined_key_sees_its_wallets_alone(api: Api) -> None:
    mine, other = await api.wallet(), await api.wallet()
    for wallet in (mine, other):
        await pay(api, wallet, "3")
    key, _ = await api.key(walletId=mine)
    whole = await refusals(api, token=key)
    assert {each["walletId"] for each in whole["refusals"]} == {mine}
    assert (await api.get(f"/refusals?walletId={other}", token=key)).status == 404


async def test_what_is_not_there_is_404(api: Api) -> None:
    assert (await api.get(f"/transactions/{NOBODY}")).error == "Transaction not found"
    answer = await api.get(f"/refusals?walletId={NOBODY}")
    assert (answer.status, answer.error) == (404, "Wallet not found")
    # An empty id is no wallet, and not all of them.
    assert (await api.get("/refusals?walletId=")).status == 400
