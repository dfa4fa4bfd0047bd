"""A guardrail that runs in the service's own process, for debugging."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
from collections.abc import Callable
from typing import Any

from solward.types.guardrail import Hold, Intent, TransactionEffects
from solward.vault.money.judge.plugin_rules import RuleFailure, exact_answer, failed


class ThreadedRule:
    """A rule's function as the vault asks it; each check has copies and a thread of its own, so
    that one that never returns does not hold up the event loop.
    """

    __slots__ = ("_hanging", "function")

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.function = function
        # Not asked again until it answers, so that it takes no further thread.
        self._hanging = False

    async def __call__(self, intent: Intent, effects: TransactionEffects) -> str | Hold | None:
        """The reason to refuse, or to ask a person, or None."""
        if self._hanging:
            return RuleFailure("the rule has not answered an earlier transaction yet")
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[str | Hold | None] = loop.create_future()
        given = copy.deepcopy((intent, effects))

        def answer(reason: str | Hold | None) -> None:
            self._hanging = False
            if not answered.done():
                answered.set_result(reason)

        def check() -> None:
            try:
                reason = exact_answer(self.function(*given))
            except BaseException as error:
                reason = failed(error)
            # The loop is closed where the process ended without this answer.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(answer, reason)

        threading.Thread(target=check, name="guardrail", daemon=True).start()
        try:
            return await answered
        except asyncio.CancelledError:
            self._hanging = True
            raise
