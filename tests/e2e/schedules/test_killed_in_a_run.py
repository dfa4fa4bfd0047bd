"""Killed at any point of a schedule's run, the service goes on, and each due time paid once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.e2e.agents.paying_agents import RELEASED
from tests.e2e.agents.supervised import Supervised
from tests.promises import promise
from tests.support.clock import wait_until
from tests.support.plugins import Shelf
from tests.support.processes import funded_wallet, sol_of
from tests.support.repository import ROOT

from solward.schedules.runs import SchedulePhase
from solward.vault.money.steps import PAID_STEPS, Step

pytestmark = [
    promise("payroll-killed-run-pays-once"),
    pytest.mark.more,
    pytest.mark.sqlite("one process dies; test_shared_schedules.py has several"),
]

POINTS: tuple[StrEnum, ...] = (
    SchedulePhase.ENTERED,
    *PAID_STEPS,
    SchedulePhase.RAN,
    SchedulePhase.LEFT,
)
# What is found on the ledger together is settled together, and passes these as one.
SHARED = (Step.LANDED, Step.SETTLED)
AMOUNT = Decimal("0.001")
# Nothing is signed before this step is passed; what was not is given back.
SIGNED = PAID_STEPS[PAID_STEPS.index(Step.SIGNED) + 1 :]


def death_at(point: StrEnum, number: int) -> tuple[StrEnum, int]:
    """Three runs go on together: by number the first, the last or the one between dies there."""
    return point, 1 if point in SHARED else (1, 3, 2)[number % 3]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Supervised]:
    """Not yet alive; gone when the test ends."""
    made = Supervised(tmp_path / "home")
    yield made
    if made.process is not None:
        made.stop()


def due_soon(
    service: Supervised, wallet: str, skill: str, named: dict[str, Any], death: tuple[StrEnum, int]
) -> list[str]:
    """Schedules that are due once, all in a moment, and the death that is ordered before they are.

    A schedule whose `startAt` has passed is due a month later, and a death that is ordered after
    its run never comes: on a machine that stands still meanwhile they are made again, for later.
    """
    delay = timedelta(seconds=1)
    while True:
        due = datetime.now(UTC) + delay
        made = []
        with service.client() as client:
            for name, parameters in named.items():
                body = {
                    "name": name,
                    "skill": skill,
                    "parameters": parameters,
                    "every": "30d",
                    "startAt": due.isoformat(),
                    "maxRuns": 1,
                    "missed": "once",
                }
                answer = client.post(f"/wallets/{wallet}/schedules", json=body)
                assert answer.status_code == 200, answer.text
                made.append(str(answer.json()["id"]))
            if datetime.now(UTC) < due - timedelta(seconds=0.3):
                service.order_death(*death)
                return made
            for each in made:
                assert client.delete(f"/wallets/{wallet}/schedules/{each}").status_code == 200
        delay *= 2


def payee(client: httpx.Client, name: str) -> tuple[str, str]:
    """A new wallet's id and address."""
    made = client.post("/wallets", json={"name": name}).json()
    return made["walletId"], made["address"]


def run_of(client: httpx.Client, wallet: str, schedule: str) -> dict[str, Any]:
    """The one run of a schedule, once it has ended."""

    def ended() -> Any:
        found = client.get(f"/wallets/{wallet}/schedules/{schedule}/runs").json()["runs"]
        return found if found and found[0]["status"] != "running" else None

    (run,) = wait_until(ended, "the end of the run")
    return dict(run)


def live_and_die(service: Supervised, deaths: list[tuple[StrEnum, int]]) -> None:
    service.live()
    with service.client() as client:
        wallet = funded_wallet(client, "till", 2)
    for number, (point, nth) in enumerate(deaths):
        with service.client() as client:
            payees = [payee(client, f"{point}-{number}-{each}") for each in range(3)]
        transfers = {
            f"{point}-{number}-{each}": {"to": to, "amount": float(AMOUNT)}
            for each, (_, to) in enumerate(payees)
        }
        made = due_soon(service, wallet, "transfer", transfers, (point, nth))
        service.wait_for_death()
        service.live()
        with service.client() as client:
            released = 0
            for schedule, (paid_to, _) in zip(made, payees, strict=True):
                run = run_of(client, wallet, schedule)
                (record,) = run["transactionIds"]
                paid = {each["id"]: each for each in _records(client, wallet)}[record]
                if run["status"] == "succeeded":
                    assert (paid["status"], sol_of(client, paid_to)) == ("confirmed", AMOUNT)
                else:
                    # It died between the reservation and the signature: given back, and told.
                    released += 1
                    assert (run["status"], RELEASED in run["text"]) == ("refused", True), run
                    assert (paid["status"], sol_of(client, paid_to)) == ("failed", 0)
            # The one whose turn it was had been signed, so it was paid; others were on their way.
            assert released < len(made) or point not in SIGNED
    service.end()


