"""Wallets, their balances, pockets and stakes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from solward.resources.agents import A_MINUTE, DAILY_COSTS, DAILY_SOL, MAX_SOL
from solward.resources.declare import (
    Answer,
    Call,
    Request,
    decimal,
    declared,
    fields_of,
    resource,
)
from solward.resources.fields import (
    Address,
    Amount,
    Choice,
    Flag,
    Id,
    Json,
    Number,
    Shape,
    Text,
    Texts,
    Time,
    Units,
    Whole,
)
from solward.resources.schema import array, mapping
from solward.resources.shared import LIMIT, CanLeave, Example, Limits
from solward.resources.transactions import Transaction
from solward.types.address_book import DEFAULT_NAME
from solward.types.record import TransactionType

_WALLET = Id("The wallet.", title="Wallet", example=Example.WALLET)
_TAGS = Texts(
    "Labels for people; duplicates are removed.",
    each="1 to 64 printable characters.",
    example=["treasury"],
    cli="--tag",
)


@resource
class NewWallet(Request):
    """A request to create a wallet."""

    name: str = declared(
        Text("Name of the wallet; printable characters.", most=64, example="mine", cli="NAME"),
        default=DEFAULT_NAME,
    )
    tags: Sequence[str] = declared(_TAGS, default=())


@resource
class ChangedWallet(Request):
    """A change of a wallet."""

    tags: Sequence[str] | None = declared(_TAGS, default=None)


@resource
class Ceilings(Request):
    """Ceilings of one wallet within the service's limits; null or empty for these limits alone."""

    max_sol_per_transaction: Decimal | int | None = declared(
        replace(MAX_SOL, zero=True), default=None
    )
    max_transactions_per_minute: int | None = declared(A_MINUTE, default=None)
    daily_spending_limit_sol: Decimal | int | None = declared(
        replace(DAILY_SOL, zero=True), default=None
    )
    max_costs_sol_per_day: Decimal | int | None = declared(
        replace(DAILY_COSTS, text="Maximum SOL for fees and rent in any 24 hours.", zero=True),
        default=None,
    )


@resource
class ListedWallets(Request):
    """A request for the list of wallets."""

    limit: int | None = declared(LIMIT, default=None)
    before: str | None = declared(Text("Only wallets older than this wallet."), default=None)
    created_by: bool = declared(Flag("Include who created each wallet."), default=False)


@resource
class AskedBalance(Request):
    """A request for a wallet's balance."""

    empty: bool = declared(Flag("Include tokens whose accounts are empty."), default=False)
    usd: bool = declared(Flag("Include values in dollars."), default=False)


@resource
class Sweep(Request):
    """A pocket's sweep, which takes no fields."""


@resource
class Wallet(Answer):
    """A wallet; `address` is its base58 public key."""

    component: ClassVar = "Wallet"

    id: str = declared(_WALLET)
    name: str = declared(Text("The wallet's name.", example="docs"))
    address: str = declared(Address("The wallet's address."), named="publicKey")
    created_at: datetime = declared(Time("When the wallet was made."))
    tags: tuple[str, ...] = declared(Texts("Labels in the given order.", each="A tag."))
    created_by: str | None = declared(
        Text("The principal that made the wallet, if requested."), default=None, nullable=True
    )


@resource
class CreatedWallet(Answer):
    """A new wallet."""

    id: str = declared(_WALLET, named="walletId")
    name: str = declared(Text("The wallet's name.", example="mine"))
    address: str = declared(Address("The wallet's public key."))
    created_at: datetime = declared(Time("When the wallet was made."))


@resource
class TokenBalance(Answer):
    """A wallet's tokens of one mint: `amount` in whole tokens, `units` in smallest units."""

    mint: str = declared(Address("The mint."))
    symbol: str | None = declared(Text("The token's symbol, if known."), default=None)
    amount: Decimal = declared(Amount("Balance in whole tokens.", example=5), named="uiBalance")
    units: int = declared(Units("Balance in smallest units."), named="rawBalance", read=int)
    decimals: int = declared(Whole("Decimals of the mint.", most=255, example=6))


def decimals_by_asset(raw: Mapping[str, Any]) -> dict[str, Decimal]:
    return {name: decimal(each) for name, each in raw.items()}


