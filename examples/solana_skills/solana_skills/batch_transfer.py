"""batch_transfer: pay several addresses in one transaction, with a memo on the ledger."""

from __future__ import annotations

from typing import Any

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from spl.memo.constants import MEMO_PROGRAM_ID

from solward import (
    Effects,
    Manifest,
    SkillContext,
    SkillError,
    SkillSpec,
    format_sol,
    hookimpl,
    lamports_to_sol,
    sol_to_lamports,
)

# With ten payments and this memo the transaction stays under the ledger's 1,232 bytes.
_MOST_PAYMENTS = 10
_MOST_MEMO_BYTES = 200


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends the sum of the payments."""
    return SkillSpec(
        name="batch_transfer",
        description=(
            "Pay SOL to up to 10 addresses in one transaction: all of them are paid or none."
            " At most 4 may be new to the ledger. A memo is there for everybody to read."
        ),
        parameters={
            "type": "object",
            "properties": {
                "payments": {
                    "type": "array",
                    "description": "Whom to pay, and how much.",
                    "minItems": 1,
                    "maxItems": _MOST_PAYMENTS,
                    "items": {
                        "type": "object",
                        "properties": {
                            "to": {"type": "string", "minLength": 32, "maxLength": 44},
                            "amount": {
                                "type": "number",
                                "description": "SOL.",
                                "exclusiveMinimum": 0,
                            },
                        },
                        "required": ["to", "amount"],
                        "additionalProperties": False,
                    },
                },
                "memo": {
                    "type": "string",
                    "description": "Public text, at most 200 bytes of UTF-8.",
                    "minLength": 1,
                    "maxLength": _MOST_MEMO_BYTES,
                },
            },
            "required": ["payments"],
            "additionalProperties": False,
        },
        effects=Effects.SPEND,
        timeout_s=120.0,
        examples=(
            {
                "payments": [
                    {"to": "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g", "amount": 0.01},
                    {"to": "E645TckHQnDcavVv92Etc6xSWQaq8zzPtPRGBheviRAk", "amount": 0.02},
                ],
                "memo": "invoice 7",
            },
        ),
        manifest=Manifest(operations=("transact",), assets=("SOL",)),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """One transfer a payment, then the memo."""
    payer = Pubkey.from_string(context.wallet.address)
    payments = [
        (_address(each["to"]), sol_to_lamports(each["amount"])) for each in params["payments"]
    ]
    instructions = [
        transfer(TransferParams(from_pubkey=payer, to_pubkey=to, lamports=lamports))
        for to, lamports in payments
    ]
    if "memo" in params:
        instructions.append(_memo(params["memo"], payer))
    total = sum(lamports for _, lamports in payments)
    paid = [{"to": str(to), "amount": lamports_to_sol(lamports)} for to, lamports in payments]
    details: dict[str, Any] = {"payments": paid, "amount": lamports_to_sol(total)}
    if "memo" in params:
        details["memo"] = params["memo"]
    record = await context.transact(
        instructions=instructions,
        type="other",
        lamports_out=total,
        destinations=[str(to) for to, _ in payments],
        details=details,
    )
    return (
        f"Paid {format_sol(total)} SOL to {len(payments)} addresses."
        f" Status: {record.status}. Signature: {record.signature}."
    )


def _address(text: str) -> Pubkey:
    try:
        return Pubkey.from_string(text)
    except ValueError:
        raise SkillError("bad_address", f"to must be a base58 address, not {text!r}") from None


def _memo(text: str, signer: Pubkey) -> Instruction:
    data = text.encode()
    if len(data) > _MOST_MEMO_BYTES:
        raise SkillError("bad_memo", f"memo must have at most {_MOST_MEMO_BYTES} bytes of UTF-8")
    return Instruction(
        MEMO_PROGRAM_ID, data, [AccountMeta(signer, is_signer=True, is_writable=False)]
    )
