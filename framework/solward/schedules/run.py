"""What one run of a schedule is: who asks, the skill, and what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Protocol

import structlog

from solward.operations.approvals import BoundKeys
from solward.plugins import Registry
from solward.plugins.loaded import LoadedSkill
from solward.schedules.schedule import RunStatus, Schedule
from solward.schedules.store import action_prefix
from solward.support.clock import iso
from solward.telemetry.scrub import concealed, scrub_text
from solward.types.errors import (
    Held,
    KeyRevoked,
    SkillError,
    SkillTimeout,
    SolwardError,
    StoreError,
    TakenOver,
)
from solward.types.skill import Effects
from solward.vault.guardrails import ScopeLimits
from solward.vault.money.request import Actor, ScheduleRun

MAX_TEXT: Final = 4_000
KEY_ENDED: Final = "The API key's secret that made it has ended"
_BROKEN: Final = frozenset({"internal_error", "bad_outcome"})

_log = structlog.get_logger(__name__)


class SchedulePhase(StrEnum):
    """The points of a run at which tests stop or kill the process."""

    ENTERED = "due_time_taken"
    """The due time is taken, durably."""
    RAN = "skill_ended"
    """The skill ended; its transactions are durable, how it went is not stored."""
    LEFT = "run_stored"
    """How it went and the next due time are durable."""


ScheduleHook = Callable[[str, SchedulePhase], None]


def no_hook(schedule_id: str, phase: SchedulePhase) -> None:
    """Do nothing at a phase."""


class RunSkill(Protocol):
    """Runs a skill on a wallet: `Solward.run_skill`."""

    def __call__(self, name: str, params: Any, wallet_id: str, actor: Actor) -> Awaitable[str]:
        """The skill's text outcome; raises the skill's or the engine's error."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went.

    Attributes:
        pauses: why the schedule is to be paused at once.
    """

    status: RunStatus
    text: str
    pauses: str | None = None


async def actor_of(schedule: Schedule, keys: BoundKeys | None) -> Actor:
    """Who asks for what a schedule does: its maker's key, or the schedule itself.

    Raises:
        KeyRevoked: the secret that it was made with has ended.
    """
    if schedule.key_id is None:
        who = schedule.principal
        return Actor(who, limits=((who, ScopeLimits()),))
    if keys is None:
        raise KeyRevoked
    actor = await keys.bound(schedule.key_id, schedule.key_hash or "")
    return replace(actor, via=(schedule.principal,))


async def run_once(
    schedule: Schedule,
    due_ms: int,
    *,
    registry: Registry,
    keys: BoundKeys | None,
    run_skill: RunSkill,
) -> Outcome:
    """Run a schedule's skill for a due time; every refusal is an outcome.

    Its money calls are named by schedule, due time, skill and ordinal, so that running it again
    pays none of them again.

    Raises:
        TakenOver: another run has the fencing token.
        StoreError: the database refused; the due time is to be run again.
    """
    try:
        actor = await actor_of(schedule, keys)
        skill = registry.skills.get(schedule.skill)
        _check_skill(schedule, skill)
        # One that was interrupted was counted, and may have paid.
        is_first = schedule.running_due_ms is None
        if is_first and schedule.key_id is not None and keys is not None and spends(skill):
            exceeded = await keys.count_request(schedule.key_id)
            if exceeded is not None:
                return Outcome(RunStatus.SKIPPED, exceeded)
        actor = replace(
            actor,
            action_key=action_prefix(schedule.id, due_ms) + schedule.skill,
            schedule=ScheduleRun(schedule.id, schedule.fence),
            trace=f"{schedule.principal}:{iso(due_ms)}",
        )
        answer = await run_skill(schedule.skill, dict(schedule.params), schedule.wallet_id, actor)
    except (TakenOver, StoreError):
        raise
    except Held as held:
        return Outcome(RunStatus.HELD, storable(held.hold.message()))
    except KeyRevoked:
        return Outcome(RunStatus.REFUSED, f"{KEY_ENDED}; nothing was sent", KEY_ENDED)
    except SkillTimeout as error:
        return Outcome(RunStatus.FAILED, storable(str(error)))
    except SkillError as error:
        status = RunStatus.FAILED if error.code in _BROKEN else RunStatus.REFUSED
        return Outcome(status, storable(scrub_text(str(error))))
    except SolwardError as error:
        return Outcome(RunStatus.REFUSED, storable(scrub_text(str(error))))
    except Exception:
        _log.exception("schedule_failed", schedule_id=schedule.id)
        return Outcome(RunStatus.FAILED, "The run failed with an internal error")
    return Outcome(RunStatus.SUCCEEDED, storable(concealed(answer)))


def spends(skill: LoadedSkill | None) -> bool:
    """Whether a skill may spend; one that is not loaded may."""
    return skill is None or skill.spec.effects is Effects.SPEND


def _check_skill(schedule: Schedule, skill: LoadedSkill | None) -> None:
    if skill is None:
        raise SkillError("not_loaded", f"The skill {schedule.skill!r} is not loaded")
    if skill.distribution != schedule.distribution:
        raise SkillError(
            "other_distribution",
            f"The skill {schedule.skill!r} is {skill.distribution}'s now and was"
            f" {schedule.distribution}'s when the schedule was made; resume it to run that one",
        )


def storable(text: str) -> str:
    """`text` cut to `MAX_TEXT` characters, without characters that a database refuses."""
    cut = text[:MAX_TEXT].replace("\x00", "")
    return cut.encode("utf-8", "replace").decode("utf-8")
