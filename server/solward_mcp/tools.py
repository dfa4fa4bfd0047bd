"""Tools: the skills the service has at this moment, and one call of one."""

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
from solward_mcp.arguments import BadArgument, exact, idempotency_key, taken_wallet
from solward_mcp.reach import Reach, WalletChoice
from solward_mcp.schema import READ, takes_text, tool_of, wallet_parameter

# What a supervisor takes to bring the service back; a host waits a minute for a tool, or more.
_RESTART_S = 30.0
_PAUSE_S = 1.0

_FATE_UNKNOWN = ". Look at the wallet's transactions before calling again"
_WHENCE = ". The token comes from SOLWARD_API_KEY, or API_SECRET"


async def listed(reach: Reach) -> types.ListToolsResult:
    """Every loaded skill as a tool; raises `ClientError`."""
    skills = await reach.client.skills()
    one = reach.only is not None
    return types.ListToolsResult(tools=[tool_of(skill, one_wallet=one) for skill in skills])


async def called(
    reach: Reach, name: str, given: Mapping[str, Any] | None, meta: Mapping[str, Any] | None
) -> types.CallToolResult:
    """Run a skill. What the service refuses is an error result in the service's words.

    Raises:
        MCPError: there is no such tool.
    """
    try:
        skill = await _skill(reach, name)
        arguments = dict(given or {})
        wallet = await reach.wallet(taken_wallet(arguments, wallet_parameter(skill)))
        params = {
            field: exact(value, field, money=skill.effects != READ and not takes_text(skill, field))
            for field, value in arguments.items()
        }
        text = await _run(reach.client, wallet.id, name, params, idempotency_key(meta))
    except (BadArgument, WalletChoice, InvalidRequest) as error:
        return _result(str(error), failed=True)
    except ClientError as error:
        return _result(told(error), failed=True)
    return _result(text)


def told(error: ClientError) -> str:
    """What a refusal says, with what its reader can do about it."""
    if isinstance(error, Unreachable) and error.idempotency_key is not None:
        return str(error) + _FATE_UNKNOWN
    return str(error) + _WHENCE if isinstance(error, Unauthorized) else str(error)


async def _run(
    client: SolwardClient, wallet_id: str, name: str, params: Mapping[str, Any], key: str | None
) -> str:
    """Run it once. Where the service went away meanwhile, ask for the answer under the same key.

    Raises:
        ClientError: `Unreachable` with the key where what became of the call is still not known.
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


async def _skill(reach: Reach, name: str) -> Skill:
    skills = {skill.name: skill for skill in await reach.client.skills()}
    if name not in skills:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")
    return skills[name]


def _result(text: str, *, failed: bool = False) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=failed
    )
