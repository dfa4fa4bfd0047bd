"""Skills: listed with their schemas, and run on a wallet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from quart import Blueprint, Response

from solward.plugins import LoadedSkill
from solward.plugins.discovery import BUILT_IN
from solward.resources.schema import array, choice, response_object, text, without_booleans
from solward.types.errors import Held, HoldDecided, IdempotencyInFlight, SkillNotFound, SolwardError
from solward.types.manifest import manifest_json
from solward.types.roles import Role
from solward.types.skill import Effects
from solward_server.http.auth import Access, caller, keyed
from solward_server.http.body import Body, json_response, read_body
from solward_server.http.errors import SPENDS_NOTHING, error_response
from solward_server.http.idempotency import (
    action_key,
    finish,
    first_use,
    idempotency_key,
    replay,
)
from solward_server.http.route_context import RouteContext
from solward_server.openapi.errors import (
    BLOCKED,
    FAILED,
    IN_FLIGHT,
    MISMATCH,
    NO_WALLET,
    TOO_MANY,
    Error,
)
from solward_server.openapi.manifest import MANIFEST
from solward_server.openapi.money import REPLAYED
from solward_server.openapi.operation import Operation, operation, request_body, success
from solward_server.openapi.parameters import IDEMPOTENCY_KEY, WALLET_ID


def blueprint(context: RouteContext) -> Blueprint:
    """`GET /skills`, and `POST /wallets/:id/skills/:name` with the parameters as body."""
    routes = Blueprint("skills", __name__)

    @routes.get("/skills")
    @keyed(Role.READ)
    async def listing() -> dict[str, Any]:
        skills = context.service.registry.skills.values()
        return {
            "skills": [
                {
                    "name": skill.spec.name,
                    "description": skill.spec.description,
                    "parameters": skill.spec.parameters,
                    "effects": skill.spec.effects.value,
                    "distribution": skill.distribution,
                    "version": skill.version,
                    "manifest": manifest_json(skill.spec.manifest),
                }
                for skill in skills
            ]
        }

    @routes.post("/wallets/<wallet_id>/skills/<name>")
    @keyed(Role.POLICY, checks_keys=True)
    async def run(wallet_id: str, name: str) -> Response:
        body = await read_body()
        await context.wallet(wallet_id)
        skills = context.service.registry.skills
        if name not in skills:
            raise SkillNotFound(name, sorted(skills))
        spends = skills[name].spec.effects is Effects.SPEND
        # A skill of a plugin may write its own state, whatever it declares of transactions.
        is_built_in = skills[name].distribution == BUILT_IN
        if not is_built_in:
            await context.may_change()
        reads = not spends and is_built_in
        caller().needs(Role.READ if reads and caller().key is not None else Role.POLICY)
        database = context.service.database
        key = idempotency_key(body) if spends else None
        stored = None if key is None else await first_use(database, key)
        if stored is not None and stored.body is not None:
            # Before names are read, which may mean somebody else by now.
            return replay(stored)
        # Bad parameters neither claim the key nor count as a request.
        params = skills[name].validate(await context.addressed(name, body))
        if not spends:
            return await _run(context, wallet_id, name, params, None)
        if key is None:
            await context.count_request()
            return await _run(context, wallet_id, name, params, None)
        async with context.skill_calls.claim(database, key) as stored:
            if stored is not None:
                return replay(stored)
            await context.count_request()
            try:
                response = await _run(context, wallet_id, name, params, action_key(key))
            except (Held, HoldDecided, IdempotencyInFlight):
                # No answer for good: the same request gets what becomes of it.
                raise
            except SolwardError as error:
                response = error_response(error)
                if await context.service.engine.waits(action_key(key)):
                    # Nor is this: a person decides on what it asked for before.
                    return response
            return await finish(database, key, response)

    return routes


async def _run(
    context: RouteContext, wallet_id: str, name: str, params: Body, action: str | None
) -> Response:
    actor = replace(caller().actor(), action_key=action)
    result = await context.service.run_skill(name, params, wallet_id, actor)
    return json_response({"result": result})


PATHS = {
    "/skills": {
        "get": operation(
            "listSkills",
            "The loaded skills with their schemas",
            tag="skills",
            access=Access.KEY,
            response=success(
                response_object(
                    {
                        "skills": array(
                            response_object(
                                {
                                    "name": text("The skill's."),
                                    "description": text("What it does, for models."),
                                    "parameters": {
                                        "type": "object",
                                        "description": "JSON Schema 2020-12 of its parameters.",
                                    },
                                    "effects": choice("What it can do.", *Effects),
                                    "distribution": text("Where it comes from."),
                                    "version": text("The distribution's."),
                                    "manifest": MANIFEST,
                                }
                            )
                        )
                    }
                ),
                {
                    "skills": [
                        {
                            "name": "check_balance",
                            "description": "Show what the wallet holds.",
                            "parameters": {
                                "type": "object",
                                "properties": {},
                                "additionalProperties": False,
                            },
                            "effects": "read",
                            "distribution": "solward",
                            "version": "0.1.0",
                            "manifest": None,
                        }
                    ]
                },
            ),
        )
    }
}

# Example bodies of the built-in skills. Another skill has `{}`, or none if parameters are required.
_EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "airdrop": {"amount": 1},
    "burn_tokens": {"mint": "USDC", "amount": 0.5},
    "close_token_account": {"mint": "USDC"},
    "launch_token": {"name": "Docs coin", "symbol": "DOCS", "decimals": 6},
    "mint_supply": {"mint": "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8", "amount": 2.5},
    "pay_request": {"url": "https://api.example.com/report", "max": "0.05 USDC"},
    "revoke_mint_authority": {"mint": "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"},
    "stake_sol": {"amount": 1.5},
    "swap": {"inputToken": "SOL", "outputToken": "USDC", "amount": 0.1},
    "token_info": {"token": "USDC"},
    "transfer": {"to": "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g", "amount": 0.5},
    "transfer_token": {
        "mint": "USDC",
        "to": "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g",
        "amount": 0.5,
    },
    "unstake_sol": {"stakeAccount": "6RDVFMTdCXVaW2iFUmvQ7UvLSYbbyTUNGKEGD2XmVMzs"},
    "wait": {"reason": "The price is falling."},
    "withdraw_stake": {"stakeAccount": "6RDVFMTdCXVaW2iFUmvQ7UvLSYbbyTUNGKEGD2XmVMzs"},
    "wrap_sol": {"amount": 0.5},
}


def skill_paths(skills: Iterable[LoadedSkill]) -> dict[str, dict[str, Operation]]:
    """`/wallets/{walletId}/skills/<name>` of each skill, its own schema as the body."""
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
        400: ["No parameters fit", "What the skill itself refuses"],
        403: [] if skill.distribution == BUILT_IN else [SPENDS_NOTHING],
        404: [NO_WALLET],
    }
    if spends:
        errors |= {409: [IN_FLIGHT], 422: [MISMATCH], 429: [TOO_MANY]}
    errors[500] = [*refused, f"The skill {spec.name!r} took longer than {spec.timeout_s:g} s"]
    result = success(
        response_object({"result": text("The skill's own text.")}),
        {"result": "Waited: no action this cycle."},
    )
    schema = without_booleans(spec.parameters)
    example = _EXAMPLES.get(spec.name, None if schema.get("required") else {})
    return operation(
        f"skill_{spec.name}",
        f"Run the skill {spec.name} of {skill.distribution}",
        tag="skills",
        access=Access.KEY,
        may_hold=spends,
        description=spec.description,
        parameters=parameters,
        body=request_body(schema, example, required="required" in schema),
        response=result | ({"headers": REPLAYED} if spends else {}),
        errors=errors,
    )
