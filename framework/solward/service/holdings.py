"""What a wallet holds, to look at: balances, what they are worth, and stakes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from solward.database.database import Database
from solward.operations.staking import recorded_stakes
from solward.service.display_reads import Display, Shown
from solward.solana.balances import Balances, balances_of
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.stakes import Stake, read_stakes
from solward.solana.token_list import TokenList
from solward.types.guardrail import SOL
from solward.types.money import SOL_DECIMALS
from solward.vault.custody import Wallets
from solward.vault.grants.dollars import NOT_ASKED, AssetPrice, NoPrice, micro_dollars
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.patience import READ_WAIT_S, within
from solward.vault.money.judge.prices import Prices


@dataclass(frozen=True, slots=True)
class Worth:
    """What holdings are worth, for people to see.

    Attributes:
        micro_dollars: asset -> micro-dollars, of what has a price.
        unpriced: asset -> why it has none.
    """

    micro_dollars: Mapping[str, int]
    unpriced: Mapping[str, str]

    @property
    def total(self) -> int:
        """Micro-dollars of all that has a price."""
        return sum(self.micro_dollars.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """Reads what wallets hold.

    Every method that names a wallet raises `WalletNotFound` and `LedgerError`.
    """

    database: Database
    ledger: Ledger
    display: Display
    wallets: Wallets
    tokens: TokenList
    prices: Prices

    async def balances(self, wallet_id: str, *, empty: bool = False) -> Balances:
        """A wallet's SOL and tokens; `empty` includes token accounts that hold nothing."""
        wallet = await self.wallets.get(wallet_id)
        with within(READ_WAIT_S):
            return self._balances(await self.display.wallet(wallet.address), empty=empty)

    async def observed(self, wallet_id: str, mark: Hashable) -> Balances:
        """As `balances`, for an agent's cycle; see `Display.observed`."""
        wallet = await self.wallets.get(wallet_id)
        with within(READ_WAIT_S):
            return self._balances(await self.display.observed(wallet.address, mark))

    def _balances(self, shown: Shown, *, empty: bool = False) -> Balances:
        return balances_of(shown.lamports, shown.holdings, self.tokens, empty=empty)

    async def worth(self, balances: Balances) -> Worth:
        """What a wallet holds, in dollars, as far as the price sources know."""
        holdings = {SOL: (balances.lamports, SOL_DECIMALS)} | {
            token.mint: (token.units, token.decimals) for token in balances.tokens
        }
        return worth(holdings, await self.prices.prices(holdings))

    async def stakes(self, wallet_id: str) -> tuple[tuple[Stake, ...], bool]:
        """A wallet's stake accounts, and whether these are all: where no RPC provider lists them,
        they are those that the wallet's records name and the ledger has."""
        wallet = await self.wallets.get(wallet_id)
        ledger = recorded_stakes(self.ledger, self.database, wallet_id)
        with within(READ_WAIT_S):
            return await read_stakes(ledger, wallet.address), ledger.complete


def worth(
    holdings: Mapping[str, tuple[int, int | None]], prices: Mapping[str, AssetPrice]
) -> Worth:
    """What holdings are worth, each rounded up.

    Args:
        holdings: asset -> smallest units and decimals.
        prices: of all assets of `holdings`, wrapped SOL under `SOL`.
    """
    known: dict[str, int] = {}
    unpriced: dict[str, str] = {}
    for asset, (units, decimals) in holdings.items():
        price = prices.get(SOL if asset == WRAPPED_SOL_MINT else asset, NOT_ASKED)
        found = micro_dollars(units, decimals, price)
        if isinstance(found, NoPrice):
            unpriced[asset] = found.reason
        else:
            known[asset] = found
    return Worth(known, unpriced)
