"""Every error Solward raises on purpose.

    SolwardError
    ├── InvalidRequest             a value is missing or wrong; names the field     (HTTP 400)
    │   ├── NotEnough              more is asked for than the wallet holds              (HTTP 400)
    │   └── PaymentRefused         a seller's offer, or its site, is refused; a code   (HTTP 400)
    ├── NotFound                                                                    (HTTP 404)
    │   ├── WalletNotFound         "Wallet not found"
    │   └── AgentNotFound          "Agent not found"
    ├── IdempotencyMismatch        same key, another body                           (HTTP 422)
    ├── IdempotencyInFlight        same key, still being worked on                  (HTTP 409)
    ├── SkillError                 a skill says what went wrong, with a code        (HTTP 400)
    │   ├── SkillNotFound          no loaded skill has this name                    (HTTP 404)
    │   └── SkillTimeout                                                            (HTTP 500)
    ├── TransactionError           a money route's refusal; carries the record      (HTTP 500)
    │   ├── GuardrailBlocked       a rule refused it: `rule`, `reason`
    │   └── TransactionFailed      the ledger refused it, or it cannot land
    ├── RateReached            the cause where a rate blocked a transaction
    ├── Held                       waits for a person; carries the hold            (HTTP 202)
    ├── HoldDecided                a hold that can no longer be decided so          (HTTP 409)
    ├── PolicyChanged              another version of the policy is in force        (HTTP 409)
    ├── ScheduleBusy               a run of it goes on, or is about to begin        (HTTP 409)
    ├── MayNotDecide               who decides a hold is not one who may            (HTTP 403)
    ├── ProviderError              a model vendor's failure
    │   └── ModelRefused           the vendor or its model would not answer: `reason`, `said`
    ├── TakenOver                  another process has taken over the work
    ├── TooManyWallets             the API key has made as many as one may          (HTTP 500)
    ├── KeyRevoked                 the API key was revoked during its request        (HTTP 401)
    ├── DecisionRefused            a webhook's decision is not to be believed        (HTTP 401)
    ├── TokenBudgetReached         an agent's token budget has no room               (HTTP 429)
    ├── LedgerError
    │   ├── LedgerUnavailable      no answer; says nothing about a transaction's fate
    │   └── LedgerRejected         an RPC error object: `code`, `data`
    ├── KeystoreError              a key cannot be opened, or must not be
    ├── ConfigError                the settings cannot be served safely
    ├── PluginError                a built-in plugin is broken; carries the problem
    ├── FolderError                a plugin's folder of its own cannot be made or read
    ├── HomeLocked                 another process owns this SOLWARD_HOME or its database
    ├── LocalnetError              the embedded ledger's file is in use or of another version
    └── StoreError                 the database refused
        ├── OtherSchema            the database is of another version or another program
        ├── AuditBroken            the audit log was tampered with
        └── BackupError            a backup cannot be made, read or restored

The statuses are the contract's; `ERROR_STATUS` may set others (`solward_server.http.errors`).
Any other exception is a bug: it is logged with its traceback, and callers and models see an
internal error without its text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from solward.types.record import Hold, TransactionRecord


# Headers of the answer to a refused or failed transaction: the refusing rule, URL-encoded, and the
# record's id. `Retry-After` is RFC 9110's, in seconds.
RULE_HEADER = "Solward-Rule"
# The header of an answer to a request that was carried out, but may not do what its sender meant.
WARNING_HEADER = "Solward-Warning"
TRANSACTION_HEADER = "Solward-Transaction"
RETRY_HEADER = "Retry-After"
# The header with the contract's status, if an error is sent with another one (`ERROR_STATUS`). It
# lets clients tell errors apart under both settings.
CONTRACT_HEADER = "Solward-Contract-Status"
# The header of every answer of the service, with the interface's version. A gateway that answers
# instead does not send it, and does not know whether the service carried out the request.
API_HEADER = "Solward-Api"
API_VERSION = "v1"


class SolwardError(Exception):
    """Base of every deliberate error; callers may see its `str()`."""


class InvalidRequest(SolwardError):
    """A value is missing or invalid; the message names the field and the expected value."""


_LONGEST_SHOWN: Final = 64


def refuse_unknown(
    names: Iterable[str], known: Collection[str], before: str = "", after: str = ""
) -> None:
    """Raise `InvalidRequest` for the first of `names` that is not in `known`.

    Args:
        before: the error's text before the name, such as `guardrails.`.
        after: the error's text after the name, such as ` in the query`.
    """
    for name in names:
        if name not in known:
            shown = name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}..."
            there_are = f"is none of: {', '.join(sorted(known))}" if known else "is unknown"
            raise InvalidRequest(f"{before}{shown}{after} {there_are}. Nothing was done")


class NotEnough(InvalidRequest):
    """The request asks for more than the wallet holds."""


class PaymentRefused(InvalidRequest):
    """A request is not paid for, because its site or the seller's offer is refused before any rule
    judges the payment. The stable `code` ends the text."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{reason} ({code})")
        self.code = code
        self.reason = reason


class NotFound(SolwardError):
    """The named resource does not exist."""


class WalletNotFound(NotFound):
    """Wallet not found"""

    def __init__(self) -> None:
        super().__init__("Wallet not found")


class TooManyWallets(SolwardError):
    """An API key has made the maximum number of wallets for one key."""

    def __init__(self, most: int) -> None:
        super().__init__(f"This API key has created {most} wallets, the most that a key may create")


class AgentNotFound(NotFound):
    """Agent not found"""

    def __init__(self) -> None:
        super().__init__("Agent not found")


class IdempotencyMismatch(SolwardError):
    """The Idempotency-Key was used before with another request body."""

    def __init__(self) -> None:
        super().__init__("Idempotency-Key was already used with a different request body")


