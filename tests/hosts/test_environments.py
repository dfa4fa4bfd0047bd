"""What every process of a running service was given as its environment, as the kernel has it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.test_live_plugins_in_processes import solward, versions
from tests.promises import promise
from tests.support.clock import wait_until
from tests.support.hosts import skill_wheel
from tests.support.processes import SECRET, Service
from tests.support.vendors.process import vendor_process

from solward.settings import Settings
from solward.settings.home import default_models_folder
from solward.settings.secrecy import secret_fields

pytestmark = pytest.mark.more

# Addresses are secrets too, because of what stands in them.
GIVEN = {
    "API_SECRET": SECRET,
    "SOLWARD_API_KEY": "sk-" + "c" * 32,
    "NEXT_PUBLIC_API_SECRET": SECRET,
    "DASHBOARD_PASSWORD": "canary password of the pages",
    "KEYSTORE_PASSPHRASE": "canary passphrase of the keystore",
    "APPROVAL_WEBHOOK_URL": "http://127.0.0.1:9/canary-approval-url",
    "APPROVAL_WEBHOOK_SECRET": "canary-approval-secret-of-32-bytes-or-more",
    "APPROVAL_SLACK_TOKEN": "xoxb-canary-of-slack",
    "APPROVAL_TELEGRAM_TOKEN": "1234:canary-of-telegram-of-20-and-more",
    "ALERT_WEBHOOK_URL": "http://127.0.0.1:9/canary-alert-url",
    "ALERT_WEBHOOK_SECRET": "canary-alert-secret-of-32-bytes-or-more",
}
UNRELATED = {
    "AWS_SECRET_ACCESS_KEY": "canary-of-a-cloud",
    "GITHUB_TOKEN": "canary-of-a-forge",
    "PGPASSWORD": "canary-of-a-database",
    "MY_COMPANYS_TOKEN": "canary-of-a-company",
}


def secrets_given() -> dict[str, str]:
    """A canary in every secret setting that a service on the embedded ledger can have."""
    left_out = {"solana_rpc_url", "database_url"}
    names = {name.upper() for name in secret_fields(Settings) - left_out}
    return {name: f"canary-of-{name.lower()}-and-32-bytes" for name in names} | GIVEN


def descendants(pid: int) -> Iterator[int]:
    """Every process below this one."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from descendants(child)


def environment_of(pid: int) -> dict[str, str]:
    text = Path(f"/proc/{pid}/environ").read_bytes().decode()
    return dict(each.partition("=")[::2] for each in text.split("\0") if each)


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


@promise("child-environment-is-minimal")
@pytest.mark.sqlite("an embedded ledger")
def test_no_child_has_a_secret_but_the_dashboard_its_own(tmp_path: Path) -> None:
    with vendor_process() as vendor:
        service = Service(
            tmp_path / "s" / "home",
            **secrets_given(),
            **UNRELATED,
            APPROVAL_SLACK_CHANNEL="C0123456789",
            APPROVAL_TELEGRAM_CHAT="-1001",
            SOLWARD_PLUGINS="*",
            MODELS_FOLDER=str(default_models_folder()),
            DEFAULT_LLM_PROVIDER="openai",
            DEFAULT_LLM_MODEL="gpt-4o-mini",
            OPENAI_BASE_URL=vendor.base_urls["OPENAI_BASE_URL"],
        )
        service.starting = ("up", "--no-rpc", "--dashboard-port", "0")
        service.home.parent.mkdir()
        service.start()
        try:
            assert service.process is not None
            canaries = set((secrets_given() | UNRELATED).values())
            # The process itself was given them, and so this test would see one.
            given = environment_of(service.process.pid)
            assert canaries <= set(given.values())
            solward(service, "install", str(skill_wheel(tmp_path, "1", "return 'one'")), "--yes")
            wait_until(lambda: versions(service) == {"acme": "1"}, "the plugin's host")
            pid = service.process.pid
            with service.client() as client:
                wallet = client.post("/wallets", json={"name": "w"}).json()["walletId"]
                assert client.post(f"/wallets/{wallet}/skills/acme", json={}).status_code == 200
                body = {"name": "a", "walletId": wallet, "llmProvider": "openai"}
                body |= {"llmModel": "gpt-4o-mini", "strategy": "wait"}
                agent = client.post("/agents", json=body).json()["id"]
                started = client.post(f"/agents/{agent}/start")
                assert started.status_code == 200, started.text
                # Of what the vendor's double answers only the process that asks matters.
                client.post(f"/agents/{agent}/chat", json={"message": "hello"})
            children = set(descendants(pid))
            environments = {each: environment_of(each) for each in children}
            dashboards = [each for each in children if "dashboard" in command_of(each)]
            assert len(dashboards) == 1
            # What plugins and models are forked from, the plugin's, and the dashboard; a model's
            # where the vendors' libraries are installed.
            assert len(children) >= 3, [command_of(each) for each in children]
            for child, found in environments.items():
                own = {"NEXT_PUBLIC_API_SECRET", "DASHBOARD_PASSWORD"}
                allowed = own if child in dashboards else set()
                told = {
                    name
                    for name, value in found.items()
                    if any(canary in value for canary in canaries)
                }
                assert told == allowed, (command_of(child), told)
                assert not found.keys() & UNRELATED.keys(), command_of(child)
        finally:
            service.stop(signal.SIGKILL)
