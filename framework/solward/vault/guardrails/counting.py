"""What limits count and reservations hold: the larger of the declared and the simulated."""

from __future__ import annotations

from collections.abc import Mapping

from solward.guardrail import Intent, TransactionEffects


def counted_lamports(intent: Intent, effects: TransactionEffects | None) -> int:
    """Lamports that count against limits: declared or simulated gross, whichever is more."""
    return max(intent.lamports_out, effects.lamports_out if effects else 0)


def counted_tokens(intent: Intent, effects: TransactionEffects | None) -> Mapping[str, int]:
    """mint -> units that count against per-mint limits, declared or simulated gross."""
    simulated = effects.tokens_out if effects else {}
    mints = intent.tokens_out.keys() | simulated.keys()
    return {
        mint: max(intent.tokens_out.get(mint, 0), simulated.get(mint, 0)) for mint in sorted(mints)
    }


def max_debit(intent: Intent, effects: TransactionEffects) -> int:
    """Most lamports the wallet can lose to this transaction: amount, fee and rent."""
    return counted_lamports(intent, effects) + effects.fee_lamports + effects.rent_lamports
