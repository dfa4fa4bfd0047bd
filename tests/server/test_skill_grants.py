"""Grants of skills and of plugins, through every door that runs a skill."""

from __future__ import annotations

from pathlib import Path

from tests.promises import promise
from tests.support.grants import grant, limit
from tests.support.services import STRANGER, serving_api

from solward.operations.policies.changes import replace_policy, replace_set


@promise("whole-chain-must-allow")
async def test_a_skill_and_its_plugin_are_bound_and_the_operation_itself_is_not(
    tmp_path: Path,
) -> None:
    async with serving_api(tmp_path, max_transactions_per_minute=100) as api:
        wallet = await api.wallet(2)
        token, _ = await api.key()
        body = {"to": STRANGER, "amount": 0.01}
        database = api.service.database
        for who in ("skill:transfer", "plugin:solward"):
            await replace_policy(database, {who: []}, {})
            for secret in (None, token):
                more = {} if secret is None else {"token": secret}
                ran = await api.post(f"/wallets/{wallet}/skills/transfer", body, **more)
                assert ran.status == 500, who
                assert "no grant" in ran.error
                sent = await api.post(f"/wallets/{wallet}/transfer", body, **more)
                assert sent.status == 200
        await replace_set(
            database, "plugin:solward", [grant("plugin:solward", SOL=limit("SOL", 10**7))]
        )
        first = await api.post(f"/wallets/{wallet}/skills/transfer", body)
        second = await api.post(f"/wallets/{wallet}/skills/transfer", body)
        assert (first.status, second.status) == (200, 500)


async def test_a_key_is_told_of_its_own_grants_and_the_wallets_and_the_operator_of_all(
    tmp_path: Path,
) -> None:
    async with serving_api(tmp_path) as api:
        wallet = await api.wallet(2)
        token, key = await api.key()
        _, other = await api.key()
        mine, its = f"key:{key}", f"wallet:{wallet}"
        half = limit("SOL", 5 * 10**8)
        sets = {mine: [grant(mine, SOL=half)], its: [grant(its, SOL=half)], f"key:{other}": []}
        await replace_policy(api.service.database, sets, {})
        answer = (await api.get(f"/wallets/{wallet}/limits", token=token)).json
        assert [each["who"] for each in answer["grants"]] == [its, mine]
        assert answer["canLeave"]["assets"]["SOL"] == {"most": "0.5"}
        everything = (await api.get(f"/wallets/{wallet}/limits")).json
        assert {each["who"] for each in everything["grants"]} == set(sets)
