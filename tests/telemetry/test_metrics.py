"""Scraping: gauges are filled just then, and one that cannot be hides none of the others."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from solward.telemetry import metrics


def value(name: str, **labels: str) -> float | None:
    """A sample of this process's registry."""
    return metrics.REGISTRY.get_sample_value(name, labels)


async def test_a_scrape_shows_what_gauges_are_filled_with_at_that_moment() -> None:
    slots = iter((7, 8))

    async def fill() -> None:
        metrics.LEDGER_SLOT.set(next(slots))

    with metrics.at_scrape(fill):
        for slot in (7, 8):
            body, content_type = await metrics.scrape()
            assert content_type.startswith("text/plain; version=0.0.4")
            assert f"\nsolward_ledger_slot {slot}.0\n" in body.decode()
    await metrics.scrape()  # would raise StopIteration if it were still asked


async def test_a_gauge_that_cannot_be_filled_hides_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "SCRAPE_WAIT_S", 0.02)

    async def broken() -> None:
        raise LookupError("no such table")

    async def hangs() -> None:
        await asyncio.Event().wait()

    async def fill() -> None:
        metrics.LEDGER_SLOT.set(9)

    with (
        metrics.at_scrape(broken),
        metrics.at_scrape(hangs),
        metrics.at_scrape(fill),
        capture_logs() as logs,
    ):
        body, _ = await metrics.scrape()
    assert "\nsolward_ledger_slot 9.0\n" in body.decode()
    assert sorted(line["error"] for line in logs) == ["LookupError", "TimeoutError"]


def test_a_block_is_timed_also_where_it_raises() -> None:
    before = value("solward_database_transaction_seconds_count", kind="read") or 0
    with pytest.raises(LookupError), metrics.DATABASE_READ.time():
        raise LookupError
    assert value("solward_database_transaction_seconds_count", kind="read") == before + 1


def test_what_a_process_is_stands_in_its_labels() -> None:
    metrics.describe_process("1.2.3", "localnet", "worker")
    labels = {"version": "1.2.3", "network": "localnet", "kind": "worker"}
    assert value("solward_process_info", **labels) == 1
    assert (value("solward_start_time_seconds") or 0) > 1_700_000_000
