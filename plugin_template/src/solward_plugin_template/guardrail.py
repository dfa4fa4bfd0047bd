"""solward_plugin_template: refuse large transfers, whatever the other limits allow.

A rule is pure and sees what was declared, the most that the bytes can take, and what the simulation
showed; it can only refuse. Its name stands in `guardrailsApplied` of every transaction it judged.
"""

from __future__ import annotations

from solward import Intent, TransactionEffects, format_sol, hookimpl

MOST_LAMPORTS = 500_000_000


@hookimpl
def guardrail_check(intent: Intent, effects: TransactionEffects) -> str | None:
    """The reason for a refusal, with the limit and what was found."""
    # By the bytes: what is simulated may differ when it lands.
    possible = effects.outflow.lamports if effects.outflow else effects.lamports_out
    lamports = max(intent.lamports_out, possible)
    if intent.type != "transfer" or lamports <= MOST_LAMPORTS:
        return None
    most, found = format_sol(MOST_LAMPORTS), format_sol(lamports)
    return f"a transfer may be at most {most} SOL, and this is {found} SOL"
