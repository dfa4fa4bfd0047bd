"""Tools: the service's skills at this moment, and one call of one."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError

from solward import jsontext
from solward.client import (
    ClientError,
    Held,
    Refused,
    Skill,
    SolwardClient,
    Unauthorized,
    Unreachable,
)
from solward.errors import InvalidRequest
from solward_mcp.built_in import answer, built_in, is_built_in
from solward_mcp.conversion import (
    IDEMPOTENCY_META,
    READ,
    BadArgument,
    exact,
    idempotency_key,
    is_text,
    plain,
    pop_wallet,
    tool_of,
    wallet_parameter,
)
from solward_mcp.held import HeldCalls
from solward_mcp.paying import PAY, SKILL, pay, read_params
from solward_mcp.scope import WalletChoice, WalletScope

T = TypeVar("T")

# Time for a supervisor to restart the service; MCP clients wait a minute or more for a tool.
_RESTART_S = 30.0
_PAUSE_S = 1.0

_FATE_UNKNOWN = ". Look at the wallet's transactions before calling again"
_CREDENTIAL_HINT = ". The token comes from SOLWARD_API_KEY, or API_SECRET"


async def list_tools(scope: WalletScope) -> types.ListToolsResult:
    """Every loaded skill as a tool, and the built-in ones that no skill has the name of; raises
    `ClientError`."""
    skills = await scope.client.skills()
    one = scope.only is not None
    tools = [tool_of(skill, one_wallet=one) for skill in skills if skill.name != SKILL]
    names = {tool.name for tool in tools}
    return types.ListToolsResult(
        tools=tools + [tool for tool in built_in(one_wallet=one) if tool.name not in names]
    )


async def call_tool(
    scope: WalletScope,
    name: str,
    arguments: Mapping[str, Any] | None,
    meta: Mapping[str, Any] | None,
) -> types.CallToolResult:
    """Run a skill; a refusal by the service is an error result with its text.

    One that waits for a person is no error: the same call again tells what became of it.

    Raises:
        MCPError: there is no such tool.
    """
    try:
        skill = await _skill(scope, name)
        fields = dict(arguments or {})
        if skill is None and name == PAY:
            wallet = await scope.wallet(pop_wallet(fields, "wallet"))
            request = read_params(fields)
            paying = partial(pay, scope.client, wallet.id, request)
            key = idempotency_key(meta)
            return _structured(await _continued(scope, wallet.id, name, request, key, paying))
        if skill is None:
            return _structured(await answer(scope, name, fields))
        wallet = await scope.wallet(pop_wallet(fields, wallet_parameter(skill)))
        params = {
            field: exact(value, field, money=skill.effects != READ and not is_text(skill, field))
            for field, value in fields.items()
        }
        running = partial(_run_skill, scope.client, wallet.id, name, params)
        key = idempotency_key(meta)
        text = await _continued(scope, wallet.id, name, params, key, running)
    except Held as held:
        return _held(held)
    except (BadArgument, WalletChoice, InvalidRequest) as error:
        return _result(str(error), failed=True)
    except ClientError as error:
        return _result(error_text(error), failed=True)
    return _result(text)


def error_text(error: ClientError) -> str:
    """The error's text, with advice."""
    if isinstance(error, Unreachable) and error.idempotency_key is not None:
        return str(error) + _FATE_UNKNOWN
    return str(error) + _CREDENTIAL_HINT if isinstance(error, Unauthorized) else str(error)


async def _continued(
    scope: WalletScope,
    wallet_id: str,
    name: str,
    params: Mapping[str, Any],
    key: str | None,
    work: Callable[[str], Awaitable[T]],
) -> T:
    """Do it; where the same call is held, ask what became of that, in place of another payment."""
    call = HeldCalls.name(scope.caller, wallet_id, name, params)
    if key is not None:
        return await _once(work, key)
    key = scope.held.key(call) or str(uuid.uuid4())
    try:
        done = await _once(work, key)
    except Held as held:
        scope.held.remember(call, key, held.expires_at)
        raise
    except Refused:
        scope.held.forget(call)
        raise
    scope.held.forget(call)
    return done


async def _run_skill(
    client: SolwardClient, wallet_id: str, name: str, params: Mapping[str, Any], key: str
) -> str:
    return await client.wallets.run_skill(wallet_id, name, params, idempotency_key=key)


async def _once(work: Callable[[str], Awaitable[T]], key: str) -> T:
    """Do it once; where the service stops responding, repeat the request under the same key.

    Raises:
        ClientError: `Unreachable` with the key where the outcome is still unknown.
    """
    until = time.monotonic() + _RESTART_S
    unknown: Unreachable | None = None
    while True:
        try:
            return await work(key)
        except Unreachable as error:
            unknown = unknown or (error if error.idempotency_key is not None else None)
            if unknown is None or time.monotonic() >= until:
                raise unknown or error from None
        await asyncio.sleep(_PAUSE_S)


async def _skill(scope: WalletScope, name: str) -> Skill | None:
    """The skill; None where it is a built-in tool."""
    skills = {skill.name: skill for skill in await scope.client.skills()}
    if name not in skills and name != PAY and not is_built_in(name):
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")
    return skills.get(name)


def _held(held: Held) -> types.CallToolResult:
    told = {
        "status": held.state,
        "holdId": held.hold_id,
        "sentence": held.sentence,
        "approveAt": held.approve_at,
        "expiresAt": held.raw["expiresAt"],
    }
    text = (
        f"{held.sentence} Nothing was sent. A person decides at {held.approve_at} until"
        f" {told['expiresAt']}; calling again with the same arguments tells what became of it."
    )
    meta = {} if held.idempotency_key is None else {IDEMPOTENCY_META: held.idempotency_key}
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=told,
        is_error=False,
        _meta=meta,
    )


def _structured(value: Mapping[str, Any]) -> types.CallToolResult:
    plain_value: dict[str, Any] = plain(value)
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=jsontext.dumps(value))],
        structured_content=plain_value,
        is_error=False,
    )


def _result(text: str, *, failed: bool = False) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=failed
    )
