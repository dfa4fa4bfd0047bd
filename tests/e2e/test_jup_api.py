"""The swap API's own client for JavaScript against the swap API that tests of the plugin use."""

from __future__ import annotations

import asyncio
import json
import shutil
from asyncio.subprocess import PIPE, STDOUT
from pathlib import Path

import pytest
from tests.support.environments import npm_environment
from tests.support.services import settings
from tests.swap_api import serving_swaps

from solward.service.cluster import localnet_options
from solward_localnet.node import Localnet
from solward_localnet.server import serving

JUP_API = Path(__file__).parent / "jup_api"


@pytest.mark.more
@pytest.mark.timeout(300)
async def test_jup_ag_api_quotes_and_swaps_at_the_localnets_market(tmp_path: Path) -> None:
    shutil.copy(JUP_API / "check.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(npm_environment(JUP_API, "jup-api"))
    localnet = await Localnet.open(None, localnet_options(settings(tmp_path / "home")))
    try:
        async with (
            serving(localnet, "127.0.0.1", 0) as addresses,
            serving_swaps(localnet) as market,
        ):
            command = ["node", "check.mjs", addresses.http, market]
            check = await asyncio.create_subprocess_exec(
                *command, cwd=tmp_path, stdout=PIPE, stderr=STDOUT
            )
            out, _ = await asyncio.wait_for(check.communicate(), 90)
    finally:
        await localnet.close()
    assert check.returncode == 0, out.decode()
    assert json.loads(out.decode().splitlines()[-1]) == [
        "quoteGet",
        "swapPost",
        "swapInstructionsPost",
        "programIdToLabelGet",
        "refusals",
    ]
