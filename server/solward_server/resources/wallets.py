"""Wallets: create, list, show, change; balance, limits, reclaimable rent, pockets, stakes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from quart import Response

from solward.agents.agent import Agent
from solward.operations.policies.grant_report import (
    Caller,
    CanLeave,
    leaving_by_wallet,
    limits_report,
    wallet_grants,
)
from solward.resources import wallets as calls
from solward.resources.declare import answer_json
from solward.resources.schedules import ScheduleStatus
from solward.schedules.runs import may_spend
from solward.schedules.schedule import Schedule
from solward.service.holdings import Worth
from solward.service.limits import read_ceilings, wallet_limits
from solward.service.service import Solward
from solward.types.errors import (
    InvalidRequest,
    LedgerUnavailable,
    TooManyWallets,
    TransactionFailed,
)
from solward.types.money import from_units, lamports_to_sol
from solward.types.roles import Role
from solward.vault.custody import MOST_OF_A_KEY
from solward.vault.grants.model import USD_DECIMALS, Grant
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.store import spending
from solward.vault.store.wallets import ceilings_json, set_ceilings
from solward_server.http.auth import admin, caller, keyed
from solward_server.http.body import JSON, list_response, query_of, read_body
from solward_server.http.errors import SPENDS_NOTHING, Forbidden
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import RECORD, TOO_MANY
from solward_server.openapi.route import Routes

_PAGE = 50
_CONFINED = "This API key is confined to one wallet and cannot create another"
_BEFORE = "before must be the id of a wallet"
_UNANSWERED = LedgerUnavailable("The ledger did not answer getMultipleAccounts (ConnectError)")

routes = Routes("wallets", "Wallets, their balances and limits.")
stakes = Routes("staking", "Stakes and wrapped SOL.")


@routes.serve(
    calls.CREATE_WALLET,
    keyed(Role.POLICY),
    {
        403: [_CONFINED, SPENDS_NOTHING],
        500: TooManyWallets(MOST_OF_A_KEY),
    },
)
async def create(context: RouteContext) -> dict[str, Any]:
    if caller().wallet_id is not None:
        raise Forbidden(_CONFINED)
    await context.may_change()
    new = calls.NewWallet.of(await read_body())
    made = await context.service.wallets.create(new.name, new.tags)
    return answer_json(calls.CreatedWallet, made)


@routes.serve(calls.LIST_WALLETS, keyed(Role.READ), {400: _BEFORE})
async def list_wallets(context: RouteContext) -> Response | dict[str, Any]:
    asked, only = query_of(calls.ListedWallets), caller().wallet_id
    if only is not None:
        # Nothing is older than the only one. Other ids are refused, whether they exist or not.
        if asked.before not in (None, only):
            raise InvalidRequest(_BEFORE)
        own = [await context.current_wallet(only)] if asked.before is None else []
        return {"wallets": [wallet.to_json(maker=asked.created_by) for wallet in own]}
    wallets, limit = context.service.wallets, asked.limit or _PAGE
    if asked.limit is None and asked.before is None:
        return await _list_all(wallets.pages_json(maker=asked.created_by))
    page = await wallets.newest_json(limit, asked.before, maker=asked.created_by)
    return list_response("wallets", page)


@routes.serve(calls.GET_WALLET, keyed(Role.READ))
async def get_wallet(context: RouteContext, wallet_id: str) -> dict[str, Any]:
    return (await context.current_wallet(wallet_id)).to_json()


@routes.serve(calls.CHANGE_WALLET, keyed(Role.POLICY), {403: SPENDS_NOTHING, 429: TOO_MANY})
async def change(context: RouteContext, wallet_id: str) -> dict[str, Any]:
    wallet = await context.current_wallet(wallet_id)
    await context.may_change()
    # Counted, because the audit log keeps every change.
    await context.count_request()
    tags = calls.ChangedWallet.of(await read_body()).tags
    if tags is None:
        tags = wallet.tags
    return (await context.service.wallets.set_tags(wallet_id, tags)).to_json()


@routes.serve(calls.GET_BALANCE, keyed(Role.READ), {500: _UNANSWERED})
async def balance(context: RouteContext, wallet_id: str) -> dict[str, Any]:
    await context.wallet(wallet_id)
    asked = query_of(calls.AskedBalance)
    balances = await context.service.holdings.balances(wallet_id, empty=asked.empty)
    worth = {"usd": _usd(await context.service.holdings.worth(balances))} if asked.usd else {}
    return balances.to_json() | worth


@routes.serve(calls.GET_LIMITS, keyed(Role.READ))
async def limits(context: RouteContext, wallet_id: str) -> dict[str, Any]:
    await context.wallet(wallet_id)
    # A key sees its own grants and the wallet's; everybody sees the sum.
    who = caller()
    shown = None if who.key is None else (who.principal, f"wallet:{wallet_id}")
    return await limits_of(context.service, wallet_id, shown)


@routes.serve(
    calls.SET_CEILINGS,
    admin(Role.POLICY),
    {400: "maxSolPerTransaction must be at most 2 SOL, the service's limit"},
)
async def change_ceilings(context: RouteContext, wallet_id: str) -> dict[str, Any]:
    await context.wallet(wallet_id)
    service = context.service
    changes = read_ceilings(await read_body(), wallet_limits(service.settings))
    async with service.database.write() as connection:
        await set_ceilings(connection, wallet_id, changes)
    return await limits_of(service, wallet_id)


@routes.serve(calls.GET_RECLAIMABLE, keyed(Role.READ), {500: _UNANSWERED})
async def reclaimable(context: RouteContext, wallet_id: str) -> dict[str, Any]:
    await context.wallet(wallet_id)
    return (await context.service.operations.reclaimable(wallet_id)).to_json()


@routes.serve(calls.GET_POCKETS, keyed(Role.READ))
async def pockets(context: RouteContext, wallet_id: str) -> dict[str, Any]:
    await context.wallet(wallet_id)
    found = [
        answer_json(
            calls.Pocket,
            each,
            # The program is shown only together with its position.
            program=each.program if each.position is not None else None,
            at_risk={asset: str(units) for asset, units in sorted(each.at_risk.items())},
        )
        for each in await context.service.wallets.pockets(wallet_id)
    ]
    return {"walletId": wallet_id, "pockets": found}


@routes.serve(
    calls.SWEEP_POCKET,
    admin(Role.OPERATE),
    {
        400: "address: pocket 9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g is still in use",
        500: TransactionFailed("Something is left in the pocket", RECORD),
    },
)
async def sweep(context: RouteContext, wallet_id: str, pocket_id: str) -> dict[str, Any]:
    await read_body()
    await context.wallet(wallet_id)
    record = await context.service.engine.sweep_pocket(wallet_id, caller().actor(), pocket_id)
    return record.to_json(fee=True)


@stakes.serve(
    calls.LIST_STAKES, keyed(Role.READ), {500: LedgerUnavailable("The ledger did not answer")}
)
async def list_stakes(context: RouteContext, wallet_id: str) -> dict[str, Any]:
    await context.wallet(wallet_id)
    found, complete = await context.service.holdings.stakes(wallet_id)
    shown = [
        answer_json(
            calls.Stake, each, balance=lamports_to_sol(each.lamports), locked=each.is_locked or None
        )
        for each in found
    ]
    return {"stakes": shown} | ({} if complete else {"complete": False})


async def _list_all(pages: AsyncIterator[Sequence[bytes]]) -> Response:
    # Read before the status is sent, so that an error has its own status.
    first: Sequence[bytes] = await anext(pages, [])
    second: Sequence[bytes] = await anext(pages, [])
    if not second:
        return list_response("wallets", first)
    response = Response(_json_pages(first, second, pages), 200, content_type=JSON)
    # The number of wallets is not known, so the response has no time limit.
    response.timeout = None
    return response


async def _json_pages(
    first: Sequence[bytes], second: Sequence[bytes], others: AsyncIterator[Sequence[bytes]]
) -> AsyncGenerator[bytes, None]:
    """Yield the JSON of the list of wallets, page by page."""
    yield b'{"wallets":[' + b",".join(first)
    page = second
    while page:
        yield b"," + b",".join(page)
        page = await anext(others, [])
    yield b"]}"


def _usd(worth: Worth) -> dict[str, Any]:
    def dollars(micro: int) -> Decimal:
        return from_units(micro, USD_DECIMALS)

    return {
        "total": dollars(worth.total),
        "assets": {asset: dollars(micro) for asset, micro in worth.micro_dollars.items()},
        "unpriced": dict(worth.unpriced),
    }


async def leaving_of_all(service: Solward) -> dict[str, CanLeave]:
    """Return the maximum that can leave each wallet, by its id; each wallet's keys take a query."""
    every = [each.id for each in await service.wallets.list()]
    agents, schedules = defaultdict(list), defaultdict(list)
    for agent in await service.agents.list():
        agents[agent.wallet_id].append(agent)
    for schedule in _spending(service, await service.schedules.list()):
        schedules[schedule.wallet_id].append(schedule)
    users = {}
    for wallet_id in every:
        keys = await service.keys.keys_of_wallet(wallet_id)
        callers = _callers(agents[wallet_id], schedules[wallet_id])
        users[wallet_id] = ([*callers, *keys.single], keys.alike)
    return await leaving_by_wallet(service.database, wallet_limits(service.settings), users)


