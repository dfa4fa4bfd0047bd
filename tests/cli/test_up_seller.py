"""The demo's seller: what the screen says of it, and a port that is taken."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path

import httpx
import pytest
from tests.support.up_process import ended, running

from solward_cli.up import seller

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


def test_without_the_demo_nobody_sells(tmp_path: Path) -> None:
    arguments = ("up", "--port", "0", "--no-rpc", "--no-dashboard")
    with running(tmp_path / "home", *arguments) as (process, screen):
        assert "seller" not in screen
        ended(process, signal.SIGINT)


def test_where_its_port_is_taken_it_sells_on_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((seller.HOST, 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr(seller, "PORT", port)
        with seller.listen_for_buyers() as shop:
            host, _, own = seller.site_of(shop).partition(":")
            assert host == seller.HOST
            assert int(own) not in (0, port)
