"""What a plugin host may do to its caller and to others: nothing but end its own call."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.promises import promise
from tests.support.clock import processor_cost
from tests.support.hosts import QUICK_HOST, gone, host_config, run_in

from solward.hosts import forking
from solward.hosts.forking import Zygote
from solward.hosts.host import (
    DISABLED,
    ENDED,
    UNCONFINED,
    DisabledTenant,
    Fault,
    Host,
    SupervisionLimits,
)
from solward.hosts.inside.main import LONG_TURN_NS
from solward.hosts.supervisor import Hosts
from solward.hosts.wire.failures import HostBug
from solward.hosts.wire.frames import Log, write
from solward.hosts.wire.methods import PROVIDER_STREAM
from solward.types.errors import ProviderError, SkillError
from solward.types.provider import CompletionRequest

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.samples(
        "test_an_end_costs_the_call_an_error_and_the_next_one_nothing[fault]",
        "test_an_end_costs_the_call_an_error_and_the_next_one_nothing[hang]",
        "test_a_hung_host_is_ended_after_its_callers_time",
        "test_three_ends_disable_the_tenant_alone",
        "test_without_confinement_only_what_the_operator_named_runs",
    ),
]

Open = Callable[..., Awaitable[Hosts]]


async def ended(host: Host, skill: str, **params: Any) -> str:
    """Why the host ended, as the caller of this skill is told."""
    pid = host.pid
    with pytest.raises(SkillError) as caught:
        await run_in(host, skill, **params)
    assert caught.value.code == ENDED
    assert pid is None or host.pid != pid
    text, _, reason = str(caught.value).partition(": ")
    assert text == f"Plugin host of {host.name} ended during the call"
    return reason


async def until_ended(host: Host) -> str:
    """Why the host ends that is running now."""
    assert host.process is not None
    async with asyncio.timeout(10):
        return await host.process.reason()


@pytest.mark.parametrize(
    ("skill", "params", "reason"),
    [
        ("leave", {"status": 7}, "it ended with status 7"),
        ("leave", {"status": 0}, "it ended with status 0"),
        ("fault", {}, "SIGSEGV ended it"),
        ("spin", {}, "it did not answer for 1 s"),
        ("close_channel", {}, "it closed its channel or was killed"),
        ("raw_frames", {"hex": "00000003ffffff"}, "it broke the channel's protocol: "),
        ("raw_frames", {"hex": "ffffffff"}, "it broke the channel's protocol: a frame of"),
    ],
    ids=["crash", "exit", "fault", "hang", "no channel", "no frame", "large frame"],
)
async def test_an_end_costs_the_call_an_error_and_the_next_one_nothing(
    hosts: Hosts, skill: str, params: dict[str, Any], reason: str
) -> None:
    host = await hosts.start(host_config(), {})
    other = await hosts.start(host_config("other"), {})
    beside = asyncio.create_task(run_in(other, "wait", seconds=0.5))
    began = time.monotonic()
    assert (await ended(host, skill, **params)).startswith(reason)
    # The limit of an unanswered ping, with a check before and after it.
    assert time.monotonic() - began < QUICK_HOST.answer_s + 4
    assert await run_in(host, "tell", number=1)
    assert await beside == "waited"


async def test_a_provider_that_ends_may_be_asked_again_and_may_have_cost(hosts: Hosts) -> None:
    host = await hosts.start(host_config(), {})
    request = {
        "name": "ends",
        "request": CompletionRequest(model="m", system="", messages=()),
        "options": {},
        "secret": None,
        "base_url": None,
    }
    pieces = []
    with pytest.raises(ProviderError, match="ended with status 3") as caught:  # noqa: PT012
        async for piece in host.stream(PROVIDER_STREAM, request):
            pieces.append(piece)
    assert set(pieces) <= {"0", "1", "2"}
    assert (caught.value.retryable, caught.value.may_cost) == (True, True)
    whole = host.stream(PROVIDER_STREAM, {**request, "name": "ok"})
    assert [piece async for piece in whole] == ["0", "1", "2"]


async def test_a_call_out_of_time_is_told_to_stop_and_the_host_lives(hosts: Hosts) -> None:
    host = await hosts.start(host_config(), {})
    pid = host.pid
    with pytest.raises(TimeoutError):
        await run_in(host, "wait", timeout_s=0.1)
    waiting = asyncio.create_task(run_in(host, "wait", timeout_s=None))
    while len(await run_in(host, "notes")) < 3:
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(5):
        while await run_in(host, "notes") != ["started", "cancelled"] * 2:
            await asyncio.sleep(0)
    await asyncio.sleep(2 * QUICK_HOST.grace_s)
    assert host.pid == pid


async def test_a_hung_host_is_ended_after_its_callers_time(hosts: Hosts) -> None:
    host = await hosts.start(host_config(), {})
    assert host.process is not None
    process = host.process
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await run_in(host, "spin", timeout_s=0.2)
    assert time.monotonic() - began < 2
    assert await process.reason() == "it did not answer for 0.5 s after a call that took too long"
    assert await run_in(host, "tell")


async def test_a_call_that_goes_on_when_told_to_stop_ends_its_host(hosts: Hosts) -> None:
    host = await hosts.start(host_config(), {})
    reason = asyncio.create_task(until_ended(host))
    with pytest.raises(TimeoutError):
        await run_in(host, "ignore", timeout_s=0.1)
    assert await reason == "a call kept running for 1 s after it was cancelled"


async def test_memory_is_limited_twice(hosts: Hosts) -> None:
    small = await hosts.start(host_config(memory_bytes=300 << 20), {})
    with pytest.raises(HostBug, match="MemoryError"):
        await run_in(small, "bomb")
    large = await hosts.start(host_config(resident_bytes=100 << 20), {})
    assert await ended(large, "grow", bytes=200 << 20) == "it used more than 100 MiB of memory"


@promise("scratch-and-threads-watched")
async def test_threads_are_limited(hosts: Hosts) -> None:
    host = await hosts.start(host_config(threads=20), {})
    assert await run_in(host, "multiply", threads=10) == "multiplied"
    reason = asyncio.create_task(until_ended(host))
    # The watch may see the threads before the call has returned, and ends the host during it.
    with contextlib.suppress(SkillError):
        await run_in(host, "multiply", threads=11)
    assert await reason == "it ran more than 20 threads"


async def test_what_outlives_its_call_may_not_keep_a_processor(hosts: Hosts) -> None:
    host = await hosts.start(host_config(), {})
    reason = asyncio.create_task(until_ended(host))
    assert await run_in(host, "burn_on") == "returned"
    assert await reason == "it kept a processor busy while no call ran"


async def test_an_idle_host_stays(hosts: Hosts) -> None:
    host = await hosts.start(host_config(), {})
    pid = host.pid
    await asyncio.sleep(20 * QUICK_HOST.watch_s)
    assert host.pid == pid


@promise("scratch-and-threads-watched")
@pytest.mark.parametrize(
    ("files", "size", "reason"),
    [(3, 100_000, "it stored more than 200000 bytes"), (11, 1, "it stored more than 10 files")],
)
async def test_scratch_is_limited(
    hosts: Hosts, tmp_path: Path, files: int, size: int, reason: str
) -> None:
    scratch = {"scratch": str(tmp_path), "scratch_bytes": 200_000, "scratch_files": 10}
    host = await hosts.start(host_config(**scratch), {})
    assert await run_in(host, "store", files=1, bytes=1000) == "stored"
    watched = asyncio.create_task(until_ended(host))
    await run_in(host, "store", files=files, bytes=size)
    assert await watched == reason


async def test_its_log_is_scrubbed_shortened_and_not_endless(hosts: Hosts) -> None:
    host = await hosts.start(host_config(), {})
    with capture_logs() as lines:
        await run_in(host, "talk", lines=1, text=f"Bearer {'k' * 40} {'x' * 5000}")
        await run_in(host, "talk", lines=100, text="again")
        await run_in(host, "endless_line")
    said = [line for line in lines if line["event"] == "plugin_host_log"]
    assert "kkk" not in str(lines)
    assert "[redacted]" in said[0]["text"]
    assert "[redacted]" in said[1]["text"]
    assert said[1]["log_level"] == "warning"
    assert max(len(line["text"]) for line in said) <= 2000
    assert len(said) == QUICK_HOST.lines_a_minute
    assert "plugin_host_log_limited" in [line["event"] for line in lines]
    assert "descriptor" not in str(lines)


async def test_lines_that_are_slow_to_scrub_cost_the_service_little() -> None:
    slow = "a." * 999
    lines = [Log("info", slow, {f"f{n}": slow for n in range(15)} | {"z": "://" * 600})] * 50

    def write_all() -> None:
        host = Host(host_config(), {}, launch=None, limits=SupervisionLimits(), on_fault=print)  # type: ignore[arg-type]
        for line in lines:
            host.log(line)

    with capture_logs() as written:
        costs = processor_cost(write_all)
    assert len(written) % 50 == 0
    assert written[-1]["event"] == "plugin_host_log"
    assert costs < 30


async def test_a_flood_of_lines_ends_it(hosts: Hosts) -> None:
    host = await hosts.start(host_config(), {})
    frames = bytearray()
    for _ in range(100):
        write(Log("info", "x", {}), frames)
    assert await ended(host, "raw_frames", hex=frames.hex(), times=60) == "it flooded the log"


async def test_three_ends_disable_the_tenant_alone(opened: Open) -> None:
    disabled: list[Host] = []
    hosts = await opened(on_fault=disabled.append)
    host, other = hosts.add(host_config(), {}), hosts.add(host_config("other"), {})
    for _ in range(3):
        assert not disabled
        await ended(host, "leave")
    assert disabled == [host]
    text = "it ended 3 times within 60 s, the last time because it ended with status 7"
    assert host.disabled == DisabledTenant(Fault.CRASHES, text)
    with pytest.raises(SkillError, match="is disabled: it ended 3 times") as caught:
        await run_in(host, "tell")
    assert caught.value.code == DISABLED
    assert host.pid is None
    assert await run_in(other, "tell")
    host.enable()
    assert await run_in(host, "tell")


async def test_ends_far_from_each_other_disable_nothing(opened: Open) -> None:
    hosts = await opened(limits=replace(QUICK_HOST, crash_window_s=0))
    host = hosts.add(host_config(), {})
    for _ in range(4):
        await ended(host, "leave")
    assert await run_in(host, "tell")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"options": {"start": "fails"}},
            "its tenant could not start: ValueError: no such thing",
        ),
        ({"options": {"start": "hangs"}, "start_s": 0.3}, "it had not started after 0.3 s"),
    ],
)
async def test_a_host_that_cannot_start_says_why(
    hosts: Hosts, changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(SkillError, match=expected) as caught:
        await hosts.start(host_config(**changes), {})
    assert caught.value.code == ENDED
    assert hosts.hosts == ()


async def test_callers_share_one_start_and_none_loses_it_by_leaving(hosts: Hosts) -> None:
    host = hosts.add(host_config(), {})
    calls = [asyncio.create_task(run_in(host, "tell")) for _ in range(4)]
    await asyncio.sleep(0)
    calls[0].cancel()
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(told[0], asyncio.CancelledError)
    assert {each["pid"] for each in told[1:] if isinstance(each, dict)} == {host.pid}


async def test_a_start_that_nobody_waits_for_leaves_no_process(opened: Open) -> None:
    hosts = await opened()
    await hosts.unavailable()
    assert hosts.zygote is not None
    children = Path(f"/proc/{hosts.zygote.pid}/task/{hosts.zygote.pid}/children")
    before = len(os.listdir("/proc/self/fd"))
    for turns in range(24):
        # Stopped at each point of its way, of which the fork is in the beginning.
        start = asyncio.create_task(hosts.start(host_config(), {}))
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        start.cancel()
        await asyncio.wait([start])
        if not start.cancelled():
            await hosts.remove(start.result())
    async with asyncio.timeout(5):
        while children.read_text().split() or len(os.listdir("/proc/self/fd")) > before:
            await asyncio.sleep(0.01)
    assert hosts.hosts == ()


async def test_a_long_import_is_no_silence(hosts: Hosts) -> None:
    slow = host_config(options={"start": "hangs", "seconds": "1.5"})
    assert await run_in(await hosts.start(slow, {}), "tell")


def turn_ns(pid: int | None) -> int | None:
    """How long a process' turns on a processor are; None where the kernel does not tell."""
    found = Path(f"/proc/{pid}/sched")
    lines = found.read_text().splitlines() if found.exists() else []
    turns = [int(line.split()[-1]) for line in lines if line.startswith("se.slice")]
    return turns[0] if turns else None


