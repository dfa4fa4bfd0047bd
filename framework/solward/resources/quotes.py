"""What a swap would bring now."""

from __future__ import annotations

from decimal import Decimal

from solward.resources import examples
from solward.resources.answers import Answer
from solward.resources.declare import Call, declared, resource
from solward.resources.fields import Number, Text, Units, Whole


@resource
class SwapQuote(Answer):
    """What a swap would bring now."""

    input_token: str = declared(Text("The mint sold.", example=examples.ADDRESS))
    output_token: str = declared(Text("The mint bought.", example=examples.ADDRESS))
    input_units: int = declared(Units("Smallest units sold."), read=int)
    output_units: int = declared(Units("Smallest units that are expected."), read=int)
    minimum_units: int = declared(
        Units("Least that must arrive, after slippage.", example="4900000"), read=int
    )
    slippage_bps: int = declared(Whole("As given.", example=70))
    price_impact: Decimal = declared(Number("A fraction: 0.003 is 0.3%.", example=0.003))


QUOTE_SWAP = Call(
    "quoteSwap",
    "POST /quote",
    "What a swap would bring now.",
    SwapQuote,
    name=None,
    about="Nothing is sent, reserved or recorded.",
)