def _spending(service: Solward, schedules: Iterable[Schedule]) -> list[Schedule]:
    """Return the schedules that may move something: those whose skill only reads do not."""
    skills = service.live.registry.skills
    return [
        each
        for each in schedules
        if each.status is not ScheduleStatus.ENDED and may_spend(skills.get(each.skill))
    ]


def _callers(agents: Iterable[Agent], schedules: Iterable[Schedule]) -> list[Caller]:
    """Return agents and the operator's schedules with their ceilings."""
    own = [(each.principal, ScopeLimits()) for each in schedules if each.key_id is None]
    return [*((f"agent:{each.id}", each.guardrails) for each in agents), *own]


async def limits_of(
    service: Solward,
    wallet_id: str,
    shown: Collection[str] | None = None,
    draft: Mapping[str, Sequence[Grant]] | None = None,
) -> dict[str, Any]:
    """Return a wallet's limits and ceilings with what is spent and reserved, whether it is frozen,
    the amounts that its grants still allow, and the maximum that can leave it in a day.

    Args:
        shown: the principals whose grants, and whose schedules' grants, are included; None for the
            wallet and all who may use it.
        draft: see `wallet_grants`.
    """
    wallet = await service.wallets.get(wallet_id)
    scope = f"wallet:{wallet.id}"
    async with service.database.read() as connection:
        frozen, _, own = await spending.read_binding(connection, wallet.id)
    ceilings = wallet_limits(service.settings).within(own)
    report = await limits_report(service.database, scope, ceilings)
    schedules = _spending(service, await service.schedules.list(wallet.id))
    callers = _callers(await service.agents.list(wallet.id), schedules)
    of_keys = [each for each in schedules if each.key_id is not None]
    if shown is not None:
        shown = {*shown, *(each.principal for each in of_keys if each.made_by in shown)}
    keys = await service.keys.keys_of_wallet(wallet.id, draft or ())
    grants = await wallet_grants(
        service.database,
        service.tokens,
        wallet.id,
        ceilings,
        [*callers, *keys.single],
        shown,
        keys.alike,
        [each.principal for each in of_keys],
        draft,
    )
    state = {"walletId": wallet.id, "frozen": frozen is not None, "ceilings": ceilings_json(own)}
    return state | report | grants