def release() -> tuple[int, ...]:
    """The kernel's major and minor version."""
    return tuple(int(each) for each in os.uname().release.split(".")[:2])


@promise("hosts-yield-to-service")
async def test_hosts_stand_back_as_one_and_what_payments_wait_for_does_not(opened: Open) -> None:
    hosts = await opened(limits=replace(QUICK_HOST, nice=7))
    usual, urgent = [
        await hosts.start(host_config(name, urgent=name == "rules"), {})
        for name in ("skills", "rules")
    ]
    assert hosts.zygote is not None
    assert usual.pid is not None
    assert urgent.pid is not None
    assert os.getpriority(os.PRIO_PROCESS, usual.pid) == 7
    assert os.getpriority(os.PRIO_PROCESS, urgent.pid) == 0
    # What many processes get together, the kernel reckons by their session.
    assert os.getsid(usual.pid) == hosts.zygote.pid
    assert os.getsid(urgent.pid) == urgent.pid
    groups = [Path(f"/proc/{pid}/autogroup") for pid in (usual.pid, urgent.pid)]
    if groups[0].exists():
        assert [group.read_text().split()[-1] for group in groups] == ["7", "0"]
    ours, theirs = turn_ns(os.getpid()), turn_ns(usual.pid)
    if theirs is not None and release() >= (6, 12):
        # Who wakes has the processor from those with longer turns, without waiting for their end.
        assert theirs == turn_ns(hosts.zygote.pid) == LONG_TURN_NS > ours == turn_ns(urgent.pid)
    hosts.set_nice(12)
    assert turn_ns(usual.pid) == theirs
    assert os.getpriority(os.PRIO_PROCESS, usual.pid) == 12
    assert os.getpriority(os.PRIO_PROCESS, urgent.pid) == 0
    if groups[0].exists():
        async with asyncio.timeout(10):
            while groups[0].read_text().split()[-1] != "12":
                await asyncio.sleep(0.01)
        assert groups[1].read_text().split()[-1] == "0"


