"""How refusals write amounts, programs and lists, so that a person or a model can act on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from solward.guardrail import TransactionEffects
from solward.money import SOL_DECIMALS, format_amount, from_units
from solward.solana.programs import PROGRAM_NAMES, WRAPPED_SOL_MINT


@dataclass(frozen=True, slots=True)
class TokenUnit:
    """How amounts of one mint are written.

    Attributes:
        mint: base58 address.
        decimals: the mint's, None where the transaction does not show it.
    """

    mint: str
    decimals: int | None

    def amount(self, units: int) -> str:
        """Smallest units as whole tokens, or as they are where the decimals are not known."""
        return (
            str(units) if self.decimals is None else format_amount(from_units(units, self.decimals))
        )

    def __str__(self) -> str:
        unit = "smallest units" if self.decimals is None else "tokens"
        return f"{unit} of mint {self.mint}"


def token_unit(mint: str, effects: TransactionEffects | None) -> TokenUnit:
    """The unit in which a refusal tells amounts of `mint`."""
    known = effects.decimals if effects is not None else {}
    return TokenUnit(mint, SOL_DECIMALS if mint == WRAPPED_SOL_MINT else known.get(mint))


def named_programs(programs: Iterable[str]) -> str:
    """Programs by name where they have one and else by address, or `none`."""
    return listed(PROGRAM_NAMES.get(program, program) for program in programs)


def listed(names: Iterable[str]) -> str:
    """Names in order, or `none`."""
    return ", ".join(sorted(set(names))) or "none"
