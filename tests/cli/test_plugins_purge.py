"""`solward plugins remove --purge` beside a running service."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.plugins import DISTRIBUTION, SKILL, install_keeping
from tests.support.processes import Service, funded_wallet

pytestmark = pytest.mark.more


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    install_keeping(tmp_path / "home", tmp_path)
    service = Service(tmp_path / "home").start()
    yield service
    service.stop(signal.SIGKILL)


def removed(service: Service, *options: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "solward_cli", "plugins", "remove", DISTRIBUTION, *options],
        env=service.environment | {"API_PORT": str(service.port)} | environment,
        cwd=service.home.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_the_service_deletes_what_it_keeps_once_nothing_of_it_is_loaded(service: Service) -> None:
    with service.client() as api:
        wallet = funded_wallet(api, "kept", 0)
        kept = api.post(f"/wallets/{wallet}/skills/{SKILL}", json={"count": 3})
        assert kept.status_code == 200, kept.text
        api.put(f"/plugins/skills/{SKILL}/settings/hours", json={"value": 12})
        assert api.delete("/plugins/state", params={"plugin": DISTRIBUTION}).status_code == 400

        # The folder goes at once; what the service keeps, only by who may.
        code, told = removed(service, "--purge", API_SECRET="another-secret-of-32-bytes-or-more")
        assert (code, "its entries and settings are not" in told) == (2, True), told
        store = f"/wallets/{wallet}/plugins/{DISTRIBUTION}/store"
        assert len(api.get(store).json()["entries"]) == 3

        code, told = removed(service, "--purge")
        assert (code, "Deleted 3 entries and 1 settings." in told) == (0, True), told
        assert api.get(store).json()["entries"] == []
        (entry,) = api.get("/audit", params={"types": "plugin:purged"}).json()["entries"]
        assert (entry["data"]["entries"], entry["data"]["settings"]) == (3, 1)
        code, told = removed(service, "--purge")
        assert (code, "not installed" in told) == (2, True), told
