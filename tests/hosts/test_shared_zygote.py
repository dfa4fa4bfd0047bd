"""Plugin hosts and model hosts, forked from one zygote: what they share, and what they do not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.hosts import QUICK_HOST, gone, host_config, run_in

from solward.hosts.forking import SharedZygote
from solward.hosts.host import Host, HostConfig
from solward.hosts.supervisor import Hosts
from solward.types.errors import SkillError

pytestmark = pytest.mark.samples("test_they_are_forked_from_one_process_which_ends_after_both")


@asynccontextmanager
async def both() -> AsyncIterator[tuple[Hosts, Hosts]]:
    """Plugins' hosts, and models', which have processors apart."""
    zygote = SharedZygote(7)
    plugins = Hosts(limits=replace(QUICK_HOST, nice=7), zygote=zygote)
    models = Hosts(limits=replace(QUICK_HOST, nice=5), zygote=zygote, apart=True)
    try:
        await plugins.open()
        await models.open()
        yield plugins, models
    finally:
        await models.close()
        await plugins.close()
        await zygote.close()


def pid_of(host: Host) -> int:
    assert host.pid is not None
    return host.pid


def session_nice(pid: int) -> str:
    return Path(f"/proc/{pid}/autogroup").read_text().split()[-1]


async def test_they_are_forked_from_one_process_which_ends_after_both() -> None:
    async with both() as (plugins, models):
        plugin, model = (
            await plugins.start(host_config(), {}),
            await models.start(host_config("m"), {}),
        )
        assert plugins.zygote is not None
        zygote = plugins.zygote.pid
        parents = {(await run_in(host, "tell"))["parent"] for host in (plugin, model)}
        assert parents == {zygote}
        model_pid = pid_of(model)
        await models.close()
        await gone(model_pid)
        # The others go on.
        assert (await run_in(plugin, "tell"))["parent"] == zygote
    await gone(zygote)


@promise("hosts-share-no-plugin")
async def test_a_models_host_has_its_share_of_processors_apart_from_plugins() -> None:
    async with both() as (plugins, models):
        plugin, model = (
            await plugins.start(host_config(), {}),
            await models.start(host_config("m"), {}),
        )
        assert plugins.zygote is not None
        everyone = (plugins.zygote.pid, pid_of(plugin), pid_of(model))
        assert [os.getsid(pid) for pid in everyone] == [everyone[0], everyone[0], everyone[2]]
        if not Path("/proc/self/autogroup").exists():
            pytest.skip("this kernel does not schedule sessions as groups")
        assert [session_nice(pid) for pid in everyone] == ["7", "7", "5"]
        # After it confined itself nobody but root may change this but the zygote.
        models.set_nice(10)
        async with asyncio.timeout(10):
            while session_nice(everyone[2]) != "10":
                await asyncio.sleep(0.01)
        assert [session_nice(pid) for pid in everyone[:2]] == ["7", "7"]
        assert os.getpriority(os.PRIO_PROCESS, everyone[2]) == 10
        plugins.set_nice(12)
        async with asyncio.timeout(10):
            while session_nice(everyone[0]) != "12":
                await asyncio.sleep(0.01)
        assert session_nice(everyone[2]) == "10"


@promise("hosts-share-no-plugin")
async def test_a_plugin_has_nothing_of_the_folder_that_models_import_from(tmp_path: Path) -> None:
    (tmp_path / "models_alone.py").write_text("def serve(setup):\n    return {}\n")
    model_config = HostConfig(name="m", tenant="models_alone:serve", folder=str(tmp_path))
    async with both() as (plugins, models):
        model = await models.start(model_config, {})
        told = await run_in(await plugins.start(host_config(), {}), "tell")
        assert str(tmp_path) not in told["path"]
        assert "models_alone" not in told["modules"]
        # By its channel and what it opened itself; none of the other's, nor of the zygote's.
        descriptors = told["descriptors"]
        await models.remove(model)
        alone = await run_in(await plugins.start(host_config("alone"), {}), "tell")
        assert alone["descriptors"] == descriptors
        with pytest.raises(SkillError, match="models_alone"):
            await plugins.start(replace(host_config("thief"), tenant="models_alone:serve"), {})


async def test_a_zygote_that_ends_is_replaced_by_one_for_both() -> None:
    async with both() as (plugins, models):
        plugin, model = (
            await plugins.start(host_config(), {}),
            await models.start(host_config("m"), {}),
        )
        first = plugins.zygote
        assert first is not None
        first.kill()
        await gone(first.pid, pid_of(plugin), pid_of(model))
        parents = {(await run_in(host, "tell"))["parent"] for host in (plugin, model)}
        assert plugins.zygote is models.zygote
        assert parents == {plugins.zygote.pid if plugins.zygote else None} != {first.pid}


async def test_hosts_begin_without_what_a_terminal_trio_or_http_2_need() -> None:
    async with both() as (plugins, _):
        told = await run_in(await plugins.start(host_config(), {}), "tell")
        assert {"httpcore", "httpx"} <= set(told["modules"])
        assert not {"h2", "pygments", "rich", "trio", "watchfiles"} & set(told["modules"])