def _records(client: httpx.Client, wallet: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(
        f"/wallets/{wallet}/transactions", params={"limit": 500}
    ).json()["transactions"]
    return found


@promise("killed-run-pays-once")
@pytest.mark.timeout(300)
def test_schedules_killed_at_every_point_of_a_run_pay_each_due_time_once(
    service: Supervised,
) -> None:
    live_and_die(service, [death_at(point, at) for at, point in enumerate(POINTS)])


def ask(service: Supervised, wallet: str, schedule: str) -> bool:
    """Ask for a run under the schedule's own key; whether an answer came."""
    try:
        with service.client() as client:
            answer = client.post(
                f"/wallets/{wallet}/schedules/{schedule}/run",
                headers={"Idempotency-Key": f"now {schedule}"},
            )
    except httpx.TransportError:
        return False
    assert answer.status_code == 200, answer.text
    return True


@pytest.mark.long
@promise("answered-run-pays-once")
@pytest.mark.timeout(300)
def test_runs_that_were_asked_for_killed_at_every_point_pay_once(service: Supervised) -> None:
    service.live()
    with service.client() as client:
        wallet = funded_wallet(client, "till", 2)
    for at, point in enumerate(POINTS):
        made, payees = [], []
        with service.client() as client:
            for number in range(3):
                name = f"{point}-{number}"
                payees.append(payee(client, name))
                body = {
                    "name": name,
                    "skill": "transfer",
                    "parameters": {"to": payees[-1][1], "amount": float(AMOUNT)},
                    "every": "30d",
                    "maxRuns": 1,
                    "missed": "once",
                }
                answer = client.post(f"/wallets/{wallet}/schedules", json=body)
                assert answer.status_code == 200, answer.text
                made.append(str(answer.json()["id"]))
        service.order_death(*death_at(point, at))
        for schedule in made:
            ask(service, wallet, schedule)
        service.wait_for_death()
        service.live()
        # Who got no answer asks again, and so does who got one.
        assert all(ask(service, wallet, schedule) for schedule in made)
        with service.client() as client:
            for schedule, (paid_to, _) in zip(made, payees, strict=True):
                run = run_of(client, wallet, schedule)
                is_paid = run["status"] == "succeeded"
                assert is_paid or RELEASED in run["text"], run
                assert sol_of(client, paid_to) == (AMOUNT if is_paid else 0), (point, run)
    service.end()


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("point", POINTS)
def test_nine_deaths_at_one_point(service: Supervised, point: StrEnum) -> None:
    live_and_die(service, [death_at(point, at) for at in range(9)])


@pytest.mark.long
@promise("killed-payroll-pays-all")
@pytest.mark.timeout(300)
def test_a_payroll_killed_at_each_step_of_its_payments_pays_everybody_once(tmp_path: Path) -> None:
    """The example of examples/payroll, in a plugin host as any third party's."""
    shelf = Shelf(tmp_path / "shelf")
    shutil.copytree(ROOT / "examples" / "payroll" / "payroll", shelf.path / "payroll")
    shelf.metadata("solward-example-payroll", "[solward.skills]\npayroll = payroll.payroll")
    paths = [str(shelf.path), *map(os.path.abspath, os.environ.get("PYTHONPATH", "").split(":"))]
    service = Supervised(tmp_path / "home", PYTHONPATH=":".join(paths))
    try:
        service.live()
        with service.client() as client:
            wallet = funded_wallet(client, "till", 2)
        for at, step in enumerate(PAID_STEPS):
            with service.client() as client:
                payees = [payee(client, f"{step}-{each}") for each in range(3)]
            people = [{"name": own, "to": to, "amount": float(AMOUNT)} for own, to in payees]
            terms = {step: {"people": people}}
            (schedule,) = due_soon(service, wallet, "payroll", terms, death_at(step, at))
            service.wait_for_death()
            service.live()
            with service.client() as client:
                run = run_of(client, wallet, schedule)
                names = ", ".join(own for own, _ in payees)
                text = f"Paid {3 * AMOUNT} SOL to 3 people: {names}."
                assert (run["status"], run["text"]) == ("succeeded", text), run
                assert [sol_of(client, own) for own, _ in payees] == [AMOUNT] * 3, step
        service.end()
    finally:
        if service.process is not None:
            service.stop()
