"""One cycle of an agent: observe, think, act, remember, with injected dependencies.

Both the embedded runner and the queue's workers run `run_cycle`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import structlog
from structlog.contextvars import bound_contextvars

from solward.agents.act import RESUMED_REASONING, ActionResult, act, resumed_action
from solward.agents.agent import Agent, Decision
from solward.agents.budget import BudgetReservation, ModelBudget
from solward.agents.observe import AgentSnapshot, Permissions, observe
from solward.agents.provider_call import Complete
from solward.agents.remember import CycleResult, EnteredCycle, Journal
from solward.agents.think import NO_REASONING, storable, think
from solward.resources.agents import AgentStatus
from solward.runner import RunSkill, next_due_ms, no_hook
from solward.solana.balances import Balances
from solward.support.clock import now_ms
from solward.support.tasks import run_to_end
from solward.telemetry import metrics, tracing
from solward.types.errors import SolwardError, StoreError, TokenBudgetReached
from solward.types.provider import ToolDefinition, Usage
from solward.vault.custody import Wallet

ERROR_AFTER = 3
BACKOFF_CAP_MS = 300_000
_INTERNAL_ERROR = "The cycle failed with an internal error"

_log = structlog.get_logger(__name__)


class Phase(StrEnum):
    """The points of a cycle at which tests stop, delay or kill the process."""

    ENTERED = "entered"
    """The fence is stored."""
    OBSERVED = "observed"
    """The wallet was read."""
    THOUGHT = "thought"
    """The model answered; no part of the answer is stored."""
    ACTED = "acted"
    """The skill ended: its transaction is stored, but not its outcome."""
    REMEMBERED = "remembered"
    """The decision, the memory entry and the next cycle are stored."""


PhaseHook = Callable[[str, Phase], None]


@dataclass(frozen=True, slots=True)
class CycleParts:
    """The dependencies of a cycle.

    Attributes:
        wallet: wallet id -> its name and address.
        balances: wallet id and `AgentSnapshot.mark` -> the wallet's SOL and tokens.
        stored: reads the stored rows of an agent and its wallet.
        tools: the definitions of all skills.
        provider: agent -> its provider's call; raises `ProviderError` if not installed.
        budget: the budgets of the agents' models.
        spends: skill name -> whether the skill may spend; False for an unknown skill.
        network: the network's name, for the system prompt.
        permissions: what an agent's grants allow, for its prompt and its tools.
        hook: called after each phase.
    """

    journal: Journal
    wallet: Callable[[str], Awaitable[Wallet]]
    balances: Callable[[str, Hashable], Awaitable[Balances]]
    stored: Callable[[Agent], Awaitable[AgentSnapshot]]
    permissions: Callable[[Agent], Awaitable[Permissions]]
    tools: Callable[[], tuple[ToolDefinition, ...]]
    provider: Callable[[Agent], Complete]
    budget: ModelBudget
    run_skill: RunSkill
    spends: Callable[[str], bool]
    network: str
    clock: Callable[[], int] = now_ms
    hook: PhaseHook = no_hook


@dataclass(frozen=True, slots=True)
class NextCycle:
    """The next cycle to run, and its due time (milliseconds since the epoch)."""

    cycle: int
    due_ms: int


RunCycle = Callable[[str, int], Awaitable[NextCycle | None]]


@dataclass(slots=True)
class _Progress:
    """The results of a cycle's past phases, to record if a later phase fails."""

    observation: dict[str, Any]
    reasoning: str = NO_REASONING
    usage: Usage | None = None
    reserved: BudgetReservation | None = None
    failure: str | None = None


async def run_cycle(agent_id: str, cycle: int, parts: CycleParts) -> NextCycle | None:
    """Run cycle number `cycle` of an agent, unless this number is stale.

    If the cycle raises an error, the error is recorded as its outcome. If it is cancelled before it
    acts, nothing is recorded and the same number runs again. If it is cancelled while it acts, it
    first finishes and records the action.

    Returns:
        The next cycle; None if the agent must not run, or if another run has a newer fence.

    Raises:
        StoreError: the cycle could not be recorded, and must be run again.
    """
    with (
        bound_contextvars(agent_id=agent_id, cycle=cycle),
        tracing.span("agent.cycle", agent_id=agent_id, cycle=cycle),
    ):
        entered, cancelled = await run_to_end(parts.journal.enter(agent_id, cycle))
        if entered is not None and cancelled:
            await _abandon_cycle(entered.agent, parts)
        if cancelled:
            raise asyncio.CancelledError
        if entered is None:
            metrics.CYCLES.labels("fenced").inc()
            return None
        with metrics.CYCLE.time():
            return await _run_entered(entered, agent_id, cycle, parts)


