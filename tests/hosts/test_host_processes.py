"""Hosts as processes: what they are made of, what they cost, and that none is left over."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.hosts import TENANTS, gone, host_config, is_alive, run_in

import solward
from solward.hosts.forking import module_places
from solward.hosts.supervisor import Hosts
from solward.types.errors import SkillError

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.samples(
        "test_a_host_has_nothing_of_the_service",
        "test_killed_in_the_middle_none_is_left[service]",
    ),
]

Open = Callable[..., Awaitable[Hosts]]
ROOT = Path(__file__).parents[2]

SERVICE = """
import asyncio, sys
from tests.support.hosts import host_config, run_in
from solward.hosts.supervisor import Hosts

async def main():
    hosts = Hosts()
    await hosts.open()
    calm, mad = [await hosts.start(host_config(name), {}) for name in ("calm", "mad")]
    told = await run_in(calm, "tell")
    print(told["parent"], calm.pid, mad.pid, flush=True)
    await run_in(mad, "spin", timeout_s=None)

asyncio.run(main())
"""


def proportional_kib(pid: int) -> int:
    """The process's memory, of what it shares its part."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


async def lateness(seconds: float) -> list[float]:
    """How late this loop's timers come, over so many seconds."""
    late, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        await asyncio.sleep(0.005)
        late.append(time.monotonic() - began - 0.005)
    return late


