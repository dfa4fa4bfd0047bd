"""Ceilings of one wallet: they bind everybody, in every way, within the service's own limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import text
from tests.operations.matrix.cases import ROWS
from tests.operations.matrix.row import Route, Spends
from tests.operations.matrix.stand import (
    Said,
    Stand,
    by_agent,
    by_rest,
    by_skill,
    new_stand,
    stranger,
)
from tests.promises import promise
from tests.schedules.test_schedules_pay import PAY
from tests.support.payments import PRICE, open_shop
from tests.support.services import HOUR, Answer, Api, serving_api, timetable

from solward.vault.ledger.transport import InProcessTransport
from solward.vault.store.wallets import set_ceilings

pytestmark = [promise("wallet-ceilings-bind-everybody"), pytest.mark.asyncio(loop_scope="module")]

NAMES = {
    "maxSolPerTransaction": "max_per_tx",
    "maxTransactionsPerMinute": "rate_limit",
    "dailySpendingLimitSol": "daily_limit",
    "maxCostsSolPerDay": "costs_limit",
}
U64_MAX = Decimal(2**64 - 1).scaleb(-9)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    home = tmp_path_factory.mktemp("ceilings") / "home"
    async with serving_api(home, demo=True, max_transactions_per_minute=50) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def stand(api: Api) -> Stand:
    return await new_stand(api)


async def put(api: Api, wallet: str, fields: Mapping[str, Any], **options: Any) -> Answer:
    return await api.call("PATCH", f"/wallets/{wallet}/limits", dict(fields), **options)


async def pay(stand: Stand, amount: str = "0.5", **options: Any) -> Answer:
    body = {"to": stranger(), "amount": Decimal(amount)}
    return await stand.api.post(f"/wallets/{stand.id}/transfer", body, **options)


def said_by(rule: str, name: str, text: str) -> bool:
    """Whether a refusal names the rule, and the wallet's ceiling."""
    return f"guardrail {rule}: " in text and text.endswith(f"(the wallet's ceiling {name})")


@pytest.mark.parametrize(("name", "rule"), NAMES.items())
async def test_each_ceiling_refuses_the_admin_and_a_key_by_its_rule(
    stand: Stand, name: str, rule: str
) -> None:
    api = stand.api
    key, _ = await api.key(walletId=stand.id)
    assert (await pay(stand)).status == 200
    # 0 is a ceiling, not its absence. A wallet that may make no transaction at all is frozen.
    most = 1 if rule == "rate_limit" else 0
    set_to = await put(api, stand.id, {name: most})
    assert set_to.status == 200, set_to.text
    assert set_to.json == (await api.get(f"/wallets/{stand.id}/limits")).json
    assert (set_to.json["ceilings"], set_to.json[name]["limit"]) == ({name: most}, most)
    for token in ({}, {"token": key}):
        refused = await pay(stand, **token)
        assert said_by(rule, name, refused.error), refused.error
        tried = await api.post(
            f"/wallets/{stand.id}/transfer?dryRun=true", {"to": stranger(), "amount": 1}, **token
        )
        assert (tried.json["allowed"], tried.json["rule"]) == (False, rule)
    lifted = await put(api, stand.id, {name: None})
    assert lifted.json["ceilings"] == {}
    assert (await pay(stand)).status == 200


SPENDING = [
    (skill, row)
    for skill, row in ROWS.items()
    if isinstance(row.does, Spends) and isinstance(row.route, Route) and skill != "airdrop"
]


@pytest.mark.parametrize("way", ["rest", "skill", "agent"])
@pytest.mark.parametrize("skill", [skill for skill, _ in SPENDING])
async def test_no_way_to_spend_gets_around_a_ceiling(stand: Stand, skill: str, way: str) -> None:
    row = ROWS[skill]
    assert isinstance(row.route, Route)
    params = await row.ready(stand)
    before, lamports = await stand.records(), await stand.lamports()
    await put(stand.api, stand.id, {"maxCostsSolPerDay": 0})
    said: Said
    if way == "rest":
        said = await by_rest(stand, "POST", row.route.path, params)
    else:
        said = await {"skill": by_skill, "agent": by_agent}[way](stand, skill, params)
    assert said_by("costs_limit", "maxCostsSolPerDay", said.text), said.text
    assert await stand.lamports() == lamports
    refused = (await stand.records())[0]
    assert (refused["status"], len(await stand.records())) == ("blocked", len(before) + 1)


