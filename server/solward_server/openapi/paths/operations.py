"""What moves money: transfer, swap, airdrop."""

from __future__ import annotations

from solward.solana.programs import WRAPPED_SOL_MINT
from solward_server.openapi.money import money
from solward_server.openapi.parameters import USDC, WALLET_ADDRESS
from solward_server.openapi.schema import (
    address,
    amount,
    number,
    request_object,
    response_object,
    sol,
    text,
    whole,
)

RECIPIENT = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
_SWAPPED = {
    "inputToken": WRAPPED_SOL_MINT,
    "outputToken": USDC,
    "inputAmount": 0.1,
    "outputAmount": 14.954984,
    "slippageBps": 50,
    "priceImpact": 0.003001,
}

PATHS = {
    "/wallets/{walletId}/transfer": {
        "post": money(
            "transfer",
            "Send SOL",
            tag="money",
            kind="transfer",
            body=request_object(
                {
                    "to": address("The recipient."),
                    "amount": amount("SOL, at most 9 decimals."),
                },
                required=["to", "amount"],
            ),
            example={"to": RECIPIENT, "amount": 0.5},
            details={
                "from": address("The wallet's."),
                "to": address("The recipient."),
                "amount": sol("SOL."),
            },
            told={"from": WALLET_ADDRESS, "to": RECIPIENT, "amount": 0.5},
            flat=False,
            extra={
                "metadata": response_object(
                    {"to": address("The recipient."), "amount": sol("SOL.")}
                ),
            },
            extra_told={"metadata": {"to": RECIPIENT, "amount": 0.5}},
            bad="amount must be a number",
        )
    },
    "/wallets/{walletId}/swap": {
        "post": money(
            "swap",
            "Swap one token for another",
            tag="money",
            kind="swap",
            body=request_object(
                {
                    "inputToken": text("A mint, or a symbol known on the network.", 200),
                    "outputToken": text("A mint, or a symbol known on the network.", 200),
                    "amount": amount("Whole input tokens."),
                    "slippageBps": whole("Basis points; 50 is 0.5%.", 0, 10_000, default=50),
                },
                required=["inputToken", "outputToken", "amount"],
            ),
            example={"inputToken": "SOL", "outputToken": "USDC", "amount": 0.1},
            details={
                "inputToken": address("The mint sold."),
                "outputToken": address("The mint bought."),
                "inputAmount": number("Whole tokens.", minimum=0),
                "outputAmount": number("What arrived; the quote's until then.", minimum=0),
                "slippageBps": whole("As given.", 0, 10_000),
                "priceImpact": number("A fraction: 0.003 is 0.3%."),
            },
            told=_SWAPPED,
            bad="slippageBps must be a whole number from 0 to 10000",
        )
    },
    "/wallets/{walletId}/airdrop": {
        "post": money(
            "airdrop",
            "Ask the test network's faucet for SOL",
            tag="money",
            kind="airdrop",
            body=request_object({"amount": amount("SOL, at most 2.", maximum=2, default=1)}),
            example={"amount": 2},
            details={"to": address("The wallet's."), "amount": sol("SOL.")},
            told={"to": WALLET_ADDRESS, "amount": 2},
            flat=False,
            description="Not on mainnet.",
            bad="amount must be a number",
        )
    },
}
