"""Stakes: delegating SOL to a validator and taking it back."""

from __future__ import annotations

from decimal import Decimal

from solward.operations.declared import examples
from solward.operations.declared.operation import Operation
from solward.resources.fields import Address, Amount, Text
from solward.types.record import TransactionType

_ACCOUNT = Address(
    "The stake account's address, as a stake or the list of stakes returned it.",
    name="stake_account",
)
_STAKE = Address("The stake.", name="stake_account")

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
            "The validator's vote account; left out, one is chosen by commission, votes and stake.",
            name="validator",
            default=None,
        ),
    ),
    details=(
        Address("The new account.", name="stake_account"),
        Address("The vote account.", name="validator"),
        Text("Why it was chosen.", name="validator_reason"),
        Amount("SOL, rent included.", name="amount"),
    ),
    example={"amount": 1.5},
    answer={
        "stakeAccount": examples.STAKE,
        "validator": examples.VALIDATOR,
        "validatorReason": (
            "Default: the first of 1 that qualify among 1 validator; commission 5% (at most 10%);"
            " no complete epoch to judge votes by; in the superminority, as none outside it"
            " qualifies"
        ),
        "amount": 1.5,
    },
    refusals=(
        f"amount must be at least {1 + examples.example_rent(200)} SOL: the network's minimum"
        f" delegation of 1 SOL and {examples.example_rent(200)} SOL of rent",
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
        Address("Its vote account.", name="validator"),
        Amount("SOL delegated.", name="amount"),
    ),
    example={"stakeAccount": examples.STAKE},
    answer={
        "stakeAccount": examples.STAKE,
        "validator": examples.VALIDATOR,
        "amount": float(Decimal("1.5") - examples.example_rent(200)),
    },
    flag="deactivated",
    refusals=(f"stakeAccount: {examples.STAKE} is inactive already; withdraw it instead",),
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
    details=(_STAKE, Amount("SOL that came back, rent included.", name="amount")),
    example={"stakeAccount": examples.STAKE},
    answer={"stakeAccount": examples.STAKE, "amount": 1.5},
    flag="withdrawn",
    refusals=(f"stakeAccount: {examples.STAKE} is active; unstake it first",),
    verb="Withdraw",
    progress="Withdrawing",
)
