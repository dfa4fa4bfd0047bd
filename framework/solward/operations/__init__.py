"""What a wallet can do, once: routes, skills and tools all call these."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

from solward.errors import InvalidRequest, LedgerError, SkillError
from solward.guardrail import Intent
from solward.operations.launch import plan_launch
from solward.operations.staking import plan_stake, plan_unstake, plan_withdraw_stake
from solward.operations.swap import Venue, plan_swap, read_quote
from solward.operations.token_transfer import plan_token_transfer
from solward.operations.tokens import (
    plan_burn,
    plan_close_account,
    plan_mint_supply,
    plan_revoke_authority,
)
from solward.operations.transfer import plan_airdrop, plan_transfer
from solward.operations.wrapping import plan_unwrap_sol, plan_wrap_sol
from solward.record import TransactionRecord, TransactionType
from solward.solana.ledger import ReadLedger
from solward.solana.token_list import TokenList
from solward.vault.transactions.engine import Engine
from solward.vault.transactions.request import Actor, Draft
from solward.vault.wallets import Wallets
from solward.venue import Quote

__all__ = ["Operations"]


class Operations:
    """Every operation validates first, then hands a draft to the engine.

    Each raises `InvalidRequest` for bad input (nothing is stored) and otherwise what
    `Engine.execute` raises.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        wallets: Wallets,
        ledger: ReadLedger,
        tokens: TokenList,
        network: str,
        venues: Sequence[Venue],
    ) -> None:
        self._engine = engine
        self._wallets = wallets
        self._ledger = ledger
        self._tokens = tokens
        self._network = network
        self._venues = venues

    async def transfer(
        self, wallet_id: str, actor: Actor, *, to: str, amount: Decimal | int
    ) -> TransactionRecord:
        """Send `amount` SOL to an address."""
        wallet = await self._wallets.get(wallet_id)
        draft = plan_transfer(wallet.address, to=to, amount=amount)
        return await self._engine.execute(wallet_id, actor, draft)

    async def airdrop(
        self, wallet_id: str, actor: Actor, *, amount: Decimal | int = 1
    ) -> TransactionRecord:
        """Ask the test network's faucet for `amount` SOL, at most 2."""
        wallet = await self._wallets.get(wallet_id)
        intent, lamports = plan_airdrop(wallet.address, self._network, amount=amount)
        return await self._engine.airdrop(wallet_id, actor, intent, lamports)

    async def swap(
        self,
        wallet_id: str,
        actor: Actor,
        *,
        input_token: str,
        output_token: str,
        amount: Decimal | int,
        slippage_bps: int = 50,
    ) -> TransactionRecord:
        """Sell `amount` whole units of a token (mint or known symbol) at the venue."""
        wallet = await self._wallets.get(wallet_id)
        venue = self._venue()
        known = await self._engine.known_action(actor)
        if known is not None:
            return known
        try:
            draft = await plan_swap(
                wallet.address,
                venue,
                tokens=self._tokens,
                ledger=self._ledger,
                input_token=input_token,
                output_token=output_token,
                amount=amount,
                slippage_bps=slippage_bps,
            )
        except LedgerError as error:
            asked = {
                "inputToken": str(input_token),
                "outputToken": str(output_token),
                "inputAmount": amount,
                "slippageBps": slippage_bps,
            }
            intent = Intent(type=TransactionType.SWAP, wallet=wallet.address, details=asked)
            raise await self._engine.refuse(wallet_id, actor, intent, str(error)) from None
        try:
            return await self._engine.execute(wallet_id, actor, draft)
        except InvalidRequest as error:
            # The venue made these bytes, so they are not the caller's bad request.
            text = f"The swap venue's transaction was refused: {error}"
            raise await self._engine.refuse(wallet_id, actor, draft.intent, text) from None

    async def quote(
        self,
        *,
        input_token: str,
        output_token: str,
        amount: Decimal | int,
        slippage_bps: int = 50,
    ) -> Quote:
        """What the venue would give for `amount` whole units of a token; sends nothing."""
        return await read_quote(
            self._venue(),
            tokens=self._tokens,
            ledger=self._ledger,
            input_token=input_token,
            output_token=output_token,
            amount=amount,
            slippage_bps=slippage_bps,
        )

    async def launch_token(
        self,
        wallet_id: str,
        actor: Actor,
        *,
        name: str,
        symbol: str,
        decimals: Decimal | int = 9,
        initial_supply: Decimal | int = 1_000_000,
    ) -> TransactionRecord:
        """Create a Token-2022 token and mint `initial_supply` whole tokens to the wallet."""
        asked = {"name": name, "symbol": symbol, "decimals": decimals, "supply": initial_supply}
        plan = partial(
            plan_launch,
            ledger=self._ledger,
            name=name,
            symbol=symbol,
            decimals=decimals,
            initial_supply=initial_supply,
        )
        return await self._planned(wallet_id, actor, TransactionType.TOKEN_LAUNCH, asked, plan)

    async def mint_supply(
        self,
        wallet_id: str,
        actor: Actor,
        *,
        mint: str,
        amount: Decimal | int,
        decimals: Decimal | int | None = None,
    ) -> TransactionRecord:
        """Mint `amount` whole tokens more to the wallet; `decimals` must be the mint's own."""
        asked = {"mint": mint, "amount": amount}
        plan = partial(
            plan_mint_supply,
            ledger=self._ledger,
            tokens=self._tokens,
            mint=mint,
            amount=amount,
            decimals=decimals,
        )
        return await self._planned(wallet_id, actor, TransactionType.MINT_SUPPLY, asked, plan)

    async def burn(
        self, wallet_id: str, actor: Actor, *, mint: str, amount: Decimal | int
    ) -> TransactionRecord:
        """Destroy `amount` whole tokens of the wallet's."""
        asked = {"mint": mint, "amount": amount}
        plan = partial(
            plan_burn, ledger=self._ledger, tokens=self._tokens, mint=mint, amount=amount
        )
        return await self._planned(wallet_id, actor, TransactionType.BURN, asked, plan)

    async def token_transfer(
        self, wallet_id: str, actor: Actor, *, mint: str, to: str, amount: Decimal | int
    ) -> TransactionRecord:
        """Send `amount` whole tokens to a wallet's address or a token account of the mint."""
        wallet = await self._wallets.get(wallet_id)
        asked = {"from": wallet.address, "to": to, "mint": mint, "amount": amount}
        plan = partial(
            plan_token_transfer,
            ledger=self._ledger,
            tokens=self._tokens,
            mint=mint,
            to=to,
            amount=amount,
        )
        return await self._planned(wallet_id, actor, TransactionType.TOKEN_TRANSFER, asked, plan)

    async def revoke_authority(
        self, wallet_id: str, actor: Actor, *, mint: str, authority_type: str = "mint"
    ) -> TransactionRecord:
        """Give up a mint's `mint` or `freeze` authority for ever."""
        asked = {"mint": mint, "authorityType": authority_type}
        plan = partial(
            plan_revoke_authority,
            ledger=self._ledger,
            tokens=self._tokens,
            mint=mint,
            authority_type=authority_type,
        )
        return await self._planned(wallet_id, actor, TransactionType.REVOKE_AUTHORITY, asked, plan)

    async def close_account(self, wallet_id: str, actor: Actor, *, mint: str) -> TransactionRecord:
        """Close the wallet's empty token account of a mint and take its rent back."""
        asked = {"mint": mint}
        plan = partial(plan_close_account, ledger=self._ledger, tokens=self._tokens, mint=mint)
        return await self._planned(wallet_id, actor, TransactionType.CLOSE_ACCOUNT, asked, plan)

    async def wrap_sol(
        self, wallet_id: str, actor: Actor, *, amount: Decimal | int
    ) -> TransactionRecord:
        """Turn `amount` SOL into wrapped SOL."""
        plan = partial(plan_wrap_sol, ledger=self._ledger, amount=amount)
        kind = TransactionType.WRAP_SOL
        return await self._planned(wallet_id, actor, kind, {"amount": amount}, plan)

    async def unwrap_sol(self, wallet_id: str, actor: Actor) -> TransactionRecord:
        """Turn all wrapped SOL of the wallet's associated account back into SOL."""
        plan = partial(plan_unwrap_sol, ledger=self._ledger)
        return await self._planned(wallet_id, actor, TransactionType.UNWRAP_SOL, {}, plan)

    async def stake(
        self, wallet_id: str, actor: Actor, *, amount: Decimal | int, validator: str | None = None
    ) -> TransactionRecord:
        """Stake `amount` SOL, rent included, with a vote account or the network's heaviest."""
        asked = {"amount": amount} | ({} if validator is None else {"validator": validator})
        plan = partial(plan_stake, ledger=self._ledger, amount=amount, validator=validator)
        return await self._planned(wallet_id, actor, TransactionType.STAKE, asked, plan)

    async def unstake(
        self, wallet_id: str, actor: Actor, *, stake_account: str
    ) -> TransactionRecord:
        """Deactivate a stake of the wallet's."""
        asked = {"stakeAccount": stake_account}
        plan = partial(plan_unstake, ledger=self._ledger, stake_account=stake_account)
        return await self._planned(wallet_id, actor, TransactionType.UNSTAKE, asked, plan)

    async def withdraw_stake(
        self, wallet_id: str, actor: Actor, *, stake_account: str
    ) -> TransactionRecord:
        """Withdraw all of an inactive stake to the wallet."""
        asked = {"stakeAccount": stake_account}
        plan = partial(plan_withdraw_stake, ledger=self._ledger, stake_account=stake_account)
        return await self._planned(wallet_id, actor, TransactionType.WITHDRAW_STAKE, asked, plan)

    async def execute(self, wallet_id: str, actor: Actor, draft: Draft) -> TransactionRecord:
        """Send a transaction somebody else drafted (a plugin skill)."""
        return await self._engine.execute(wallet_id, actor, draft)

    def _venue(self) -> Venue:
        if not self._venues:
            raise SkillError("no_venue", "No swap venue plugin is loaded")
        return self._venues[0]

    async def _planned(
        self,
        wallet_id: str,
        actor: Actor,
        kind: TransactionType,
        asked: Mapping[str, Any],
        plan: Callable[[str], Awaitable[Draft]],
    ) -> TransactionRecord:
        """Draft from what the ledger says, and send.

        Where the ledger does not answer, a failed record tells what was asked for.
        """
        wallet = await self._wallets.get(wallet_id)
        known = await self._engine.known_action(actor)
        if known is not None:
            return known
        try:
            draft = await plan(wallet.address)
        except LedgerError as error:
            intent = Intent(type=kind, wallet=wallet.address, details=asked)
            raise await self._engine.refuse(wallet_id, actor, intent, str(error)) from None
        return await self._engine.execute(wallet_id, actor, draft)
