"""`solward schedule ...`: skills that run on a wallet at times, without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

import click

from solward.resources.declare import fields_of
from solward.resources.schedules import ChangedSchedule, NewSchedule
from solward_cli.declared import option_name, request_options, sent
from solward_cli.plugins.skill_run import parameters
from solward_cli.service_call import (
    EXIT_FAILED,
    EXIT_HELD,
    ServiceCall,
    confirmed,
    limit_option,
    service_call,
    waiting,
    wallet_argument,
    yes_option,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Schedule, ScheduleRun

# A run is waited for so long; its skill may take longer.
_LOOKS: Final = 240
_LOOK_S: Final = 0.25


@click.group()
def schedule() -> None:
    """Skills that run on a wallet at times, without a model."""


_schedule_argument = click.argument("schedule")
_NOTHING: Final = dict.fromkeys(each.name for each in fields_of(ChangedSchedule))
# What null takes away, by the name of its option.
_CLEARED: Final = {
    option_name(each)[2:]: each.json for each in fields_of(ChangedSchedule) if each.json != "name"
}


@schedule.command()
@wallet_argument
@request_options(NewSchedule)
@service_call
async def create(call: ServiceCall, wallet: str, **values: Any) -> RenderableType:
    """Run SKILL on WALLET at times, with the rights of your token.

    A name is a wallet's once: given twice, the second command makes nothing.
    """
    found = await call.wallet(wallet)
    values["parameters"] = await _parameters(call, values["skill"], values["parameters"])
    made = await call.client.schedules.create(found.id, **await sent(call, NewSchedule, values))
    return await _render(call, made)


@schedule.command()
@wallet_argument
@_schedule_argument
@request_options(ChangedSchedule)
@click.option(
    "--clear", multiple=True, type=click.Choice(_CLEARED), help="Take a field away; several."
)
@service_call
async def change(
    call: ServiceCall, wallet: str, schedule: str, clear: tuple[str, ...], **values: Any
) -> RenderableType:
    """Change SCHEDULE; a run that goes on keeps what it began with.

    --param and --grant replace all there were.
    """
    from solward.client.arguments import requested

    found = await _find(call, wallet, schedule)
    if values["parameters"]:
        values["parameters"] = await _parameters(call, found.skill, values["parameters"])
    given = requested(ChangedSchedule, **_NOTHING | await sent(call, ChangedSchedule, values))
    fields = given | {_CLEARED[each]: None for each in clear}
    if not fields:
        raise click.UsageError("Give an option for what is to change.")
    changed = await call.client.schedules.change(found.wallet_id, found.id, fields)
    return await _render(call, changed)


async def _parameters(call: ServiceCall, skill: str, texts: tuple[str, ...]) -> dict[str, Any]:
    """The parameters as they were typed, read by the skill's schema."""
    skills = {each.name: each for each in await call.client.skills()}
    schema = skills[skill].parameters if skill in skills else {}
    return parameters(texts, schema.get("properties", {}))


@schedule.command("list")
@wallet_argument
@service_call
async def listing(call: ServiceCall, wallet: str) -> RenderableType:
    """List the schedules of WALLET."""
    from solward_cli.render import moment, short, status, table

    found = await call.client.schedules.list((await call.wallet(wallet)).id)
    rows = [
        (
            short(each.id),
            each.name,
            status(each.status),
            each.skill,
            each.when,
            moment(each.next_run_at),
            str(each.runs),
        )
        for each in found
    ]
    columns = ("ID", "NAME", "STATUS", "SKILL", "WHEN", "NEXT (UTC)", "RUNS")
    return table(columns, rows, "The wallet has no schedules yet.")


@schedule.command()
@wallet_argument
@_schedule_argument
@service_call
async def show(call: ServiceCall, wallet: str, schedule: str) -> RenderableType:
    """Show all of SCHEDULE: its name, its id or the beginning of it."""
    found = await _find(call, wallet, schedule)
    return await _render(call, found)


@schedule.command()
@wallet_argument
@_schedule_argument
@limit_option
@service_call
async def runs(call: ServiceCall, wallet: str, schedule: str, limit: int) -> RenderableType:
    """Show what became of the due times of SCHEDULE, newest first."""
    from solward_cli.render import moment, short, status, table

    found = await _find(call, wallet, schedule)
    rows = [
        (
            moment(each.due_at),
            status(each.status),
            ", ".join(map(short, each.transaction_ids)),
            each.text,
        )
        for each in await call.client.schedules.runs(found.wallet_id, found.id, limit=limit)
    ]
    return table(("DUE (UTC)", "STATUS", "TRANSACTIONS", "TEXT"), rows, "It was not due yet.")


