"""Thirty hostile plugins at once on a real service: none obtains anything, others go on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import site
import time
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.hosts import MANY_HOSTS, opened_hosts
from tests.support.plugins import COSTS, OBTAINS, Shelf, hostile_source, shelf

from solward.hosts.plugins import plugin_hosts
from solward.plugins import open_registry
from solward.testing.canaries import Canaries
from solward.types.errors import SolwardError

__all__ = ["shelf"]


@promise("hostile-plugins-get-nothing")
@pytest.mark.more
async def test_thirty_hostile_plugins_obtain_nothing(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    canaries = Canaries()
    values = {"SERVICE": os.getpid(), "HOME": str(tmp_path / "home-1"), "OTHER": "x"}
    values["SITE"] = site.getsitepackages()[0]
    for name, body in {**OBTAINS, **COSTS}.items():
        shelf.install(name.replace("_", "-"), {name: hostile_source(name, body, **values)})
    shelf.install("good-dist", {"good": hostile_source("good", "return str(os.getpid())")})
    opened = opened_hosts(monkeypatch, tmp_path, MANY_HOSTS)
    with canaries.in_environment():
        async with opened(canaries=canaries, **canaries.settings) as hosted:
            assert hosted.problems == {}
            wallet = await hosted.stand.wallet()
            home = Path(str(values["HOME"]))
            (home / "keystore.key").write_text(canaries.variables["KEYSTORE_PASSPHRASE"])
            assert (home / "localnet.db").is_file()
            good = await hosted.run("good", wallet.id)

            async def mounted(name: str) -> str:
                try:
                    return await hosted.run(name, wallet.id)
                except SolwardError as error:
                    return f"refused: {error}"

            names = [*OBTAINS, *COSTS]
            mounting = asyncio.gather(*map(mounted, names))
            slowest = 0.0
            while not mounting.done():
                started = time.perf_counter()
                assert await hosted.run("good", wallet.id) == good
                slowest = max(slowest, time.perf_counter() - started)
                await asyncio.sleep(0.01)
            outcomes = dict(zip(names, await mounting, strict=True))
            for name, outcome in outcomes.items():
                assert not canaries.found_in(outcome), name
            for name in OBTAINS:
                allowed = {
                    "reads_files": "none",
                    "reads_its_environment": None,
                    "imports_the_keys": None,
                    "patches_the_hooks": "patched itself",
                }
                if name not in allowed:
                    assert outcomes[name].startswith("refused: "), (name, outcomes[name][:200])
                elif allowed[name] is not None and not outcomes[name].startswith("refused: "):
                    assert outcomes[name] == allowed[name]
            assert not outcomes["imports_the_keys"].strip("[]").startswith("<")
            for name in ("loops", "ends_itself", "sends_no_frames", "claims_a_huge_frame", "nests"):
                assert outcomes[name].startswith("refused: "), name
            assert await wallet.records() == []
            # Nobody waited for them: a turn of the service is short whatever they do.
            assert slowest < 5.0
    assert not (Path(values["SITE"]) / "evil.pth").exists()


# What may have been refused nothing: it looked at or changed its own process, or found nothing.
HARMLESS = {"reads_files", "reads_its_environment", "imports_the_keys", "patches_the_hooks"}
ENDS = {"ends_itself", "ends_by_a_signal", "sends_no_frames", "sends_a_pickle", "nests"}


@promise("offenders-are-named")
@pytest.mark.more
@pytest.mark.timeout(240)
async def test_each_hostile_plugin_is_named(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bodies = {**OBTAINS, **COSTS}
    values = {"SERVICE": os.getpid(), "HOME": str(tmp_path / "home-1"), "OTHER": "x"}
    values["SITE"] = site.getsitepackages()[0]
    for name, body in bodies.items():
        # A busy machine may notice an end only when the shorter limit has passed.
        limit_s = 30 if name in ENDS else 3
        made = hostile_source(name, body, limit_s=limit_s, **values)
        shelf.install(name.replace("_", "-"), {name: made})
    shelf.install("good-dist", {"good": hostile_source("good", "return 'good'")})
    opened = opened_hosts(monkeypatch, tmp_path, MANY_HOSTS)
    async with opened() as hosted:
        wallet = await hosted.stand.wallet()
        at_once = asyncio.Semaphore(4)

        async def thrice(name: str) -> None:
            async with at_once:
                for _ in range(3):
                    with contextlib.suppress(SolwardError):
                        await hosted.run(name, wallet.id)

        await asyncio.gather(*map(thrice, [*bodies, "good"]))
        problems = hosted.problems
        assert {*problems} | HARMLESS == {*bodies}
        assert {name for name in problems if problems[name] == "crashes"} >= ENDS
        assert {*problems.values()} <= {"crashes", "faulty_calls", "noisy"}


@pytest.mark.more
@promise("hostile-plugins-get-nothing")
async def test_at_import_they_obtain_nothing_either(shelf: Shelf, tmp_path: Path) -> None:
    marker = tmp_path / "written"
    at_import = {
        "writes": f"open({str(marker)!r}, 'w').write('x')",
        "forks_first": "import os\nos.fork()",
        "connects_first": "import socket\nsocket.create_connection(('127.0.0.1', 22), 1)",
        "reads_first": f"open('/proc/{os.getpid()}/environ').read()",
        "ends_first": "import os\nos._exit(1)",
    }
    for name, body in at_import.items():
        shelf.install(name.replace("_", "-"), {name: f"{body}\n{hostile_source(name, 'return 1')}"})
    async with plugin_hosts() as hosts:
        registry = await open_registry(hosts=hosts, entry_points=shelf.entry_points())
    assert not registry.skills
    assert {each.plugin: each.code.value for each in registry.problems} == {
        name: "host_failed" if name == "ends_first" else "import_failed" for name in at_import
    }
    assert not marker.exists()
