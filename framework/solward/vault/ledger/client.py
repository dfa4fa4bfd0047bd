"""The ledger protocol over Solana JSON-RPC (solana.com/docs/rpc), one client for every cluster."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

from solward.errors import LedgerRejected, LedgerUnavailable
from solward.solana.accounts import Account
from solward.solana.ledger import TokenHolding, VoteAccount
from solward.solana.programs import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from solward.telemetry import metrics, tracing
from solward.vault.ledger.protocol import Blockhash, SignatureStatus, SimulationResult, Tip
from solward.vault.ledger.transport import ManyNodes, Transport

_CONFIRMED = {"commitment": "confirmed"}
_BASE64 = {"commitment": "confirmed", "encoding": "base64"}
# getMultipleAccounts and getSignatureStatuses refuse more (Agave rpc limits).
_MAX_ACCOUNTS = 100
_MAX_STATUSES = 256


class RpcLedger:
    """`Ledger` over a transport. Every method may raise `LedgerUnavailable`, also for an answer of
    the wrong shape, or `LedgerRejected`."""

    def __init__(self, transport: Transport, rent: dict[int, int] | None = None) -> None:
        self._transport = transport
        self._rent = {} if rent is None else rent

    def nodes(self) -> tuple[RpcLedger, ...]:
        """A ledger for each usable node; itself where there is one node."""
        if not isinstance(self._transport, ManyNodes):
            return (self,)
        return tuple(RpcLedger(node, self._rent) for node in self._transport.nodes())

    @property
    def origin(self) -> str:
        """Whose answers these are; of several nodes, those of the one in use."""
        return self._transport.origin

    def origins(self) -> frozenset[str]:
        """The origins of every node that is configured."""
        if not isinstance(self._transport, ManyNodes):
            return frozenset({self._transport.origin})
        return self._transport.origins()

    async def balance(self, address: str) -> int:
        """Lamports of an address, 0 when it does not exist."""
        return _int(_value(await self._call("getBalance", address, _CONFIRMED)))

    async def account(self, address: str) -> Account | None:
        """An account's state, None when it does not exist."""
        return _account(_value(await self._call("getAccountInfo", address, _BASE64)))

    async def accounts(self, addresses: Sequence[str]) -> dict[str, Account | None]:
        """Many accounts' states, in as many calls of 100 as it takes."""
        return (await self.accounts_at(addresses))[1]

    async def accounts_at(
        self, addresses: Sequence[str], *, min_slot: int = 0
    ) -> tuple[int, dict[str, Account | None]]:
        """As `accounts`, with the slot they were read at, the earliest where it took several calls;
        `LedgerRejected` with `MIN_CONTEXT_SLOT` where no node has reached `min_slot`."""
        found: dict[str, Account | None] = {}
        slots = []
        for start in range(0, len(addresses), _MAX_ACCOUNTS):
            chunk = list(addresses[start : start + _MAX_ACCOUNTS])
            answer = await self._call("getMultipleAccounts", chunk, _BASE64 | _from(min_slot))
            values = _value(answer)
            slots.append(_context_slot(answer))
            if not isinstance(values, list) or len(values) != len(chunk):
                raise _malformed("getMultipleAccounts")
            found |= {a: _account(value) for a, value in zip(chunk, values, strict=True)}
        return min(slots, default=0), found

    async def holdings(self, owner: str) -> tuple[TokenHolding, ...]:
        """Token accounts of a wallet under both token programs, zero balances included."""
        found: list[TokenHolding] = []
        for program in (TOKEN_PROGRAM, TOKEN_2022_PROGRAM):
            values = _value(
                await self._call(
                    "getTokenAccountsByOwner",
                    owner,
                    {"programId": program},
                    {"commitment": "confirmed", "encoding": "jsonParsed"},
                )
            )
            try:
                for item in values:
                    info = item["account"]["data"]["parsed"]["info"]
                    amount = info["tokenAmount"]
                    found.append(
                        TokenHolding(
                            str(item["pubkey"]),
                            str(info["mint"]),
                            program,
                            int(amount["amount"]),
                            int(amount["decimals"]),
                        )
                    )
            except (KeyError, TypeError, ValueError):
                raise _malformed("getTokenAccountsByOwner") from None
        return tuple(found)

    async def slot(self) -> int:
        """The current slot at `confirmed`."""
        return _int(await self._call("getSlot", _CONFIRMED))

    async def rent_exempt_minimum(self, size: int) -> int:
        """Lamports an account of `size` bytes must hold; a cluster constant, so cached."""
        if size not in self._rent:
            answer = await self._call("getMinimumBalanceForRentExemption", size, _CONFIRMED)
            self._rent[size] = _int(answer)
        return self._rent[size]

    async def program_accounts(
        self, program: str, *, size: int, offset: int, key: str
    ) -> dict[str, Account]:
        """Accounts of a program with `size` bytes of data that hold `key` at `offset`."""
        filters = [{"dataSize": size}, {"memcmp": {"offset": offset, "bytes": key}}]
        values = await self._call("getProgramAccounts", program, _BASE64 | {"filters": filters})
        found: dict[str, Account] = {}
        try:
            for item in values:
                account = _account(item["account"])
                if account is not None:
                    found[str(item["pubkey"])] = account
        except (KeyError, TypeError):
            raise _malformed("getProgramAccounts") from None
        return found

    async def stake_minimum_delegation(self) -> int:
        """Lamports a stake must delegate at least."""
        return _int(_value(await self._call("getStakeMinimumDelegation", _CONFIRMED)))

    async def vote_accounts(self) -> tuple[VoteAccount, ...]:
        """Vote accounts of the validators that are not delinquent."""
        answer = await self._call("getVoteAccounts", _CONFIRMED)
        try:
            return tuple(map(_vote_account, answer["current"]))
        except (KeyError, TypeError, ValueError):
            raise _malformed("getVoteAccounts") from None

    async def genesis_hash(self) -> str:
        """The cluster's genesis hash."""
        return str(await self._call("getGenesisHash"))

    async def block_height(self) -> int:
        """The current block height at `confirmed`."""
        return _int(await self._call("getBlockHeight", _CONFIRMED))

    async def tip(self) -> Tip:
        """Slot and block height of the newest block at `confirmed`."""
        answer = await self._call("getEpochInfo", _CONFIRMED)
        try:
            return Tip(_int(answer["absoluteSlot"]), _int(answer["blockHeight"]))
        except (KeyError, TypeError):
            raise _malformed("getEpochInfo") from None

    async def first_slot(self) -> int:
        """The first slot the node's history still has."""
        return _int(await self._call("getFirstAvailableBlock"))

    async def latest_blockhash(self) -> Blockhash:
        """A blockhash at `confirmed`."""
        answer = await self._call("getLatestBlockhash", _CONFIRMED)
        try:
            value = answer["value"]
            return Blockhash(
                str(value["blockhash"]),
                _int(value["lastValidBlockHeight"]),
                _int(answer["context"]["slot"]),
            )
        except (KeyError, TypeError):
            raise _malformed("getLatestBlockhash") from None

    async def simulate(
        self, wire: bytes, addresses: Sequence[str], *, min_slot: int = 0
    ) -> SimulationResult:
        """Run a transaction without signature checks; report the state of `addresses` after it;
        `LedgerRejected` with `MIN_CONTEXT_SLOT` where no node has reached `min_slot`."""
        answer = await self._call(
            "simulateTransaction",
            base64.b64encode(wire).decode("ascii"),
            {
                "commitment": "confirmed",
                "encoding": "base64",
                "sigVerify": False,
                "replaceRecentBlockhash": False,
                "innerInstructions": True,
                "accounts": {"encoding": "base64", "addresses": list(addresses)},
            }
            | _from(min_slot),
        )
        try:
            value = answer["value"]
            listed = value.get("accounts")
            # A node gives no account states for a transaction that failed.
            states = listed if listed is not None else [None] * len(addresses)
            if len(states) != len(addresses):
                raise _malformed("simulateTransaction")
            units = value.get("unitsConsumed")
            return SimulationResult(
                err=value["err"],
                logs=tuple(str(line) for line in value.get("logs") or ()),
                accounts={
                    a: _account(state, closed_is_none=True)
                    for a, state in zip(addresses, states, strict=True)
                },
                inner_instructions=value.get("innerInstructions"),
                units_consumed=None if units is None else _int(units),
                slot=_int(answer["context"]["slot"]),
            )
        except (KeyError, TypeError, AttributeError):
            raise _malformed("simulateTransaction") from None

    async def send(self, wire: bytes) -> str:
        """Send bytes without preflight or retries: the engine simulated and resends them itself."""
        options = {"encoding": "base64", "skipPreflight": True, "maxRetries": 0}
        return str(
            await self._call("sendTransaction", base64.b64encode(wire).decode("ascii"), options)
        )

    async def statuses(
        self, signatures: Sequence[str], *, search_history: bool = False, min_slot: int = 0
    ) -> list[SignatureStatus | None]:
        """Statuses of signatures in their order, None where unknown; 256 a call. An answer from
        before `min_slot` counts as none."""
        found: list[SignatureStatus | None] = []
        for start in range(0, len(signatures), _MAX_STATUSES):
            chunk = list(signatures[start : start + _MAX_STATUSES])
            options = {"searchTransactionHistory": search_history}
            answer = await self._call("getSignatureStatuses", chunk, options)
            values = _value(answer)
            if not isinstance(values, list) or len(values) != len(chunk):
                raise _malformed("getSignatureStatuses")
            if min_slot and _context_slot(answer) < min_slot:
                raise LedgerUnavailable("The ledger node is behind what the ledger said before")
            found += [_status(value) for value in values]
        return found

    async def transaction(self, signature: str) -> dict[str, Any] | None:
        """A landed transaction with its meta in the RPC's JSON shape, None when unknown."""
        options = {
            "commitment": "confirmed",
            "encoding": "json",
            "maxSupportedTransactionVersion": 1,
        }
        answer = await self._call("getTransaction", signature, options)
        if answer is not None and not isinstance(answer, dict):
            raise _malformed("getTransaction")
        return answer

    async def request_airdrop(self, address: str, lamports: int) -> str:
        """Request SOL of the cluster's faucet; returns the faucet transaction's signature."""
        return str(await self._call("requestAirdrop", address, lamports, _CONFIRMED))

    async def close(self) -> None:
        """Release the transport's connections."""
        await self._transport.close()

    async def _call(self, method: str, *params: Any) -> Any:
        outcome = "unavailable"
        try:
            with (
                metrics.timed(metrics.RPC_CALL.labels(method)),
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


def _from(min_slot: int) -> dict[str, int]:
    return {"minContextSlot": min_slot} if min_slot else {}


def _malformed(method: str) -> LedgerUnavailable:
    return LedgerUnavailable(f"The ledger's answer to {method} has an unexpected shape")


def _value(answer: Any) -> Any:
    if not isinstance(answer, Mapping) or "value" not in answer:
        raise LedgerUnavailable("The ledger's answer has an unexpected shape")
    return answer["value"]


def _context_slot(answer: Any) -> int:
    try:
        return _int(answer["context"]["slot"])
    except (KeyError, TypeError):
        raise LedgerUnavailable("The ledger's answer has an unexpected shape") from None


def _int(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise LedgerUnavailable("The ledger's answer has an unexpected shape")
    return value


def _vote_account(item: Any) -> VoteAccount:
    """Each entry of `epochCredits` is (epoch, credits at its end, credits at its start)."""
    return VoteAccount(
        str(item["votePubkey"]),
        _int(item["activatedStake"]),
        _int(item["commission"]),
        tuple(
            (_int(epoch), max(0, _int(end) - _int(start)))
            for epoch, end, start in item["epochCredits"]
        ),
    )


def _account(value: Any, *, closed_is_none: bool = False) -> Account | None:
    if value is None:
        return None
    try:
        data, encoding = value["data"]
        if encoding != "base64":
            raise _malformed("an account request")
        account = Account(
            _int(value["lamports"]), str(value["owner"]), base64.b64decode(data, validate=True)
        )
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise _malformed("an account request") from None
    # After a simulation a closed account is still listed, empty and without lamports.
    return None if closed_is_none and account.lamports == 0 else account


def _status(value: Any) -> SignatureStatus | None:
    if value is None:
        return None
    try:
        return SignatureStatus(_int(value["slot"]), value["err"], value["confirmationStatus"])
    except (KeyError, TypeError):
        raise _malformed("getSignatureStatuses") from None
