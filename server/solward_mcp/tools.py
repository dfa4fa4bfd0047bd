"""Tools: the service's skills at this moment, and one call of one."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from solward.client import ClientError, Skill, SolwardClient, Unauthorized, Unreachable
from solward.errors import InvalidRequest
from solward_mcp.conversion import (
    READ,
    BadArgument,
    exact,
    idempotency_key,
    is_text,
    pop_wallet,
    tool_of,
    wallet_parameter,
)
from solward_mcp.scope import WalletChoice, WalletScope

# Time for a supervisor to restart the service; MCP clients wait a minute or more for a tool.
_RESTART_S = 30.0
_PAUSE_S = 1.0

_FATE_UNKNOWN = ". Look at the wallet's transactions before calling again"
_CREDENTIAL_HINT = ". The token comes from SOLWARD_API_KEY, or API_SECRET"


async def list_tools(scope: WalletScope) -> types.ListToolsResult:
    """Every loaded skill as a tool; raises `ClientError`."""
    skills = await scope.client.skills()
    one = scope.only is not None
    return types.ListToolsResult(tools=[tool_of(skill, one_wallet=one) for skill in skills])


async def call_tool(
    scope: WalletScope,
    name: str,
    arguments: Mapping[str, Any] | None,
    meta: Mapping[str, Any] | None,
) -> types.CallToolResult:
    """Run a skill; a refusal by the service is an error result with its text.

    Raises:
        MCPError: there is no such tool.
    """
    try:
        skill = await _skill(scope, name)
        fields = dict(arguments or {})
        wallet = await scope.wallet(pop_wallet(fields, wallet_parameter(skill)))
        params = {
            field: exact(value, field, money=skill.effects != READ and not is_text(skill, field))
            for field, value in fields.items()
        }
        text = await _run(scope.client, wallet.id, name, params, idempotency_key(meta))
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


async def _run(
    client: SolwardClient, wallet_id: str, name: str, params: Mapping[str, Any], key: str | None
) -> str:
    """Run it once; where the service stops responding, repeat the request under the same key.

    Raises:
        ClientError: `Unreachable` with the key where the outcome is still unknown.
    """
    key = key or str(uuid.uuid4())
    until = time.monotonic() + _RESTART_S
    unknown: Unreachable | None = None
    while True:
        try:
            return await client.wallets.run_skill(wallet_id, name, params, idempotency_key=key)
        except Unreachable as error:
            unknown = unknown or (error if error.idempotency_key is not None else None)
            if unknown is None or time.monotonic() >= until:
                raise unknown or error from None
        await asyncio.sleep(_PAUSE_S)


async def _skill(scope: WalletScope, name: str) -> Skill:
    skills = {skill.name: skill for skill in await scope.client.skills()}
    if name not in skills:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")
    return skills[name]


def _result(text: str, *, failed: bool = False) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=failed
    )
