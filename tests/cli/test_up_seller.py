"""The demo's seller: what the screen says of it, and a port that is taken."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
from pathlib import Path

import httpx
import pytest
from tests.support.processes import ended, running, up_client

from solward_cli.up import demo

pytestmark = pytest.mark.more


def test_the_demo_sells_on_a_loopback_port_and_says_where_until_it_stops(tmp_path: Path) -> None:
    arguments = ("up", "--demo", "--port", "0", "--no-rpc", "--no-dashboard")
    with running(tmp_path / "home", *arguments) as (process, screen):
        said = re.search(r"^Demo seller: +(\S+) \(0\.01 USDC\)$", screen, re.M)
        assert said is not None, screen
        assert httpx.get(said[1]).status_code == 402
        ended(process, signal.SIGINT)
        with pytest.raises(httpx.ConnectError):
            httpx.get(said[1])


def test_where_its_port_is_taken_it_sells_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((demo.HOST, 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr(demo, "PORT", port)
        with demo.listen_for_buyers() as shop:
            host, _, own = demo.site_of(shop).partition(":")
            assert host == demo.HOST
            assert int(own) not in (0, port)
            # At the next start that one, and what is no port is none.
        with demo.listen_for_buyers(f"{demo.HOST}:{own}") as again:
            assert demo.site_of(again) == f"{demo.HOST}:{own}"
        for last in (f"{demo.HOST}:{port}", f"{demo.HOST}:99999"):
            with demo.listen_for_buyers(last) as free:
                assert demo.site_of(free) != last


def test_it_sells_where_it_did_before(tmp_path: Path) -> None:
    """As beside another demo, which has the usual port."""
    arguments = ("up", "--demo", "--port", "0", "--no-rpc", "--no-dashboard")

    def started() -> tuple[str, str, str]:
        """The seller's site; what the agent buys by; the site that its grants name."""
        with running(tmp_path / "home", *arguments) as (process, screen), up_client(screen) as api:
            (agent,) = api.get("/agents").json()["agents"]
            (granted,) = api.get("/policy").json()["policy"]["grants"][2]["via"]
            said = re.search(r"^Demo seller: +http://([^/]+)/", screen, re.M)
            assert said is not None
            ended(process, signal.SIGINT)
        return said[1], agent["strategy"], granted

    with contextlib.ExitStack() as stack:
        # Another demo on this machine may have it.
        with contextlib.suppress(OSError):
            stack.enter_context(socket.create_server((demo.HOST, demo.PORT)))
        site, strategy, granted = started()
    assert site != f"{demo.HOST}:{demo.PORT}"
    assert f"http://{site}/forecast" in strategy
    assert granted == f"site:{site}"
    assert started() == (site, strategy, granted)
