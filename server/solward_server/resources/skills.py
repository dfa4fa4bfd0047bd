"""Routes that list skills with their schemas, and that run a skill on a wallet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from quart import Response

from solward.plugins import LoadedSkill
from solward.plugins.discovery import BUILT_IN
from solward.resources import plugins as calls
from solward.resources.declare import answer_json
from solward.resources.schema import without_booleans
from solward.types.errors import Held, HoldDecided, IdempotencyInFlight, SolwardError
from solward.types.manifest import manifest_json
from solward.types.roles import Role
from solward.types.skill import Effects
from solward_server.http.auth import caller, keyed
from solward_server.http.body import Body, json_response, read_body
from solward_server.http.errors import SPENDS_NOTHING, error_response
from solward_server.http.idempotency import (
    action_key,
    finish,
    first_answer,
    idempotency_key,
    replay,
)
from solward_server.http.route_context import RouteContext
from solward_server.openapi.components import IDEMPOTENCY_KEY, POCKET, WALLET_ID
from solward_server.openapi.errors import (
    BLOCKED,
    FAILED,
    IN_FLIGHT,
    MISMATCH,
    TOO_MANY,
    Error,
)
from solward_server.openapi.money import REPLAYED
from solward_server.openapi.route import Operation, Route, Routes, request_body

_MINT = "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"
_STAKE = "6RDVFMTdCXVaW2iFUmvQ7UvLSYbbyTUNGKEGD2XmVMzs"


routes = Routes("skills", "Loaded skills, including those of plugins.")
runs = Routes("skills")
"""The route that runs a skill; `skill_paths` describes it once for each skill."""


@routes.serve(calls.LIST_SKILLS, keyed(Role.READ))
async def list_skills(context: RouteContext) -> dict[str, Any]:
    return {
        "skills": [
            answer_json(
                calls.Skill,
                skill.spec,
                distribution=skill.distribution,
                version=skill.version,
                manifest=manifest_json(skill.spec.manifest),
            )
            for skill in context.service.live.registry.skills.values()
        ]
    }


@runs.serve(calls.RUN_SKILL, keyed(Role.POLICY, checks_keys=True))
async def run(context: RouteContext, wallet_id: str, name: str) -> Response:
    body = await read_body()
    await context.wallet(wallet_id)
    skill = context.service.live.registry.skill(name)
    spends = skill.spec.effects is Effects.SPEND
    # A skill of a plugin may write its own state, whatever it declares of transactions.
    is_built_in = skill.distribution == BUILT_IN
    if not is_built_in:
        await context.may_change()
    reads = not spends and is_built_in
    caller().needs(Role.READ if reads and caller().key is not None else Role.POLICY)
    database = context.service.database
    key = idempotency_key(body) if spends else None
    stored = None if key is None else await first_answer(database, key)
    if stored is not None and stored.body is not None:
        # Replayed before names are read, since they may mean somebody else by now.
        return replay(stored)
    # Bad parameters neither claim the key nor count as a request.
    params = skill.parameters.validate(await context.with_addresses(name, body))
    if not spends:
        return await _run_skill(context, wallet_id, name, params, None)
    if key is None:
        await context.count_request()
        return await _run_skill(context, wallet_id, name, params, None)
    async with context.skill_calls.claim(database, key) as stored:
        if stored is not None:
            return replay(stored)
        await context.count_request()
        try:
            response = await _run_skill(context, wallet_id, name, params, action_key(key))
        except (Held, HoldDecided, IdempotencyInFlight):
            # Not stored: the same request gets the later outcome.
            raise
        except SolwardError as error:
            response = error_response(error)
            if await context.service.engine.is_action_held(action_key(key)):
                # Not stored either: a person still decides on an earlier part of the call.
                return response
        return await finish(database, key, response)


async def _run_skill(
    context: RouteContext, wallet_id: str, name: str, params: Body, action: str | None
) -> Response:
    actor = replace(caller().actor(), action_key=action)
    result = await context.service.skill_runs.run(name, params, wallet_id, actor)
    return json_response({"result": result})


# Bodies of built-in skills that declare no example.
_EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "burn_tokens": {"mint": "USDC", "amount": 0.5},
    "close_token_account": {"mint": "USDC"},
    "mint_supply": {"mint": _MINT, "amount": 2.5},
    "pay_request": {"url": "https://api.example.com/report", "max": "0.05 USDC"},
    "revoke_mint_authority": {"mint": _MINT},
    "transfer_token": {"mint": "USDC", "to": POCKET, "amount": 0.5},
    "unstake_sol": {"stakeAccount": _STAKE},
    "withdraw_stake": {"stakeAccount": _STAKE},
}


def skill_paths(skills: Iterable[LoadedSkill]) -> dict[str, dict[str, Operation]]:
    """Return the route `/wallets/{walletId}/skills/<name>` of each skill, with its own schema."""
    return {
        f"/wallets/{{walletId}}/skills/{skill.spec.name}": {"post": _skill_operation(skill)}
        for skill in skills
    }


def _skill_operation(skill: LoadedSkill) -> Operation:
    spec = skill.spec
    spends = spec.effects is Effects.SPEND
    parameters = [WALLET_ID, IDEMPOTENCY_KEY] if spends else [WALLET_ID]
    refused = [BLOCKED, FAILED] if spends else []
    errors: dict[int, list[Error]] = {
        400: ["No parameters fit", "A text of the skill that says what it refuses"],
        403: [] if skill.distribution == BUILT_IN else [SPENDS_NOTHING],
    }
    if spends:
        errors |= {409: [IN_FLIGHT], 422: [MISMATCH], 429: [TOO_MANY]}
    errors[500] = [*refused, f"The skill {spec.name!r} took longer than {spec.timeout_s:g} s"]
    schema = without_booleans(spec.parameters)
    example = _EXAMPLES.get(spec.name, None if schema.get("required") else {})
    call = replace(
        calls.RUN_SKILL,
        id=f"skill_{spec.name}",
        does=f"Run the skill {spec.name} of {skill.distribution}",
        route=calls.RUN_SKILL.route.replace("{name}", spec.name),
        about=spec.description,
    )
    more = {
        "may_hold": spends,
        "parameters": parameters,
        "body": request_body(
            schema, spec.examples[-1] if spec.examples else example, required="required" in schema
        ),
    }
    response = {"headers": REPLAYED} if spends else {}
    return Route(call, run, keyed(Role.POLICY), errors, response, more).describe("skills")