@resource
class Worth(Answer):
    """A wallet's value in dollars."""

    total: Decimal = declared(Amount("Dollars of all assets with a price."))
    assets: Mapping[str, Decimal] = declared(
        Shape("Value by `SOL` or mint.", form=mapping(Amount("Dollars."), ""), example={}),
        read=decimals_by_asset,
    )
    unpriced: Mapping[str, str] = declared(
        Shape("Assets without a price, and why.", form=mapping(Text("Why."), ""), example={})
    )


@resource
class Balance(Answer):
    """A wallet's SOL and tokens."""

    component: ClassVar = "Balance"

    sol: Decimal = declared(Amount("The wallet's SOL.", example=2.39794572))
    tokens: tuple[TokenBalance, ...] = declared(Json("Token balances, zero ones only on request."))
    usd: Worth | None = declared(Json("The wallet's value, if requested."), default=None)


@resource
class WalletLimits(Limits):
    """A wallet's limits, their use, and the maximum that can leave the wallet."""

    component: ClassVar = "WalletLimits"

    wallet_id: str = declared(_WALLET)
    frozen: bool = declared(Flag("Whether the wallet or the service is frozen."))
    ceilings: Mapping[str, Any] = declared(
        Shape(
            "The wallet's own ceilings by name; the limits above include those that are smaller.",
            form=mapping(Number("SOL, or transactions."), ""),
            example={"maxSolPerTransaction": 0.5},
        )
    )
    can_leave: CanLeave = declared(Json("The maximum that anybody but the operator can move."))


def ceilings_in_force(report: Mapping[str, Any]) -> str:
    """Return the labels of a wallet's ceilings that are its limits, from the JSON of its limits."""
    own = report.get("ceilings", {})
    in_force = {name for name, most in own.items() if report[name]["limit"] == most}
    return ", ".join(each.label for each in fields_of(Ceilings) if each.json in in_force)


@resource
class RentHeld(Answer):
    """A token account whose rent can be recovered."""

    account: str = declared(Address("The token account."))
    mint: str = declared(Address("Its mint."))
    sol: Decimal = declared(Number("SOL that the account gives back.", example=0.002))
    closes: bool = declared(Flag("Whether the account is empty and will be closed."))


@resource
class RentKept(Answer):
    """A token account whose rent cannot be recovered now."""

    account: str = declared(Address("The token account."))
    mint: str = declared(Address("Its mint."))
    reason: str = declared(Text("Why the account keeps its rent."))


@resource
class Reclaimable(Answer):
    """The rent that can be recovered from a wallet's token accounts."""

    reclaimable: Decimal = declared(Number("SOL that would return to the wallet.", example=0.002))
    accounts: tuple[RentHeld, ...] = declared(Json("Accounts that give back rent, largest first."))
    kept: tuple[RentKept, ...] = declared(Json("Accounts that keep their rent.", example=[]))


@resource
class Pocket(Answer):
    """A pocket that may contain funds."""

    component: ClassVar = "Pocket"

    address: str = declared(
        Address(
            "The pocket's public key, for which the wallet's key signs.", example=Example.STRANGER
        )
    )
    counter: int = declared(Whole("The pocket's number in the wallet.", least=1, example=7))
    transaction_id: str | None = declared(Id("The latest record of the pocket."), default=None)
    program: str | None = declared(Address("The program of a named position."), default=None)
    position: str | None = declared(Text("The position's name.", example="pool 3"), default=None)
    mints: tuple[str, ...] = declared(
        Shape("Tokens that the pocket may hold.", form=array(Address("A mint.")), example=[])
    )
    at_risk: Mapping[str, str] = declared(
        Shape(
            "Amounts put into the pocket and not yet returned, by `SOL` or mint.",
            form=mapping(Units("Smallest units."), ""),
            example={"SOL": "5000000"},
        )
    )
    created_at: datetime = declared(Time("When the pocket was first used."))


@resource
class Pockets(Answer):
    """A wallet's pockets that may contain funds."""

    wallet_id: str = declared(_WALLET)
    pockets: tuple[Pocket, ...] = declared(Json("The pockets, oldest first."))