@promise("no-confinement-no-host")
async def test_without_confinement_only_what_the_operator_named_runs(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(zygote: Zygote) -> str | None:
        await real(zygote)
        return "no Landlock"

    real = Zygote.unavailable
    monkeypatch.setattr(Zygote, "unavailable", none)
    hosts = await opened(unconfined={"tip-jar"})
    assert await hosts.unavailable() == "no Landlock"
    with pytest.raises(SkillError, match=r"other does not run.*no Landlock") as caught:
        await hosts.start(host_config("other"), {})
    assert caught.value.code == UNCONFINED
    with capture_logs() as lines:
        named = await hosts.start(host_config(), {})
    assert named.confined is False
    assert ("warning", "plugin_host_unconfined", "tip-jar") in [
        (line["log_level"], line["event"], line.get("host")) for line in lines
    ]
    told = await run_in(named, "tell")
    assert told["session"] == told["parent"]
    assert len(told["descriptors"]) < 14


async def test_a_zygote_that_ends_takes_its_hosts_and_blames_none(opened: Open) -> None:
    hosts = await opened()
    host = await hosts.start(host_config(), {})
    for _ in range(4):
        told = await run_in(host, "tell")
        waiting = asyncio.create_task(run_in(host, "wait"))
        await run_in(host, "notes")
        zygote = hosts.zygote
        assert zygote is not None
        assert zygote.pid == told["parent"]
        zygote.kill()
        with pytest.raises(SkillError, match="the zygote ended"):
            await waiting
        await gone(told["pid"], told["parent"])
    assert await run_in(host, "tell")
    assert host.disabled is None


async def test_a_stuck_zygote_is_replaced(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = await opened()
    await hosts.unavailable()
    assert hosts.zygote is not None
    stuck = hosts.zygote.pid
    os.kill(stuck, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(forking, "_START_S", 0.2)
        with pytest.raises(SkillError, match=r"did not answer for 0\.2 s") as caught:
            await hosts.start(host_config(), {})
    assert caught.value.code == ENDED
    await gone(stuck)
    assert await run_in(await hosts.start(host_config(), {}), "tell")


async def test_a_service_that_ignores_its_childrens_ends_hears_of_hosts(opened: Open) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        hosts = await opened()
        host = await hosts.start(host_config(), {})
    finally:
        signal.signal(signal.SIGCHLD, before)
    for _ in range(2):
        assert await ended(host, "leave") == "it ended with status 7"


@pytest.mark.parametrize(
    ("place", "name", "value", "expected"),
    [
        (forking, "_BOOTSTRAP", "raise SystemExit('of no use')", "status 1: of no use"),
        (sys, "executable", "/nowhere/python", "No such file or directory"),
        (sys, "platform", "plan9", "plugin hosts need Linux, not plan9"),
    ],
)
async def test_without_a_zygote_each_call_says_why(
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
    place: Any,
    name: str,
    value: str,
    expected: str,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(place, name, value)
        hosts = await opened()
        for _ in range(4):
            with pytest.raises(SkillError, match=expected) as caught:
                await hosts.start(host_config(), {})
            assert caught.value.code == ENDED
    assert await run_in(await hosts.start(host_config(), {}), "tell")


async def test_a_zygote_that_ended_before_the_service_went_on_says_why(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    with monkeypatch.context() as patch:
        patch.setattr(forking, "_BOOTSTRAP", "raise SystemExit('of no use')")
        patch.setattr(subprocess, "Popen", Slow)
        hosts = await opened()
        with pytest.raises(SkillError, match="status 1: of no use"):
            await hosts.start(host_config(), {})
    assert await run_in(await hosts.start(host_config(), {}), "tell")


async def test_closing_ends_running_calls_and_all_processes(opened: Open) -> None:
    hosts = await opened()
    calm, mad = await hosts.start(host_config(), {}), await hosts.start(host_config("mad"), {})
    pids = [(await run_in(host, "tell"))["pid"] for host in (calm, mad)]
    zygote = hosts.zygote
    assert zygote is not None
    calls = [asyncio.create_task(run_in(calm, "wait")), asyncio.create_task(run_in(mad, "spin"))]
    await asyncio.sleep(0.05)
    began = time.monotonic()
    await hosts.close()
    assert time.monotonic() - began < 3
    for call in calls:
        with pytest.raises(SkillError, match="it was stopped") as caught:
            await call
        assert caught.value.code == ENDED
    await gone(*pids, zygote.pid)
    with pytest.raises(SkillError, match="was stopped"):
        await run_in(calm, "tell")
