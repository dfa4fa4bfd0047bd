"""What a skill holds while it runs: a capability over one wallet, and nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from solward.context.operations import OperationMethods
from solward.errors import InvalidRequest
from solward.guardrail import Intent
from solward.record import TransactionRecord, TransactionType

if TYPE_CHECKING:
    import httpx
    from solders.instruction import Instruction

    from solward.solana.balances import Balances
    from solward.solana.ledger import ReadLedger
    from solward.solana.stakes import Stake
    from solward.solana.token_list import TokenList
    from solward.venue import Quote


class MoneyCalls(Protocol):
    """What a context needs of the service that runs the skill; it knows wallet, caller and effects.

    Calls that make a transaction are numbered from 1 in the order the skill makes them, so that a
    repeated run pays each once. All raise `SkillError` for a skill that declares READ, but `quote`.
    """

    async def perform(
        self, operation: str, ordinal: int, params: Mapping[str, Any]
    ) -> TransactionRecord:
        """Perform a declared operation with its fields by their JSON names."""

    async def transact(
        self,
        ordinal: int,
        intent: Intent,
        instructions: Sequence[Instruction],
        wire: bytes | None,
    ) -> TransactionRecord:
        """Send a transaction that the skill made itself."""

    async def quote(self, params: Mapping[str, Any]) -> Quote:
        """What the venue would give for a swap with these parameters."""


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


class SkillContext(OperationMethods):
    """The hands of a skill: read the ledger, and request transactions of its own wallet.

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

    __slots__ = ("_calls", "_ordinal", "agent", "http", "ledger", "log", "tokens", "wallet")

    def __init__(
        self,
        *,
        wallet: WalletView,
        agent: AgentView | None,
        ledger: ReadLedger,
        tokens: TokenList,
        calls: MoneyCalls,
        http: httpx.AsyncClient,
        log: Any,
    ) -> None:
        # Imported at first use, as below: it brings solders.
        from solward.solana.ledger import ReadOnlyLedger

        self.wallet = wallet
        self.agent = agent
        self.ledger: ReadLedger = ReadOnlyLedger(ledger)
        self.tokens = tokens
        self.http = http
        self.log = log
        self._calls = calls
        self._ordinal = itertools.count(1)

    async def balances(self) -> Balances:
        """SOL and token holdings of the wallet."""
        from solward.solana.balances import read_balances

        return await read_balances(self.ledger, self.tokens, self.wallet.address)

    async def stakes(self) -> tuple[Stake, ...]:
        """Every stake the wallet may unstake or withdraw."""
        from solward.solana.stakes import read_stakes

        return await read_stakes(self.ledger, self.wallet.address)

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
        return await self._calls.transact(next(self._ordinal), intent, instructions, wire)

    async def _perform(self, operation: str, params: Mapping[str, Any]) -> TransactionRecord:
        return await self._calls.perform(operation, next(self._ordinal), params)

    async def _quote(self, params: Mapping[str, Any]) -> Quote:
        return await self._calls.quote(params)
