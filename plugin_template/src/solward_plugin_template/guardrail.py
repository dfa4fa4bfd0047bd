"""solward_plugin_template: refuse huge transfers and ask a person of large ones.

A rule is pure and sees what was declared, the most that the bytes can take, and what the simulation
showed; it can only refuse, or have a person decide. Its name stands in `guardrailsApplied` of every
transaction it judged.
"""

from __future__ import annotations

from solward import Hold, Intent, TransactionEffects, format_sol, hookimpl

ASKED_LAMPORTS = 100_000_000
MOST_LAMPORTS = 500_000_000


@hookimpl
def guardrail_check(intent: Intent, effects: TransactionEffects) -> str | Hold | None:
    """Return the reason to refuse or to ask a person, with the limit and the amount."""
    # Judge by the bytes, because the outcome may differ from the simulation when it lands.
    possible = effects.outflow.lamports if effects.outflow else effects.lamports_out
    lamports = max(intent.lamports_out, possible)
    if intent.type != "transfer" or lamports <= ASKED_LAMPORTS:
        return None
    most, found = format_sol(MOST_LAMPORTS), format_sol(lamports)
    if lamports <= MOST_LAMPORTS:
        return Hold(f"{found} SOL is more than {format_sol(ASKED_LAMPORTS)} SOL")
    return f"a transfer may be at most {most} SOL, and this is {found} SOL"