@schedule.command()
@wallet_argument
@_schedule_argument
@service_call
async def pause(call: ServiceCall, wallet: str, schedule: str) -> RenderableType:
    """Run SCHEDULE no more until it is resumed; takes effect at once."""
    return await _changed(call, wallet, schedule, call.client.schedules.pause)


@schedule.command()
@wallet_argument
@_schedule_argument
@service_call
async def resume(call: ServiceCall, wallet: str, schedule: str) -> RenderableType:
    """Run SCHEDULE again from its next due time on; those meanwhile are left out."""
    return await _changed(call, wallet, schedule, call.client.schedules.resume)


@schedule.command()
@wallet_argument
@_schedule_argument
@click.option("--idempotency-key", help="The same key asks for one run, however often it is given.")
@service_call
async def run(
    call: ServiceCall, wallet: str, schedule: str, idempotency_key: str | None
) -> RenderableType:
    """Run SCHEDULE once more, now, beside its due times, and show what became of it.

    It has the rights that every run of it has, and counts like one. Exits with 1 where it was
    refused, failed or was skipped, with 3 where a person is asked.
    """
    from solward_cli.render import fields, moment, short, status

    found = await _find(call, wallet, schedule)
    asked = await call.client.schedules.run(
        found.wallet_id, found.id, idempotency_key=idempotency_key
    )
    with waiting("Running"):
        ended = await _ended(call, asked)
    if ended is None:
        return await _render(call, await call.client.schedules.get(found.wallet_id, found.id))
    call.set_json(ended.raw)
    call.exit_code = {"succeeded": 0, "held": EXIT_HELD}.get(ended.status, EXIT_FAILED)
    return fields(
        {
            "Due": f"{moment(ended.due_at)} UTC",
            "Status": status(ended.status),
            "Transactions": ", ".join(map(short, ended.transaction_ids)) or None,
            "Text": ended.text,
        }
    )


async def _ended(call: ServiceCall, asked: Schedule) -> ScheduleRun | None:
    """The run that was asked for, once it has ended; None where it goes on for long."""
    for _ in range(_LOOKS):
        runs = await call.client.schedules.runs(asked.wallet_id, asked.id, limit=20)
        for each in runs:
            if each.due_at == asked.next_run_at and each.status != "running":
                return each
        await asyncio.sleep(_LOOK_S)
    return None


@schedule.command()
@wallet_argument
@_schedule_argument
@yes_option
@service_call
async def delete(call: ServiceCall, wallet: str, schedule: str, yes: bool) -> RenderableType:
    """Delete SCHEDULE with its runs; its transactions stay."""
    from solward_cli.render import plain

    found = await _find(call, wallet, schedule)
    confirmed(f"Delete the schedule {found.name}?", yes)
    await call.client.schedules.delete(found.wallet_id, found.id)
    return plain(f"{found.name} is deleted.")


async def _changed(
    call: ServiceCall,
    wallet: str,
    name: str,
    change: Callable[[str, str], Awaitable[Schedule]],
) -> RenderableType:
    found = await _find(call, wallet, name)
    return await _render(call, await change(found.wallet_id, found.id))


async def _find(call: ServiceCall, wallet: str, name: str) -> Schedule:
    from solward.client.wallets import find_one

    found = await call.client.schedules.list((await call.wallet(wallet)).id)
    return find_one("schedule", name, found, maker=lambda each: each.made_by)


async def _render(call: ServiceCall, found: Schedule) -> RenderableType:
    """All of it, with the grants that bound it."""
    from solward.support import jsontext
    from solward_cli.render import fields, moment, status

    def utc(at: Any) -> str | None:
        return None if at is None else f"{moment(at)} UTC"

    call.set_json(found.raw)
    limits = await call.client.wallets.limits(found.wallet_id)
    may = [
        grant["sentence"]
        for each in limits.get("grants", ())
        if each["who"] == found.principal
        for grant in each["grants"]
    ]
    return fields(
        {
            "Schedule": found.id,
            "Name": found.name,
            "Status": status(found.status),
            "Why": found.reason,
            "Skill": found.skill,
            "Parameters": jsontext.dumps(dict(found.parameters)),
            "May": "\n".join(may) or None,
            "When": found.when,
            "Next": utc(found.next_run_at),
            "Ends": found.raw["endAt"],
            "Missed": found.missed,
            "Runs": f"{found.runs}" + (f" of {found.max_runs}" if found.max_runs else ""),
            "Failures": f"{found.failures} in a row" if found.failures else None,
            "Made by": found.made_by,
            "Principal": found.principal,
            "Wallet": found.wallet_id,
            "Made": utc(found.created_at),
        }
    )
