"""transfer: send SOL to an address."""

from __future__ import annotations

from typing import Any

from solward import (
    Effects,
    LedgerError,
    SkillContext,
    SkillSpec,
    TransactionRecord,
    TransactionStatus,
    format_amount,
    format_sol,
    hookimpl,
    operation_parameters,
)


@hookimpl
def skill_spec() -> SkillSpec:
    """Spends SOL."""
    return SkillSpec(
        name="transfer",
        description=(
            "Send SOL from the wallet to another Solana address. The spending limits apply."
            " Check the balance first."
        ),
        parameters=operation_parameters("transfer"),
        effects=Effects.SPEND,
        timeout_s=120.0,
        examples=({"to": "11111111111111111111111111111112", "amount": 1},),
    )


@hookimpl
async def skill_execute(params: dict[str, Any], context: SkillContext) -> str:
    """Say what was sent to whom, its signature and status, and what is left."""
    record = await context.transfer(to=params["to"], amount=params["amount"])
    amount = format_amount(record.details["amount"])
    return f"{_outcome(record, amount)} Signature: {record.signature}.{await _left(context)}"


def _outcome(record: TransactionRecord, amount: str) -> str:
    to = record.details["to"]
    if record.status is TransactionStatus.CONFIRMED:
        return f"Sent {amount} SOL to {to}. Status: confirmed."
    return (
        f"Submitted a transfer of {amount} SOL to {to}. Status: {record.status}."
        " It is not known yet whether it lands; do not send it again."
    )


async def _left(context: SkillContext) -> str:
    # The money has moved: a ledger that does not answer now must not make this a failure.
    try:
        lamports = await context.ledger.balance(context.wallet.address)
    except LedgerError:
        return ""
    return f" Balance now: {format_sol(lamports, 4)} SOL."
