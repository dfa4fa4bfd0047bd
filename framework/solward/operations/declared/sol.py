"""SOL: sending it, getting it from a faucet, wrapping it."""

from __future__ import annotations

from solward.operations.declared import examples
from solward.operations.declared.operation import Operation
from solward.resources.fields import Address, Amount, Recipient
from solward.types.record import TransactionType

MAX_AIRDROP_SOL = 2
_DEFAULT_AIRDROP_SOL = 1

_SOL = Amount("Amount in SOL, at most 9 decimals.", name="amount")
_ACCOUNT = Address("The wallet's wrapped SOL account.", name="account")

TRANSFER = Operation(
    name="transfer",
    type=TransactionType.TRANSFER,
    tag="money",
    title="Send SOL",
    does="Send `amount` SOL to the address `to`.",
    fields=(Recipient("Recipient's base58 Solana address.", name="to"), _SOL),
    details=(
        Address("The wallet's.", name="from"),
        Address("The recipient.", name="to"),
        Amount("SOL.", name="amount"),
    ),
    example={"to": examples.RECIPIENT, "amount": 0.5},
    answer={"from": examples.WALLET, "to": examples.RECIPIENT, "amount": 0.5},
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
    details=(Address("The wallet's.", name="to"), Amount("SOL.", name="amount")),
    example={"amount": 2},
    answer={"to": examples.WALLET, "amount": 2},
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
    fields=(_SOL,),
    details=(Amount("SOL.", name="amount"), _ACCOUNT),
    example={"amount": 0.5},
    answer={"amount": 0.5, "account": examples.WRAPPED},
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
        _ACCOUNT,
        Amount("Rent that came back.", name="reclaimed"),
    ),
    answer={
        "amount": 0.5,
        "account": examples.WRAPPED,
        "reclaimed": float(examples.example_rent(165)),
    },
    refusals=("There is nothing to unwrap: the wallet has no wrapped SOL account",),
    verb="Unwrap",
    progress="Unwrapping",
)