async def test_a_host_has_nothing_of_the_service(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEYSTORE_PASSPHRASE", "hunter2-hunter2")
    hosts = await opened()
    host = await hosts.start(host_config(), {})
    told = await run_in(host, "tell")
    assert "hunter2" not in str(told)
    assert set(told["environment"]) == {"LANG", "PATH", "MALLOC_ARENA_MAX", "HOME", "TMPDIR"}
    assert (told["pid"], told["session"], told["threads"]) == (host.pid, told["parent"], 1)
    assert host.confined
    # 0, 1 and 2 are /dev/null; the rest is the channel and the event loop's own.
    assert len(told["descriptors"]) < 14
    *before, last = told["path"]
    assert last == str(TENANTS)
    assert str(ROOT / "framework") not in before
    assert await run_in(host, "read", path=str(ROOT / "pyproject.toml")) == "PermissionError"
    assert await run_in(host, "read", path="/etc/passwd") == "PermissionError"
    [own] = solward.__path__
    assert await run_in(host, "read", path=f"{own}/errors.py")


async def test_of_an_editable_installation_only_the_tenants_modules_are_read(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "my_plugin"
    package.mkdir()
    # Asking where it is must not run it here.
    (package / "__init__.py").write_text(f"import os\nassert os.getpid() != {os.getpid()}\n")
    for name in ("my_plugin/part.py", "my_module.py", "other_module.py", ".env"):
        (tmp_path / name).touch()
    monkeypatch.syspath_prepend(tmp_path)
    names = ("my_plugin.part", "my_module", "httpx", "nowhere")
    assert set(module_places(names)) == {"my_plugin", "my_module"}
    host = await hosts.start(host_config(modules=names), {})
    for module, file in (("my_plugin.part", "my_plugin/part.py"), ("my_module", "my_module.py")):
        assert await run_in(host, "bring", module=module) == str(tmp_path / file)
    assert await run_in(host, "bring", module="other_module") == "ModuleNotFoundError"
    assert await run_in(host, "read", path=str(tmp_path / ".env")) == "PermissionError"


async def test_lines_of_pth_files_do_not_run(hosts: Hosts, tmp_path: Path) -> None:
    wheel, scratch = tmp_path / "wheel", tmp_path / "scratch"
    wheel.mkdir()
    scratch.mkdir()
    marker = scratch / "ran"
    (wheel / "evil.pth").write_text(f"import pathlib; pathlib.Path({str(marker)!r}).touch()\n")
    (wheel / "sitecustomize.py").write_text(f"open({str(marker)!r}, 'w')\n")
    (wheel / "misbehaving.py").write_text((TENANTS / "misbehaving.py").read_text())
    host = await hosts.start(
        replace(host_config(), folder=str(wheel), scratch=str(scratch), scratch_bytes=1 << 20), {}
    )
    assert await run_in(host, "bring", module="misbehaving") == str(wheel / "misbehaving.py")
    assert await run_in(host, "store", files=1, bytes=1) == "stored"
    assert not marker.exists()


@pytest.mark.more
@pytest.mark.parametrize("which", ["service", "zygote", "service beside a stuck zygote"])
async def test_killed_in_the_middle_none_is_left(which: str) -> None:
    path = os.pathsep.join([str(ROOT / "framework"), str(ROOT / "plugins"), str(ROOT)])
    service = subprocess.Popen(
        [sys.executable, "-c", SERVICE],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with service:
        assert service.stdout is not None
        assert service.stderr is not None
        line = await asyncio.to_thread(service.stdout.readline)
        pids = [int(each) for each in line.split()]
        assert len(pids) == 3
        assert all(map(is_alive, pids))
        if which == "service beside a stuck zygote":
            os.kill(pids[0], signal.SIGSTOP)
        if which == "zygote":
            os.kill(pids[0], signal.SIGKILL)
        else:
            service.kill()
        await gone(*pids)
        error = await asyncio.to_thread(service.stderr.read)
    assert which != "zygote" or "the zygote ended" in error


async def test_twenty_at_once_start_fast_and_share_their_memory(hosts: Hosts) -> None:
    await hosts.unavailable()
    began = time.monotonic()
    first = await hosts.start(host_config("first"), {})
    alone_s = time.monotonic() - began
    began = time.monotonic()
    started = await asyncio.gather(
        *(hosts.start(host_config(f"host-{number}"), {}) for number in range(20))
    )
    together_s = time.monotonic() - began
    pids = [host.pid for host in (first, *started)]
    told = await asyncio.gather(*(run_in(host, "tell") for host in (first, *started)))
    assert [each["pid"] for each in told] == pids
    assert len(set(pids)) == 21
    each_mib = statistics.mean(proportional_kib(pid) for pid in pids if pid) / 1024
    print(f"first {alone_s * 1e3:.0f} ms, 20 {together_s * 1e3:.0f} ms, each {each_mib:.1f} MiB")
    # On an idle machine 15 ms, 250 ms and 5 MiB; an interpreter of its own takes 300 ms and 36 MiB.
    assert alone_s < 0.6
    assert together_s < 5
    assert each_mib < 12


async def test_starts_and_stops_leave_nothing_open(opened: Open) -> None:
    async def cycle(number: int) -> None:
        host = await hosts.start(host_config(str(number)), {})
        if number % 2:
            with pytest.raises(SkillError):
                await run_in(host, "leave")
        await hosts.remove(host)

    hosts = await opened()
    await cycle(0)
    before = os.listdir("/proc/self/fd")
    for number in range(50):
        await cycle(number)
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    assert hosts.zygote is not None
    # The socket to the service, and what every process has.
    assert len(os.listdir(f"/proc/{hosts.zygote.pid}/fd")) <= 4
    children = Path(f"/proc/{hosts.zygote.pid}/task/{hosts.zygote.pid}/children").read_text()
    assert children.split() == []


async def test_the_loop_of_the_service_keeps_time_while_hosts_start_burn_and_end(
    hosts: Hosts,
) -> None:
    await hosts.unavailable()
    idle = statistics.quantiles(await lateness(1), n=10)[-1]
    burning = [hosts.add(host_config(f"host-{number}"), {}) for number in range(2)]
    calls = [asyncio.create_task(run_in(host, "spin", timeout_s=0.8)) for host in burning]
    busy = statistics.quantiles(await lateness(1), n=10)[-1]
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in ended] == [TimeoutError, TimeoutError]
    print(f"nine in ten timers late by at most {idle * 1e3:.1f} ms, then {busy * 1e3:.1f} ms")
    assert busy < max(5 * idle, 0.04)
