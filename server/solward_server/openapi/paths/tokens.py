"""What a wallet does with tokens of its own."""

from __future__ import annotations

from solward_server.openapi.money import money
from solward_server.openapi.schema import (
    Schema,
    address,
    amount,
    choice,
    flag,
    number,
    request_object,
    sol,
    text,
    whole,
)

_MINT = "CnfsDnWmh34rN9EM5MLVJB7dLbe1x8VDM3mv2EQq4KZ8"
_ACCOUNT = "GEVUHyWDGETFB2QXpKh43KZDyZZzHTQptZRqx1sA2wfu"
_RECIPIENT = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
_TOKENS = number("Whole tokens.", minimum=0)
_HELD = address("The wallet's token account.")


def _of_mint(more: dict[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    mint = text("A mint, or a symbol known on the network.", 200)
    return request_object({"mint": mint} | more, required=["mint", *required])


PATHS = {
    "/wallets/{walletId}/launch-token": {
        "post": money(
            "launchToken",
            "Create a Token-2022 mint with its name and symbol, and its first supply",
            tag="tokens",
            kind="token_launch",
            body=request_object(
                {
                    "name": text("1 to 32 bytes of UTF-8, printable.", 32),
                    "symbol": text("1 to 10 bytes of UTF-8, printable.", 10),
                    "decimals": whole("Of a whole token.", 0, 9, default=9),
                    "initialSupply": amount("Whole tokens.", default=1_000_000),
                },
                required=["name", "symbol"],
            ),
            example={"name": "Docs coin", "symbol": "DOCS", "decimals": 6, "initialSupply": 1000},
            details={
                "mint": address("The new mint."),
                "name": text("On the ledger."),
                "symbol": text("On the ledger."),
                "decimals": whole("Of a whole token.", 0, 9),
                "supply": _TOKENS,
                "account": _HELD,
            },
            told={
                "mint": _MINT,
                "name": "Docs coin",
                "symbol": "DOCS",
                "decimals": 6,
                "supply": 1000,
                "account": _ACCOUNT,
            },
            bad="name must be printable text of 1 to 32 bytes of UTF-8",
        )
    },
    "/wallets/{walletId}/mint-supply": {
        "post": money(
            "mintSupply",
            "Mint more of a token to the wallet",
            tag="tokens",
            kind="mint_supply",
            body=_of_mint(
                {
                    "amount": amount("Whole tokens."),
                    "decimals": whole("When given, the mint's own.", 0, 255),
                },
                ("amount",),
            ),
            example={"mint": _MINT, "amount": 2.5},
            details={"mint": address("The mint."), "amount": _TOKENS, "account": _HELD},
            told={"mint": _MINT, "amount": 2.5, "account": _ACCOUNT},
            bad="decimals is 9, but the mint has 6 decimals",
        )
    },
    "/wallets/{walletId}/token-transfer": {
        "post": money(
            "transferToken",
            "Send tokens, opening the recipient's account where there is none",
            tag="tokens",
            kind="token_transfer",
            body=_of_mint(
                {
                    "to": address("The recipient: a wallet, not a token account."),
                    "amount": amount("Whole tokens."),
                },
                ("to", "amount"),
            ),
            example={"mint": _MINT, "to": _RECIPIENT, "amount": 2.5},
            details={
                "from": address("The wallet's."),
                "to": address("The recipient."),
                "mint": address("The mint."),
                "amount": _TOKENS,
                "account": address("The recipient's token account."),
            },
            told={
                "from": "Xyk1ak1fTvBzxDgQ8ypk1T4PfUfmQEXDnvC6Y6Ttnvh",
                "to": _RECIPIENT,
                "mint": _MINT,
                "amount": 2.5,
                "account": _ACCOUNT,
            },
            bad=f"mint: the wallet has no token account of {_MINT}",
        )
    },
    "/wallets/{walletId}/revoke-authority": {
        "post": money(
            "revokeAuthority",
            "Give up the mint or freeze authority of a mint for ever",
            tag="tokens",
            kind="revoke_authority",
            body=_of_mint(
                {"authorityType": choice("Which.", "mint", "freeze", default="mint")},
            ),
            example={"mint": _MINT},
            details={
                "mint": address("The mint."),
                "authorityType": choice("Which.", "mint", "freeze"),
            },
            told={"mint": _MINT, "authorityType": "mint"},
            extra={"revoked": flag("True once it is confirmed.")},
            extra_told={"revoked": True},
            bad="authorityType must be mint or freeze",
        )
    },
    "/wallets/{walletId}/burn": {
        "post": money(
            "burn",
            "Destroy tokens of the wallet",
            tag="tokens",
            kind="burn",
            body=_of_mint({"amount": amount("Whole tokens.")}, ("amount",)),
            example={"mint": _MINT, "amount": 1002.5},
            details={"mint": address("The mint."), "amount": _TOKENS},
            told={"mint": _MINT, "amount": 1002.5},
            bad=f"amount is more than the 1000 of {_MINT} the wallet holds",
        )
    },
    "/wallets/{walletId}/close-account": {
        "post": money(
            "closeAccount",
            "Close an empty token account and take its rent back",
            tag="tokens",
            kind="close_account",
            body=_of_mint({}),
            example={"mint": _MINT},
            details={
                "mint": address("The mint."),
                "account": address("The closed one."),
                "reclaimed": sol("SOL that came back."),
            },
            told={"mint": _MINT, "account": _ACCOUNT, "reclaimed": 0.00207408},
            bad=f"mint: the wallet has no token account of {_MINT}",
        )
    },
}
