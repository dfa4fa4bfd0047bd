"""Hosts on the event loop that the service runs on."""

from __future__ import annotations

import asyncio

import pytest
import uvloop
from tests.support.hosts import QUICK_HOST, gone, host_config, run_in

from solward.hosts.supervisor import Hosts
from solward.types.errors import SkillError


@pytest.mark.more
def test_they_run_end_and_start_again_on_uvloop() -> None:
    async def work() -> None:
        hosts = Hosts(limits=QUICK_HOST)
        await hosts.open()
        host = await hosts.start(host_config(), {})
        with pytest.raises(SkillError, match="ended with status 7"):
            await run_in(host, "leave")
        told = await run_in(host, "tell", number=1)
        assert told["asked"] == {"number": 1}
        await hosts.close()
        await gone(told["pid"], told["parent"])

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())