async def _run_entered(
    entered: EnteredCycle, agent_id: str, cycle: int, parts: CycleParts
) -> NextCycle | None:
    started_ms = parts.clock()
    if entered.agent.next_run_ms is not None:
        metrics.CYCLE_LAG.observe(max(0, started_ms - entered.agent.next_run_ms) / 1000)
    parts.hook(agent_id, Phase.ENTERED)
    progress = _Progress({"cycle": cycle})
    try:
        done = await _decide_and_act(entered, cycle, parts, progress)
    except asyncio.CancelledError:
        await _abandon_cycle(entered.agent, parts)
        raise
    except TokenBudgetReached as error:
        done = ActionResult(None, f"Waiting: {error}")
    except SolwardError as error:
        progress.failure = str(error)
        _log.warning("cycle_failed", agent_id=agent_id, cycle=cycle, error=progress.failure)
        done = ActionResult(None, progress.failure)
    except Exception:
        progress.failure = _INTERNAL_ERROR
        _log.exception("cycle_failed", agent_id=agent_id, cycle=cycle)
        done = ActionResult(None, progress.failure)
    decision = Decision(
        agent_id=agent_id,
        cycle=cycle,
        observations=progress.observation,
        reasoning=progress.reasoning,
        action=done.action,
        outcome=storable(done.outcome),
        created_ms=parts.clock(),
        usage=progress.usage,
    )
    parts.hook(agent_id, Phase.ACTED)
    result = _cycle_result(entered.agent, progress, started_ms, parts.clock())
    leaving = parts.journal.leave(decision, entered.agent.fence, result)
    with tracing.span("agent.remember"):
        continues, cancelled = await run_to_end(leaving)
    parts.hook(agent_id, Phase.REMEMBERED)
    if cancelled or done.cancelled:
        raise asyncio.CancelledError
    return NextCycle(cycle + 1, result.next_run_ms) if continues else None


async def _abandon_cycle(agent: Agent, parts: CycleParts) -> None:
    try:
        await run_to_end(parts.journal.abandon(agent.id, agent.fence))
    except StoreError as error:
        # If this fails, the placement finds the unfinished cycle by itself, only later.
        _log.warning("cycle_not_abandoned", agent_id=agent.id, error=str(error))


async def _decide_and_act(
    entered: EnteredCycle, cycle: int, parts: CycleParts, progress: _Progress
) -> ActionResult:
    agent = entered.agent
    with tracing.span("agent.observe"):
        progress.observation, permissions = await observe(
            agent,
            cycle,
            parts.clock(),
            wallet=parts.wallet,
            balances=parts.balances,
            stored=parts.stored,
        )
    parts.hook(agent.id, Phase.OBSERVED)
    if entered.earlier_action is not None:
        progress.reasoning = RESUMED_REASONING
        return resumed_action(*entered.earlier_action)
    if permissions is None:
        permissions = await parts.permissions(agent)
    with tracing.span("agent.think"):
        thought = await think(
            agent,
            progress.observation,
            entered.memory,
            network=parts.network,
            tools=parts.tools(),
            provider=parts.provider(agent),
            budget=parts.budget,
            permissions=permissions,
        )
    progress.reasoning, progress.usage = thought.reasoning, thought.usage
    progress.reserved = thought.reserved
    if thought.failure is not None:
        raise thought.failure
    parts.hook(agent.id, Phase.THOUGHT)
    spends = thought.call is not None and parts.spends(thought.call.name)
    with tracing.span("agent.act"):
        return await act(agent, cycle, thought.call, run_skill=parts.run_skill, spends=spends)


def _cycle_result(agent: Agent, progress: _Progress, started_ms: int, ended_ms: int) -> CycleResult:
    failure = progress.failure
    failures = 0 if failure is None else agent.failures + 1
    status = AgentStatus.ERROR if failures >= ERROR_AFTER else AgentStatus.RUNNING
    due_ms = started_ms if agent.next_run_ms is None else min(agent.next_run_ms, started_ms)
    pause_ms = backoff_ms(agent.loop_interval_ms, failures)
    next_ms = next_due_ms(due_ms, pause_ms, ended_ms)
    return CycleResult(status.value, failures, failure, next_ms, progress.reserved)


def backoff_ms(interval_ms: int, failures: int) -> int:
    """Return the milliseconds until the next cycle after `failures` consecutive failed cycles.

    They are the interval after the first failure, and double with each further one up to five
    minutes, but are never less than the interval.
    """
    doublings = min(max(failures - 1, 0), 30)
    return max(interval_ms, min(interval_ms << doublings, BACKOFF_CAP_MS))
