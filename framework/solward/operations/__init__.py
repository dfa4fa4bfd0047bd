"""What a wallet can do, once: routes, skills and tools all call these."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from solward.errors import InvalidRequest, LedgerError, SkillError
from solward.guardrails import Intent
from solward.ledger.protocol import ReadLedger
from solward.ledger.token_list import TokenList
from solward.operations.swap import Venue, plan_swap
from solward.operations.transfer import plan_airdrop, plan_transfer
from solward.record import TransactionRecord, TransactionType
from solward.transactions.engine import Engine
from solward.transactions.request import Actor, Draft
from solward.wallets import Wallets

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
        if not self._venues:
            raise SkillError("no_venue", "No swap venue plugin is loaded")
        try:
            draft = await plan_swap(
                wallet.address,
                self._venues[0],
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

    async def execute(self, wallet_id: str, actor: Actor, draft: Draft) -> TransactionRecord:
        """Send a transaction somebody else drafted (a plugin skill)."""
        return await self._engine.execute(wallet_id, actor, draft)
