"""With the secret that everybody knows, only requests by the machine's own names are answered."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.services import SECRET, Api, serving_api

from solward.settings.access import DEVELOPMENT_SECRET


async def status(api: Api, host: str, token: str) -> int:
    headers = {"Host": host, "Authorization": f"Bearer {token}"}
    response = await api.app.test_client().get("/api/v1/wallets", headers=headers)
    return int(response.status_code)


@pytest.mark.parametrize("host", ["localhost:3001", "127.0.0.1", "[::1]:3001", "localhost:3000"])
async def test_this_machines_names_are_answered(tmp_path: Path, host: str) -> None:
    async with serving_api(tmp_path / "home", api_secret=DEVELOPMENT_SECRET) as api:
        assert await status(api, host, DEVELOPMENT_SECRET) == 200


@promise("rebound-name-unanswered")
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:3001", "", "localhost."])
async def test_a_name_that_was_pointed_here_is_not(tmp_path: Path, host: str) -> None:
    async with serving_api(tmp_path / "home", api_secret=DEVELOPMENT_SECRET) as api:
        assert await status(api, host, DEVELOPMENT_SECRET) == 421


async def test_behind_a_proxy_with_a_secret_of_ones_own_any_name_will_do(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home") as api:
        assert await status(api, "solward.example.com", SECRET) == 200
