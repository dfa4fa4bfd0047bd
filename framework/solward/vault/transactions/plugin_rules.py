"""Guardrails of plugins: asked outside the database, each with copies and for a limited time."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
from collections.abc import Sequence
from dataclasses import replace

import structlog

from solward.guardrail import Hold, Intent, TransactionEffects
from solward.vault.guardrails import PluginGuardrail, Verdict

# A rule is a pure function of two values. This is far more than one takes on a busy machine, and
# short enough for a caller to wait for the refusal.
TIME_LIMIT_S = 5.0
# A person reads it, on a phone for one.
_MAX_REASON = 500

_log = structlog.get_logger(__name__)


class PluginRules:
    """The plugins' guardrails in order; they can only refuse, or let a person decide.

    Each check has a thread of its own, so that one that never returns holds up neither the event
    loop nor a database transaction.
    """

    def __init__(self, guardrails: Sequence[PluginGuardrail]) -> None:
        self._guardrails = tuple(guardrails)
        # Not asked again until they answer, so that they take no further thread.
        self._hanging: set[str] = set()

    @property
    def names(self) -> tuple[str, ...]:
        """As stored in a record's `guardrailsApplied`."""
        return tuple(guardrail.name for guardrail in self._guardrails)

    async def judge(
        self, verdict: Verdict, intent: Intent, effects: TransactionEffects | None
    ) -> Verdict:
        """What the built-in rules found, and where they allow it, the plugins' rules after them.

        A rule that raises, answers anything but None and `Hold`, or does not answer in
        `TIME_LIMIT_S`, has refused. A refusal beats what another rule would have held. Nothing is
        asked where nothing was simulated.
        """
        if effects is None or not verdict.allowed:
            return verdict
        for guardrail in self._guardrails:
            verdict = replace(verdict, applied=(*verdict.applied, guardrail.name))
            answer = await self._answer(guardrail, intent, effects)
            if isinstance(answer, Hold):
                held = f"{guardrail.name}: {answer.reason}"
                verdict = replace(verdict, hold=joined(verdict.hold, held))
            elif answer is not None:
                return replace(verdict, rule=guardrail.name, reason=answer)
        return verdict

    async def _answer(
        self, guardrail: PluginGuardrail, intent: Intent, effects: TransactionEffects
    ) -> str | Hold | None:
        name = guardrail.name
        if name in self._hanging:
            return "the rule has not answered an earlier transaction yet"
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[str | Hold | None] = loop.create_future()
        # Copied for each rule: what one changes is neither counted nor seen by the next.
        given = copy.deepcopy((intent, effects))

        def answer(reason: str | Hold | None) -> None:
            self._hanging.discard(name)
            if not answered.done():
                answered.set_result(reason)

        def check() -> None:
            reason = _reason(guardrail, *given)
            # The loop is closed where the process ended without this answer.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(answer, reason)

        threading.Thread(target=check, name=f"guardrail {name}", daemon=True).start()
        try:
            return await asyncio.wait_for(answered, TIME_LIMIT_S)
        except TimeoutError:
            self._hanging.add(name)
            _log.error("guardrail_hangs", guardrail=name)
            return f"the rule did not answer within {TIME_LIMIT_S:g} s"


def joined(*reasons: str | None) -> str | None:
    """Reasons to ask a person, as one text; None where there is none."""
    text = ""
    for reason in filter(None, reasons):
        text += ("" if not text else " " if text.endswith(".") else "; ") + reason
    return text or None


def _reason(
    guardrail: PluginGuardrail, intent: Intent, effects: TransactionEffects
) -> str | Hold | None:
    try:
        answer: object = guardrail.check(intent, effects)
    except BaseException as error:
        return f"the rule failed: {type(error).__name__}"
    if answer is None:
        return None
    if type(answer) is Hold and isinstance(answer.reason, str):
        # A copy in exact types: the rule keeps what it answered.
        return Hold(_one_line(str.__str__(answer.reason)[:_MAX_REASON]))
    return str.__str__(answer) if isinstance(answer, str) else "the rule refused"


def _one_line(text: str) -> str:
    """Without line ends, escapes of terminals and marks of direction, which could make what a
    person decides on look like something else."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)
