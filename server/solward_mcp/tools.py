"""Tools: the service's skills at this moment, and one call of one."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from solward.client import (
    ClientError,
    Held,
    Refused,
    Skill,
    SolwardClient,
    Unauthorized,
    Unreachable,
)
from solward.support import jsontext
from solward.types.errors import InvalidRequest
from solward.types.record import GENERATED_KEY
from solward_mcp.built_in import (
    answer,
    built_in,
    is_built_in,
    is_triable,
    quote_payment,
    try_skill,
)
from solward_mcp.conversion import (
    DRY_RUN,
    IDEMPOTENCY_META,
    READ,
    BadArgument,
    exact,
    idempotency_key,
    is_text,
    plain,
    pop_dry_run,
    pop_wallet,
    tool_of,
    wallet_parameter,
)
from solward_mcp.held import HeldCalls
from solward_mcp.paying import PAY, SKILL, pay, read_params
from solward_mcp.protocol import INVALID_PARAMS, Json, ProtocolError
from solward_mcp.scope import WalletChoice, WalletScope

T = TypeVar("T")

# Time for a supervisor to restart the service; MCP clients wait a minute or more for a tool.
_RESTART_S = 30.0
_PAUSE_S = 1.0

_FATE_UNKNOWN = ". Look at the wallet's transactions before calling again"
_CREDENTIAL_HINT = ". The token comes from SOLWARD_API_KEY, or API_SECRET"


async def list_tools(scope: WalletScope) -> Json:
    """Every loaded skill as a tool, and the built-in ones that no skill has the name of; raises
    `ClientError`."""
    skills = await scope.client.skills()
    one = await scope.one() is not None
    tools = [
        tool_of(skill, one_wallet=one, triable=is_triable(skill))
        for skill in skills
        if skill.name != SKILL
    ]
    names = {tool["name"] for tool in tools}
    more = [tool for tool in built_in(one_wallet=one) if tool["name"] not in names]
    return {"tools": tools + more}


async def call_tool(
    scope: WalletScope,
    name: str,
    arguments: Mapping[str, Any] | None,
    meta: Mapping[str, Any] | None,
) -> Json:
    """Run a skill; a refusal by the service is an error result with its text.

    One that waits for a person is no error: the same call again tells what became of it.

    Raises:
        ProtocolError: there is no such tool.
    """
    try:
        skill = await _skill(scope, name)
        fields = dict(arguments or {})
        key = idempotency_key(meta)
        if skill is not None:
            return await _call_skill(scope, skill, fields, key)
        if name == PAY:
            return await _call_pay(scope, fields, key)
        return _structured(await answer(scope, name, fields))
    except Held as held:
        return _held(held)
    except (BadArgument, WalletChoice, InvalidRequest) as error:
        return _result(str(error), failed=True)
    except ClientError as error:
        return _result(error_text(error), failed=True)


async def _call_skill(
    scope: WalletScope, skill: Skill, fields: dict[str, Any], key: str | None
) -> Json:
    wallet = await scope.wallet(pop_wallet(fields, wallet_parameter(skill)))
    dry_run = is_triable(skill) and pop_dry_run(fields)
    params = {
        field: exact(value, field, money=skill.effects != READ and not is_text(skill, field))
        for field, value in fields.items()
    }
    if dry_run:
        return _tried(await try_skill(scope, wallet, skill.name, params))
    running = partial(_run_skill, scope.client, wallet.id, skill.name, params)
    text = await _continued(scope, wallet.id, skill.name, params, key, running)
    told = {"text": text} if skill.effects == READ else {"status": "done", "text": text}
    return _result(text, told)


async def _call_pay(scope: WalletScope, fields: dict[str, Any], key: str | None) -> Json:
    wallet = await scope.wallet(pop_wallet(fields, "wallet"))
    dry_run = pop_dry_run(fields)
    request = read_params(fields)
    if dry_run:
        return _tried(await quote_payment(scope, wallet, request))
    paying = partial(pay, scope.client, wallet.id, request)
    done = await _continued(scope, wallet.id, PAY, request, key, paying)
    return _structured({"status": "done", **done})


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
    key = scope.held.key(call) or f"{GENERATED_KEY}{uuid.uuid4()}"
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
        raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name}")
    return skills.get(name)


def _held(held: Held) -> Json:
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
    return {**_result(text, told), "_meta": meta}


def _tried(trial: Mapping[str, Any]) -> Json:
    # Every field of a call that was done names its `status`; a site's answer has one of its own.
    site = {"siteStatus": trial["status"]} if "status" in trial else {}
    return _structured({**trial, **site, "status": DRY_RUN})


def _structured(value: Mapping[str, Any]) -> Json:
    return _result(jsontext.dumps(value), value)


def _result(text: str, told: Mapping[str, Any] | None = None, *, failed: bool = False) -> Json:
    structured = {} if told is None else {"structuredContent": plain(told)}
    return {"content": [{"type": "text", "text": text}], **structured, "isError": failed}
