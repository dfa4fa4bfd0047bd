"""Real processes: commands beside a service, and API processes with homes of their own."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.promises import promise
from tests.support.clock import wait_until
from tests.support.hosts import rule_wheel, skill_wheel
from tests.support.processes import Cluster, Service, running_cluster

pytestmark = pytest.mark.more

TO = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"


def start(service: Service, *arguments: str) -> subprocess.Popen[str]:
    """`solward plugins ...` in the home of a service."""
    return subprocess.Popen(
        [sys.executable, "-m", "solward_cli", "plugins", *arguments],
        env=service.environment
        | {"PIP_NO_INDEX": "1", "SOLWARD_API_URL": service.url.removesuffix("/api/v1")},
        cwd=service.home.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def solward(service: Service, *arguments: str) -> str:
    """As `start`, to its end; what it printed."""
    process = start(service, *arguments)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return said


def report(service: Service) -> dict[str, Any]:
    with service.client() as client:
        answer: dict[str, Any] = client.get("/plugins").json()
    return answer


def versions(service: Service) -> dict[str, str]:
    """Of others' skills, by name."""
    found = report(service)["plugins"]
    return {each["name"]: each["version"] for each in found if each["distribution"] != "solward"}


def problems(service: Service) -> set[tuple[str, str]]:
    return {(each["distribution"], each["code"]) for each in report(service)["problems"]}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "s" / "home", SOLWARD_PLUGINS="*")
    made.home.parent.mkdir()
    yield made.start()
    made.stop(signal.SIGKILL)


def test_the_command_line_changes_a_service_that_runs(service: Service, tmp_path: Path) -> None:
    with service.client() as client:
        wallet = client.post("/wallets", json={"name": "w"}).json()["walletId"]

        def runs() -> httpx.Response:
            return client.post(f"/wallets/{wallet}/skills/acme", json={})

        said = solward(service, "install", str(skill_wheel(tmp_path, "1", "return 'one'")), "--yes")
        assert "The running service applies it" in said
        wait_until(lambda: versions(service) == {"acme": "1"}, "the installation")
        assert runs().json() == {"result": "one"}
        solward(service, "upgrade", str(skill_wheel(tmp_path, "2", "return 'two'")), "--yes")
        wait_until(lambda: versions(service) == {"acme": "2"}, "the upgrade")
        assert runs().json() == {"result": "two"}
        paths = client.get(service.url.removesuffix("/api/v1") + "/api/v1/openapi.json").json()
        assert "/api/v1/wallets/{walletId}/skills/acme" in paths["paths"]
        solward(service, "disable", "acme-tools")
        wait_until(lambda: problems(service) == {("acme-tools", "disabled")}, "it is disabled")
        assert runs().status_code == 404
        solward(service, "enable", "acme-tools")
        wait_until(lambda: versions(service) == {"acme": "2"}, "it is enabled")
        solward(service, "remove", "acme-tools")
        wait_until(lambda: versions(service) == {} and not problems(service), "the removal")
    assert "Takes effect" not in solward(
        service, "install", str(skill_wheel(tmp_path, "3", "pass")), "--yes"
    )


@pytest.mark.long
@promise("killed-upgrade-old-or-new")
def test_a_command_that_is_killed_leaves_the_old_version_or_the_new_one(
    service: Service, tmp_path: Path
) -> None:
    solward(service, "install", str(skill_wheel(tmp_path, "0", "return '0'")), "--yes")
    wait_until(lambda: versions(service) == {"acme": "0"}, "the installation")
    with service.client() as client:
        wallet = client.post("/wallets", json={"name": "w"}).json()["walletId"]
        began = time.monotonic()
        solward(service, "upgrade", str(skill_wheel(tmp_path, "1", "return '1'")), "--yes")
        takes_s = time.monotonic() - began
        wait_until(lambda: versions(service) == {"acme": "1"}, "the upgrade")
        seen = {"1"}
        for number in range(2, 8):
            version = str(number)
            path = skill_wheel(tmp_path, version, f"return '{version}'")
            command = start(service, "upgrade", str(path), "--yes")
            time.sleep(takes_s * random.uniform(0.5, 1.0))
            os.killpg(command.pid, signal.SIGKILL)
            command.communicate()
            solward(service, "enable", "acme-tools")
            record = (service.home / "plugins" / "acme-tools" / "installed.json").read_text()
            now = next(
                each
                for each in sorted({*seen, version}, reverse=True)
                if f'"version":"{each}"' in record.replace(" ", "")
            )
            wait_until(lambda n=now: versions(service) == {"acme": n}, "what the record says")
            answer = client.post(f"/wallets/{wallet}/skills/acme", json={})
            assert answer.json() == {"result": now}
            seen.add(now)
        assert not problems(service)


