"""Commands end alike, and say the same, under both values of `ERROR_STATUS`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from click.testing import Result
from tests.promises import promise
from tests.support.cli import STRANGER, Live
from tests.support.services import SECRET, serving_events, settings

from solward.service.service import Solward


async def ends(home: Path, statuses: str) -> list[tuple[int, str]]:
    """Exit code and errors of commands that a service with these statuses refuses."""
    async with (
        Solward.open(settings(home, error_status=statuses)) as service,
        serving_events(service) as served,
    ):
        live = Live(str(served.client.base_url).removesuffix("/api/v1/"), home)
        made = await served.post("/wallets", {"name": "pocket"})
        await served.post(f"/wallets/{made['walletId']}/airdrop", {"amount": 1})
        key = (await served.post("/keys", {"name": "reads", "readOnly": True}))["apiKey"]

        async def run(*arguments: str, token: str = SECRET) -> tuple[int, str]:
            ended: Result = await asyncio.to_thread(
                live.invoke, "wallet", *arguments, SOLWARD_API_KEY=token
            )
            return ended.exit_code, ended.stderr

        refused = await served.client.post(
            f"/wallets/{made['walletId']}/transfer", json={"to": STRANGER, "amount": 5}
        )
        assert refused.status_code == (403 if statuses == "semantic" else 500)
        send = ("transfer", "pocket", STRANGER)
        again = ("--idempotency-key", "again")
        return [
            await run(*send, "5", *again),
            await run(*send, "5", *again),
            await run(*send, "1.5"),
            await run(*send, "0.1", token=key),
            await run("transfer", "nowhere", STRANGER, "1"),
        ]


@promise("error-class-under-both")
async def test_a_refused_command_says_and_ends_as_it_does_by_the_contract(tmp_path: Path) -> None:
    by_contract, semantic = [await ends(tmp_path / each, each) for each in ("contract", "semantic")]
    assert semantic == by_contract
    assert {code for code, _ in semantic} == {1}
    blocked, again, failed, read_only, missing = (told for _, told in semantic)
    assert blocked == again
    assert blocked.startswith("Error: Transaction blocked by guardrail max_per_tx: ")
    assert "insufficient balance" in failed
    assert "read-only" in read_only
    assert "nowhere" in missing
