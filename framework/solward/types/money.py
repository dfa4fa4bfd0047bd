"""Amounts: integers of the smallest unit inside, Decimal at the edge, never a float.

Lamports are the smallest unit of SOL (10**9 lamports = 1 SOL); a mint's smallest unit is
10**-decimals of a whole token. Ledger amounts are unsigned 64-bit.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext

from solward.types.errors import InvalidRequest

SOL_DECIMALS = 9
LAMPORTS_PER_SOL = 10**SOL_DECIMALS
U64_MAX = 2**64 - 1
COUNTED_MAX = 2**63 - 1
"""The maximum units of a transaction that can be counted, because columns are signed. No limit is
higher, so a transaction with more units fits no limit."""

# A u64 has 20 digits and a mint at most 255 decimals. Expanding a longer number such as
# `1e999999999` would stop the process before any rule could refuse it.
_MAX_ADJUSTED = 40
_PRECISION = 330
_EXACT = Context(prec=_PRECISION)
_ONE = Decimal(1)


def to_units(value: object, decimals: int, field: str, most: int = U64_MAX) -> int:
    """Convert a caller's whole units (int or Decimal) to smallest units.

    Raises:
        InvalidRequest: the value is not a number, is not positive, has too many decimals, or is
            more than `most`; names `field`.
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise InvalidRequest(f"{field} must be a number")
    amount = Decimal(value) if isinstance(value, Decimal) else value
    if isinstance(amount, Decimal):
        if not amount.is_finite():
            raise InvalidRequest(f"{field} must be a finite number")
        if amount and not -_PRECISION < amount.adjusted() < _MAX_ADJUSTED:
            raise InvalidRequest(f"{field} is out of range")
    if amount <= 0:
        raise InvalidRequest(f"{field} must be greater than 0")
    with localcontext() as context:
        context.prec = _PRECISION
        scaled = Decimal(amount).scaleb(decimals)
        if scaled != scaled.to_integral_value():
            raise InvalidRequest(f"{field} has more than {decimals} decimals")
        units = int(scaled)
    if units > most:
        raise InvalidRequest(f"{field} is larger than the ledger can hold")
    return units


def sol_to_lamports(value: object, field: str = "amount") -> int:
    """Convert a caller's SOL to lamports; raises like `to_units`."""
    # `COUNTED_MAX` is more than all SOL that exists.
    return to_units(value, SOL_DECIMALS, field, COUNTED_MAX)


def from_units(units: int, decimals: int) -> Decimal:
    """Convert smallest units to exact whole units without trailing zeros (`Decimal('1.5')`)."""
    value = _EXACT.normalize(_EXACT.scaleb(Decimal(units), -decimals))
    # normalize() makes 100 into 1E+2, which people and strict JSON parsers do not read.
    return _EXACT.quantize(value, _ONE) if value == _EXACT.to_integral_value(value) else value


def lamports_to_sol(lamports: int) -> Decimal:
    """Return lamports as an exact amount of SOL."""
    return from_units(lamports, SOL_DECIMALS)


def format_amount(value: Decimal | int) -> str:
    """Return a number as text without exponent; stored records have whole amounts as int."""
    return f"{Decimal(value):f}"


def amount_text(units: int, decimals: int) -> str:
    """Convert smallest units to exact text in whole units."""
    return format_amount(from_units(units, decimals))


def format_sol(lamports: int, places: int | None = None) -> str:
    """Return lamports as exact text in SOL; with `places`, truncated to so many decimals."""
    sol = lamports_to_sol(lamports)
    if places is None:
        return format_amount(sol)
    scale = 10 ** (SOL_DECIMALS - places)
    return f"{Decimal(lamports // scale).scaleb(-places):.{places}f}"
