"""Every skill, by REST, by an agent's cycle and by the skills endpoint: success, bad input, a
guardrail's refusal, the ledger's failure. The table is `cases.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.operations.matrix.cases import MOST_SOL, MOST_USDC_UNITS, ROWS, USDC, cells
from tests.operations.matrix.row import Block, Params, Reads, Route, Row, Spends
from tests.operations.matrix.stand import (
    PER_MINUTE,
    Glitch,
    Said,
    Stand,
    Unplug,
    by_agent,
    by_rest,
    by_skill,
    connected,
    new_stand,
    unplugged,
)
from tests.promises import promise
from tests.support.services import NOBODY, Api, serving_api

from solward.plugins.discovery import BUILT_IN
from solward.types.skill import Effects

pytestmark = pytest.mark.asyncio(loop_scope="module")

AWAY = "did not answer"
WITHOUT_A_SKILL = {
    "/pockets/<pocket_id>/sweep",
    "/reclaim-rent",
    "/schedules",
    "/schedules/<schedule_id>/pause",
    "/schedules/<schedule_id>/resume",
    "/schedules/<schedule_id>/run",
}
# It needs a seller: tests/plugins/test_skill_pay.py and tests/server/test_pay_routes.py have one.
PAYS_A_SITE = "pay_request"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    limits: dict[str, Any] = {
        "max_sol_per_transaction": MOST_SOL,
        "max_transactions_per_minute": PER_MINUTE,
        "token_limits": {USDC: MOST_USDC_UNITS},
    }
    home = tmp_path_factory.mktemp("matrix") / "home"
    async with serving_api(home, demo=True, **limits) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def stand(api: Api) -> Stand:
    return await new_stand(api)


def table(column: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("skill", "way"), cells(column))


async def test_every_skill_and_every_route_has_its_row(api: Api) -> None:
    loaded = api.service.live.registry.skills.values()
    built_in = {
        each.spec.name: each.spec.effects for each in loaded if each.distribution == BUILT_IN
    }
    assert set(ROWS) == set(built_in) - {PAYS_A_SITE}
    for skill, row in ROWS.items():
        spends = built_in[skill] is Effects.SPEND
        assert isinstance(row.does, Spends if spends else Reads), skill
        assert isinstance(row.block, Block if spends else str), skill
        assert row.away is True or not spends, skill

    rows = {
        (row.route.method, row.route.path) for row in ROWS.values() if isinstance(row.route, Route)
    }
    prefix = "/api/v1/wallets/<wallet_id>"
    served = {
        (method, rule.rule.removeprefix(prefix))
        for rule in api.app.url_map.iter_rules()
        for method in rule.methods or ()
        if rule.rule.startswith(f"{prefix}/")
    }
    assert rows <= served
    posts = {path for method, path in served - rows if method == "POST"}
    assert posts == {"/skills/<name>", "/pay", *WITHOUT_A_SKILL}


@promise("types-of-records", "mint-decimals-must-match", "burn-and-close-fields")
@table("success")
async def test_it_does_what_was_asked(stand: Stand, skill: str, way: str) -> None:
    row = ROWS[skill]
    params = await row.ready(stand)
    before = await stand.records()

    said = await ask(stand, row, skill, way, params)

    if said.answer is not None:
        assert said.answer.status == 200, said.text
    if isinstance(row.does, Reads):
        assert await stand.records() == before
        if way == "rest":
            assert said.answer is not None
            assert row.does.answers is not None
            assert said.answer.json == await row.does.answers(stand)
        else:
            for told in await row.does.tells(stand, params):
                assert told in said.text
        return
    record = await done(stand, row.does, params, before, said)
    if way == "rest":
        assert said.answer is not None
        assert said.answer.json.items() >= record.items()


@promise("bad-input-no-record")
@table("bad")
async def test_bad_input_is_named_and_leaves_no_record(stand: Stand, skill: str, way: str) -> None:
    row = ROWS[skill]
    if way == "rest" and isinstance(row.route, Route) and row.route.method == "GET":
        # Its only input is the wallet.
        answer = await stand.api.get(f"/wallets/{NOBODY}{row.route.path}")
        assert (answer.status, answer.error) == (404, "Wallet not found")
        return

    said = await ask(stand, row, skill, way, row.bad.params)

    if said.answer is not None:
        assert said.answer.status == 400, said.text
    assert row.bad.names in said.text
    assert await stand.records() == []


@promise("refused-is-never-signed")
@table("block")
async def test_a_guardrail_refuses_and_the_record_says_which(
    stand: Stand, skill: str, way: str
) -> None:
    row = ROWS[skill]
    assert isinstance(row.block, Block)
    params = await row.block.ready(stand)
    before, lamports = await stand.records(), await stand.lamports()

    said = await ask(stand, row, skill, way, params)

    record = await _unsent(stand, row, before, lamports, said)
    assert record["status"] == "blocked"
    assert record["guardrailsApplied"][-1] == row.block.rule
    assert said.text == f"Transaction blocked by guardrail {row.block.rule}: {record['error']}"


@table("away")
async def test_a_ledger_that_does_not_answer_is_told(stand: Stand, skill: str, way: str) -> None:
    row = ROWS[skill]
    params = await row.ready(stand)
    before, lamports = await stand.records(), await stand.lamports()

    with unplugged() as unplug:
        said = await ask(stand, row, skill, way, params, unplug)

    if isinstance(row.away, str):
        assert said.answer is None or said.answer.status == 200
        assert AWAY not in said.text
        return
    assert AWAY in said.text
    if isinstance(row.does, Reads):
        assert said.answer is None or said.answer.status == 500
        assert await stand.records() == before
        return
    record = await _unsent(stand, row, before, lamports, said)
    assert record["status"] == "failed"
    assert said.text == record["error"]


@pytest.mark.parametrize(
    "skill",
    [
        skill if skill in ("transfer", "swap") else pytest.param(skill, marks=pytest.mark.more)
        for skill, row in ROWS.items()
        if isinstance(row.does, Spends)
    ],
)
async def test_one_unanswered_call_is_made_good_or_told(api: Api, skill: str) -> None:
    row = ROWS[skill]
    assert isinstance(row.does, Spends)
    told = 0
    for glitch in map(Glitch, range(50)):
        stand = await new_stand(api)
        params = await row.ready(stand)
        before, lamports = await stand.records(), await stand.lamports()
        with glitch.on():
            said = await by_skill(stand, skill, params)
        if glitch.method is None:
            break
        assert said.answer is not None
        if said.answer.status == 200:
            record, *earlier = await stand.records()
            assert (record["status"], earlier) == ("confirmed", before), glitch
            assert record["details"] == await row.does.shows(stand, params, record), glitch
        else:
            record = await _unsent(stand, row, before, lamports, said)
            assert (record["status"], AWAY in record["error"]) == ("failed", True), glitch
            told += 1
    # Every call of a whole run was cut off once, and those before the signature were told.
    assert glitch.method is None
    assert told >= 2


async def done(
    stand: Stand, does: Spends, params: Params, before: list[Any], said: Said
) -> dict[str, Any]:
    """The record of what was asked for: one more, and as the ledger has it."""
    record, *earlier = await stand.records()
    assert earlier == before
    assert (record["type"], record["status"]) == (does.type, "confirmed")
    assert record["details"] == await does.shows(stand, params, record)
    assert record["signature"] in said.text
    _is_the_askers(record, said)
    landed = await stand.api.service.ledger.statuses([record["signature"]])
    assert landed[0] is not None
    assert landed[0].err is None
    return dict(record)


async def ask(
    stand: Stand,
    row: Row,
    skill: str,
    way: str,
    params: Params,
    unplug: Unplug = connected,
) -> Said:
    if way == "rest":
        assert isinstance(row.route, Route)
        return await by_rest(stand, row.route.method, row.route.path, params, unplug)
    return await (by_agent if way == "agent" else by_skill)(stand, skill, params, unplug)


async def _unsent(
    stand: Stand, row: Row, before: list[Any], lamports: int, said: Said
) -> dict[str, Any]:
    """The record of what was refused: a 500, one record more, and nothing moved."""
    assert isinstance(row.does, Spends)
    assert said.answer is None or said.answer.status == 500
    record, *earlier = await stand.records()
    assert earlier == before
    assert record["type"] == row.does.type
    assert "signature" not in record
    assert await stand.lamports() == lamports
    _is_the_askers(record, said)
    return dict(record)


def _is_the_askers(record: dict[str, Any], said: Said) -> None:
    agent = None if said.decision is None else said.decision.agent_id
    assert record.get("agentId") == agent