async def test_of_many_at_once_as_many_pass_as_fit(stand: Stand) -> None:
    await put(stand.api, stand.id, {"dailySpendingLimitSol": 1})
    answers = await asyncio.gather(*(pay(stand) for _ in range(6)))
    assert sorted(each.status for each in answers) == [200] * 2 + [500] * 4
    day = (await stand.api.get(f"/wallets/{stand.id}/limits")).json["dailySpendingLimitSol"]
    assert (day["spent"] + day["reserved"], day["left"]) == (1, 0)


async def test_a_ceiling_set_after_the_simulation_binds(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, database = InProcessTransport.call, stand.api.service.database

    async def lowered(transport: Any, method: str, params: Sequence[Any]) -> Any:
        answer = await call(transport, method, params)
        if method == "simulateTransaction":
            async with database.write() as connection:
                await set_ceilings(connection, stand.id, {"maxSolPerTransaction": 10**8})
        return answer

    monkeypatch.setattr(InProcessTransport, "call", lowered)
    refused = await pay(stand)
    assert said_by("max_per_tx", "maxSolPerTransaction", refused.error)
    assert (await pay(stand, "0.1")).status == 200


async def test_an_approved_transaction_is_judged_by_the_ceiling_of_that_time(stand: Stand) -> None:
    api = stand.api
    asks = {"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "1"}, "hold": "0.1"}}}
    key, _ = await api.key(walletId=stand.id, grants=[asks])
    held = await pay(stand, token=key)
    assert held.status == 202, held.text
    await put(api, stand.id, {"maxSolPerTransaction": Decimal("0.4")})
    decided = await api.post(f"/holds/{held.json['holdId']}/approve")
    assert decided.status == 200, decided.text
    shown = await api.get(f"/holds/{held.json['holdId']}")
    assert shown.json["state"] == "refused", shown.text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"maxSolPerTransaction": Decimal("2.000000001")},
            "maxSolPerTransaction must be at most 2",
        ),
        ({"maxSolPerTransaction": U64_MAX}, "maxSolPerTransaction is larger than the ledger"),
        ({"dailySpendingLimitSol": 11}, "dailySpendingLimitSol must be at most 10 SOL"),
        ({"maxCostsSolPerDay": 1}, "maxCostsSolPerDay must be at most 0.05 SOL"),
        ({"maxTransactionsPerMinute": 51}, "maxTransactionsPerMinute must be at most 50"),
        ({"maxTransactionsPerMinute": 0}, "maxTransactionsPerMinute must be a whole number"),
        ({"maxSolPerTransaction": "1"}, "maxSolPerTransaction must be a number"),
        ({"maxSolPerTransaction": -1}, "maxSolPerTransaction must be greater than 0"),
        ({"dailySpendingLimitSol": Decimal("1e-10")}, "dailySpendingLimitSol has more than 9"),
        ({"maxCostsSolPerDay": 0, "maxSol": 1}, "maxSol is none of: dailySpendingLimitSol"),
    ],
)
async def test_a_wrong_value_is_named_and_changes_nothing(
    stand: Stand, fields: dict[str, Any], said: str
) -> None:
    answer = await put(stand.api, stand.id, {"dailySpendingLimitSol": 1} | fields)
    assert (answer.status, answer.error[: len(said)]) == (400, said)
    assert (await stand.api.get(f"/wallets/{stand.id}/limits")).json["ceilings"] == {}