@resource
class Stake(Answer):
    """A stake account in an API answer, in SOL; `solward.Stake` is one read from the ledger."""

    component: ClassVar = "Stake"

    address: str = declared(Address("The stake account."))
    balance: Decimal = declared(Amount("Balance in SOL, rent included."))
    state: str = declared(
        Choice("Activation.", options=("activating", "active", "deactivating", "inactive"))
    )
    locked: bool = declared(
        Flag("True if a lockup forbids a withdrawal.", const=True), default=False
    )

    @property
    def can_be_withdrawn(self) -> bool:
        """True if the wallet can withdraw all of it now."""
        return self.state == "inactive" and not self.locked

    @property
    def shown_state(self) -> str:
        """The state, and whether it is locked."""
        return f"{self.state}, locked" if self.locked else self.state


@resource
class Stakes(Answer):
    """The stakes of a wallet."""

    stakes: tuple[Stake, ...] = declared(Json("Stakes that the wallet may unstake or withdraw."))
    complete: bool = declared(
        Flag(
            "False if the RPC provider serves no getProgramAccounts, so that only stakes"
            " with a record of this service are listed. Absent otherwise."
        ),
        default=True,
    )


CREATE_WALLET = Call(
    "createWallet", "POST /wallets", "Create a wallet.", CreatedWallet, body=NewWallet
)
LIST_WALLETS = Call(
    "listWallets",
    "GET /wallets",
    "List wallets.",
    Wallet,
    query=ListedWallets,
    name=None,
    listed="wallets",
    about="All wallets, oldest first; with `limit` or `before` a page, newest first, of 50 by"
    " default. A key limited to one wallet gets only that wallet.",
)
GET_WALLET = Call("getWallet", "GET /wallets/{wallet_id}", "Get a wallet.", Wallet)
CHANGE_WALLET = Call(
    "changeWallet",
    "PATCH /wallets/{wallet_id}",
    "Replace a wallet's tags.",
    Wallet,
    body=ChangedWallet,
    name="tag",
)
GET_BALANCE = Call(
    "getBalance",
    "GET /wallets/{wallet_id}/balance",
    "Get a wallet's balance from the ledger.",
    Balance,
    query=AskedBalance,
    name="balance",
)
GET_LIMITS: Call[Any] = Call(
    "getWalletLimits",
    "GET /wallets/{wallet_id}/limits",
    "Get the service's limits for a wallet, and their use.",
    WalletLimits,
    name="limits",
    is_raw=True,
)
SET_CEILINGS: Call[Any] = Call(
    "setWalletCeilings",
    "PATCH /wallets/{wallet_id}/limits",
    "Set a wallet's own ceilings; null lifts one.",
    WalletLimits,
    body=Ceilings,
    name="set_ceilings",
    is_raw=True,
    takes_json=True,
    about="They bind everybody, also the admin, within the service's limits. Absent fields keep"
    " their values, and unknown fields are refused.",
)
GET_RECLAIMABLE = Call(
    "getReclaimableRent",
    "GET /wallets/{wallet_id}/reclaimable",
    "List the rent that a wallet's token accounts can give back.",
    Reclaimable,
    name="reclaimable",
    about="`reclaim-rent` takes the rent, in as many calls as are needed.",
)
GET_POCKETS = Call(
    "getWalletPockets",
    "GET /wallets/{wallet_id}/pockets",
    "List a wallet's pockets that may hold funds, and the amounts at risk.",
    Pockets,
    name="pockets",
)
SWEEP_POCKET = Call(
    "sweepPocket",
    "POST /wallets/{wallet_id}/pockets/{pocket_id}/sweep",
    "Move everything that a pocket holds back to its wallet.",
    Transaction,
    body=Sweep,
    name="sweep_pocket",
    about="A sweep also works for a frozen wallet, as only the network fee leaves.",
    shown={
        "type": TransactionType.OTHER,
        "details": {"pocket": Example.STRANGER},
        "guardrailsApplied": [],
    },
)
LIST_STAKES = Call(
    "listStakes",
    "GET /wallets/{wallet_id}/stakes",
    "List the stakes that a wallet may unstake or withdraw.",
    Stakes,
    name="stakes",
)
