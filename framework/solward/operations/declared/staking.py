"""Stakes: delegating SOL to a validator and taking it back."""

from __future__ import annotations

from decimal import Decimal

from solward.operations.declared import fields
from solward.operations.declared.fields import Address, Amount, Operation, Text
from solward.types.record import TransactionType

_ACCOUNT = Address(
    "stake_account", "The stake account's address, as a stake or the list of stakes returned it."
)
_STAKE = Address("stake_account", "The stake.")

STAKE = Operation(
    name="stake",
    type=TransactionType.STAKE,
    tag="staking",
    title="Stake SOL in a new stake account",
    does="Stake `amount` SOL, the account's rent included, in a new stake account.",
    fields=(
        Amount("amount", "Amount in SOL, at most 9 decimals; the account's rent is part of it."),
        Address(
            "validator",
            "The validator's vote account; left out, one is chosen by commission, votes and stake.",
            default=None,
        ),
    ),
    details=(
        Address("stake_account", "The new account."),
        Address("validator", "The vote account."),
        Text("validator_reason", "Why it was chosen."),
        Amount("amount", "SOL, rent included."),
    ),
    example={"amount": 1.5},
    answer={
        "stakeAccount": fields.STAKE,
        "validator": fields.VALIDATOR,
        "validatorReason": (
            "Default: the first of 1 that qualify among 1 validator; commission 5% (at most 10%);"
            " no complete epoch to judge votes by; in the superminority, as none outside it"
            " qualifies"
        ),
        "amount": 1.5,
    },
    refusals=(
        f"amount must be at least {1 + fields.example_rent(200)} SOL: the network's minimum"
        f" delegation of 1 SOL and {fields.example_rent(200)} SOL of rent",
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
    fields=(_ACCOUNT,),
    details=(
        _STAKE,
        Address("validator", "Its vote account."),
        Amount("amount", "SOL delegated."),
    ),
    example={"stakeAccount": fields.STAKE},
    answer={
        "stakeAccount": fields.STAKE,
        "validator": fields.VALIDATOR,
        "amount": float(Decimal("1.5") - fields.example_rent(200)),
    },
    flag="deactivated",
    refusals=(f"stakeAccount: {fields.STAKE} is inactive already; withdraw it instead",),
    verb="Unstake",
    progress="Unstaking",
)

WITHDRAW_STAKE = Operation(
    name="withdraw_stake",
    type=TransactionType.WITHDRAW_STAKE,
    tag="staking",
    title="Withdraw all of an inactive stake",
    does="Withdraw all of the inactive stake `stake_account`, its rent included, to the wallet.",
    fields=(_ACCOUNT,),
    details=(_STAKE, Amount("amount", "SOL that came back, rent included.")),
    example={"stakeAccount": fields.STAKE},
    answer={"stakeAccount": fields.STAKE, "amount": 1.5},
    flag="withdrawn",
    refusals=(f"stakeAccount: {fields.STAKE} is active; unstake it first",),
    verb="Withdraw",
    progress="Withdrawing",
)
