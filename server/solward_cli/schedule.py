"""`solward schedule ...`: skills that run on a wallet at set times, without a model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from solward.client.arguments import request_fields
from solward.resources import schedules
from solward.resources.declare import fields_of
from solward.resources.schedules import ChangedSchedule, NewSchedule, Schedule
from solward_cli.declared import asks, call_args, lists, option_name, request_options
from solward_cli.entrypoint import combine_parameters
from solward_cli.named import argument
from solward_cli.render import Output, answer_fields
from solward_cli.service_call import EXIT_FAILED, EXIT_HELD, ServiceCall, service_call, waiting
from solward_cli.skills import parameters

if TYPE_CHECKING:
    from solward.client import Wallet

# `run` waits this long for the result; the skill may take longer.
_LOOKS: Final = 240
_LOOK_S: Final = 0.25
_EXITS: Final = {"succeeded": 0, "held": EXIT_HELD}
_RUN: Final = ("due_at", "status", "transaction_ids", "text")


@click.group()
def schedule() -> None:
    """Run skills on a wallet at set times, without a model."""


_arguments = combine_parameters(argument("wallet"), argument("schedule"))
_NOTHING: Final = dict.fromkeys(each.name for each in fields_of(ChangedSchedule))
# Fields that can be cleared, by the name of their option.
_CLEARED: Final = {
    option_name(each)[2:]: each.json for each in fields_of(ChangedSchedule) if each.json != "name"
}


@schedule.command()
@argument("wallet")
@request_options(NewSchedule)
@service_call
async def create(call: ServiceCall, wallet: Wallet, **values: Any) -> Output:
    """Schedule SKILL on WALLET, with the rights of your credential.

    Names are unique in a wallet: a name that is in use creates nothing.
    """
    values["parameters"] = await _read_params(call, values["skill"], values["parameters"])
    made = await call.ask(schedules.CREATE_SCHEDULE, wallet.id, **call_args(NewSchedule, values))
    return await _render(call, made)


@schedule.command()
@_arguments
@request_options(ChangedSchedule)
@click.option(
    "--clear",
    multiple=True,
    type=click.Choice(_CLEARED),
    help="Clear a field; may be given more than once.",
)
@service_call
async def change(
    call: ServiceCall, wallet: Wallet, schedule: Schedule, clear: tuple[str, ...], **values: Any
) -> Output:
    """Change a schedule; a run in progress is not affected.

    --param and --grant replace all former values.
    """
    if values["parameters"]:
        values["parameters"] = await _read_params(call, schedule.skill, values["parameters"])
    given = request_fields(ChangedSchedule, **_NOTHING | call_args(ChangedSchedule, values))
    fields = given | {_CLEARED[each]: None for each in clear}
    if not fields:
        raise click.UsageError("Give at least one option that changes the schedule.")
    changed = await call.ask(schedules.CHANGE_SCHEDULE, wallet.id, schedule.id, fields=fields)
    return await _render(call, changed)


async def _read_params(call: ServiceCall, skill: str, texts: tuple[str, ...]) -> dict[str, Any]:
    skills = {each.name: each for each in await call.client.skills()}
    schema = skills[skill].parameters if skill in skills else {}
    return parameters(texts, schema.get("properties", {}))


@schedule.command()
@_arguments
@click.option("--idempotency-key", help="Run at most once under this key, even if repeated.")
@service_call
async def run(
    call: ServiceCall, wallet: Wallet, schedule: Schedule, idempotency_key: str | None
) -> Output:
    """Run a schedule once now, in addition to its due times, and show the result.

    The run has the rights of every run of the schedule, and counts like one. Exits with 1 if it was
    refused, failed or was skipped, with 3 if a person is asked.
    """
    asked = await call.client.schedules.run(wallet.id, schedule.id, idempotency_key=idempotency_key)
    with waiting("Running"):
        for _ in range(_LOOKS):
            for each in await call.client.schedules.runs(wallet.id, schedule.id, limit=20):
                if each.due_at == asked.next_run_at and each.status != "running":
                    call.set_json(each.raw)
                    call.exit_code = _EXITS.get(each.status, EXIT_FAILED)
                    return answer_fields(each, *_RUN)
            await asyncio.sleep(_LOOK_S)
    return await _render(call, await call.ask(schedules.GET_SCHEDULE, wallet.id, schedule.id))


async def _render(call: ServiceCall, found: Schedule) -> Output:
    """Render all fields of a schedule, with the grants that bind it."""
    limits = await call.client.wallets.limits(found.wallet_id)
    may = [
        grant["sentence"]
        for each in limits.get("grants", ())
        if each["who"] == found.principal
        for grant in each["grants"]
    ]
    return answer_fields(
        found,
        *("id", "name", "status", "reason", "skill", "parameters"),
        ("May", "\n".join(may) or None),
        *("when", "next_run_at", "start_at", "end_at", "missed", "runs", "max_runs", "failures"),
        *("made_by", "principal", "wallet_id", "created_at"),
    )


lists(
    schedule,
    schedules.LIST_SCHEDULES,
    "List a wallet's schedules.",
    *("id", "name", "status", "skill", "when", "next_run_at", "runs"),
    empty="The wallet has no schedules yet.",
)
lists(
    schedule,
    schedules.LIST_RUNS,
    "List a schedule's runs, newest first.",
    *_RUN,
    empty="The schedule has not run yet.",
)
for _call, _name, _does in (
    (
        schedules.GET_SCHEDULE,
        "show",
        "Show a schedule.",
    ),
    (
        schedules.PAUSE_SCHEDULE,
        "pause",
        "Pause a schedule at once, until it is resumed.",
    ),
    (
        schedules.RESUME_SCHEDULE,
        "resume",
        "Resume a schedule at its next due time; missed runs are skipped.",
    ),
):
    asks(schedule, _call, _does, _render, name=_name)
asks(
    schedule,
    schedules.DELETE_SCHEDULE,
    "Delete a schedule with its runs, but not its transactions.",
    "{schedule.name} is deleted.",
    question="Delete the schedule {schedule.name}?",
)
