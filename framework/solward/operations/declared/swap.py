"""Selling one token for another at a venue."""

from __future__ import annotations

from solward.operations.declared import fields
from solward.operations.declared.fields import (
    Address,
    Amount,
    Number,
    Operation,
    Text,
    Token,
    Whole,
)
from solward.types.record import TransactionType

# All of the input: basis points of a whole.
MAX_SLIPPAGE_BPS = 10_000
_DEFAULT_SLIPPAGE_BPS = 50

_TOKEN = "Mint address, or a symbol known on this network such as SOL or USDC."  # noqa: S105 - text
_SLIPPAGE = Whole(
    "slippage_bps",
    "Most the price may move, in basis points;"
    f" {_DEFAULT_SLIPPAGE_BPS} is {_DEFAULT_SLIPPAGE_BPS / 100:g}%.",
    least=0,
    most=MAX_SLIPPAGE_BPS,
    default=_DEFAULT_SLIPPAGE_BPS,
    title="Slippage",
)

SWAP = Operation(
    name="swap",
    type=TransactionType.SWAP,
    tag="money",
    title="Sell one token for another at the market's price",
    does="Sell `amount` whole units of `input_token` for `output_token`; each a mint or a symbol.",
    fields=(
        Token("input_token", _TOKEN, title="Sell", cli="FROM"),
        Token("output_token", _TOKEN, title="Buy", cli="INTO"),
        Amount(
            "amount", "Amount of the input token to sell, in whole tokens.", detail="inputAmount"
        ),
        _SLIPPAGE,
    ),
    details=(
        Address("input_token", "The mint sold."),
        Address("output_token", "The mint bought."),
        Amount("input_amount", "Whole tokens."),
        Amount("output_amount", "What arrived; the quote's until then."),
        Whole("slippage_bps", "As given.", least=_SLIPPAGE.least, most=_SLIPPAGE.most),
        Number("price_impact", "A fraction: 0.003 is 0.3%."),
        Text("venue", "The venue that made the swap, by its plugin's name."),
    ),
    example={"inputToken": "SOL", "outputToken": "USDC", "amount": 0.1},
    answer={
        "inputToken": fields.SOL,
        "outputToken": fields.USDC,
        "inputAmount": 0.1,
        "outputAmount": 14.954984,
        "slippageBps": _DEFAULT_SLIPPAGE_BPS,
        "priceImpact": 0.003001,
        "venue": "jupiter",
    },
    refusals=(_SLIPPAGE.expected,),
    verb="Swap",
    progress="Swapping",
)
