"""Tokens: launching, minting, sending, burning them, giving up authorities, closing accounts."""

from __future__ import annotations

from solward.operations.declared import fields
from solward.operations.declared.fields import (
    Address,
    Amount,
    Choice,
    Operation,
    Recipient,
    Text,
    Token,
    Whole,
)
from solward.types.record import TransactionType

_NAME_BYTES = 32
_SYMBOL_BYTES = 10
_DEFAULT_SUPPLY = 1_000_000
# A launched token's decimals, and those of a mint's that somebody else made.
_MAX_DECIMALS = 9
_MOST_DECIMALS = 255

_MINT = Token("mint", "The token's mint address, or a symbol known on this network.")
_TOKENS = Amount("amount", "Amount in whole tokens.")
_OF_MINT = Address("mint", "The mint.")
_MOVED = Amount("amount", "Whole tokens.")
_HELD = Address("account", "The wallet's token account.")
_NAME = Text("name", f"The token's name, at most {_NAME_BYTES} bytes.", max_bytes=_NAME_BYTES)
_AUTHORITY = Choice(
    "authority_type",
    "Which right to give up.",
    options=("mint", "freeze"),
    default="mint",
    cli="--type",
)

LAUNCH_TOKEN = Operation(
    name="launch_token",
    type=TransactionType.TOKEN_LAUNCH,
    tag="tokens",
    title="Create a Token-2022 mint with its name and symbol, and its first supply",
    does="Create a Token-2022 token with a `name` and a `symbol`; the wallet gets its supply.",
    fields=(
        _NAME,
        Text(
            "symbol", f"The token's symbol, at most {_SYMBOL_BYTES} bytes.", max_bytes=_SYMBOL_BYTES
        ),
        Whole(
            "decimals",
            "Decimals of one whole token.",
            least=0,
            most=_MAX_DECIMALS,
            default=_MAX_DECIMALS,
        ),
        Amount(
            "initial_supply",
            "First supply, in whole tokens.",
            default=_DEFAULT_SUPPLY,
            detail="supply",
            cli="--supply",
        ),
    ),
    details=(
        Address("mint", "The new mint."),
        Text("name", "On the ledger."),
        Text("symbol", "On the ledger."),
        Whole("decimals", "Of a whole token.", least=0, most=_MAX_DECIMALS),
        Amount("supply", "Whole tokens."),
        _HELD,
    ),
    example={"name": "Docs coin", "symbol": "DOCS", "decimals": 6, "initialSupply": 1000},
    answer={
        "mint": fields.MINT,
        "name": "Docs coin",
        "symbol": "DOCS",
        "decimals": 6,
        "supply": 1000,
        "account": fields.ACCOUNT,
    },
    refusals=(_NAME.expected,),
    verb="Launch",
    progress="Launching",
)

MINT_SUPPLY = Operation(
    name="mint_supply",
    type=TransactionType.MINT_SUPPLY,
    tag="tokens",
    title="Mint more of a token to the wallet",
    does="Mint `amount` more whole tokens of `mint` to the wallet, its mint authority.",
    fields=(
        _MINT,
        _TOKENS,
        Whole(
            "decimals",
            "Leave it out; when given it must be the token's own.",
            least=0,
            most=_MOST_DECIMALS,
            default=None,
        ),
    ),
    details=(_OF_MINT, _MOVED, _HELD),
    example={"mint": fields.MINT, "amount": 2.5},
    answer={"mint": fields.MINT, "amount": 2.5, "account": fields.ACCOUNT},
    refusals=("decimals is 9, but the mint has 6 decimals",),
    verb="Mint",
    progress="Minting",
)

TRANSFER_TOKEN = Operation(
    name="transfer_token",
    type=TransactionType.TOKEN_TRANSFER,
    tag="tokens",
    title="Send tokens, opening the recipient's account where there is none",
    does=(
        "Send `amount` whole tokens of `mint` to `to`: a wallet's address, or a token account of"
        " the mint."
    ),
    route="token-transfer",
    fields=(
        _MINT,
        Recipient("to", "Recipient: a wallet's address, or a token account of the mint."),
        _TOKENS,
    ),
    details=(
        Address("from", "The wallet's."),
        Address("to", "The recipient, as given."),
        _OF_MINT,
        _MOVED,
        Amount("received", "Whole tokens that arrive: less where the mint has a transfer fee."),
        Address("account", "The recipient's token account."),
    ),
    example={"mint": fields.MINT, "to": fields.RECIPIENT, "amount": 2.5},
    answer={
        "from": fields.WALLET,
        "to": fields.RECIPIENT,
        "mint": fields.MINT,
        "amount": 2.5,
        "received": 2.5,
        "account": fields.ACCOUNT,
    },
    refusals=(f"mint: the wallet has no token account of {fields.MINT}",),
    verb="Send",
    progress="Sending",
    is_irreversible=True,
)

REVOKE_AUTHORITY = Operation(
    name="revoke_authority",
    type=TransactionType.REVOKE_AUTHORITY,
    tag="tokens",
    title="Give up the mint or freeze authority of a mint for ever",
    does="Give up the wallet's mint or freeze authority over `mint`, for ever.",
    fields=(_MINT, _AUTHORITY),
    details=(_OF_MINT, Choice("authority_type", "Which.", options=_AUTHORITY.options)),
    example={"mint": fields.MINT},
    answer={"mint": fields.MINT, "authorityType": "mint"},
    flag="revoked",
    refusals=(_AUTHORITY.expected,),
    verb="Revoke",
    progress="Revoking",
    is_irreversible=True,
    question="Give up the {authority_type} authority over {mint} for ever, with {wallet}?",
)

BURN = Operation(
    name="burn",
    type=TransactionType.BURN,
    tag="tokens",
    title="Destroy tokens of the wallet",
    does="Burn `amount` whole tokens of `mint`.",
    fields=(_MINT, _TOKENS),
    details=(_OF_MINT, _MOVED),
    example={"mint": fields.MINT, "amount": 1002.5},
    answer={"mint": fields.MINT, "amount": 1002.5},
    refusals=(f"amount is more than the 1000 of {fields.MINT} the wallet holds",),
    verb="Burn",
    progress="Burning",
    is_irreversible=True,
    question="Burn {amount:f} of {mint}, held by {wallet}?",
)

CLOSE_ACCOUNT = Operation(
    name="close_account",
    type=TransactionType.CLOSE_ACCOUNT,
    tag="tokens",
    title="Close an empty token account and take its rent back",
    does="Close the wallet's empty token account of `mint`; its rent comes back.",
    fields=(Token("mint", "The mint's address or symbol, or the token account's own address."),),
    details=(
        _OF_MINT,
        Address("account", "The closed one."),
        Amount("reclaimed", "SOL that came back."),
    ),
    example={"mint": fields.MINT},
    answer={
        "mint": fields.MINT,
        "account": fields.ACCOUNT,
        "reclaimed": float(fields.example_rent(170)),
    },
    refusals=(f"mint: the wallet has no token account of {fields.MINT}",),
    verb="Close",
    progress="Closing",
)