class IdempotencyInFlight(SolwardError):
    """The first request with this Idempotency-Key has not finished yet."""

    def __init__(self) -> None:
        super().__init__("A request with this Idempotency-Key is still in progress")


class SkillError(SolwardError):
    """A skill refused or failed; `code` is stable, the message is for people and models."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class SkillNotFound(SkillError):
    """No loaded skill has this name."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__("skill_not_found", f"No skill named {name!r}; known: {', '.join(known)}")


class SkillTimeout(SkillError):
    """The skill did not finish within its declared timeout."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__("timeout", f"Skill {name!r} did not finish within {seconds:g} s")


class RateReached(SolwardError):
    """A rate limit was reached: too many transactions in its time window."""


class TransactionError(SolwardError):
    """A transaction did not succeed; `record` is its stored record."""

    def __init__(self, message: str, record: TransactionRecord) -> None:
        super().__init__(message)
        self.record = record


class GuardrailBlocked(TransactionError):
    """A guardrail refused the transaction; nothing was sent."""

    def __init__(self, rule: str, reason: str, record: TransactionRecord) -> None:
        super().__init__(f"Transaction blocked by guardrail {rule}: {reason}", record)
        self.rule = rule
        self.reason = reason

    @property
    def retry_after_s(self) -> int | None:
        """The seconds after which the transaction may succeed, if known."""
        return self.record.retry_after_s


class TransactionFailed(TransactionError):
    """A transaction was refused in simulation, failed on the ledger, or expired."""


class Held(SolwardError):
    """The transaction waits for a person; nothing was reserved, signed or sent. `hold` has the
    request, the reason and the time limit."""

    def __init__(self, hold: Hold) -> None:
        super().__init__(hold.message())
        self.hold = hold


class HoldDecided(SolwardError):
    """The hold was decided, ended or expired, or cannot be approved now; the text says which."""


class ScheduleBusy(SolwardError):
    """A run of the schedule is active, or is due and about to begin."""

    def __init__(self, *, is_running: bool) -> None:
        now = (
            "A run of the schedule goes on" if is_running else "The schedule is due at this moment"
        )
        super().__init__(f"{now}; ask again when that run has ended")


class PolicyChanged(SolwardError):
    """The change is based on another version of the policy than the current `version`."""

    def __init__(self, version: int) -> None:
        super().__init__(f"The policy was changed meanwhile: version {version} is in force")
        self.version = version


class MayNotDecide(SolwardError):
    """The principal may not approve the hold: it requested the hold, or has no grant to approve."""


class TakenOver(SolwardError):
    """Another process has taken over the transaction or cycle; this process must stop."""

    def __init__(self) -> None:
        super().__init__("Another process has taken over the work; this process did nothing")


class KeyRevoked(SolwardError):
    """The API key was revoked while its transaction was being made; nothing was sent."""

    def __init__(self) -> None:
        # Every later request with the key gets the same answer.
        super().__init__("Invalid API key")


class DecisionRefused(SolwardError):
    """A decision sent to the approvals' webhook is not signed, is too old, or was sent before."""


class TokenBudgetReached(SolwardError):
    """An agent's token budget has no room for another completion."""


class ProviderError(SolwardError):
    """A model provider failed.

    Attributes:
        retryable: whether the same call may succeed later.
        may_cost: whether the vendor may charge for the call in spite of the failure, such as for a
            late answer. If so, the budget reserved for the call stays counted.
        usage: the tokens that the vendor counted, a `Usage`; None if not known.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        may_cost: bool = False,
        usage: Any = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.may_cost = may_cost
        self.usage = usage


class ModelRefused(ProviderError):
    """A vendor or its model refused to answer this prompt; sending the prompt again is useless.

    Attributes:
        reason: the vendor's code for the reason, such as `safety`; contains nothing of the prompt.
        said: the model's or the vendor's explanation, may be empty. Like an answer, it is displayed
            and stored, and never logged.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        said: str = "",
        usage: Any = None,
        may_cost: bool = False,
    ) -> None:
        super().__init__(message, may_cost=may_cost, usage=usage)
        self.reason = reason
        self.said = said


class LedgerError(SolwardError):
    """The ledger did not carry out a call."""


class LedgerUnavailable(LedgerError):
    """The ledger did not answer; whether it carried out the call is not known."""


class LedgerRejected(LedgerError):
    """The ledger answered with a JSON-RPC error object."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class KeystoreError(SolwardError):
    """A private key cannot be opened, or must not be; the error never contains key material."""


class ConfigError(SolwardError):
    """The settings are contradictory or unsafe to serve with."""


class PluginError(SolwardError):
    """A built-in plugin is broken; `problem`, a `Problem` of the registry, says how."""

    def __init__(self, problem: object) -> None:
        super().__init__(f"Built-in plugin {problem}")
        self.problem = problem


class FolderError(SolwardError):
    """A plugin's distribution cannot be installed, changed or read in its own folder."""


class HomeLocked(SolwardError):
    """Another process owns this SOLWARD_HOME, or its database."""


class LocalnetError(SolwardError):
    """The embedded ledger's file is in use, or this version cannot open it."""


class StoreError(SolwardError):
    """The database cannot be used as it is."""


class OtherSchema(StoreError):
    """The database has tables that this version of Solward did not make; it was not changed."""

    def __init__(self) -> None:
        super().__init__(
            "Another version of Solward, or another program, made the database: export the"
            " wallets' keys with the version that made it (solward wallet export), or name a new"
            " database by SOLWARD_HOME or DATABASE_URL"
        )


class AuditBroken(StoreError):
    """The audit log was tampered with; the message says where."""


class BackupError(StoreError):
    """A backup cannot be made, read or restored; the error never has the backup's contents."""
