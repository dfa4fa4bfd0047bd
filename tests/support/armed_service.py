"""The `solward` command with something wrong inside it: killed at a step, or a check taken out.

    python armed_service.py kill:written_ahead:1 server start --port 3001
    python armed_service.py mutant:split_reservation server start --port 3001

The service itself has no such switch; this script puts it in from outside.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from typing import Any

from solward.record import TransactionRecord
from solward.service import Solward
from solward.vault.store import spending
from solward.vault.transactions.reservation import Reservation, Reserver
from solward.vault.transactions.steps import Step


def kill_at(step: Step, nth: int) -> None:
    """SIGKILL this process when it passes `step` for the nth time."""
    passed = 0

    def hook(at: Step) -> None:
        nonlocal passed
        passed += at is step
        if at is step and passed == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    Solward.open = functools.partial(Solward.open, step_hook=hook)  # type: ignore[method-assign]


def split_reservation() -> None:
    """Judge in one transaction and reserve in another, as a naive implementation would."""
    reserve, insert = Reserver.reserve, spending.reserve
    late: dict[str, tuple[Any, ...]] = {}

    async def put_off(_connection: object, transaction_id: str, *rest: Any) -> None:
        late[transaction_id] = rest

    async def in_two(self: Reserver, record: TransactionRecord, *rest: Any) -> Reservation:
        result = await reserve(self, record, *rest)
        if record.id in late:
            async with self._database.write() as connection:
                await insert(connection, record.id, *late.pop(record.id))
        return result

    spending.reserve = put_off
    Reserver.reserve = in_two  # type: ignore[method-assign]


def main() -> None:
    """Arm, then run the command as its console script would."""
    kind, *rest = sys.argv[1].split(":")
    if kind == "kill":
        kill_at(Step(rest[0]), int(rest[1]))
    elif kind == "mutant":
        {"split_reservation": split_reservation}[rest[0]]()
    from solward_cli import main as solward

    sys.argv = ["solward", *sys.argv[2:]]
    solward()


if __name__ == "__main__":
    main()
