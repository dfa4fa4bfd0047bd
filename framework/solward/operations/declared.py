"""Every money operation, declared once.

Routes, their description, skill parameters, `SkillContext`, the typed client, commands and forms
are derived from these declarations. Only this module defines defaults and bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from solward.resources.fields import (
    Address,
    Amount,
    Choice,
    Field,
    Number,
    Recipient,
    Schema,
    Text,
    Token,
    Whole,
    object_schema,
)
from solward.resources.shared import Example
from solward.solana.programs import LOCALNET_USDC_MINT, WRAPPED_SOL_MINT
from solward.solana.protocol import LOCALNET_RENT_PER_BYTE, rent_of
from solward.types.errors import InvalidRequest, NotEnough
from solward.types.record import TransactionType


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The declaration of one money operation.

    Attributes:
        name: the name of the Python method that performs it.
        type: the type of its records.
        tag: its chapter in the API's description: `money`, `tokens` or `staking`.
        title: its description in a few words, without a full stop.
        does: its description as a sentence, for docstrings and help; names fields in backticks.
        note: more text for the API's description.
        fields: its parameters, in the order of the command line's arguments.
        details: the fields of its record's details.
        example: the body of an example request.
        answer: the details in the record of `example`.
        refusals: texts of its 400 answers, except those for its fields; or errors whose status
            depends on `ERROR_STATUS`.
        verb: the label of its button.
        progress: the button's label while it is performed.
        route: the last segment of its URL, if this is not `name`.
        is_flat: whether its answer repeats the details at the top level.
        metadata: details that its answer repeats under `metadata`.
        flag: the name of a field of its answer that is true once it is confirmed.
        repeats: whether further calls can do more; `left` in its details says how much.
        is_irreversible: whether it cannot be undone; the dashboard then asks for confirmation.
        question: the command line's question before it; may name fields in braces.
    """

    name: str
    type: TransactionType
    tag: str
    title: str
    does: str
    note: str = ""
    fields: tuple[Field, ...] = ()
    details: tuple[Field, ...]
    example: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any]
    refusals: tuple[str | InvalidRequest, ...] = ()
    verb: str
    progress: str
    route: str = ""
    is_flat: bool = True
    metadata: tuple[str, ...] = ()
    flag: str = ""
    repeats: bool = False
    is_irreversible: bool = False
    question: str = ""

    @property
    def path(self) -> str:
        """The last segment of the URL, and the command's name, such as `wrap-sol`."""
        return self.route or self.name.replace("_", "-")

    def read(self, params: Mapping[str, object]) -> dict[str, Any]:
        """Return the plan's arguments from a request's parameters; unknown names are ignored.

        An absent field gets its default. None is refused for a field whose default is not None.

        Raises:
            InvalidRequest: a field is missing or wrong; names the first such field.
        """
        return {
            each.name: each.default
            if each.json not in params and not each.is_required
            else each.read(params.get(each.json))
            for each in self.fields
        }

    def requested_details(self, wallet: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the details that the request alone determines, for the record of a failed plan.

        Args:
            wallet: the wallet's address.
            values: the result of `read`.
        """
        known = {each.detail or each.json: values[each.name] for each in self.fields}
        known["from"] = wallet
        names = (each.json for each in self.details)
        return {name: known[name] for name in names if known.get(name) is not None}

    def schema(self) -> Schema:
        """Return the JSON Schema of its parameters, which allows no other properties."""
        return object_schema(self.fields)


def _example_rent(size: int) -> Decimal:
    """Return the rent in SOL that examples show for an account of `size` data bytes."""
    return Decimal(rent_of(size, LOCALNET_RENT_PER_BYTE)).scaleb(-9)


# SOL: sending it, getting it from a faucet, wrapping it.

MAX_AIRDROP_SOL = 2
_DEFAULT_AIRDROP_SOL = 1

_SOL_AMOUNT = Amount("Amount in SOL, at most 9 decimals.", name="amount")
_WRAPPED_ACCOUNT = Address("The wallet's wrapped SOL account.", name="account")

TRANSFER = Operation(
    name="transfer",
    type=TransactionType.TRANSFER,
    tag="money",
    title="Send SOL",
    does="Send `amount` SOL to the address `to`.",
    fields=(Recipient("Recipient's base58 Solana address.", name="to"), _SOL_AMOUNT),
    details=(
        Address("The wallet's address.", name="from"),
        Address("The recipient.", name="to"),
        Amount("Amount in SOL.", name="amount"),
    ),
    example={"to": Example.STRANGER, "amount": 0.5},
    answer={"from": Example.ADDRESS, "to": Example.STRANGER, "amount": 0.5},
    verb="Send",
    progress="Sending",
    is_flat=False,
    metadata=("to", "amount"),
    is_irreversible=True,
)

AIRDROP = Operation(
    name="airdrop",
    type=TransactionType.AIRDROP,
    tag="money",
    title="Get free test SOL from the network's faucet",
    does=(
        f"Ask the faucet for `amount` SOL, at most {MAX_AIRDROP_SOL} and by default"
        f" {_DEFAULT_AIRDROP_SOL}; not on mainnet."
    ),
    note="Not on mainnet.",
    fields=(
        Amount(
            f"Amount in SOL, at most {MAX_AIRDROP_SOL}.",
            name="amount",
            maximum=MAX_AIRDROP_SOL,
            default=_DEFAULT_AIRDROP_SOL,
            cli="AMOUNT",
        ),
    ),
    details=(Address("The wallet.", name="to"), Amount("Amount in SOL.", name="amount")),
    example={"amount": 2},
    answer={"to": Example.ADDRESS, "amount": 2},
    verb="Ask the faucet",
    progress="Asking the faucet",
    is_flat=False,
)

WRAP_SOL = Operation(
    name="wrap_sol",
    type=TransactionType.WRAP_SOL,
    tag="staking",
    title="Turn SOL into wrapped SOL",
    does="Turn `amount` SOL into wrapped SOL.",
    fields=(_SOL_AMOUNT,),
    details=(Amount("Amount in SOL.", name="amount"), _WRAPPED_ACCOUNT),
    example={"amount": 0.5},
    answer={"amount": 0.5, "account": Example.WRAPPED},
    refusals=("amount must be greater than 0",),
    verb="Wrap",
    progress="Wrapping",
)

UNWRAP_SOL = Operation(
    name="unwrap_sol",
    type=TransactionType.UNWRAP_SOL,
    tag="staking",
    title="Turn all wrapped SOL back into SOL",
    does="Turn all wrapped SOL of the wallet's associated account back into SOL.",
    details=(
        Amount("SOL that was wrapped.", name="amount"),
        _WRAPPED_ACCOUNT,
        Amount("Rent in SOL that returned to the wallet.", name="reclaimed"),
    ),
    answer={
        "amount": 0.5,
        "account": Example.WRAPPED,
        "reclaimed": float(_example_rent(165)),
    },
    refusals=("There is nothing to unwrap: the wallet has no wrapped SOL account",),
    verb="Unwrap",
    progress="Unwrapping",
)

# Selling one token for another at a venue.

# 100 %, in basis points.
MAX_SLIPPAGE_BPS = 10_000
_DEFAULT_SLIPPAGE_BPS = 50

_TRADED = "Mint address, or a symbol known on this network such as SOL or USDC."
_SLIPPAGE = Whole(
    "Maximum price change in basis points;"
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
    does="Sell `amount` whole units of `input_token` for `output_token`, each a mint or symbol.",
    fields=(
        Token(_TRADED, name="input_token", title="Sell", cli="FROM"),
        Token(_TRADED, name="output_token", title="Buy", cli="INTO"),
        Amount(
            "Amount of the input token to sell, in whole tokens.",
            name="amount",
            detail="inputAmount",
        ),
        _SLIPPAGE,
    ),
    details=(
        Address("The mint that was sold.", name="input_token"),
        Address("The mint that was bought.", name="output_token"),
        Amount("Amount in whole tokens.", name="input_amount"),
        Amount("Amount that arrived; before that, the quoted amount.", name="output_amount"),
        Whole(
            "The requested slippage.",
            name="slippage_bps",
            least=_SLIPPAGE.least,
            most=_SLIPPAGE.most,
        ),
        Number("A fraction: 0.003 is 0.3%.", name="price_impact"),
        Text("The venue that made the swap, by its plugin's name.", name="venue"),
    ),
    example={"inputToken": "SOL", "outputToken": "USDC", "amount": 0.1},
    answer={
        "inputToken": WRAPPED_SOL_MINT,
        "outputToken": LOCALNET_USDC_MINT,
        "inputAmount": 0.1,
        "outputAmount": 14.954984,
        "slippageBps": _DEFAULT_SLIPPAGE_BPS,
        "priceImpact": 0.003001,
        "venue": "jupiter",
    },
    verb="Swap",
    progress="Swapping",
)

# Tokens: launching, minting, sending, burning them, giving up authorities, closing accounts.

_NAME_BYTES = 32
_SYMBOL_BYTES = 10
_DEFAULT_SUPPLY = 1_000_000
# The maximum decimals of a launched token, and of any mint.
_MAX_DECIMALS = 9
_MOST_DECIMALS = 255

_MINT = Token("The token's mint address, or a symbol known on this network.", name="mint")
_TOKENS = Amount("Amount in whole tokens.", name="amount")
_OF_MINT = Address("The mint.", name="mint")
_MOVED = Amount("Whole tokens.", name="amount")
_HELD = Address("The wallet's token account.", name="account")
_NAME = Text(f"The token's name, at most {_NAME_BYTES} bytes.", name="name", max_bytes=_NAME_BYTES)
_AUTHORITY = Choice(
    "Authority to give up.",
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
            "Decimals of the token.",
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
        Text("The token's name on the ledger.", name="name"),
        Text("The token's symbol on the ledger.", name="symbol"),
        Whole("Decimals of the token.", name="decimals", least=0, most=_MAX_DECIMALS),
        Amount("First supply, in whole tokens.", name="supply"),
        _HELD,
    ),
    example={"name": "Docs coin", "symbol": "DOCS", "decimals": 6, "initialSupply": 1000},
    answer={
        "mint": Example.MINT,
        "name": "Docs coin",
        "symbol": "DOCS",
        "decimals": 6,
        "supply": 1000,
        "account": Example.TOKEN_ACCOUNT,
    },
    verb="Launch",
    progress="Launching",
)

MINT_SUPPLY = Operation(
    name="mint_supply",
    type=TransactionType.MINT_SUPPLY,
    tag="tokens",
    title="Mint more of a token to the wallet",
    does="Mint `amount` more whole tokens of `mint` to the wallet, the mint authority.",
    fields=(
        _MINT,
        _TOKENS,
        Whole(
            "If given, must equal the mint's decimals.",
            name="decimals",
            least=0,
            most=_MOST_DECIMALS,
            default=None,
        ),
    ),
    details=(_OF_MINT, _MOVED, _HELD),
    example={"mint": Example.MINT, "amount": 2.5},
    answer={"mint": Example.MINT, "amount": 2.5, "account": Example.TOKEN_ACCOUNT},
    refusals=("decimals is 9, but the mint has 6 decimals",),
    verb="Mint",
    progress="Minting",
)

TRANSFER_TOKEN = Operation(
    name="transfer_token",
    type=TransactionType.TOKEN_TRANSFER,
    tag="tokens",
    title="Send tokens, and open the recipient's account if there is none",
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
        Address("The wallet's address.", name="from"),
        Address("The recipient, as given.", name="to"),
        _OF_MINT,
        _MOVED,
        Amount("Whole tokens that arrive: fewer if the mint has a transfer fee.", name="received"),
        Address("The recipient's token account.", name="account"),
    ),
    example={"mint": Example.MINT, "to": Example.STRANGER, "amount": 2.5},
    answer={
        "from": Example.ADDRESS,
        "to": Example.STRANGER,
        "mint": Example.MINT,
        "amount": 2.5,
        "received": 2.5,
        "account": Example.TOKEN_ACCOUNT,
    },
    refusals=(NotEnough(f"mint: the wallet has no token account of {Example.MINT}"),),
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
    details=(_OF_MINT, Choice("The authority.", name="authority_type", options=_AUTHORITY.options)),
    example={"mint": Example.MINT},
    answer={"mint": Example.MINT, "authorityType": "mint"},
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
    example={"mint": Example.MINT, "amount": 1002.5},
    answer={"mint": Example.MINT, "amount": 1002.5},
    refusals=(NotEnough(f"amount is more than the 1000 of {Example.MINT} the wallet holds"),),
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
    does="Close the wallet's empty token account of `mint`; the rent returns.",
    fields=(
        Token("The mint's address or symbol, or the token account's own address.", name="mint"),
    ),
    details=(
        _OF_MINT,
        Address("The closed account.", name="account"),
        Amount("Rent in SOL that returned.", name="reclaimed"),
    ),
    example={"mint": Example.MINT},
    answer={
        "mint": Example.MINT,
        "account": Example.TOKEN_ACCOUNT,
        "reclaimed": float(_example_rent(170)),
    },
    refusals=(NotEnough(f"mint: the wallet has no token account of {Example.MINT}"),),
    verb="Close",
    progress="Closing",
)

# Reclaiming rent: the excess of token accounts, and all rent of empty accounts that can close.

# The maximum number of accounts in one transaction that reclaims rent. So many, of both token
# programs and with a memo, fit into 1,232 bytes.
MOST_AT_ONCE = 20

_TAKE = Choice(
    "What to reclaim: excess rent, rent of empty accounts, or both.",
    name="take",
    options=("all", "excess", "empty"),
    default="all",
)

RECLAIM_RENT = Operation(
    name="reclaim_rent",
    type=TransactionType.RECLAIM_RENT,
    tag="tokens",
    title="Reclaim excess rent of token accounts, and close empty accounts",
    does=(
        "Reclaim rent above the cluster's minimum from the wallet's token accounts, and close empty"
        " accounts."
    ),
    note=(
        f"One transaction takes rent from at most {MOST_AT_ONCE} accounts, largest amounts first;"
        " `left` is the number of other accounts. `GET /wallets/:id/reclaimable` lists all."
    ),
    fields=(_TAKE,),
    details=(
        Amount("SOL that returns to the wallet.", name="reclaimed"),
        Whole("Number of closed accounts.", name="closed", least=0, most=MOST_AT_ONCE),
        Whole("Number of open accounts reduced.", name="reduced", least=0, most=MOST_AT_ONCE),
        Whole("Number of accounts for another call.", name="left", least=0, most=10**9),
    ),
    example={"take": "all"},
    answer={"reclaimed": 0.00259012, "closed": 1, "reduced": 1, "left": 0},
    refusals=("There is no rent to reclaim",),
    verb="Reclaim",
    progress="Reclaiming",
    repeats=True,
)

# Stakes: delegating SOL to a validator and taking it back.

_STAKE_ACCOUNT = Address(
    "The stake account's address, from `stake` or the list of stakes.",
    name="stake_account",
)
_STAKE = Address("The stake account.", name="stake_account")

STAKE = Operation(
    name="stake",
    type=TransactionType.STAKE,
    tag="staking",
    title="Stake SOL in a new stake account",
    does="Stake `amount` SOL, the account's rent included, in a new stake account.",
    fields=(
        Amount(
            "Amount in SOL, at most 9 decimals; the account's rent is part of it.", name="amount"
        ),
        Address(
            "The validator's vote account; default a validator by commission, votes and stake.",
            name="validator",
            default=None,
        ),
    ),
    details=(
        Address("The new stake account.", name="stake_account"),
        Address("The validator's vote account.", name="validator"),
        Text("Why the validator was chosen.", name="validator_reason"),
        Amount("Amount in SOL, rent included.", name="amount"),
    ),
    example={"amount": 1.5},
    answer={
        "stakeAccount": Example.STAKE,
        "validator": Example.VALIDATOR,
        "validatorReason": (
            "Default: the first of 1 that qualify among 1 validator; commission 5% (at most 10%);"
            " no complete epoch to judge votes by; in the superminority, as none outside it"
            " qualifies"
        ),
        "amount": 1.5,
    },
    refusals=(
        f"amount must be at least {1 + _example_rent(200)} SOL: the network's minimum"
        f" delegation of 1 SOL and {_example_rent(200)} SOL of rent",
    ),
    verb="Stake",
    progress="Staking",
)

UNSTAKE = Operation(
    name="unstake",
    type=TransactionType.UNSTAKE,
    tag="staking",
    title="Deactivate a stake",
    does="Deactivate the stake `stake_account`; it cools down until the epoch's end.",
    fields=(_STAKE_ACCOUNT,),
    details=(
        _STAKE,
        Address("The validator's vote account.", name="validator"),
        Amount("Delegated amount in SOL.", name="amount"),
    ),
    example={"stakeAccount": Example.STAKE},
    answer={
        "stakeAccount": Example.STAKE,
        "validator": Example.VALIDATOR,
        "amount": float(Decimal("1.5") - _example_rent(200)),
    },
    flag="deactivated",
    refusals=(f"stakeAccount: {Example.STAKE} is inactive already; withdraw it instead",),
    verb="Unstake",
    progress="Unstaking",
)

WITHDRAW_STAKE = Operation(
    name="withdraw_stake",
    type=TransactionType.WITHDRAW_STAKE,
    tag="staking",
    title="Withdraw all of an inactive stake",
    does="Withdraw all of the inactive stake `stake_account`, its rent included, to the wallet.",
    fields=(_STAKE_ACCOUNT,),
    details=(_STAKE, Amount("SOL that returned, rent included.", name="amount")),
    example={"stakeAccount": Example.STAKE},
    answer={"stakeAccount": Example.STAKE, "amount": 1.5},
    flag="withdrawn",
    refusals=(f"stakeAccount: {Example.STAKE} is active; unstake it first",),
    verb="Withdraw",
    progress="Withdrawing",
)


# All operations above this line; an operation declared below it would be missing.
OPERATIONS: dict[str, Operation] = {
    declared.name: declared
    for declared in tuple(globals().values())
    if isinstance(declared, Operation)
}


def operation_parameters(name: str) -> Schema:
    """Return the JSON Schema of an operation's parameters, for the skill that calls it.

    Args:
        name: the name of the context's method, such as `swap`.

    Raises:
        KeyError: there is no such operation.
    """
    return OPERATIONS[name].schema()


def recipient_fields(name: str) -> tuple[Recipient, ...]:
    """Return the fields that name the recipient of an operation or of its skill; may be empty."""
    fields = OPERATIONS[name].fields if name in OPERATIONS else ()
    return tuple(each for each in fields if isinstance(each, Recipient))
