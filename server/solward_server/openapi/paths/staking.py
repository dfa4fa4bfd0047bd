"""What a wallet does with SOL of its own: stake it and take it back, wrap and unwrap it."""

from __future__ import annotations

from solward_server.http.auth import Access
from solward_server.openapi.errors import NO_WALLET
from solward_server.openapi.money import money
from solward_server.openapi.operation import operation, success
from solward_server.openapi.parameters import WALLET_ID
from solward_server.openapi.schema import (
    address,
    amount,
    array,
    flag,
    ref,
    request_object,
    response_object,
    sol,
    text,
)

_STAKE = "6RDVFMTdCXVaW2iFUmvQ7UvLSYbbyTUNGKEGD2XmVMzs"
_VOTER = "9QU2QSxhb24FUX3Tu2FpczXjpK3VYrvRudywSZaM29mF"
_WRAPPED = "4yzpwGH8prcWPpXbJKjyVCdBBCaUyKuomxgmmZr5MrYh"
_OF_STAKE = request_object({"stakeAccount": text("Its address.", 200)}, required=["stakeAccount"])

PATHS = {
    "/wallets/{walletId}/stake": {
        "post": money(
            "stake",
            "Stake SOL in a new stake account",
            tag="staking",
            kind="stake",
            body=request_object(
                {
                    "amount": amount("SOL, the account's rent included."),
                    "validator": text("A vote account; left out, the heaviest.", 200),
                },
                required=["amount"],
            ),
            example={"amount": 1.5},
            details={
                "stakeAccount": address("The new account."),
                "validator": address("The vote account."),
                "amount": sol("SOL, rent included."),
            },
            told={"stakeAccount": _STAKE, "validator": _VOTER, "amount": 1.5},
            bad="amount must be at least 1.00228288 SOL: the network's minimum delegation of 1 SOL "
            "and 0.00228288 SOL of rent",
        )
    },
    "/wallets/{walletId}/stakes": {
        "get": operation(
            "listStakes",
            "Stake accounts the wallet may unstake or withdraw",
            tag="staking",
            access=Access.KEY,
            parameters=[WALLET_ID],
            response=success(
                response_object({"stakes": array(ref("Stake"))}),
                {"stakes": [{"address": _STAKE, "balance": 1.5, "state": "activating"}]},
            ),
            errors={404: NO_WALLET, 500: "The ledger did not answer getProgramAccounts"},
        )
    },
    "/wallets/{walletId}/unstake": {
        "post": money(
            "unstake",
            "Deactivate a stake",
            tag="staking",
            kind="unstake",
            body=_OF_STAKE,
            example={"stakeAccount": _STAKE},
            details={
                "stakeAccount": address("The stake."),
                "validator": address("Its vote account."),
                "amount": sol("SOL delegated."),
            },
            told={"stakeAccount": _STAKE, "validator": _VOTER, "amount": 1.49771712},
            extra={"deactivated": flag("True once it is confirmed.")},
            extra_told={"deactivated": True},
            bad=f"stakeAccount: {_STAKE} is inactive already; withdraw it instead",
        )
    },
    "/wallets/{walletId}/withdraw-stake": {
        "post": money(
            "withdrawStake",
            "Withdraw all of an inactive stake",
            tag="staking",
            kind="withdraw_stake",
            body=_OF_STAKE,
            example={"stakeAccount": _STAKE},
            details={
                "stakeAccount": address("The stake."),
                "amount": sol("SOL that came back, rent included."),
            },
            told={"stakeAccount": _STAKE, "amount": 1.5},
            extra={"withdrawn": flag("True once it is confirmed.")},
            extra_told={"withdrawn": True},
            bad=f"stakeAccount: {_STAKE} is active; unstake it first",
        )
    },
    "/wallets/{walletId}/wrap-sol": {
        "post": money(
            "wrapSol",
            "Turn SOL into wrapped SOL",
            tag="staking",
            kind="wrap_sol",
            body=request_object(
                {"amount": amount("SOL, at most 9 decimals.")}, required=["amount"]
            ),
            example={"amount": 0.5},
            details={
                "amount": sol("SOL."),
                "account": address("The wallet's wrapped SOL account."),
            },
            told={"amount": 0.5, "account": _WRAPPED},
            bad="amount must be greater than 0",
        )
    },
    "/wallets/{walletId}/unwrap-sol": {
        "post": money(
            "unwrapSol",
            "Turn all wrapped SOL back into SOL",
            tag="staking",
            kind="unwrap_sol",
            body=request_object({}),
            example={},
            details={
                "amount": sol("SOL that was wrapped."),
                "account": address("The closed account."),
                "reclaimed": sol("Rent that came back."),
            },
            told={"amount": 0.5, "account": _WRAPPED, "reclaimed": 0.00203928},
            bad="There is nothing to unwrap: the wallet has no wrapped SOL account",
        )
    },
}
