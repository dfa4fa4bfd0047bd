"""The wording of transactions that do not succeed, their errors, and the outcome of a dry run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.exc import IntegrityError

from solward.types.errors import (
    GuardrailBlocked,
    InvalidRequest,
    LedgerRejected,
    NotEnough,
    RateReached,
    SolwardError,
    TakenOver,
    TransactionError,
    TransactionFailed,
)
from solward.types.guardrail import TransactionEffects
from solward.types.money import lamports_to_sol
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.guardrails.rules import RATE_LIMIT, Verdict
from solward.vault.ledger.answers import scrub_node_text

# What the system program and the token program log for their error 1.
_INSUFFICIENT = re.compile(
    r"insufficient (?:lamports|funds)(?: (?P<have>\d+), need (?P<need>\d+))?", re.IGNORECASE
)
# The longest text of a node's error, in characters.
_LONGEST = 200
_NO_ACCOUNT = {"AccountNotFound", "InsufficientFundsForFee"}
# The fee payer could not pay (SIMD-0290): the transaction is in a block, but nothing ran.
_UNPAID = frozenset({*_NO_ACCOUNT, "InvalidAccountForFee"})
_BELOW_RENT = {"InsufficientFundsForRent": {"account_index": 0}}
# Texts for a wallet with too small a balance, by which `refusal` finds the cause.
_NO_FEE = "the wallet has too little SOL to pay the network fee"
_TOO_LITTLE = "insufficient balance"
_NO_RENT = "the balance left on an account would be below the rent-exempt minimum"
# Errors that the transaction's effects do not cause. The cause is the bytes' age, another
# transaction, or the cluster. `ProgramExecutionTemporarilyRestricted` is the key of an object.
_PASSING = frozenset(
    {
        "AccountBorrowOutstanding",
        "AccountInUse",
        "AlreadyProcessed",
        "BlockhashNotFound",
        "ClusterMaintenance",
        "CommitCancelled",
        "ProgramCacheHitMaxLimit",
        "ProgramExecutionTemporarilyRestricted",
        "ResanitizationNeeded",
        "WouldExceedAccountDataBlockLimit",
        "WouldExceedAccountDataTotalLimit",
        "WouldExceedMaxAccountCostLimit",
        "WouldExceedMaxBlockCostLimit",
        "WouldExceedMaxVoteCostLimit",
    }
)


def refusal(record: TransactionRecord) -> TransactionError:
    """Return the error to raise for a blocked or failed record."""
    if record.status is TransactionStatus.BLOCKED:
        rule = record.guardrails_applied[-1]
        is_rate = rule == RATE_LIMIT or record.cause is RateReached
        record = replace(record, cause=RateReached if is_rate else None)
        return GuardrailBlocked(rule, record.error or "", record)
    told = record.error or ""
    if record.cause is None and any(words in told for words in (_NO_FEE, _TOO_LITTLE, _NO_RENT)):
        record = replace(record, cause=NotEnough)
    return TransactionFailed(record.error or "The transaction failed", record)


def with_cause(error: Exception, record: TransactionRecord) -> TransactionRecord:
    """Return the record with the `cause` of the error with which its transaction failed."""
    if isinstance(error, IntegrityError):
        # The same bytes are stored already, so another process made them.
        return replace(record, cause=TakenOver)
    is_refused = isinstance(error, InvalidRequest | LedgerRejected | PermissionError)
    return replace(record, cause=None if is_refused else type(error))


def simulation_failure(failure: str | None) -> str:
    """Return the error text of a transaction whose simulation failed."""
    return f"The transaction would fail: {failure}"


def is_passing(err: Any) -> bool:
    """Return whether the error has a cause outside the transaction, which may succeed later."""
    names = [err] if isinstance(err, str) else err if isinstance(err, dict) else ()
    return any(name in _PASSING for name in names)


def took_no_fee(err: Any) -> bool:
    """Return whether a ledger's transaction error means that not even the fee was paid."""
    return isinstance(err, str) and err in _UNPAID


def may_not_have_run(err: Any) -> bool:
    """Return whether a transaction with this error may be in a block without having run. The same
    bytes might then still run until they expire."""
    return took_no_fee(err) or err == _BELOW_RENT


