"""The skills: listed, and one path for each that is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from solward.registry import LoadedSkill
from solward.skill import Effects
from solward_server.http.auth import Access
from solward_server.openapi.errors import BLOCKED, FAILED, IN_FLIGHT, MISMATCH, NO_WALLET, TOO_MANY
from solward_server.openapi.money import REPLAYED
from solward_server.openapi.operation import Operation, answers, operation, takes
from solward_server.openapi.parameters import IDEMPOTENCY_KEY, WALLET_ID
from solward_server.openapi.schema import array, choice, closed, text

PATHS = {
    "/skills": {
        "get": operation(
            "listSkills",
            "The loaded skills with their schemas",
            tag="skills",
            access=Access.KEY,
            answer=answers(
                closed(
                    {
                        "skills": array(
                            closed(
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
                        }
                    ]
                },
            ),
        )
    }
}

# Calls of the built-in skills. Another is shown with an empty one, or, where it must be given
# something, with none: nobody here knows what.
_EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "airdrop": {"amount": 1},
    "burn_tokens": {"mint": "USDC", "amount": 0.5},
    "close_token_account": {"mint": "USDC"},
    "launch_token": {"name": "Docs coin", "symbol": "DOCS", "decimals": 6},
    "mint_supply": {"mint": "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8", "amount": 2.5},
    "revoke_mint_authority": {"mint": "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"},
    "stake_sol": {"amount": 1.5},
    "swap": {"inputToken": "SOL", "outputToken": "USDC", "amount": 0.1},
    "token_info": {"token": "USDC"},
    "transfer": {"to": "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g", "amount": 0.5},
    "unstake_sol": {"stakeAccount": "6RDVFMTdCXVaW2iFUmvQ7UvLSYbbyTUNGKEGD2XmVMzs"},
    "wait": {"reason": "The price is falling."},
    "withdraw_stake": {"stakeAccount": "6RDVFMTdCXVaW2iFUmvQ7UvLSYbbyTUNGKEGD2XmVMzs"},
    "wrap_sol": {"amount": 0.5},
}


def skill_paths(skills: Iterable[LoadedSkill]) -> dict[str, dict[str, Operation]]:
    """`/wallets/{walletId}/skills/<name>` of each skill, its own schema as the body."""
    return {
        f"/wallets/{{walletId}}/skills/{skill.spec.name}": {"post": _run(skill)} for skill in skills
    }


def _run(skill: LoadedSkill) -> Operation:
    spec = skill.spec
    spends = spec.effects is Effects.SPEND
    parameters = [WALLET_ID, IDEMPOTENCY_KEY] if spends else [WALLET_ID]
    errors: dict[int, list[str]] = {
        400: ["No parameters fit", "What the skill itself refuses"],
        404: [NO_WALLET],
        500: [f"The skill {spec.name!r} took longer than {spec.timeout_s:g} s"],
    }
    if spends:
        errors |= {409: [IN_FLIGHT], 422: [MISMATCH], 429: [TOO_MANY]}
        errors[500] = [BLOCKED, FAILED, *errors[500]]
    answer = answers(
        closed({"result": text("The skill's own text.")}),
        {"result": "Waited: no action this cycle."},
    )
    schema = dict(spec.parameters)
    example = _EXAMPLES.get(spec.name, None if schema.get("required") else {})
    return operation(
        f"skill_{spec.name}",
        f"Run the skill {spec.name} of {skill.distribution}",
        tag="skills",
        access=Access.KEY,
        description=spec.description,
        parameters=parameters,
        body=takes(schema, example, required="required" in schema),
        answer=answer | ({"headers": REPLAYED} if spends else {}),
        errors=errors,
    )
