"""A database that the last release stored goes on under this one, on PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.database.releases import goes_on, pays, stored_home
from tests.support.agents import WorkerBeside
from tests.support.database import DRIVER
from tests.support.services import serving_api

from solward.agents import placement
from solward_cli.up.seller import listen_for_buyers, site_of

pytestmark = pytest.mark.more


async def test_a_home_that_the_last_release_stored_goes_on(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = stored_home("2ccf004-postgresql", tmp_path / "home")
    plain = postgres_url.replace(DRIVER, "postgresql:", 1)
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute((tmp_path / "home" / "dump.sql").read_bytes())
    # A worker of this process runs the agent's cycles.
    monkeypatch.setattr(placement, "default", WorkerBeside)
    shop = listen_for_buyers()
    given: dict[str, Any] = {
        "database_url": postgres_url,
        "max_transactions_per_minute": 1000,
        "payments_private_sites": (site_of(shop),),
    }
    async with serving_api(tmp_path / "home", demo=True, **given) as api:
        await goes_on(api, facts)
        await pays(api, facts["treasury"], shop)
