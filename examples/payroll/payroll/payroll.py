"""payroll: pay a list of people, each by a transaction of his own.

It is made for a schedule, and keeps no state: the people are paid in the order of the list, so a
run that was killed asks for the same payments in the same order when it is run again, and is given
what became of those it had made. Nobody is paid twice, and who was not reached is paid then.
"""

from __future__ import annotations

from typing import Any

from solward import (
    Effects,
    SkillContext,
    SkillError,
    SkillSpec,
    SolwardError,
    TransactionFailed,
    format_amount,
    hookimpl,
)

_MOST_PEOPLE = 50
# A payment that died before it was signed is given back, and may be asked for anew.
_TRIES = 3


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the sum of the payments."""
    person = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "For the outcome.", "maxLength": 100},
            "to": {"type": "string", "description": "Address.", "minLength": 32, "maxLength": 44},
            "amount": {"type": "number", "description": "Whole units.", "exclusiveMinimum": 0},
        },
        "required": ["name", "to", "amount"],
        "additionalProperties": False,
    }
    return SkillSpec(
        name="payroll",
        description="Pay a list of people, each by a transaction of his own.",
        parameters={
            "type": "object",
            "properties": {
                "people": {
                    "type": "array",
                    "description": "Whom to pay, and how much.",
                    "minItems": 1,
                    "maxItems": _MOST_PEOPLE,
                    "items": person,
                },
                "token": {
                    "type": "string",
                    "description": "What they are paid in: SOL, or a token's symbol or mint.",
                    "default": "SOL",
                },
            },
            "required": ["people"],
            "additionalProperties": False,
        },
        effects=Effects.SPEND,
        timeout_s=600.0,
        examples=(
            {
                "people": [
                    {
                        "name": "Ada",
                        "to": "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g",
                        "amount": 0.01,
                    }
                ]
            },
        ),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Pay one after the other; who cannot be paid does not keep the others waiting."""
    token, people = params["token"], params["people"]
    unpaid = []
    for person in people:
        refusal = await _pay(context, token, person)
        if refusal is not None:
            unpaid.append(f"{person['name']}: {refusal}")
    paid = len(people) - len(unpaid)
    if unpaid:
        raise SkillError("unpaid", f"Paid {paid} of {len(people)}. Not paid: {'; '.join(unpaid)}")
    total = sum(person["amount"] for person in people)
    names = ", ".join(person["name"] for person in people)
    return f"Paid {format_amount(total)} {token} to {paid} people: {names}."


async def _pay(context: SkillContext, token: str, person: dict[str, Any]) -> str | None:
    """Why a person was not paid; None where he was."""
    for _ in range(_TRIES):
        try:
            if token == "SOL":
                await context.transfer(to=person["to"], amount=person["amount"])
            else:
                await context.transfer_token(mint=token, to=person["to"], amount=person["amount"])
        except TransactionFailed as error:
            if error.record.signature is not None:
                # It was sent: what became of it is for a person to look at.
                return str(error)
            refusal = str(error)
        except SolwardError as error:
            # A limit, a grant, a person who is to be asked, a wrong address.
            return str(error)
        else:
            return None
    return refusal
