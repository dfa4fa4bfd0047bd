"""What a skill holds while it runs: a capability over one wallet, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import httpx
from solders.instruction import Instruction

from solward.errors import InvalidRequest, SkillError
from solward.guardrail import Intent
from solward.record import TransactionRecord, TransactionType
from solward.skill import Effects
from solward.solana.balances import Balances, read_balances
from solward.solana.ledger import ReadLedger, ReadOnlyLedger
from solward.solana.stakes import Stake, read_stakes
from solward.solana.token_list import TokenList
from solward.vault.transactions.request import Actor, Draft

if TYPE_CHECKING:
    from solward.operations import Operations
    from solward.venue import Quote


@dataclass(frozen=True, slots=True)
class WalletView:
    """The wallet a skill acts on: id, name, base58 address."""

    id: str
    name: str
    address: str


@dataclass(frozen=True, slots=True)
class AgentView:
    """The agent a skill runs for."""

    id: str
    name: str


class SkillContext:
    """The hands of a skill: read the ledger, and ask for transactions of its own wallet.

    Every money call goes through the engine and its guardrails; each raises `GuardrailBlocked`
    or `TransactionFailed` with the stored record, and returns a record that is `confirmed`, or
    `pending` where the ledger had not answered in time.

    Attributes:
        wallet: id, name and address; no key is reachable from here.
        agent: the agent this runs for, None for a REST or CLI call.
        ledger: read only.
        tokens: symbols known on this network.
        http: a client for the skill's own calls.
        log: a logger that scrubs secrets.
    """

    __slots__ = ("_actor", "_effects", "_operations", "_ordinal", "agent", "http", "ledger",
                 "log", "tokens", "wallet")  # fmt: skip

    def __init__(
        self,
        *,
        wallet: WalletView,
        agent: AgentView | None,
        ledger: ReadLedger,
        tokens: TokenList,
        operations: Operations,
        actor: Actor,
        effects: Effects,
        http: httpx.AsyncClient,
        log: Any,
    ) -> None:
        self.wallet = wallet
        self.agent = agent
        self.ledger: ReadLedger = ReadOnlyLedger(ledger)
        self.tokens = tokens
        self.http = http
        self.log = log
        self._operations = operations
        self._actor = actor
        self._effects = effects
        self._ordinal = itertools.count(1)

    async def balances(self) -> Balances:
        """SOL and token holdings of the wallet."""
        return await read_balances(self.ledger, self.tokens, self.wallet.address)

    async def stakes(self) -> tuple[Stake, ...]:
        """Every stake the wallet may unstake or withdraw."""
        return await read_stakes(self.ledger, self.wallet.address)

    async def quote(
        self, *, input_token: str, output_token: str, amount: Decimal | int, slippage_bps: int = 50
    ) -> Quote:
        """What the venue would give for `amount` whole units of a token; sends nothing."""
        return await self._operations.quote(
            input_token=input_token,
            output_token=output_token,
            amount=amount,
            slippage_bps=slippage_bps,
        )

    async def transfer(self, *, to: str, amount: Decimal | int) -> TransactionRecord:
        """Send `amount` SOL to an address."""
        return await self._operations.transfer(self.wallet.id, self._next(), to=to, amount=amount)

    async def airdrop(self, *, amount: Decimal | int = 1) -> TransactionRecord:
        """Ask the test network's faucet for `amount` SOL (at most 2)."""
        return await self._operations.airdrop(self.wallet.id, self._next(), amount=amount)

    async def swap(
        self, *, input_token: str, output_token: str, amount: Decimal | int, slippage_bps: int = 50
    ) -> TransactionRecord:
        """Sell `amount` whole units of a token (mint or symbol) for another at the venue."""
        return await self._operations.swap(
            self.wallet.id,
            self._next(),
            input_token=input_token,
            output_token=output_token,
            amount=amount,
            slippage_bps=slippage_bps,
        )

    async def launch_token(
        self,
        *,
        name: str,
        symbol: str,
        decimals: Decimal | int = 9,
        initial_supply: Decimal | int = 1_000_000,
    ) -> TransactionRecord:
        """Create a Token-2022 token and mint `initial_supply` whole tokens to the wallet."""
        return await self._operations.launch_token(
            self.wallet.id,
            self._next(),
            name=name,
            symbol=symbol,
            decimals=decimals,
            initial_supply=initial_supply,
        )

    async def mint_supply(
        self, *, mint: str, amount: Decimal | int, decimals: Decimal | int | None = None
    ) -> TransactionRecord:
        """Mint `amount` whole tokens more to the wallet; `decimals` must be the mint's own."""
        return await self._operations.mint_supply(
            self.wallet.id, self._next(), mint=mint, amount=amount, decimals=decimals
        )

    async def burn(self, *, mint: str, amount: Decimal | int) -> TransactionRecord:
        """Destroy `amount` whole tokens of the wallet's."""
        return await self._operations.burn(self.wallet.id, self._next(), mint=mint, amount=amount)

    async def transfer_token(
        self, *, mint: str, to: str, amount: Decimal | int
    ) -> TransactionRecord:
        """Send `amount` whole tokens of a mint (address or symbol) to a wallet's address, whose
        token account is opened where it is missing, or to a token account of the mint."""
        return await self._operations.token_transfer(
            self.wallet.id, self._next(), mint=mint, to=to, amount=amount
        )

    async def revoke_authority(
        self, *, mint: str, authority_type: str = "mint"
    ) -> TransactionRecord:
        """Give up a mint's `mint` or `freeze` authority for ever."""
        return await self._operations.revoke_authority(
            self.wallet.id, self._next(), mint=mint, authority_type=authority_type
        )

    async def close_account(self, *, mint: str) -> TransactionRecord:
        """Close the wallet's empty token account of a mint and take its rent back."""
        return await self._operations.close_account(self.wallet.id, self._next(), mint=mint)

    async def wrap_sol(self, *, amount: Decimal | int) -> TransactionRecord:
        """Turn `amount` SOL into wrapped SOL."""
        return await self._operations.wrap_sol(self.wallet.id, self._next(), amount=amount)

    async def unwrap_sol(self) -> TransactionRecord:
        """Turn all wrapped SOL of the wallet's associated account back into SOL."""
        return await self._operations.unwrap_sol(self.wallet.id, self._next())

    async def stake(
        self, *, amount: Decimal | int, validator: str | None = None
    ) -> TransactionRecord:
        """Stake `amount` SOL, rent included, with a vote account or the network's heaviest."""
        return await self._operations.stake(
            self.wallet.id, self._next(), amount=amount, validator=validator
        )

    async def unstake(self, *, stake_account: str) -> TransactionRecord:
        """Deactivate a stake of the wallet's."""
        return await self._operations.unstake(
            self.wallet.id, self._next(), stake_account=stake_account
        )

    async def withdraw_stake(self, *, stake_account: str) -> TransactionRecord:
        """Withdraw all of an inactive stake to the wallet."""
        return await self._operations.withdraw_stake(
            self.wallet.id, self._next(), stake_account=stake_account
        )

    async def transact(
        self,
        *,
        instructions: Sequence[Instruction] = (),
        wire: bytes | None = None,
        type: str = "other",  # noqa: A002 - the record's own field name
        lamports_out: int = 0,
        rent_lamports: int = 0,
        tokens_out: Mapping[str, int] | None = None,
        tokens_in: Mapping[str, int] | None = None,
        destinations: Sequence[str] = (),
        programs: Sequence[str] = (),
        may_close: Sequence[str] = (),
        details: Mapping[str, Any] | None = None,
    ) -> TransactionRecord:
        """Have a transaction of your own judged, signed and sent: instructions, or whole bytes.

        Declare what it does to the wallet; whatever the simulation shows beyond that, or any
        control given away, is blocked.

        Args:
            type: one of the records' types, such as `token_transfer`.
            lamports_out: lamports that leave, without fee and rent.
            rent_lamports: most lamports of rent for the accounts it opens.
            tokens_out: mint -> most units that leave.
            tokens_in: mint -> least units that must arrive.
            destinations: who receives; checked against the blocked addresses.
            programs: those beyond the default ones; the service's allowlist must hold them too.
            may_close: token accounts of the wallet that it closes, their rent to the wallet.
            details: the record's, JSON-able, amounts as Decimal.

        Raises:
            InvalidRequest: no such type, or it is no transaction this wallet alone can sign.
        """
        kinds = [kind.value for kind in TransactionType]
        if type not in kinds:
            raise InvalidRequest(f"type must be one of {', '.join(kinds)}")
        intent = Intent(
            type=type,
            wallet=self.wallet.address,
            lamports_out=lamports_out,
            rent_lamports=rent_lamports,
            tokens_out=dict(tokens_out or {}),
            tokens_in=dict(tokens_in or {}),
            destinations=frozenset(destinations),
            programs=frozenset(programs),
            may_close=frozenset(may_close),
            details=dict(details or {}),
        )
        draft = Draft(intent, tuple(instructions), wire)
        return await self._operations.execute(self.wallet.id, self._next(), draft)

    def _next(self) -> Actor:
        """The actor for the next money call; numbered, so that a re-run cycle never pays twice."""
        if self._effects is not Effects.SPEND:
            raise SkillError("read_only", "This skill declares READ and may not transact")
        ordinal = next(self._ordinal)
        if self._actor.action_key is None:
            return self._actor
        return replace(self._actor, action_key=f"{self._actor.action_key}:{ordinal}")
