"""Schedules: skills that run on a wallet at set times, and their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar, Final

from solward.resources.declare import Answer, Call, Raw, Request, declared, resource, whole_metadata
from solward.resources.fields import (
    Choice,
    Flag,
    GrantList,
    Id,
    Line,
    Moment,
    Parameters,
    Past,
    RawText,
    Shape,
    Text,
    Time,
    Whole,
)
from solward.resources.schema import array
from solward.resources.shared import Deleted, Example

RUNS_KEPT: Final = 200
"""The number of latest runs that are kept for a schedule."""


class ScheduleStatus(StrEnum):
    """The state of a schedule."""

    ACTIVE = "active"
    """It runs at its due times."""
    PAUSED = "paused"
    """It does not run until it is resumed; `reason` says why."""
    ENDED = "ended"
    """It has no due time left."""


class Missed(StrEnum):
    """The treatment of due times at which the service could not run the schedule."""

    SKIP = "skip"
    """Missed due times are skipped, as cron does."""
    ONCE = "once"
    """The latest missed due time is run as soon as possible."""


class RunStatus(StrEnum):
    """The result of a schedule's run at a due time."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    """The skill answered."""
    HELD = "held"
    """A transaction waits for a person."""
    REFUSED = "refused"
    """The skill, a guardrail or the ledger refused."""
    FAILED = "failed"
    """The skill broke, took too long, or was interrupted."""
    SKIPPED = "skipped"
    """Nothing was run."""


_NO_SKILL = "skill is required: the name of a skill, as GET /skills lists them"
_SWAP = {"inputToken": "SOL", "outputToken": "USDC", "amount": 0.1}

_NAME = Line(
    "Name, unique per wallet, so that a repeated request creates no second schedule.",
    most=100,
    missing="name is required",
    example="weekly-savings",
)
EVERY = RawText(
    'Interval between due times, "1m" to "30d"; give either this or `cron`.',
    most=10,
    wrong='every must be "1m" to "30d", such as "15m", "1h" or "7d"',
)
_MISSED = Choice(
    "What to do about missed due times: skip them, or run once.",
    options=tuple(map(str, Missed)),
    wrong='missed must be "skip" or "once"',
)
_GRANTS = GrantList("Grants of the schedule; only an admin may set them.", cli="--grant")


@resource
class ChangedSchedule(Request):
    """A change of a schedule: an absent field keeps its value, and null removes it."""

    name: str | None = declared(_NAME, default=None)
    parameters: Mapping[str, Any] | None = declared(
        Parameters(
            "The skill's parameters; at most 16,384 characters as JSON.",
            cli="--param",
            example=_SWAP,
        ),
        default=None,
    )
    every: str | None = declared(EVERY, default=None)
    cron: str | None = declared(
        RawText(
            "Five fields: minute, hour, day of month, month, day of week, such as `0 9 1 * *`.",
            example="0 9 * * 1",
        ),
        default=None,
    )
    time_zone: str | None = declared(
        RawText("IANA time zone of `cron`; default UTC.", most=100, example="Europe/Berlin"),
        default=None,
    )
    start_at: str | None = declared(
        Moment("Earliest due time; `every` counts from here. ISO 8601 with a zone.", most=50),
        default=None,
    )
    end_at: str | None = declared(
        Moment("Latest due time. ISO 8601 with a zone.", most=50), default=None
    )
    max_runs: int | None = declared(
        Whole("Number of runs after which the schedule ends.", least=1, most=1_000_000),
        default=None,
    )
    missed: str | None = declared(_MISSED, default=None)
    grants: Sequence[Any] | None = declared(
        replace(_GRANTS, left_out={"dashboard": "the policy page changes grants"}), default=None
    )


@resource
class NewSchedule(ChangedSchedule):
    """A request to create a schedule."""

    name: str = declared(_NAME)
    skill: str = declared(
        Text(
            "Name of a skill that `GET /skills` lists.",
            most=100,
            missing=_NO_SKILL,
            wrong=_NO_SKILL,
            example="swap",
        )
    )
    missed: str = declared(_MISSED, default=Missed.SKIP.value)
    grants: Sequence[Any] | None = declared(_GRANTS, default=None)


def _timing_text(raw: Raw) -> str:
    return f"every {raw['every']}" if "every" in raw else f"{raw['cron']} {raw['timeZone']}"