@pytest.fixture
def cluster(tmp_path: Path, postgres_url: str) -> Iterator[Cluster]:
    """Two API processes, each with a home of its own as on two machines."""
    secret = {"KEYSTORE_PASSPHRASE": "of several processes", "SOLWARD_PLUGINS": "*"}
    with running_cluster(tmp_path / "c", postgres_url, apis=1, workers=0, **secret) as running:
        running.add(apis=1, SOLWARD_HOME=str(tmp_path / "other"))
        running.apis[1].home = tmp_path / "other"
        yield running


@pytest.mark.long
@promise("guardrail-in-every-process")
def test_two_processes_agree_on_versions(cluster: Cluster, tmp_path: Path) -> None:
    first, second = cluster.apis
    wallet, _ = cluster.wallet("w", 5)

    def pays(service: Service) -> str:
        with service.client() as client:
            body = {"to": TO, "amount": 0.01}
            answer = client.post(f"/wallets/{wallet}/transfer", json=body)
            return "paid" if answer.status_code == 200 else answer.json()["error"]

    def mismatched(service: Service) -> bool:
        return ("acme-rules", "version_mismatch") in problems(service)

    one, two = rule_wheel(tmp_path, "1"), rule_wheel(tmp_path, "2")
    solward(first, "install", str(one), "--yes")
    wait_until(lambda: report(first)["guardrails"] == ["cap"], "the guardrail")
    # The other has none of it, and judges nothing by itself.
    wait_until(lambda: mismatched(second), "the mismatch")
    assert "has agreed on 1 " in pays(second)
    assert pays(first) == "paid"
    solward(second, "install", str(one), "--yes")
    wait_until(lambda: not problems(second), "the agreement")
    assert pays(second) == "paid"
    # The upgrade of one is what all are to have.
    solward(second, "upgrade", str(two), "--yes")
    wait_until(lambda: mismatched(first), "the mismatch")
    assert "has agreed on 2 " in pays(first)
    lines = [line for line in solward(first, "list").splitlines() if "version_mismatch" in line]
    assert [line.split()[0] for line in lines] == ["*", "cap"]
    assert all("running service" in line and "has agreed on 2 " in line for line in lines)
    assert "version_mismatch" not in solward(second, "list")
    assert pays(second) == "paid"
    metrics = httpx.get(
        first.url.removesuffix("/api/v1") + "/metrics",
        headers={"Authorization": f"Bearer {first.environment['API_SECRET']}"},
    ).text
    assert 'solward_plugin_problems{code="version_mismatch"}' in metrics
    solward(first, "upgrade", str(two), "--yes")
    wait_until(lambda: not problems(first) and not problems(second), "the agreement")
    # One that starts again finds what all agreed on.
    first.stop()
    solward(second, "disable", "acme-rules")
    wait_until(lambda: report(second)["guardrails"] == [], "it is disabled")
    first.start()
    assert ("acme-rules", "disabled") in problems(first)
    [place] = report(first)["distributions"]
    assert (place["enabled"], place["state"]) == (False, "disabled")
    assert report(first)["guardrails"] == []
    solward(first, "enable", "acme-rules")
    for service in (first, second):
        wait_until(lambda s=service: report(s)["guardrails"] == ["cap"], "it is enabled in both")
    solward(second, "remove", "acme-rules")
    for service in (first, second):
        wait_until(lambda s=service: report(s)["guardrails"] == [], "it is removed from both")
        assert pays(service) == "paid"
