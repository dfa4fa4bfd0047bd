"""The dashboard's process: alone, beside `solward up`, and its end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.support.clock import wait_until
from tests.support.processes import ended, running, up_client, up_command

pytestmark = pytest.mark.samples(
    "test_alone_it_says_where_it_is_and_whom_it_calls_and_writes_nothing"
)

UP = ("up", "--no-rpc", "--port", "0")


def pages_of(screen: str) -> str:
    found = re.search(r"^Dashboard: +(http://\S+)$", screen, re.M)
    assert found is not None, screen
    return found[1]


def nobody_listens(url: str) -> bool:
    port = int(url.rsplit(":", 1)[1])
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def child_of(pid: int) -> int:
    """The dashboard's process: of the children, the one that serves it."""
    for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if b"dashboard" in Path(f"/proc/{each}/cmdline").read_bytes():
            return int(each)
    raise AssertionError("no dashboard")


@contextlib.contextmanager
def up(home: Path, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    with running(home, *UP, "--dashboard-port", "0", **environment) as (process, screen):
        url = pages_of(screen)
        assert "Solward" in httpx.get(url, timeout=60).text
        yield process, screen, url


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_up(tmp_path: Path, number: signal.Signals) -> None:
    with up(tmp_path / "home") as (process, _, url):
        ended(process, number)
        assert nobody_listens(url)


@pytest.mark.long
def test_it_ends_with_an_up_that_was_killed(tmp_path: Path) -> None:
    with up(tmp_path / "home") as (process, _, url):
        process.kill()
        process.wait(20)
        wait_until(lambda: nobody_listens(url), "the dashboard outlived its parent")


def test_the_service_goes_on_without_it(tmp_path: Path) -> None:
    with up(tmp_path / "home") as (process, screen, url), up_client(screen) as api:
        os.kill(child_of(process.pid), signal.SIGKILL)
        wait_until(lambda: nobody_listens(url), "it was killed")
        assert process.stderr is not None
        said = process.stderr.readline()
        assert "dashboard_ended" in said
        assert api.get("/health").json()["status"] == "ok"
        ended(process, signal.SIGTERM)


def test_a_taken_port_is_a_notice_and_the_rest_runs(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        with (
            running(tmp_path / "home", *UP, "--dashboard-port", port) as (process, screen),
            up_client(screen) as api,
        ):
            assert re.search(rf"^Notice: The dashboard is not served.*{port}", screen, re.M)
            assert not re.search(r"^Dashboard:", screen, re.M)
            assert api.get("/wallets").status_code == 200
            ended(process, signal.SIGINT)


def test_an_open_host_without_a_password_is_a_notice(tmp_path: Path) -> None:
    home = tmp_path / "home"
    arguments = (*UP, "--dashboard-port", "0")
    with running(home, *arguments, DASHBOARD_HOST="0.0.0.0") as (process, screen):
        assert "DASHBOARD_PASSWORD must be set" in screen
        ended(process, signal.SIGINT)


@pytest.mark.more
def test_alone_it_says_where_it_is_and_whom_it_calls_and_writes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    start = ("dashboard", "--port", "0")
    api = "http://127.0.0.1:9"
    with running(folder / "home", *start, last="Service:", NEXT_PUBLIC_API_URL=api) as (
        process,
        said,
    ):
        assert api in said
        page = httpx.get(pages_of(said), timeout=60)
        assert page.headers["cache-control"] == "no-store"
        # Nothing of a visitor is kept in a cookie either.
        assert "set-cookie" not in page.headers
        ended(process, signal.SIGTERM)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--host", "0.0.0.0"), "DASHBOARD_PASSWORD must be set"),
        (("--port", "99999"), "--port"),
    ],
)
def test_a_wrong_start_is_a_clear_refusal(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    start = up_command(tmp_path / "home", "dashboard", "--port", "0", *arguments)
    done = subprocess.run(**start, check=False, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_refused_by_name(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        start = up_command(tmp_path / "home", "dashboard", "--port", port)
        done = subprocess.run(**start, check=False, timeout=60)
    assert done.returncode == 2
    assert f"Port {port} on 127.0.0.1 is in use" in done.stderr
    assert "DASHBOARD_PORT" in done.stderr
