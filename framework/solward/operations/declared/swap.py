"""Selling one token for another at a venue."""

from __future__ import annotations

from solward.operations.declared import examples
from solward.operations.declared.operation import Operation
from solward.resources.fields import Address, Amount, Number, Text, Token, Whole
from solward.types.record import TransactionType

# All of the input: basis points of a whole.
MAX_SLIPPAGE_BPS = 10_000
_DEFAULT_SLIPPAGE_BPS = 50

_TOKEN = "Mint address, or a symbol known on this network such as SOL or USDC."  # noqa: S105 - text
_SLIPPAGE = Whole(
    "Most the price may move, in basis points;"
    f" {_DEFAULT_SLIPPAGE_BPS} is {_DEFAULT_SLIPPAGE_BPS / 100:g}%.",
    name="slippage_bps",
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
        Token(_TOKEN, name="input_token", title="Sell", cli="FROM"),
        Token(_TOKEN, name="output_token", title="Buy", cli="INTO"),
        Amount(
            "Amount of the input token to sell, in whole tokens.",
            name="amount",
            detail="inputAmount",
        ),
        _SLIPPAGE,
    ),
    details=(
        Address("The mint sold.", name="input_token"),
        Address("The mint bought.", name="output_token"),
        Amount("Whole tokens.", name="input_amount"),
        Amount("What arrived; the quote's until then.", name="output_amount"),
        Whole("As given.", name="slippage_bps", least=_SLIPPAGE.least, most=_SLIPPAGE.most),
        Number("A fraction: 0.003 is 0.3%.", name="price_impact"),
        Text("The venue that made the swap, by its plugin's name.", name="venue"),
    ),
    example={"inputToken": "SOL", "outputToken": "USDC", "amount": 0.1},
    answer={
        "inputToken": examples.SOL,
        "outputToken": examples.USDC,
        "inputAmount": 0.1,
        "outputAmount": 14.954984,
        "slippageBps": _DEFAULT_SLIPPAGE_BPS,
        "priceImpact": 0.003001,
        "venue": "jupiter",
    },
    verb="Swap",
    progress="Swapping",
)
