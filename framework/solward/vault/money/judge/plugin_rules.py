"""Guardrails of plugins, which run outside any database transaction and for a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import structlog

from solward.support.clean_text import one_line
from solward.types.guardrail import Hold, Intent, TransactionEffects
from solward.vault.guardrails.rules import PluginGuardrail, Verdict

# A rule is a pure function of two values. This limit is far more than a rule needs on a busy
# machine, and short enough for a caller to wait for the refusal.
TIME_LIMIT_S = 5.0
# The maximum characters of a reason, because a person reads it, perhaps on a phone.
_MAX_REASON = 500

_log = structlog.get_logger(__name__)


class RuleFailure(str):
    """The refusal by a rule that raised or was late; it does not use up an approval."""

    __slots__ = ()


class PluginRules:
    """The plugins' guardrails in order; they can only refuse, or let a person decide."""

    def __init__(self, guardrails: Sequence[PluginGuardrail]) -> None:
        self._guardrails = tuple(guardrails)

    @property
    def names(self) -> tuple[str, ...]:
        """The rules' names, as stored in a record's `guardrailsApplied`."""
        return tuple(guardrail.name for guardrail in self._guardrails)

    async def judge(
        self, verdict: Verdict, intent: Intent, effects: TransactionEffects | None
    ) -> Verdict:
        """Return the verdict after the plugins' rules, if the built-in rules allow the transaction.

        A rule refuses if it raises, answers anything but None and `Hold`, or does not answer in
        `TIME_LIMIT_S`. A refusal outweighs another rule's hold. Without a simulation no rule runs.
        """
        if effects is None or not verdict.allowed:
            return verdict
        for guardrail in self._guardrails:
            verdict = replace(verdict, applied=(*verdict.applied, guardrail.name))
            answer = await _ask_rule(guardrail, intent, effects)
            if isinstance(answer, Hold):
                held = f"{guardrail.name}: {answer.reason}"
                verdict = replace(verdict, hold=join_reasons(verdict.hold, held))
            elif answer is not None:
                passing = isinstance(answer, RuleFailure)
                reason = str(answer)
                return replace(verdict, rule=guardrail.name, reason=reason, passing=passing)
        return verdict


async def _ask_rule(
    guardrail: PluginGuardrail, intent: Intent, effects: TransactionEffects
) -> str | Hold | None:
    deadline = asyncio.timeout(TIME_LIMIT_S)
    try:
        async with deadline:
            return exact_answer(await guardrail.check(intent, effects))
    except Exception as error:
        if deadline.expired():
            _log.error("guardrail_hangs", guardrail=guardrail.name)
            return RuleFailure(f"the rule did not answer within {TIME_LIMIT_S:g} s")
        return failure_of(error)


def join_reasons(*reasons: str | None) -> str | None:
    """Join the reasons for a hold into one text; return None if there is no reason."""
    text = ""
    for reason in filter(None, reasons):
        text += ("" if not text else " " if text.endswith(".") else "; ") + reason
    return text or None


def failure_of(error: BaseException) -> RuleFailure:
    """Return the refusal by a rule that raised, without the error's text, which may be secret."""
    return RuleFailure(f"the rule failed: {type(error).__name__}")


def exact_answer(answer: object) -> str | Hold | None:
    """Return a rule's final answer in exact types; anything but None and `Hold` is a refusal."""
    if answer is None or type(answer) is RuleFailure:
        return answer
    if type(answer) is Hold and isinstance(answer.reason, str):
        return Hold(_one_line(answer.reason))
    return _one_line(answer) if isinstance(answer, str) else "the rule refused"


def _one_line(text: str) -> str:
    """Return the beginning of a text, without the line ends, terminal escapes and direction marks
    that could make a hold or refusal look like another."""
    return one_line(str.__str__(text), _MAX_REASON)
