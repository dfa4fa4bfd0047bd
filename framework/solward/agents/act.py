"""The act phase: runs the chosen skill, once, on the agent's wallet."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from solward.agents.agent import Agent
from solward.agents.think import storable
from solward.context import AgentView
from solward.runner import RunSkill
from solward.support import jsontext
from solward.support.tasks import run_to_end
from solward.telemetry.scrub import concealed, scrub_text
from solward.types.errors import SolwardError
from solward.types.provider import ToolCall
from solward.types.record import Hold, TransactionRecord, TransactionStatus
from solward.vault.money.outcomes import refusal
from solward.vault.money.request import Actor, AgentRun

NO_ACTION = "No action was taken."
RESUMED_REASONING = (
    "The cycle was interrupted after its action, so the model was not asked for a new decision."
)

_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class ActionResult:
    """A cycle's action and its outcome.

    Attributes:
        action: `skill({"its": "parameters"})`, None if no skill was chosen.
        outcome: the skill's text, or the reason why it did not run or failed.
        cancelled: the agent was stopped during the action, which still ran to its end.
    """

    action: str | None
    outcome: str
    cancelled: bool = False


def actor_of(agent: Agent, cycle: int, skill: str) -> Actor:
    """Return the actor of an agent's call. Its action key allows one call of a skill per cycle."""
    scope = f"agent:{agent.id}"
    return Actor(
        principal=scope,
        agent_id=agent.id,
        limits=((scope, agent.guardrails),),
        action_key=f"{agent.id}:{cycle}:{skill}",
        trace=f"{scope}:{cycle}",
        run=AgentRun(agent.id, cycle, agent.fence),
    )


async def act(
    agent: Agent, cycle: int, call: ToolCall | None, *, run_skill: RunSkill, spends: bool
) -> ActionResult:
    """Run the chosen skill; if it is refused or fails, return the reason as the outcome.

    A skill that may spend is never interrupted: if `act` is cancelled, the skill is finished first,
    so that its payment is recorded.
    """
    if call is None:
        return ActionResult(None, NO_ACTION)
    action = storable(f"{call.name}(…)")
    try:
        params = exact(_parse_arguments(call.arguments))
        text = jsontext.dumps(params)
    except (jsontext.DuplicateKey, jsontext.UnfitValue) as error:
        return ActionResult(action, storable(f"Not executed: the arguments are not valid: {error}"))
    except (ValueError, TypeError, RecursionError):
        return ActionResult(action, "Not executed: the arguments are not valid JSON")
    action = storable(f"{call.name}({text})")
    if not isinstance(params, dict):
        return ActionResult(action, "Not executed: the arguments must be a JSON object")
    work = run_skill(
        call.name,
        params,
        agent.wallet_id,
        actor_of(agent, cycle, call.name),
        AgentView(agent.id, agent.name),
    )
    if not spends:
        return ActionResult(action, storable(await _outcome_text(work)))
    outcome, cancelled = await run_to_end(_outcome_text(work))
    return ActionResult(action, storable(outcome), cancelled)


def resumed_action(skill: str, record: TransactionRecord | Hold) -> ActionResult:
    """Return the action of an interrupted cycle from the action's stored record."""
    action = storable(f"{skill}({jsontext.dumps(dict(record.details))})")
    if isinstance(record, Hold):
        return ActionResult(action, storable(record.message()))
    if record.status in (TransactionStatus.BLOCKED, TransactionStatus.FAILED):
        return ActionResult(action, storable(str(refusal(record))))
    state = record.status.value
    return ActionResult(action, f"The transaction is {state}: {record.signature or record.id}")


def exact(value: Any, depth: int = 0) -> Any:
    """Return JSON-like data with each float converted to the Decimal with the same digits.

    Raises:
        ValueError: too deep nesting, a number that is not finite, or text that is not UTF-8.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError("not a finite number")
    if isinstance(value, str):
        value.encode()
    if isinstance(value, Mapping):
        return {str(key): exact(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item, depth + 1) for item in value]
    return value


def _parse_arguments(arguments: Any) -> Any:
    """Return the arguments as an object; some vendors send JSON text, or nothing if empty."""
    if arguments is None or arguments == "":
        return {}
    return jsontext.read(arguments, has_nul=True) if isinstance(arguments, str) else arguments


async def _outcome_text(work: Awaitable[str]) -> str:
    # A third-party skill's text may have secrets of the process, which no model may read.
    try:
        return concealed(await work)
    except SolwardError as error:
        return scrub_text(str(error))
