"""A ledger over Solana JSON-RPC (solana.com/docs/rpc), one client for every cluster."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from solders.pubkey import Pubkey
from solders.signature import Signature

from solward.solana.programs import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from solward.solana.tokens import token_account
from solward.telemetry import metrics, tracing
from solward.types.errors import ConfigError, LedgerError, LedgerRejected, LedgerUnavailable
from solward.types.ledger import NOT_SERVED, Account, TokenHolding, VoteAccount
from solward.types.money import U64_MAX
from solward.vault.ledger.answers import RATE_CODES, MalformedAnswer
from solward.vault.ledger.patience import NodeBusy, pause, retry_patiently
from solward.vault.ledger.protocol import (
    CONFIRMED,
    FINALIZED,
    MIN_CONTEXT_SLOT,
    Blockhash,
    SignatureRow,
    SignatureStatus,
    SimulationResult,
    SlotTime,
    Tip,
    has_certificate,
    is_final,
    median_s,
    newest_slot,
    refuses_confirmed,
    with_commitment,
)
from solward.vault.ledger.transport import ChangeCounter, ManyNodes, Transport

T = TypeVar("T")

# `_call` replaces the commitment in these parameters if the ledger needs another.
_CONFIRMED = {"commitment": CONFIRMED}
_FINALIZED = {"commitment": FINALIZED}
_BASE64 = {"commitment": CONFIRMED, "encoding": "base64"}
# The longest wait for a node that is behind; healthy nodes are usually behind by less.
_BEHIND_S = 2.0
# Seconds between two looks at a cluster without Alpenglow; also the limit for nodes' answers.
_LOOK_EVERY_S = 600.0
_LOOK_S = 1.0
_SAMPLES = 3
# A refusing faucet sends an HTTP status, a rate limit's code, or an internal error.
_FAUCET_LIMITS = RATE_CODES | {-32603}
_FAUCET = (
    "That is the limit of the cluster's faucet, not of this service: ask for less or later, or get"
    " SOL of devnet and testnet at https://faucet.solana.com"
)
# getMultipleAccounts and getSignatureStatuses refuse more entries (Agave rpc limits).
_MAX_ACCOUNTS = 100
_MAX_STATUSES = 256
# The status for a transaction whose entry cannot be read; other entries stay valid. None would
# prove that the node does not know the transaction.
_UNREAD = SignatureStatus(0, None, None)
# A mint's decimals are one byte.
_MAX_DECIMALS = 255


@dataclass(slots=True)
class _SharedFacts:
    """Facts shared by ledgers over the same nodes.

    Attributes:
        is_alpenglow: whether every node showed the Alpenglow certificate. If one node's word were
            enough, other nodes would answer with the state of thirty slots ago.
        newest_landed_slot: the newest slot in which a node said that a transaction landed.
        given_up_slot: a slot that no node reached in time; a node may have lied about it.
        landed: how often a node said that a transaction landed.
    """

    slot_times: dict[Transport, SlotTime] = field(default_factory=dict)
    is_alpenglow: bool = False
    looked_at: float = float("-inf")
    newest_landed_slot: int = 0
    given_up_slot: int = 0
    landed: int = 0


class Ledger:
    """All calls to a cluster that Solward needs. Code that only reads has the type `ReadLedger`.

    Addresses, signatures and blockhashes are base58 text; amounts are lamports or token units.
    Every method may raise `LedgerUnavailable` (no answer, or an answer of the wrong shape: nothing
    is known) or `LedgerRejected` (a JSON-RPC error object).
    """

    def __init__(self, transport: Transport, known: _SharedFacts | None = None) -> None:
        self._transport = transport
        self._known = _SharedFacts() if known is None else known
        # Checked once: isinstance of a protocol looks up each of its members.
        self._many = transport if isinstance(transport, ManyNodes) else None
        self._counter = transport if isinstance(transport, ChangeCounter) else None
        self._over_nodes: dict[Transport, Ledger] = {}
        self._slot_time = SlotTime()
        self._is_without_confirmed = False
        if self._many is None:
            self._known.slot_times[transport] = self._slot_time

    def nodes(self) -> tuple[Ledger, ...]:
        """Return one ledger for each usable node, in order of preference; `self` for a single node.

        These ledgers never switch to another node, for conclusions from two answers of one node.
        """
        if self._many is None:
            return (self,)
        return tuple(map(self._with_transport, self._many.nodes()))

    def _with_transport(self, node: Transport) -> Ledger:
        found = self._over_nodes.get(node)
        if found is None:
            found = self._over_nodes[node] = Ledger(node, self._known)
        return found

    def other_nodes(self, node: Ledger) -> tuple[Ledger, ...]:
        """Return the usable nodes other than `node`, which comes from `nodes()`."""
        return tuple(each for each in self.nodes() if each._transport is not node._transport)

    async def on_one_node(self, work: Callable[[Ledger], Awaitable[T]]) -> T:
        """Return the result of `work` on one node, or on the next if one does not answer or is too
        far behind. If none answers, try again within the caller's deadline (`patience`)."""
        if self._many is None:
            return await work(self)

        async def once() -> T:
            errors: list[LedgerError] = []
            for node in self.nodes():
                try:
                    return await work(node)
                except ConfigError:
                    # This node was just found to be of another cluster; resting nodes may answer.
                    continue
                except LedgerRejected as error:
                    if error.code != MIN_CONTEXT_SLOT:
                        raise
                    errors.append(error)
                except LedgerError as error:
                    errors.append(error)
            if not errors:
                # Every node rests or is of another cluster; a call tells which.
                return await work(self)
            raise next((each for each in errors if isinstance(each, LedgerRejected)), errors[-1])

        return await retry_patiently(once)

    @property
    def slot_s(self) -> float:
        """The seconds that a slot takes; for several nodes, the lower median of their values."""
        return median_s(self._known.slot_times.values())

    async def look(self) -> None:
        """Ask the nodes for the slot time and the consensus, unless they were asked recently.
        Nothing is raised if the ledger does not answer."""
        known, now = self._known, time.monotonic()
        if now - known.looked_at < _LOOK_EVERY_S:
            return
        known.looked_at = now
        nodes = self.nodes()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                certified, _ = await asyncio.gather(
                    asyncio.gather(*(node._has_certificate() for node in nodes)),
                    asyncio.gather(*(node._sample_slots() for node in nodes)),
                )
                # Resting nodes have not shown a certificate.
                shown = {n.origin for n, each in zip(nodes, certified, strict=True) if each}
                known.is_alpenglow = known.is_alpenglow or (
                    all(certified) and shown == self.origins()
                )

    async def _sample_slots(self) -> None:
        if self._slot_time.measured_s is None:
            with contextlib.suppress(LedgerError):
                self._slot_time.measure(await self._call("getRecentPerformanceSamples", _SAMPLES))

    async def _has_certificate(self) -> bool:
        # A node that does not know the method (-32601) says nothing about its cluster.
        try:
            return self._known.is_alpenglow or has_certificate(await self._call("getAgGenesisCert"))
        except LedgerError:
            return False

    @property
    def newest_landed_slot(self) -> int:
        """The newest slot in which a node reported a landed transaction; 0 for none. A node that
        has not reached this slot returns older balances of wallets."""
        return self._known.newest_landed_slot

    @property
    def changes(self) -> int:
        """A count that grows with each ledger change that this process learns of: a transaction
        that a node reports as landed, or any account change on the embedded ledger."""
        seen = 0 if self._counter is None else self._counter.changes
        return self._known.landed + seen

    @property
    def origin(self) -> str:
        """The host that one node's answers come from; see `transport.is_enough`."""
        return self._transport.origin

    def origins(self) -> frozenset[str]:
        """Return the origins of all configured nodes, resting nodes included."""
        if self._many is None:
            return frozenset({self._transport.origin})
        return self._many.origins()

    async def balance(self, address: str) -> int:
        """Return the lamports of an address; 0 if the account does not exist."""
        return _u64(_value(await self._read_newest("getBalance", address, _CONFIRMED)))

    async def account(self, address: str) -> Account | None:
        """Return an account's state; None if the account does not exist."""
        return _account(_value(await self._read_newest("getAccountInfo", address, _BASE64)))

    async def account_from(self, address: str, min_slot: int) -> Account | None:
        """Return an account's state at `min_slot` or later.

        Raises:
            LedgerUnavailable: no node has reached `min_slot`, even after a wait.
        """
        try:
            answer = await self._read_newest("getAccountInfo", address, _BASE64, min_slot=min_slot)
        except LedgerRejected as error:
            if error.code != MIN_CONTEXT_SLOT:
                raise
            raise LedgerUnavailable(
                "No ledger node has reached the newest landed slot; retry in a few seconds"
            ) from None
        return _account(_value(answer))

    async def accounts(self, addresses: Sequence[str]) -> dict[str, Account | None]:
        """Return many accounts' states, read in calls of up to 100."""
        return (await self.accounts_at(addresses))[1]

    async def accounts_at(
        self, addresses: Sequence[str], *, min_slot: int = 0, finalized: bool = False
    ) -> tuple[int, dict[str, Account | None]]:
        """Return the slot of the read (the earliest of all calls), and the result of `accounts`.

        Args:
            finalized: whether to read at `finalized`; needs a `min_slot`.

        Raises:
            LedgerRejected: with `MIN_CONTEXT_SLOT`, no node has reached `min_slot`.
        """
        options = _BASE64 | _finality(finalized)
        chunks = [
            list(addresses[start : start + _MAX_ACCOUNTS])
            for start in range(0, len(addresses), _MAX_ACCOUNTS)
        ]
        asked = [
            self._call("getMultipleAccounts", chunk, options | _min_slot(min_slot))
            if min_slot
            else self._read_newest("getMultipleAccounts", chunk, options)
            for chunk in chunks
        ]
        # A single call needs no separate task.
        answers = [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked)
        found: dict[str, Account | None] = {}
        for chunk, answer in zip(chunks, answers, strict=True):
            values = _value(answer)
            if not isinstance(values, list) or len(values) != len(chunk):
                raise _malformed_error("getMultipleAccounts")
            found |= {a: _account(value) for a, value in zip(chunk, values, strict=True)}
        return min(map(_context_slot, answers), default=0), found

    async def holdings(self, owner: str) -> tuple[TokenHolding, ...]:
        """Return a wallet's token accounts under both token programs, zero balances included.

        Strangers can open such accounts. Unreadable ones are left out, unless none is readable.
        """
        programs = (TOKEN_PROGRAM, TOKEN_2022_PROGRAM)
        options = {"commitment": CONFIRMED, "encoding": "jsonParsed"}
        answers = await asyncio.gather(
            *(
                self._read_newest("getTokenAccountsByOwner", owner, {"programId": program}, options)
                for program in programs
            )
        )
        found: list[TokenHolding] = []
        for program, answer in zip(programs, answers, strict=True):
            read = partial(_holding, program)
            found += _read_each("getTokenAccountsByOwner", _value(answer), read)
        return tuple(found)

    async def slot(self) -> int:
        """Return the current slot at `confirmed`."""
        return _u64(await self._call("getSlot", _CONFIRMED))

    async def rent_exempt_minimum(self, size: int) -> int:
        """See `ReadLedger.rent_exempt_minimum`."""
        return _u64(await self._call("getMinimumBalanceForRentExemption", size, _CONFIRMED))

    async def program_accounts(
        self, program: str, *, size: int, offset: int, key: str
    ) -> dict[str, Account]:
        """Return a program's accounts with `size` bytes of data and `key` at `offset`.

        An unreadable account is left out, unless all are unreadable. Raises `LedgerRejected` with
        `NOT_SERVED` if no provider serves the call.
        """
        filters = [{"dataSize": size}, {"memcmp": {"offset": offset, "bytes": key}}]
        try:
            values = await self._call("getProgramAccounts", program, _BASE64 | {"filters": filters})
        except LedgerRejected as error:
            raise LedgerRejected(
                NOT_SERVED,
                f"The RPC provider does not serve getProgramAccounts ({error}); use a plan or"
                " provider that serves it, and set its URL in SOLANA_RPC_URL",
                error.data,
            ) from None
        return dict(_read_each("getProgramAccounts", values, _program_account))

    async def stake_minimum_delegation(self) -> int:
        """Return the minimum lamports that a stake must delegate."""
        return _u64(_value(await self._call("getStakeMinimumDelegation", _CONFIRMED)))

    async def vote_accounts(self) -> tuple[VoteAccount, ...]:
        """Return the vote accounts of the validators that are not delinquent."""
        answer = await self._call("getVoteAccounts", _CONFIRMED)
        listed = answer.get("current") if isinstance(answer, Mapping) else None
        return tuple(_read_each("getVoteAccounts", listed, _vote_account))

    async def genesis_hash(self) -> str:
        """Return the cluster's genesis hash."""
        return str(await self._call("getGenesisHash"))

    async def block_height(self) -> int:
        """Return the current block height at `confirmed`."""
        return _u64(await self._call("getBlockHeight", _CONFIRMED))

    async def tip(self, *, finalized: bool = False) -> Tip:
        """Return slot and block height of the newest block at `confirmed`, or at `finalized`."""
        answer = await self._call("getEpochInfo", _finality(finalized))
        with _checked_shape("getEpochInfo"):
            return Tip(_u64(answer["absoluteSlot"]), _u64(answer["blockHeight"]))

    async def first_slot(self) -> int:
        """Return the first slot in the node's history; the node knows nothing of older slots."""
        return _u64(await self._call("getFirstAvailableBlock"))

    async def latest_blockhash(self) -> Blockhash:
        """Return a blockhash at `confirmed`."""
        answer = await self._call("getLatestBlockhash", _CONFIRMED)
        with _checked_shape("getLatestBlockhash"):
            value = answer["value"]
            height = _u64(value["lastValidBlockHeight"])
            return Blockhash(str(value["blockhash"]), height, _u64(answer["context"]["slot"]))

    async def prioritization_fees(self, addresses: Sequence[str]) -> list[int]:
        """Return the lowest price, in micro-lamports a compute unit, at which a transaction that
        writes `addresses` (at most 128) landed, for each of the node's last slots, oldest first."""
        answer = await self._call("getRecentPrioritizationFees", list(addresses))
        found = _read_each("getRecentPrioritizationFees", answer, _slot_fee)
        return [fee for _slot, fee in sorted(found)]

    async def simulate(
        self, wire: bytes, addresses: Sequence[str], *, min_slot: int = 0
    ) -> SimulationResult:
        """Simulate a transaction without signature checks; return the state of `addresses` after
        it. `LedgerRejected` with `MIN_CONTEXT_SLOT` if no node has reached `min_slot`."""
        answer = await self._call(
            "simulateTransaction",
            base64.b64encode(wire).decode("ascii"),
            {
                "commitment": CONFIRMED,
                "encoding": "base64",
                "sigVerify": False,
                "replaceRecentBlockhash": False,
                "innerInstructions": True,
                "accounts": {"encoding": "base64", "addresses": list(addresses)},
            }
            | _min_slot(min_slot),
        )
        with _checked_shape("simulateTransaction"):
            value = answer["value"]
            listed = value.get("accounts")
            # A node returns no account states for a failed transaction.
            states = listed if listed is not None else [None] * len(addresses)
            if len(states) != len(addresses):
                raise _malformed_error("simulateTransaction")
            units = value.get("unitsConsumed")
            loaded = value.get("loadedAccountsDataSize")
            return SimulationResult(
                err=value["err"],
                logs=tuple(str(line) for line in value.get("logs") or ()),
                accounts={
                    a: _account(state, closed_is_none=True)
                    for a, state in zip(addresses, states, strict=True)
                },
                inner_instructions=value.get("innerInstructions"),
                units_consumed=None if units is None else _u64(units),
                slot=_u64(answer["context"]["slot"]),
                loaded_bytes=None if loaded is None else _u64(loaded),
            )

    async def send(self, wire: bytes) -> str:
        """Send bytes without preflight or retries: the engine simulates and resends bytes itself.

        An error here never tells the transaction's fate: only statuses do.
        """
        options = {"encoding": "base64", "skipPreflight": True, "maxRetries": 0}
        return str(
            await self._call("sendTransaction", base64.b64encode(wire).decode("ascii"), options)
        )

    async def statuses(
        self, signatures: Sequence[str], *, search_history: bool = False, min_slot: int = 0
    ) -> list[SignatureStatus | None]:
        """Return the statuses of signatures in their order, None if unknown; 256 per call. The
        answer of a node below `min_slot` does not count: it may not know the signatures yet."""
        found: list[SignatureStatus | None] = []
        for start in range(0, len(signatures), _MAX_STATUSES):
            chunk = list(signatures[start : start + _MAX_STATUSES])
            options = {"searchTransactionHistory": search_history}
            answer = await self._call("getSignatureStatuses", chunk, options)
            values = _value(answer)
            if not isinstance(values, list) or len(values) != len(chunk):
                raise _malformed_error("getSignatureStatuses")
            if min_slot and _context_slot(answer) < min_slot:
                raise LedgerUnavailable("The ledger node is behind an earlier answer of the ledger")
            read = [_status(value) for value in values]
            if read and all(each == _UNREAD for each in read):
                raise _malformed_error("getSignatureStatuses")
            found += read
        ended = [each for each in found if each and is_final(each.confirmation)]
        self._known.landed += len(ended)
        slots = (each.slot for each in ended)
        self._known.newest_landed_slot = max(self._known.newest_landed_slot, *slots, 0)
        return found

    async def signatures_for(
        self,
        address: str,
        *,
        before: str | None = None,
        limit: int = 1_000,
        finalized: bool = False,
        min_slot: int = 0,
    ) -> list[SignatureRow]:
        """Return transactions that mention an address, newest first; `confirmed` or `finalized`.

        Args:
            before: a signature; only older transactions are returned.
            limit: the maximum number of transactions, up to 1,000.

        Raises:
            LedgerRejected: with `MIN_CONTEXT_SLOT`, no node has reached `min_slot`.
        """
        options: dict[str, Any] = {"limit": limit} | _finality(finalized) | _min_slot(min_slot)
        if before is not None:
            options["before"] = before
        answer = await self._call("getSignaturesForAddress", address, options)
        if not isinstance(answer, list) or len(answer) > limit:
            raise _malformed_error("getSignaturesForAddress")
        return list(map(_signature_row, answer))

    async def transaction_wire(self, signature: str, *, finalized: bool = False) -> bytes | None:
        """Return the bytes of a landed transaction; None if unknown."""
        options = {"encoding": "base64", "maxSupportedTransactionVersion": 1} | _finality(finalized)
        answer = await self._call("getTransaction", signature, options)
        if answer is None:
            return None
        with _checked_shape("getTransaction"):
            return _decode_base64(answer["transaction"])

    async def transaction(self, signature: str) -> dict[str, Any] | None:
        """Return a landed transaction with its meta in the RPC's JSON shape; None if unknown."""
        options = {
            "commitment": CONFIRMED,
            "encoding": "json",
            "maxSupportedTransactionVersion": 1,
        }
        answer = await self._call("getTransaction", signature, options)
        if answer is not None and not isinstance(answer, dict):
            raise _malformed_error("getTransaction")
        return answer

    async def request_airdrop(self, address: str, lamports: int) -> str:
        """Request SOL from the cluster's faucet; return the faucet transaction's signature."""
        try:
            signature = await self._call("requestAirdrop", address, lamports, _CONFIRMED)
        except NodeBusy as error:
            raise NodeBusy(f"{error}. {_FAUCET}", error.wait_s) from None
        except LedgerRejected as error:
            if error.code not in _FAUCET_LIMITS:
                raise
            raise LedgerRejected(error.code, f"{error}. {_FAUCET}", error.data) from None
        with _checked_shape("requestAirdrop"):
            # Signatures are polled together, and a node refuses all of them for an invalid one.
            return str(Signature.from_string(signature))

    async def close(self) -> None:
        """Release the transport's connections."""
        await self._transport.close()

    async def _read_newest(self, method: str, *params: Any, min_slot: int = 0) -> Any:
        """Read state from a node that has reached the newest landed slot. A node that is behind
        would report a sender's balance from before the payment.

        If no node reaches that slot in time, a node that has reached `min_slot` suffices.

        Raises:
            LedgerRejected: with `MIN_CONTEXT_SLOT`, no node reaches `min_slot` in time.
        """
        known, slot = self._known, self._known.newest_landed_slot
        if slot > max(known.given_up_slot, min_slot):
            began = time.monotonic()
            try:
                return await self._read_from(slot, method, *params)
            except LedgerRejected as error:
                if error.code != MIN_CONTEXT_SLOT:
                    raise
            if time.monotonic() - began > _BEHIND_S:
                known.given_up_slot = slot
        return await self._read_from(min_slot, method, *params)

    async def _read_from(self, min_slot: int, method: str, *params: Any) -> Any:
        """Read state at `min_slot` or later; wait for nodes that are behind."""
        *others, options = params
        ends = time.monotonic() + _BEHIND_S
        while True:
            try:
                answer = await self._call(method, *others, options | _min_slot(min_slot))
                # A proxy may not know the option, and report honestly that its answer is older.
                slot = newest_slot(method, answer)
                if slot is None or slot >= min_slot:
                    return answer
                raise LedgerRejected(MIN_CONTEXT_SLOT, "The answer is older than minContextSlot")
            except LedgerRejected as error:
                is_late = time.monotonic() > ends
                if error.code != MIN_CONTEXT_SLOT or is_late or not await pause(self.slot_s):
                    raise

    async def _call(self, method: str, *params: Any) -> Any:
        word = FINALIZED if self._known.is_alpenglow or self._is_without_confirmed else CONFIRMED
        try:
            answer = await self._transport_call(method, with_commitment(params, word))
        except LedgerRejected as error:
            if word == FINALIZED or not refuses_confirmed(error):
                raise
            # One node's refusal of the word says nothing about the other nodes.
            self._is_without_confirmed = self._many is None
            answer = await self._transport_call(method, with_commitment(params, FINALIZED))
        # Before Alpenglow a `finalized` answer names an old slot, which would measure badly.
        if word == FINALIZED or _FINALIZED not in params:
            slot = newest_slot(method, answer)
            if slot is not None:
                self._slot_time.note_slot(slot)
        return answer

    async def _transport_call(self, method: str, params: Sequence[Any]) -> Any:
        outcome = "unavailable"
        try:
            with (
                metrics.RPC_CALL.labels(method).time(),
                tracing.child_span("rpc", method=method),
            ):
                answer = await self._transport.call(method, params)
            outcome = "ok"
            return answer
        except LedgerRejected:
            outcome = "rejected"
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            metrics.RPC_CALLS.labels(method, outcome).inc()


