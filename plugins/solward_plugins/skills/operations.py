"""The built-in skills that perform one declared operation each, and report its result."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from solward import (
    Effects,
    LedgerError,
    SkillContext,
    SkillSpec,
    TransactionRecord,
    TransactionStatus,
    format_amount,
    format_sol,
    from_units,
    hookimpl,
    operation_parameters,
    read_mint,
)

Details = Mapping[str, Any]


async def _no_sentence(_params: Details, _details: Details, _context: SkillContext) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OperationSkill:
    """A skill that performs an operation.

    Attributes:
        operation: the operation's name, which is also a method of the context.
        done: the sentence for a confirmed transaction. It names details of the record in braces;
            amounts are exact, and `symbol` is the symbol of `mint` if it has one.
        submitted: the same as a noun, for a transaction that is not settled yet.
        again: the action that must not be repeated until it is settled.
        unsettled: the sentence for a transaction that is not settled, before its signature.
        means: the meaning of revoking each kind of authority; `means` in the texts.
        follows: a sentence about the next step, or about how to go back.
        after: returns a further sentence about the parameters and the details.
    """

    name: str
    operation: str
    description: str
    done: str
    submitted: str
    again: str = "repeat it"
    unsettled: str = (
        "Submitted {submitted} Status: {status}."
        " It is not known yet whether the transaction lands; do not {again}."
    )
    means: Mapping[str, str] = field(default_factory=dict)
    follows: str = ""
    after: Callable[[Details, Details, SkillContext], Awaitable[str]] = _no_sentence
    examples: tuple[Details, ...] = ()

    @hookimpl
    def skill_spec(self) -> SkillSpec:
        """Declare a skill that spends: each call makes a transaction."""
        return SkillSpec(
            name=self.name,
            description=self.description,
            parameters=operation_parameters(self.operation),
            effects=Effects.SPEND,
            timeout_s=120.0,
            examples=self.examples,
        )

    @hookimpl
    async def skill_execute(self, params: dict[str, Any], context: SkillContext) -> str:
        """Perform the operation; report the action, its status and signature, and the next step."""
        perform = getattr(context, self.operation)
        given = {
            re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name): value
            for name, value in params.items()
        }
        record: TransactionRecord = await perform(**given)
        shown = {name: _display_value(name, each, context) for name, each in record.details.items()}
        if "mint" in shown:
            shown.setdefault("symbol", _symbol(shown["mint"], context))
        if "authorityType" in shown:
            shown["means"] = self.means[shown["authorityType"]]
        if record.status is TransactionStatus.CONFIRMED:
            told = f"{self.done.format_map(shown)} Status: confirmed."
        else:
            submitted = self.submitted.format_map(shown)
            told = self.unsettled.format_map(
                shown | {"submitted": submitted, "status": record.status, "again": self.again}
            )
        told += f" Signature: {record.signature}."
        return f"{told}{await self.after(params, record.details, context)}{self.follows}"


def _display_value(name: str, value: Any, context: SkillContext) -> str:
    if name in ("inputToken", "outputToken"):
        return _symbol(value, context)
    return format_amount(value) if isinstance(value, Decimal | int) else str(value)


def _symbol(mint: str, context: SkillContext) -> str:
    return context.tokens.symbol_of(mint) or mint


# Each of these three reads the ledger after the money has moved. If the ledger does not answer now,
# the operation has succeeded all the same.


async def _balance_sentence(_params: Details, _details: Details, context: SkillContext) -> str:
    try:
        lamports = await context.ledger.balance(context.wallet.address)
    except LedgerError:
        return ""
    return f" Balance now: {format_sol(lamports, 4)} SOL."


async def _supply_sentence(_params: Details, details: Details, context: SkillContext) -> str:
    try:
        mint = await read_mint(context.ledger, details["mint"])
    except LedgerError:
        return ""
    return f" Supply now: {format_amount(from_units(mint.supply, mint.decimals))}."


async def _holding_sentence(_params: Details, details: Details, context: SkillContext) -> str:
    try:
        balances = await context.balances()
    except LedgerError:
        return ""
    held = sum((each.ui for each in balances.tokens if each.mint == details["mint"]), Decimal(0))
    return f" The wallet holds {format_amount(held)} of it now."


async def _reason_sentence(params: Details, details: Details, _context: SkillContext) -> str:
    if params.get("validator") is not None:
        return ""
    return f" Why this validator: {details['validatorReason']}."


AIRDROP = OperationSkill(
    name="airdrop",
    operation="airdrop",
    description=(
        "Ask the development network's faucet for free test SOL. Consider it when the SOL"
        " balance is low. Not available on mainnet."
    ),
    done="Received an airdrop of {amount} SOL to {to}.",
    submitted="an airdrop of {amount} SOL to {to}.",
    # A repeated request costs nothing.
    unsettled="Requested {submitted} Status: {status}.",
    examples=({}, {"amount": 2}),
)

TRANSFER = OperationSkill(
    name="transfer",
    operation="transfer",
    description=(
        "Send SOL from the wallet to another Solana address. The spending limits apply."
        " Check the balance first."
    ),
    done="Sent {amount} SOL to {to}.",
    submitted="a transfer of {amount} SOL to {to}.",
    again="send it again",
    after=_balance_sentence,
    examples=({"to": "11111111111111111111111111111112", "amount": 1},),
)

TRANSFER_TOKEN = OperationSkill(
    name="transfer_token",
    operation="transfer_token",
    description=(
        "Send an amount of a token from the wallet to another Solana address. Needs a grant to"
        " transfer this token; the grant's limits and recipients apply."
    ),
    done="Sent {amount} {symbol} to {to}.",
    submitted="a transfer of {amount} {symbol} to {to}.",
)

SWAP = OperationSkill(
    name="swap",
    operation="swap",
    description=(
        "Sell an exact amount of one token for another at the market's price. The spending"
        " limits apply. Check the balance first."
    ),
    done="Swapped {inputAmount} {inputToken} for {outputAmount} {outputToken}.",
    submitted="a swap of {inputAmount} {inputToken} for about {outputAmount} {outputToken}.",
    examples=(
        {"inputToken": "SOL", "outputToken": "USDC", "amount": 1},
        {"inputToken": "SOL", "outputToken": "USDC", "amount": 1, "slippageBps": 100},
    ),
)

_LAUNCHED = (
    "{name} ({symbol}). Mint: {mint}. Decimals: {decimals}. Supply: {supply}, all in the wallet's"
    " token account {account}."
)

LAUNCH_TOKEN = OperationSkill(
    name="launch_token",
    operation="launch_token",
    description=(
        "Create a new Token-2022 token, its name and symbol on chain, and mint the initial"
        " supply to the wallet, which stays its mint and freeze authority. Costs"
        " the rent of two accounts, which the network sets."
    ),
    done=f"Launched {_LAUNCHED}",
    submitted=f"the launch of {_LAUNCHED}",
    examples=({"name": "Example", "symbol": "EX", "decimals": 6, "initialSupply": 1000},),
)

MINT_SUPPLY = OperationSkill(
    name="mint_supply",
    operation="mint_supply",
    description=(
        "Mint more of a token to the wallet. Works only if the wallet is the token's mint"
        " authority, for example because it launched the token."
    ),
    done="Minted {amount} of {symbol} to the wallet's token account {account}.",
    submitted="the minting of {amount} of {symbol} to the wallet's token account {account}.",
    after=_supply_sentence,
)

BURN_TOKENS = OperationSkill(
    name="burn_tokens",
    operation="burn",
    description=(
        "Destroy an amount of a token that the wallet holds. This cannot be undone. The token's"
        " limits apply. Check the balance first."
    ),
    done="Burned {amount} of {symbol}.",
    submitted="the burning of {amount} of {symbol}.",
    after=_holding_sentence,
)

REVOKE_MINT_AUTHORITY = OperationSkill(
    name="revoke_mint_authority",
    operation="revoke_authority",
    description=(
        "Give up the wallet's right to mint more of a token, or with authorityType freeze its"
        " right to freeze holders' accounts. This cannot be undone."
    ),
    done="Revoked the {authorityType} authority of {mint}. {means}",
    submitted="the revocation of the {authorityType} authority of {mint}.",
    means={
        "mint": "The token's supply is fixed for ever.",
        "freeze": "Nobody can freeze the token's accounts any more.",
    },
)

CLOSE_TOKEN_ACCOUNT = OperationSkill(
    name="close_token_account",
    operation="close_account",
    description=(
        "Close the wallet's token account for a mint and get the account's rent back. The account"
        " must be empty: burn or swap its tokens first."
    ),
    done=(
        "Closed the token account {account} of {mint}; {reclaimed} SOL of rent came back to the"
        " wallet."
    ),
    submitted=(
        "the closing of the token account {account} of {mint}, which gives back {reclaimed} SOL of"
        " rent."
    ),
)

WRAP_SOL = OperationSkill(
    name="wrap_sol",
    operation="wrap_sol",
    description=(
        "Turn SOL into wrapped SOL (wSOL), the token form of SOL that some programs require."
        " The spending limits apply. unwrap_sol turns it back."
    ),
    done="Wrapped {amount} SOL into the wallet's wrapped SOL account {account}.",
    submitted="the wrapping of {amount} SOL into the wallet's wrapped SOL account {account}.",
    follows=" unwrap_sol turns all of it back into SOL.",
    examples=({"amount": 1},),
)

_UNWRAPPED = (
    "{amount} SOL from the wallet's wrapped SOL account {account}, with {reclaimed} SOL of rent."
)

UNWRAP_SOL = OperationSkill(
    name="unwrap_sol",
    operation="unwrap_sol",
    description=(
        "Turn all the wallet's wrapped SOL (wSOL) back into SOL. This closes the wrapped SOL"
        " account and returns the account's rent too."
    ),
    done=f"Unwrapped {_UNWRAPPED}",
    submitted=f"the unwrapping of {_UNWRAPPED}",
)

_STAKED = "{amount} SOL with validator {validator}. Stake account: {stakeAccount}."

STAKE_SOL = OperationSkill(
    name="stake_sol",
    operation="stake",
    description=(
        "Stake SOL with a validator, in a new stake account of the wallet. The amount"
        " includes the account's rent, which the network sets. The spending limits apply."
        " To get it back: unstake_sol, wait until list_stakes shows it inactive, then"
        " withdraw_stake."
    ),
    done=f"Staked {_STAKED}",
    submitted=f"the staking of {_STAKED}",
    after=_reason_sentence,
    follows=(
        " The stake is activating and becomes active in the next epoch; unstake_sol with this stake"
        " account starts its withdrawal."
    ),
    examples=({"amount": 2},),
)

UNSTAKE_SOL = OperationSkill(
    name="unstake_sol",
    operation="unstake",
    description=(
        "Deactivate a stake of the wallet. The stake cools down until the end of the epoch; once"
        " list_stakes shows it inactive, withdraw_stake brings the SOL back."
    ),
    done="Unstaked stake account {stakeAccount}, {amount} SOL delegated.",
    submitted="the unstaking of stake account {stakeAccount}, {amount} SOL delegated.",
    follows=(
        " Withdraw the stake with withdraw_stake once list_stakes shows it inactive, usually at the"
        " end of the epoch."
    ),
)

WITHDRAW_STAKE = OperationSkill(
    name="withdraw_stake",
    operation="withdraw_stake",
    description=(
        "Withdraw all SOL of an inactive stake account, its rent included, to the wallet, which"
        " closes the account. A stake that is not inactive must be unstaked first"
        " (unstake_sol)."
    ),
    done="Withdrew {amount} SOL from stake account {stakeAccount} to the wallet.",
    submitted="the withdrawal of {amount} SOL from stake account {stakeAccount} to the wallet.",
)
