"""The layers around every run of a skill, from the outside: `run_skill`, `_run_timed`,
`_run_shielded`, which checks the parameters, `_run_limited` and `_run_and_check`.

Pluggy wrappers would not work: around an async hook they wrap the creation of the coroutine and see
none of its errors.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import structlog

from solward.plugins.hooks import PluginCrash, deliberate_error
from solward.plugins.loaded import LoadedSkill
from solward.telemetry import metrics, tracing
from solward.telemetry.scrub import concealed
from solward.types.errors import SkillError, SkillTimeout, SolwardError

if TYPE_CHECKING:
    from solward.context import SkillContext

# Seconds that a cancelled skill gets to clean up before it is abandoned.
GRACE_S = 2.0
EVENT = "skill:executed"
# Error code -> metric label. A skill's own codes are free text and count as `refused`.
_OUTCOMES = {
    None: "ok",
    "cancelled": "cancelled",
    "internal_error": "crashed",
    "bad_outcome": "crashed",
    "timeout": "timeout",
    "TransactionFailed": "failed",
    "GuardrailBlocked": "blocked",
}

_log = structlog.get_logger(__name__)
_abandoned: set[asyncio.Future[str]] = set()


Emit = Callable[[str, Mapping[str, Any]], object]


async def run_skill(
    skill: LoadedSkill, params: object, context: SkillContext, *, emit: Emit
) -> str:
    """Run a skill and return its outcome; its context ends with the run.

    Args:
        emit: publishes `skill:executed` for every run, with skill, walletId, agentId, ok, error
            code and durationMs; never parameters or outcome.

    Raises:
        InvalidRequest: if the parameters do not fit its schema.
        SkillTimeout: if it does not finish within its declared time.
        SolwardError: a deliberate error of the skill or the engine, such as `SkillError` or
            `TransactionError`. Any other error is logged and becomes `SkillError` `internal_error`.
    """
    try:
        return await _run_timed(skill, params, context, emit)
    finally:
        try:
            async with asyncio.timeout(GRACE_S):
                await context.aclose()
        except Exception as error:
            # A plugin may have installed its own transport in the client, which may fail.
            name = skill.spec.name
            _log.error("skill_client_not_closed", skill=name, error=type(error).__name__)


async def _run_timed(skill: LoadedSkill, params: object, context: SkillContext, emit: Emit) -> str:
    """Run the skill, then count, time and publish the run, however it ends."""
    started = time.monotonic()
    code: str | None = "cancelled"
    name = skill.spec.name
    try:
        with tracing.span("skill", skill=name):
            outcome = await _run_shielded(skill, params, context)
        code = None
    except SolwardError as error:
        # The plugin chose this code, so it may contain a secret.
        code = concealed(error.code) if isinstance(error, SkillError) else type(error).__name__
        raise
    finally:
        agent = context.agent
        duration_s = time.monotonic() - started
        metrics.SKILLS.labels(name, _OUTCOMES.get(code, "refused")).inc()
        metrics.SKILL.labels(name).observe(duration_s)
        emit(
            EVENT,
            {
                "skill": name,
                "walletId": context.wallet.id,
                "agentId": agent.id if agent is not None else None,
                "ok": code is None,
                "error": code,
                "durationMs": round(duration_s * 1000),
            },
        )
    return outcome


async def _run_shielded(skill: LoadedSkill, params: object, context: SkillContext) -> str:
    """Check the parameters and run the skill; log and hide errors that are not deliberate."""
    name = skill.spec.name
    try:
        return await _run_limited(skill, skill.parameters.validate(params), context)
    except SolwardError:
        raise
    except Exception as error:
        meant = deliberate_error(error)
        if meant is not None:
            raise meant from None
        _log.exception("skill_failed", skill=name, error=type(error).__name__)
    raise SkillError("internal_error", f"Skill {name!r} failed with an internal error")


async def _run_limited(skill: LoadedSkill, params: dict[str, Any], context: SkillContext) -> str:
    """Run the skill and cancel it at its deadline; stop waiting even if it ignores the cancel."""
    spec = skill.spec
    task = asyncio.ensure_future(_run_and_check(skill, params, context))
    try:
        await asyncio.wait({task}, timeout=spec.timeout_s)
    except asyncio.CancelledError:
        context.end()
        await _stop_task(task, spec.name)
        raise
    if not task.done():
        # Ended before the cancellation, because a skill that ignores that must not go on to pay.
        context.end()
        await _stop_task(task, spec.name)
        raise SkillTimeout(spec.name, spec.timeout_s)
    if task.cancelled():
        raise PluginCrash("the skill cancelled itself")
    error = task.exception()
    if error is not None and not isinstance(error, Exception):
        raise PluginCrash(f"{type(error).__name__} from the skill") from error
    return task.result()


async def _run_and_check(skill: LoadedSkill, params: dict[str, Any], context: SkillContext) -> str:
    """Run the skill's own code and check the type of its outcome."""
    try:
        outcome = await skill.execute(params, context)
    finally:
        # In the same step of the event loop, so that no leftover task of the skill can use it.
        context.end()
    if not isinstance(outcome, str):
        name = skill.spec.name
        _log.error("skill_outcome_not_text", skill=name, type=type(outcome).__name__)
        raise SkillError("bad_outcome", f"Skill {name!r} did not return text")
    return outcome


async def _stop_task(task: asyncio.Future[str], name: str) -> None:
    """Cancel a skill and wait `GRACE_S`; abandon and log it if it still runs."""
    task.cancel()
    try:
        await asyncio.wait({task}, timeout=GRACE_S)
    finally:
        if task.done():
            _retrieve_error(task)
        else:
            _log.error("skill_abandoned", skill=name, detail="it ignores its cancellation")
            _abandoned.add(task)
            task.add_done_callback(_abandoned.discard)
            task.add_done_callback(_retrieve_error)


def _retrieve_error(task: asyncio.Future[str]) -> None:
    # Retrieved, so that asyncio does not log it.
    if not task.cancelled():
        task.exception()
