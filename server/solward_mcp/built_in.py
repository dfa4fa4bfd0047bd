"""Tools beside the skills: what a session may do, what it did, and what a payment would do.

None of them sends anything but `pay`, which is listed here and done by `tools`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from solward.client import NotFoundError, Skill, SolwardClient, Transaction, Wallet
from solward.client.wallets import SKILL_ROUTES
from solward_mcp.conversion import (
    DRY_RUN,
    DRY_RUN_OUTPUT,
    READ,
    BadArgument,
    exact,
    pop_wallet,
    spend_output,
    tool,
    with_dry_run,
    with_wallet,
)
from solward_mcp.paying import (
    DESCRIPTION,
    OUTPUT,
    PAY,
    QUOTE,
    QUOTE_DESCRIPTION,
    SCHEMA,
    read_params,
)
from solward_mcp.protocol import Json
from solward_mcp.scope import WalletScope

_PAGE = 500
_PAGES = 20

_Params = dict[str, Any]
_Answer = Callable[[WalletScope, Wallet, _Params], Awaitable[Mapping[str, Any]]]


async def _limits(scope: WalletScope, wallet: Wallet, _params: _Params) -> Mapping[str, Any]:
    return await scope.limits(wallet)


async def _history(scope: WalletScope, wallet: Wallet, params: _Params) -> Mapping[str, Any]:
    limit, before = params.get("limit", 20), params.get("before")
    if type(limit) is not int or not 1 <= limit <= _PAGE:
        raise BadArgument(f"limit must be a whole number from 1 to {_PAGE}")
    records = await scope.client.wallets.transactions(wallet.id, limit, _text(params, "before"))
    more = {} if before is None else {"before": before}
    return {**more, "transactions": [record.raw for record in records]}


async def _transaction(scope: WalletScope, wallet: Wallet, params: _Params) -> Mapping[str, Any]:
    name = _text(params, "id")
    if name is None:
        raise BadArgument("id is required: the id or signature of a transaction")
    return (await _find(scope.client, wallet, name)).raw


async def _quote(scope: WalletScope, _wallet: Wallet, params: _Params) -> Mapping[str, Any]:
    return await scope.client.quote(params)


async def quote_payment(scope: WalletScope, wallet: Wallet, params: _Params) -> Mapping[str, Any]:
    """What a payment would be; raises `BadArgument` and `ClientError`."""
    return (await scope.client.wallets.quote_payment(wallet.id, **read_params(params))).raw


def is_triable(skill: Skill) -> bool:
    """Whether a skill has a dry run that its tool can ask for."""
    own = skill.parameters.get("properties", {})
    return skill.name in SKILL_ROUTES and skill.effects != READ and DRY_RUN not in own


async def try_skill(
    scope: WalletScope, wallet: Wallet, name: str, params: _Params
) -> Mapping[str, Any]:
    """What would become of a skill that `is_triable`; raises `ClientError`."""
    return (await scope.client.wallets.try_route(wallet.id, SKILL_ROUTES[name], params)).raw


async def _dry_run(scope: WalletScope, wallet: Wallet, params: _Params) -> Mapping[str, Any]:
    tool, arguments = params.get("tool"), params.get("arguments", {})
    if tool not in SKILL_ROUTES:
        raise BadArgument(f"tool must be one of {', '.join(SKILL_ROUTES)}")
    if not isinstance(arguments, dict):
        raise BadArgument("arguments must be an object: what the tool takes")
    return await try_skill(scope, wallet, tool, arguments)


async def _find(client: SolwardClient, wallet: Wallet, name: str) -> Transaction:
    before = None
    for _ in range(_PAGES):
        page = await client.wallets.transactions(wallet.id, _PAGE, before)
        for record in page:
            if name in (record.id, record.signature):
                return record
        if len(page) < _PAGE:
            break
        before = page[-1].id
    raise NotFoundError(404, f"The wallet {wallet.name} has no transaction {name!r}")


def _text(params: Mapping[str, Any], field: str) -> str | None:
    value = params.get(field)
    if value is not None and (not isinstance(value, str) or not value):
        raise BadArgument(f"{field} must be a string")
    return value


def _schema(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _output(*required: str, **properties: Any) -> Json:
    return {"type": "object", "properties": properties, "required": [*required]}


_TRIAL = _output("dryRun", "allowed", dryRun={"const": True}, **DRY_RUN_OUTPUT)
_RECORD = _output(
    "id",
    "type",
    "status",
    id=_string("Its id."),
    type=_string("What it was, such as transfer."),
    status=_string("How it stands: confirmed, failed, blocked, and so on."),
)

_TOOLS: dict[str, tuple[str, dict[str, Any], Json, _Answer]] = {
    "get_limits": (
        "The limits of the wallet and of this session's key and what is left of them, the"
        " sentences of the grants that bind this session and what is left of each, and the most"
        " that can leave the wallet in a day.",
        _schema(),
        _output(),
        _limits,
    ),
    "get_history": (
        "The wallet's transactions, newest first, blocked ones too.",
        _schema(
            limit={"type": "integer", "minimum": 1, "maximum": _PAGE, "default": 20},
            before=_string("Id of a transaction: only older ones."),
        ),
        _output("transactions", transactions={"type": "array", "items": _RECORD}),
        _history,
    ),
    "get_transaction": (
        "One transaction of the wallet: what it was, how it stands, and why it was refused.",
        _schema(("id",), id=_string("Its id or its signature.")),
        _RECORD,
        _transaction,
    ),
    "quote_swap": (
        "What a swap would bring now; nothing is sent. Amounts of the answer are in the tokens'"
        " smallest units.",
        _schema(
            ("inputToken", "outputToken", "amount"),
            inputToken=_string("Mint or symbol of what is sold, such as SOL."),
            outputToken=_string("Mint or symbol of what is bought, such as USDC."),
            amount={
                "type": "number",
                "exclusiveMinimum": 0,
                "description": "Whole units of the input token.",
            },
            slippageBps={
                "type": "integer",
                "minimum": 0,
                "description": "As the skill swap has it.",
            },
        ),
        _output(
            "outputUnits",
            "minimumUnits",
            outputUnits=_string("What it brings, in smallest units."),
            minimumUnits=_string("The least that it brings, in smallest units."),
        ),
        _quote,
    ),
    QUOTE: (QUOTE_DESCRIPTION, dict(SCHEMA), _TRIAL, quote_payment),
    "dry_run": (
        "What would become of a tool that spends: judged by every limit and grant and simulated;"
        " nothing is sent, reserved or recorded.",
        _schema(
            ("tool",),
            tool={"type": "string", "enum": [*SKILL_ROUTES], "description": "The tool to try."},
            arguments={
                "type": "object",
                "description": "What it takes, without the wallet.",
                "additionalProperties": True,
            },
        ),
        _TRIAL,
        _dry_run,
    ),
}


def built_in(*, one_wallet: bool) -> list[Json]:
    """The tools; no call names the wallet where the session is for one."""
    pays = tool(
        PAY,
        DESCRIPTION,
        with_wallet(with_dry_run(SCHEMA), "wallet", one_wallet=one_wallet),
        spend_output(OUTPUT, triable=True),
        reads=False,
    )
    reading = [
        tool(
            name,
            description,
            with_wallet(schema, "wallet", one_wallet=one_wallet),
            output,
            reads=True,
        )
        for name, (description, schema, output, _work) in _TOOLS.items()
    ]
    return [pays, *reading]


def is_built_in(name: str) -> bool:
    """Whether a tool of the name is one of these."""
    return name in _TOOLS


async def answer(scope: WalletScope, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a tool answers, as JSON.

    Raises:
        BadArgument, WalletChoice: an argument is wrong.
        ClientError: the service does not respond, or refuses.
    """
    fields = dict(arguments)
    wallet = await scope.wallet(pop_wallet(fields, "wallet"))
    _description, schema, _out, work = _TOOLS[name]
    unknown = fields.keys() - schema["properties"].keys()
    if unknown:
        raise BadArgument(f"{min(unknown)} is no argument of {name}")
    params: _Params = exact(fields, "", money=True)
    return await work(scope, wallet, params)