def _min_slot(min_slot: int) -> dict[str, int]:
    return {"minContextSlot": min_slot} if min_slot else {}


def _finality(finalized: bool) -> dict[str, str]:
    return _FINALIZED if finalized else _CONFIRMED


def _malformed_error(method: str | None = None) -> MalformedAnswer:
    to = "" if method is None else f" to {method}"
    return MalformedAnswer(f"The ledger's answer{to} has an unexpected shape")


@contextlib.contextmanager
def _checked_shape(method: str) -> Iterator[None]:
    """Raise `MalformedAnswer` if an answer lacks a value that the block reads."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError):
        raise _malformed_error(method) from None


def _value(answer: Any) -> Any:
    if not isinstance(answer, Mapping) or "value" not in answer:
        raise _malformed_error()
    return answer["value"]


def _context_slot(answer: Any) -> int:
    try:
        return _u64(answer["context"]["slot"])
    except (KeyError, TypeError):
        raise _malformed_error() from None


def _u64(value: Any, most: int = U64_MAX) -> int:
    """Return a whole number of at most 64 bits; nodes refuse calls with a larger number."""
    if type(value) is not int or not 0 <= value <= most:
        raise _malformed_error()
    return value


def _decode_base64(value: Any) -> bytes:
    """Return the bytes of a pair of text and encoding; raises `ValueError` or `TypeError`."""
    text, encoding = value
    if encoding != "base64":
        raise ValueError(encoding)
    return base64.b64decode(text, validate=True)


def _address(value: Any) -> str:
    """Return a valid address, because every later call with an invalid address would fail."""
    return str(Pubkey.from_string(value))


def _read_each(method: str, items: Any, read: Callable[[Any], T]) -> list[T]:
    """Return the result of `read` for each entry of a list that strangers can extend. Unreadable
    entries are left out; raises `MalformedAnswer` if all entries are unreadable."""
    if not isinstance(items, list):
        raise _malformed_error(method)
    found: list[T] = []
    for item in items:
        with contextlib.suppress(KeyError, TypeError, ValueError, MalformedAnswer):
            found.append(read(item))
    if items and not found:
        raise _malformed_error(method)
    return found


def _holding(program: str, item: Any) -> TokenHolding:
    address, data = _address(item["pubkey"]), item["account"]["data"]
    if isinstance(data, list):
        # The mint was closed, so nobody knows its decimals; such a mint has no units.
        state = token_account(_account(item["account"]))
        if state is None:
            raise _malformed_error("getTokenAccountsByOwner")
        return TokenHolding(address, state.mint, program, state.amount, decimals=0)
    info = data["parsed"]["info"]
    amount = info["tokenAmount"]
    units, decimals = _u64(int(amount["amount"])), _u64(amount["decimals"], _MAX_DECIMALS)
    return TokenHolding(address, _address(info["mint"]), program, units, decimals)


def _program_account(item: Any) -> tuple[str, Account]:
    account = _account(item["account"])
    if account is None:
        raise _malformed_error("getProgramAccounts")
    return _address(item["pubkey"]), account


def _slot_fee(item: Any) -> tuple[int, int]:
    slot, fee = _u64(item["slot"]), item["prioritizationFee"]
    # Any price is accepted: bids have their own limit, and a lie must not stop transactions.
    if type(fee) is not int or fee < 0:
        raise _malformed_error("getRecentPrioritizationFees")
    return slot, fee


def _vote_account(item: Any) -> VoteAccount:
    """Return a vote account; `epochCredits` has (epoch, credits at its end, at its start)."""
    return VoteAccount(
        str(item["votePubkey"]),
        _u64(item["activatedStake"]),
        _u64(item["commission"]),
        tuple(
            (_u64(epoch), max(0, _u64(end) - _u64(start)))
            for epoch, end, start in item["epochCredits"]
        ),
    )


def _account(value: Any, *, closed_is_none: bool = False) -> Account | None:
    if value is None:
        return None
    with _checked_shape("an account request"):
        data = _decode_base64(value["data"])
        account = Account(_u64(value["lamports"]), str(value["owner"]), data)
    # After a simulation a closed account is still listed, empty and without lamports.
    return None if closed_is_none and account.lamports == 0 else account


def _signature_row(value: Any) -> SignatureRow:
    with _checked_shape("getSignaturesForAddress"):
        texts = value["signature"], value.get("memo"), value.get("confirmationStatus")
        signature, memo, confirmation = texts
        if not isinstance(signature, str) or not all(
            isinstance(each, str | None) for each in texts
        ):
            raise TypeError
        return SignatureRow(signature, _u64(value["slot"]), value["err"], memo, confirmation)


def _status(value: Any) -> SignatureStatus | None:
    if value is None:
        return None
    try:
        confirmation = value["confirmationStatus"]
        if isinstance(confirmation, str | None):
            return SignatureStatus(_u64(value["slot"]), value["err"], confirmation)
    except (KeyError, TypeError, MalformedAnswer):
        pass
    return _UNREAD