@pytest.mark.parametrize(
    "odd",
    ["{bad", "null", "[]", "5", '{"maxSolPerTransaction": -5}', '{"maxSolPerTransaction": 1.5}',
     '{"maxSolPerTransaction": "1"}', '{"maxSolPerTransaction": null}', '{"other": 1}',
     '{"maxSolPerTransaction": true}', "[" * 9000],
)  # fmt: skip
async def test_ceilings_that_cannot_be_read_stop_their_wallet_alone(api: Api, odd: str) -> None:
    stand, other = await new_stand(api), await new_stand(api)
    async with api.service.database.write() as connection:
        change = text("UPDATE wallets SET ceilings = :odd WHERE id = :id")
        await connection.execute(change, {"odd": odd, "id": stand.id})
    refused = await pay(stand, "0.001")
    assert refused.status == 500
    assert "ceiling" in refused.error
    assert (await pay(other, "0.001")).status == 200
    assert (await api.get("/wallets")).status == 200
    assert (await api.get("/totals/balances")).status == 200
    assert (await put(api, stand.id, dict.fromkeys(NAMES))).json["ceilings"] == {}
    assert (await pay(stand, "0.001")).status == 200


async def test_only_who_may_set_policy_sets_them_and_each_change_is_audited(stand: Stand) -> None:
    api = stand.api
    key, _ = await api.key(walletId=stand.id)
    operator = (await api.post("/admins", {"name": "op", "role": "operate"})).json["adminSecret"]
    for token, status in ((key, 401), (operator, 403)):
        assert (await put(api, stand.id, {"maxCostsSolPerDay": 0}, token=token)).status == status
    await put(api, stand.id, {"maxCostsSolPerDay": Decimal("0.01"), "maxSolPerTransaction": 1})
    await put(api, stand.id, {"maxCostsSolPerDay": None})
    await put(api, stand.id, {"maxCostsSolPerDay": None})
    log = await api.get(f"/audit?types=wallet:changed&walletId={stand.id}")
    told = [each["data"] for each in log.json["entries"]]
    assert [(each["before"], each["after"], each["principal"]) for each in told] == [
        ({"ceilings": {"maxCostsSolPerDay": Decimal("0.01")}}, {"ceilings": {}}, "admin"),
        (
            {"ceilings": {}},
            {"ceilings": {"maxCostsSolPerDay": Decimal("0.01"), "maxSolPerTransaction": 1}},
            "admin",
        ),
    ]


@pytest.mark.asyncio(loop_scope="function")
async def test_a_setting_that_was_lowered_later_binds_in_place_of_a_ceiling(
    tmp_path: Path,
) -> None:
    async with serving_api(tmp_path) as api:
        wallet = await api.wallet(2)
        await api.key()
        await put(api, wallet, {"maxSolPerTransaction": 1, "maxCostsSolPerDay": Decimal("0.01")})
    async with serving_api(tmp_path, max_sol_per_transaction=Decimal("0.5")) as api:
        report = (await api.get(f"/wallets/{wallet}/limits")).json
        assert report["maxSolPerTransaction"]["limit"] == Decimal("0.5")
        assert report["maxCostsSolPerDay"]["limit"] == Decimal("0.01")
        assert report["canLeave"]["assets"]["COSTS"]["most"] == "0.01"
        body = {"to": stranger(), "amount": Decimal("0.6")}
        refused = await api.post(f"/wallets/{wallet}/transfer", body)
        assert refused.error.endswith("0.5 SOL allowed per transaction (limit of the wallet)")


@pytest.mark.more
@pytest.mark.asyncio(loop_scope="function")
async def test_payments_and_schedules_keep_to_it(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "shop") as shop:
        # The shop has made one transaction of the wallet's already.
        await put(shop.api, shop.wallet, {"maxTransactionsPerMinute": 2})
        assert (await shop.post()).status == 200
        refused = await shop.post()
        assert said_by("rate_limit", "maxTransactionsPerMinute", refused.error), refused.text
        assert (len(shop.seller.paid), await shop.earned()) == (1, PRICE)
    async with timetable(tmp_path / "table", max_transactions_per_minute=100) as table:
        wallet = await table.api.wallet(1)
        await put(table.api, wallet, {"maxSolPerTransaction": 0})
        made = await table.add(wallet, PAY | {"every": "1h"})
        await table.passes(HOUR)
        (run,) = await table.runs(wallet, made["id"])
        assert said_by("max_per_tx", "maxSolPerTransaction", run["text"]), run["text"]