def explain(err: Any, logs: Sequence[str]) -> str:
    """Return one line for a ledger's transaction error: the cause in plain words, or its name."""
    return scrub_node_text(_find_cause(err, logs))


def _find_cause(err: Any, logs: Sequence[str]) -> str:
    if isinstance(err, str) and err in _NO_ACCOUNT:
        return _NO_FEE
    for line in logs:
        found = _INSUFFICIENT.search(line)
        if found:
            amounts = (
                f" ({found['have']} lamports, {found['need']} needed)" if found["have"] else ""
            )
            return f"{_TOO_LITTLE}{amounts}"
    if isinstance(err, dict):
        if "InsufficientFundsForRent" in err:
            return _NO_RENT
        # A node may use any other form, and the transaction must end nevertheless.
        match err.get("InstructionError"):
            case [index, cause]:
                name = next(iter(cause.items())) if cause and isinstance(cause, dict) else (cause,)
                words = " ".join(str(each) for each in name if each is not None)
                return f"instruction {index} failed: {words[:_LONGEST]}{_last_log(logs)}"
    return str(err)[:_LONGEST]


def _last_log(logs: Sequence[str]) -> str:
    lines = [
        line.removeprefix("Program log: ") for line in logs if line.startswith("Program log: ")
    ]
    errors = [line for line in lines if "error" in line.lower()]
    return f" ({errors[-1][:200]})" if errors else ""


async def wait_for_task(task: asyncio.Task[Any], timeout_s: float | None = None) -> None:
    """Wait for a task. If the caller is cancelled or `timeout_s` ends, the task continues, and its
    later refusals are ignored, because they are in the stored record."""
    try:
        await asyncio.wait({task}, timeout=timeout_s)
    except asyncio.CancelledError:
        task.add_done_callback(_report_unexpected)
        raise
    if not task.done():
        task.add_done_callback(_report_unexpected)


def _report_unexpected(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, SolwardError):
        message = "Task failed after its caller went away"
        context = {"message": message, "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)


@dataclass(frozen=True, slots=True)
class Trial:
    """The outcome of a dry run: whether the transaction would be signed now, and its effects.

    Attributes:
        verdict: the verdict of the rules that could run.
        effects: None if nothing could be simulated.
        failure: why the transaction would fail although no rule refuses it.
    """

    verdict: Verdict
    effects: TransactionEffects | None
    failure: str | None = None

    @property
    def allowed(self) -> bool:
        """True if the transaction would be signed and sent without asking a person."""
        return self.verdict.allowed and self.verdict.hold is None and self.failure is None

    def to_json(self) -> dict[str, Any]:
        """Return the answer of a dry run, with SOL as Decimal and token amounts as text in the
        mint's smallest unit; fields without a value are omitted."""
        body: dict[str, Any] = {"dryRun": True, "allowed": self.allowed}
        if self.verdict.rule is not None:
            body["rule"] = self.verdict.rule
        elif self.verdict.hold is not None:
            body["held"] = True
        reason = self.verdict.reason or self.failure or self.verdict.hold
        if reason is not None:
            body["reason"] = reason
        if self.verdict.numbers is not None:
            body["numbers"] = self.verdict.numbers.to_json()
        body["guardrailsApplied"] = list(self.verdict.applied)
        effects = self.effects
        if effects is not None:
            body["effects"] = {
                "solOut": lamports_to_sol(effects.lamports_out),
                "fee": lamports_to_sol(effects.fee_lamports),
                "rent": lamports_to_sol(effects.rent_lamports),
                "accountsCreated": effects.accounts_created,
                "tokensOut": {m: str(units) for m, units in sorted(effects.tokens_out.items())},
                "tokensIn": {m: str(units) for m, units in sorted(effects.tokens_in.items())},
                "programs": sorted(effects.programs),
                "authorityChanges": [
                    {"kind": change.kind, "account": change.account, "to": change.to}
                    for change in effects.authority_changes
                ],
                "closedAccounts": dict(sorted(effects.closed.items())),
            }
        return body


class TrialEnded(Exception):
    """Raised to the caller of a dry run, in place of a record."""

    def __init__(self, trial: Trial) -> None:
        super().__init__("A dry run sends nothing")
        self.trial = trial