@resource
class Schedule(Answer):
    """A schedule.

    Attributes:
        when: `every 1h`, or `0 9 1 * * Europe/Berlin`.
    """

    component: ClassVar = "Schedule"

    id: str = declared(Id("The schedule.", example=Example.SCHEDULE))
    name: str = declared(Text("The schedule's name.", example="weekly-savings"))
    wallet_id: str = declared(Id("The wallet that the skill runs on.", example=Example.WALLET))
    skill: str = declared(Text("The skill that runs.", example="swap"))
    parameters: Mapping[str, Any] = declared(Parameters("The skill's parameters.", example=_SWAP))
    when: str = field(metadata=whole_metadata(_timing_text))
    start_at: datetime | None = declared(Time("Earliest due time.", example=None))
    end_at: datetime | None = declared(Time("Latest due time.", example=None))
    missed: str = declared(replace(_MISSED, example="skip"))
    max_runs: int | None = declared(
        Whole(
            "Number of runs after which the schedule ends.", least=1, most=1_000_000, example=None
        )
    )
    status: str = declared(
        Choice(
            "The schedule's status; see docs/how-to/schedules.md.",
            options=tuple(map(str, ScheduleStatus)),
            example="active",
        )
    )
    reason: str | None = declared(Text("Why the schedule is paused or ended.", example=None))
    principal: str = declared(
        Text("The name in grants: `schedule:<id>`.", example=f"schedule:{Example.SCHEDULE}")
    )
    made_by: str = declared(
        Text("The principal whose rights the schedule has: `admin` or `key:<id>`.", example="admin")
    )
    created_at: datetime = declared(Time("Time of creation.", example="2026-11-21T09:00:00.000Z"))
    next_run_at: datetime | None = declared(
        Time("The next due time.", example="2026-11-23T08:00:00.000Z")
    )
    is_running: bool = declared(Flag("Whether a run is active, or was interrupted.", example=False))
    runs: int = declared(Whole("Number of runs begun.", example=0))
    failures: int = declared(Whole("Consecutive runs refused or failed.", example=0))
    every: str | None = declared(
        Text("Interval between due times; absent with `cron`."), default=None
    )
    cron: str | None = declared(
        Text("The cron expression; absent with `every`.", example="0 9 * * 1"), default=None
    )
    time_zone: str | None = declared(Text("Zone of `cron`.", example="Europe/Berlin"), default=None)


@resource
class ScheduleRun(Answer):
    """A schedule's run at a due time."""

    component: ClassVar = "ScheduleRun"

    due_at: datetime = declared(Time("The due time.", example="2026-11-23T08:00:00.000Z"))
    status: str = declared(
        Choice(
            "The run's status; see docs/how-to/schedules.md.",
            options=tuple(map(str, RunStatus)),
            example="succeeded",
        )
    )
    text: str = declared(
        Text("The skill's answer, or why it has none.", example="Swapped 0.1 SOL for 14.2 USDC.")
    )
    started_at: datetime | None = declared(
        Time("When the run started; null if it did not.", example="2026-11-23T08:00:00.021Z")
    )
    ended_at: datetime | None = declared(
        Time("When the run ended; null until it ends.", example="2026-11-23T08:00:01.480Z")
    )
    transaction_ids: tuple[str, ...] = declared(
        Shape(
            "The records of the run's transactions, oldest first.",
            form=array(Id("A record.")),
            example=["8c3b1a52-0d0f-4c5e-8a39-2f4e9d1c7a10"],
        )
    )


@resource
class ListedRuns(Request):
    """A request for a page of a schedule's runs."""

    limit: int = declared(Whole("Maximum number of entries.", least=1, most=RUNS_KEPT), default=50)
    before: str | None = declared(
        Past("Only runs due before this `dueAt`.", wrong="before must be the dueAt of a run"),
        default=None,
    )


_ALL = "/wallets/{wallet_id}/schedules"
_ONE = f"{_ALL}/{{schedule_id}}"


def _action_call(act: str, does: str, **more: Any) -> Call[Schedule]:
    return Call(f"{act}Schedule", f"POST {_ONE}/{act}", does, Schedule, **more)


CREATE_SCHEDULE = Call(
    "createSchedule",
    f"POST {_ALL}",
    "Create a schedule, whose name is unique for its wallet.",
    Schedule,
    body=NewSchedule,
    about="A schedule has its maker's rights. A key's schedule has the limits and grants of the"
    " key, and ends with the key. Unknown fields are refused.",
)
LIST_SCHEDULES = Call(
    "listSchedules",
    f"GET {_ALL}",
    "List a wallet's schedules, oldest first.",
    Schedule,
    listed="schedules",
)
GET_SCHEDULE = Call("getSchedule", f"GET {_ONE}", "Get a schedule.", Schedule)
CHANGE_SCHEDULE = Call(
    "changeSchedule",
    f"PATCH {_ONE}",
    "Change a schedule; a field that is null is cleared.",
    Schedule,
    body=ChangedSchedule,
    takes_json=True,
    about="A run in progress is not affected.",
)
DELETE_SCHEDULE = Call(
    "deleteSchedule",
    f"DELETE {_ONE}",
    "Delete a schedule with its runs, but not its transactions.",
    Deleted,
)
PAUSE_SCHEDULE = _action_call(
    "pause", "Pause a schedule at once, until it is resumed.", name="pause"
)
RESUME_SCHEDULE = _action_call("resume", "Resume a schedule from its next due time.", name="resume")
RUN_SCHEDULE = _action_call(
    "run",
    "Run a schedule once, now.",
    name="run",
    takes_key=True,
    about="The present time becomes one more due time: the run has the same rights and counts"
    " like any other run. `nextRunAt` in the answer is the run's `dueAt`.",
)
LIST_RUNS = Call(
    "listScheduleRuns",
    f"GET {_ONE}/runs",
    "List a schedule's runs, newest first.",
    ScheduleRun,
    query=ListedRuns,
    name="runs",
    listed="runs",
    about=f"The latest {RUNS_KEPT} runs are kept.",
)
