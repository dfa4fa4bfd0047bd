"""Tokens: launching, minting, sending, burning them, giving up authorities, closing accounts."""

from __future__ import annotations

from solward.operations.declared import examples
from solward.operations.declared.operation import Operation
from solward.resources.fields import Address, Amount, Choice, Recipient, Text, Token, Whole
from solward.types.errors import NotEnough
from solward.types.record import TransactionType

_NAME_BYTES = 32
_SYMBOL_BYTES = 10
_DEFAULT_SUPPLY = 1_000_000
# A launched token's decimals, and those of a mint's that somebody else made.
_MAX_DECIMALS = 9
_MOST_DECIMALS = 255

_MINT = Token("The token's mint address, or a symbol known on this network.", name="mint")
_TOKENS = Amount("Amount in whole tokens.", name="amount")
_OF_MINT = Address("The mint.", name="mint")
_MOVED = Amount("Whole tokens.", name="amount")
_HELD = Address("The wallet's token account.", name="account")
_NAME = Text(f"The token's name, at most {_NAME_BYTES} bytes.", name="name", max_bytes=_NAME_BYTES)
_AUTHORITY = Choice(
    "Which right to give up.",
    name="authority_type",
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
            f"The token's symbol, at most {_SYMBOL_BYTES} bytes.",
            name="symbol",
            max_bytes=_SYMBOL_BYTES,
        ),
        Whole(
            "Decimals of one whole token.",
            name="decimals",
            least=0,
            most=_MAX_DECIMALS,
            default=_MAX_DECIMALS,
        ),
        Amount(
            "First supply, in whole tokens.",
            name="initial_supply",
            default=_DEFAULT_SUPPLY,
            detail="supply",
            cli="--supply",
        ),
    ),
    details=(
        Address("The new mint.", name="mint"),
        Text("On the ledger.", name="name"),
        Text("On the ledger.", name="symbol"),
        Whole("Of a whole token.", name="decimals", least=0, most=_MAX_DECIMALS),
        Amount("Whole tokens.", name="supply"),
        _HELD,
    ),
    example={"name": "Docs coin", "symbol": "DOCS", "decimals": 6, "initialSupply": 1000},
    answer={
        "mint": examples.MINT,
        "name": "Docs coin",
        "symbol": "DOCS",
        "decimals": 6,
        "supply": 1000,
        "account": examples.ACCOUNT,
    },
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
            "Leave it out; when given it must be the token's own.",
            name="decimals",
            least=0,
            most=_MOST_DECIMALS,
            default=None,
        ),
    ),
    details=(_OF_MINT, _MOVED, _HELD),
    example={"mint": examples.MINT, "amount": 2.5},
    answer={"mint": examples.MINT, "amount": 2.5, "account": examples.ACCOUNT},
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
        Recipient("Recipient: a wallet's address, or a token account of the mint.", name="to"),
        _TOKENS,
    ),
    details=(
        Address("The wallet's.", name="from"),
        Address("The recipient, as given.", name="to"),
        _OF_MINT,
        _MOVED,
        Amount(
            "Whole tokens that arrive: less where the mint has a transfer fee.", name="received"
        ),
        Address("The recipient's token account.", name="account"),
    ),
    example={"mint": examples.MINT, "to": examples.RECIPIENT, "amount": 2.5},
    answer={
        "from": examples.WALLET,
        "to": examples.RECIPIENT,
        "mint": examples.MINT,
        "amount": 2.5,
        "received": 2.5,
        "account": examples.ACCOUNT,
    },
    refusals=(NotEnough(f"mint: the wallet has no token account of {examples.MINT}"),),
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
    details=(_OF_MINT, Choice("Which.", name="authority_type", options=_AUTHORITY.options)),
    example={"mint": examples.MINT},
    answer={"mint": examples.MINT, "authorityType": "mint"},
    flag="revoked",
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
    example={"mint": examples.MINT, "amount": 1002.5},
    answer={"mint": examples.MINT, "amount": 1002.5},
    refusals=(NotEnough(f"amount is more than the 1000 of {examples.MINT} the wallet holds"),),
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
    fields=(
        Token("The mint's address or symbol, or the token account's own address.", name="mint"),
    ),
    details=(
        _OF_MINT,
        Address("The closed one.", name="account"),
        Amount("SOL that came back.", name="reclaimed"),
    ),
    example={"mint": examples.MINT},
    answer={
        "mint": examples.MINT,
        "account": examples.ACCOUNT,
        "reclaimed": float(examples.example_rent(170)),
    },
    refusals=(NotEnough(f"mint: the wallet has no token account of {examples.MINT}"),),
    verb="Close",
    progress="Closing",
)
