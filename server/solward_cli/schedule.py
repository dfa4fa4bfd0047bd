"""`solward schedule ...`: skills that run on a wallet at times, without a model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from solward.client.arguments import requested
from solward.resources.declare import fields_of
from solward.resources.schedules import ChangedSchedule, NewSchedule
from solward_cli.declared import option_name, request_options, sent
from solward_cli.named import schedule_argument, wallet_argument
from solward_cli.options import limit_option, several, yes_option
from solward_cli.plugins.skill_run import parameters
from solward_cli.render import Output, plain, visible
from solward_cli.service_call import (
    EXIT_FAILED,
    EXIT_HELD,
    ServiceCall,
    confirmed,
    service_call,
    waiting,
)
from solward_cli.shown_answers import answer_fields, answer_table

if TYPE_CHECKING:
    from solward.client import Schedule, Wallet

# A run is waited for so long; its skill may take longer.
_LOOKS: Final = 240
_LOOK_S: Final = 0.25
_EXITS: Final = {"succeeded": 0, "held": EXIT_HELD}


@click.group()
def schedule() -> None:
    """Skills that run on a wallet at times, without a model."""


_arguments = several(wallet_argument, schedule_argument)
_NOTHING: Final = dict.fromkeys(each.name for each in fields_of(ChangedSchedule))
# What null takes away, by the name of its option.
_CLEARED: Final = {
    option_name(each)[2:]: each.json for each in fields_of(ChangedSchedule) if each.json != "name"
}


@schedule.command()
@wallet_argument
@request_options(NewSchedule)
@service_call
async def create(call: ServiceCall, wallet: Wallet, **values: Any) -> Output:
    """Run SKILL on WALLET at times, with the rights of your token.

    A name is a wallet's once: given twice, the second command makes nothing.
    """
    values["parameters"] = await _parameters(call, values["skill"], values["parameters"])
    made = await call.client.schedules.create(wallet.id, **sent(NewSchedule, values))
    return await _render(call, made)


@schedule.command()
@_arguments
@request_options(ChangedSchedule)
@click.option(
    "--clear", multiple=True, type=click.Choice(_CLEARED), help="Take a field away; several."
)
@service_call
async def change(
    call: ServiceCall, wallet: Wallet, schedule: Schedule, clear: tuple[str, ...], **values: Any
) -> Output:
    """Change SCHEDULE; a run that goes on keeps what it began with.

    --param and --grant replace all there were.
    """
    if values["parameters"]:
        values["parameters"] = await _parameters(call, schedule.skill, values["parameters"])
    given = requested(ChangedSchedule, **_NOTHING | sent(ChangedSchedule, values))
    fields = given | {_CLEARED[each]: None for each in clear}
    if not fields:
        raise click.UsageError("Give an option for what is to change.")
    changed = await call.client.schedules.change(wallet.id, schedule.id, fields)
    return await _render(call, changed)


async def _parameters(call: ServiceCall, skill: str, texts: tuple[str, ...]) -> dict[str, Any]:
    """The parameters as they were typed, read by the skill's schema."""
    skills = {each.name: each for each in await call.client.skills()}
    schema = skills[skill].parameters if skill in skills else {}
    return parameters(texts, schema.get("properties", {}))


@schedule.command("list")
@wallet_argument
@service_call
async def listing(call: ServiceCall, wallet: Wallet) -> Output:
    """List the schedules of WALLET."""
    return answer_table(
        await call.client.schedules.list(wallet.id),
        *("id", "name", "status", "skill", "when", "next_run_at", "runs"),
        empty="The wallet has no schedules yet.",
    )


@schedule.command()
@_arguments
@service_call
async def show(call: ServiceCall, wallet: Wallet, schedule: Schedule) -> Output:
    """Show all of SCHEDULE: its name, its id or the beginning of it."""
    return await _render(call, schedule)


@schedule.command()
@_arguments
@limit_option
@service_call
async def runs(call: ServiceCall, wallet: Wallet, schedule: Schedule, limit: int) -> Output:
    """Show what became of the due times of SCHEDULE, newest first."""
    return answer_table(
        await call.client.schedules.runs(wallet.id, schedule.id, limit=limit),
        *("due_at", "status", "transaction_ids", "text"),
        empty="It was not due yet.",
    )


@schedule.command()
@_arguments
@service_call
async def pause(call: ServiceCall, wallet: Wallet, schedule: Schedule) -> Output:
    """Run SCHEDULE no more until it is resumed; takes effect at once."""
    return await _render(call, await call.client.schedules.pause(wallet.id, schedule.id))


@schedule.command()
@_arguments
@service_call
async def resume(call: ServiceCall, wallet: Wallet, schedule: Schedule) -> Output:
    """Run SCHEDULE again from its next due time on; those meanwhile are left out."""
    return await _render(call, await call.client.schedules.resume(wallet.id, schedule.id))


@schedule.command()
@_arguments
@click.option("--idempotency-key", help="The same key asks for one run, however often it is given.")
@service_call
async def run(
    call: ServiceCall, wallet: Wallet, schedule: Schedule, idempotency_key: str | None
) -> Output:
    """Run SCHEDULE once more, now, beside its due times, and show what became of it.

    It has the rights that every run of it has, and counts like one. Exits with 1 where it was
    refused, failed or was skipped, with 3 where a person is asked.
    """
    schedules = call.client.schedules
    asked = await schedules.run(wallet.id, schedule.id, idempotency_key=idempotency_key)
    with waiting("Running"):
        for _ in range(_LOOKS):
            for each in await schedules.runs(wallet.id, schedule.id, limit=20):
                if each.due_at == asked.next_run_at and each.status != "running":
                    call.set_json(each.raw)
                    call.exit_code = _EXITS.get(each.status, EXIT_FAILED)
                    return answer_fields(each, "due_at", "status", "transaction_ids", "text")
            await asyncio.sleep(_LOOK_S)
    return await _render(call, await schedules.get(wallet.id, schedule.id))


@schedule.command()
@_arguments
@yes_option
@service_call
async def delete(call: ServiceCall, wallet: Wallet, schedule: Schedule, yes: bool) -> Output:
    """Delete SCHEDULE with its runs; its transactions stay."""
    confirmed(f"Delete the schedule {visible(schedule.name)}?", yes)
    await call.client.schedules.delete(wallet.id, schedule.id)
    return plain(f"{schedule.name} is deleted.")


async def _render(call: ServiceCall, found: Schedule) -> Output:
    """All of it, with the grants that bound it."""
    call.set_json(found.raw)
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
