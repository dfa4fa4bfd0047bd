"""`solward plugins key`, `check --sign`, `verify` and `install --result`."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.promises import promise
from tests.support.plugins import skill_source, wheel

from solward.hosts.forking import Zygote
from solward.plugins import check_results
from solward.plugins.check_results import (
    CheckResult,
    create_key,
    read_key,
    read_result,
    sign_result,
)
from solward.plugins.folders.layout import Wheel
from solward.support import jsontext
from solward.testing.conformance import TIERS, check_path_or_name
from solward.types.errors import FolderError
from solward_cli import main

SAID = CheckResult(
    "acme-tools", "1.0", "d" * 64, (Wheel("acme_tools-1.0.whl", "acme-tools", "1.0", "e" * 64),),
    "0.1.0", "2026-11-22T09:00:00.000Z", "gold", ({"name": "acme", "tier": "gold"},),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOLWARD_HOME", str(tmp_path / "home"))


def plugins(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plugins", *arguments])


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_key_is_its_users_alone_and_never_printed(tmp_path: Path) -> None:
    made = plugins("key", "check.key")
    assert made.exit_code == 0, made.output
    file = tmp_path / "check.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = jsontext.loads(file.read_bytes())["secret"]
    key = read_key(file)
    assert made.output == f"{key.public}\n"
    assert secret not in made.output + repr(key) + str(key)
    again = plugins("key", "check.key")
    assert again.exit_code == 2
    assert "cannot be written: File exists" in again.output
    assert jsontext.loads(file.read_bytes())["secret"] == secret


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_a_key_that_others_can_read_signs_nothing(tmp_path: Path, mode: int) -> None:
    create_key(tmp_path / "check.key")
    (tmp_path / "check.key").chmod(mode)
    with pytest.raises(FolderError, match="must be a file that only its owner can read: chmod 600"):
        read_key(tmp_path / "check.key")


def test_an_error_quotes_nothing_of_a_key_file(tmp_path: Path) -> None:
    for text in ("[12, 34, 56]", '{"secret": "abcdef"}', "abcdef", "[" * 100_000):
        file = written(tmp_path / "wallet.json", text.encode())
        file.chmod(0o600)
        with pytest.raises(FolderError) as caught:
            read_key(file)
        assert str(caught.value) == f"{file} is not a key made by `solward plugins key`"


def test_a_result_says_what_was_signed(tmp_path: Path) -> None:
    key = create_key(tmp_path / "check.key")
    file = written(tmp_path / "r.json", sign_result(SAID, key))
    assert read_result(file, key.public) == SAID


@promise("changed-result-refused")
def test_a_result_with_one_bit_changed_is_refused(tmp_path: Path) -> None:
    key = create_key(tmp_path / "check.key")
    data = sign_result(SAID, key)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(FolderError):
            read_result(written(tmp_path / "r.json", bytes(changed)), key.public)
    for odd in (data + b"\n", data[:-1], data.replace(b'":', b'": '), b"", b"[1]", b"[" * 100_000):
        with pytest.raises(FolderError, match=r"changed after|is not a result of"):
            read_result(written(tmp_path / "r.json", odd), key.public)


@promise("changed-result-refused")
def test_another_tier_another_key_and_another_format_are_refused(tmp_path: Path) -> None:
    key, other = create_key(tmp_path / "check.key"), create_key(tmp_path / "other.key")
    better = sign_result(SAID, key).replace(b'"gold"', b'"platinum"')
    with pytest.raises(FolderError, match="was changed after it was signed"):
        read_result(written(tmp_path / "r.json", better), key.public)
    theirs = sign_result(replace(SAID, tier="platinum"), other)
    with pytest.raises(FolderError, match=f"is signed by another key: {other.public}"):
        read_result(written(tmp_path / "r.json", theirs), key.public)
    # With the name of the right key beside the signature of another.
    posed = theirs.replace(other.public.encode(), key.public.encode())
    with pytest.raises(FolderError, match="was changed after it was signed"):
        read_result(written(tmp_path / "r.json", posed), key.public)
    with pytest.raises(FolderError, match="must be ed25519: followed by 64"):
        read_result(written(tmp_path / "r.json", theirs), "11111111111111111111111111111111")


def test_a_result_of_another_version_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = create_key(tmp_path / "check.key")
    monkeypatch.setattr(check_results, "FORMAT", 2)
    file = written(tmp_path / "r.json", sign_result(SAID, key))
    monkeypatch.undo()
    with pytest.raises(FolderError, match="has format 2, not the known 1"):
        read_result(file, key.public)


def test_a_signature_is_of_nothing_that_a_wallet_signs(tmp_path: Path) -> None:
    from solders.pubkey import Pubkey
    from solders.signature import Signature

    key = create_key(tmp_path / "check.key")
    raw = jsontext.loads(sign_result(SAID, key))
    public = Pubkey(bytes.fromhex(key.public.removeprefix("ed25519:")))
    signature = Signature(bytes.fromhex(raw["signature"]))
    plain = jsontext.dumps(raw["result"], canonical=True).encode()
    assert not signature.verify(public, plain)
    assert signature.verify(public, b"\xffsolward plugins check 1\n" + plain)


@promise("changed-result-refused")
def test_a_wheel_is_checked_signed_verified_and_installed(tmp_path: Path) -> None:
    file = wheel(tmp_path, source=skill_source("acme"))
    public = plugins("key", "check.key").output.strip()
    made = plugins("check", str(file), "--sign", "check.key")
    assert made.exit_code == 0, made.output
    assert "Signed: acme-tools-1.0.check.json" in made.output
    result = "acme-tools-1.0.check.json"
    secret = jsontext.loads((tmp_path / "check.key").read_bytes())["secret"]
    assert secret not in made.output + (tmp_path / result).read_text()

    right = plugins("verify", result, "--key", public, str(file))
    assert right.exit_code == 0, right.output
    assert right.output.startswith("acme-tools 1.0: platinum; checked on 20")
    assert right.output.endswith("The result is for this wheel.\n")
    nothing = plugins("verify", result, "--key", public)
    assert nothing.output.endswith("No wheel or plugin was compared.\n")

    other = wheel(tmp_path / "other", source=skill_source("acme", body="return 'more'"))
    wrong = plugins("verify", result, "--key", public, str(other))
    assert wrong.exit_code == 2
    assert "is not the wheel that was checked: its SHA-256 is " in wrong.output

    refused = plugins("install", str(other), "--yes", "--result", result, "--key", public)
    assert refused.exit_code == 2, refused.output
    assert "acme-tools 1.0 is not what was checked" in refused.output
    assert not list((tmp_path / "home").glob("plugins/acme-tools"))
    installed = plugins("install", str(file), "--yes", "--result", result, "--key", public)
    assert installed.exit_code == 0, installed.output
    assert "acme-tools 1.0: platinum; checked on 20" in installed.output
    assert (
        "The result is for the installed plugin"
        in plugins("verify", result, "--key", public, "acme_tools").output
    )
    [module] = (tmp_path / "home" / "plugins" / "acme-tools").glob("*/acme_tools_acme.py")
    module.chmod(0o600)
    module.write_text(module.read_text() + "\n# changed\n")
    changed = plugins("verify", result, "--key", public, "acme-tools")
    assert changed.exit_code == 2
    assert "is not what was checked: its files" in changed.output
    # An upgrade that asks for nothing more asks nobody, and is compared all the same.
    upgraded = plugins("upgrade", str(other), "--result", result, "--key", public)
    assert upgraded.exit_code == 2, upgraded.output
    assert "is not what was checked" in upgraded.output


@pytest.mark.more
def test_what_is_no_wheel_is_not_signed(tmp_path: Path) -> None:
    from solward_cli.plugins import KINDS, create

    create("fresh", KINDS["guardrail"], tmp_path / "fresh")
    plugins("key", "check.key")
    refused = plugins("check", "fresh", "--sign", "check.key")
    assert refused.exit_code == 2
    assert "--sign: a result names the bytes that were checked; give a wheel" in refused.output
    assert not list(tmp_path.glob("*.check.json"))
    missing = plugins("check", "fresh", "--sign", "no.key")
    assert "no.key cannot be read: No such file" in missing.output


def test_result_and_key_belong_together(tmp_path: Path) -> None:
    for given in (["--result", "r.json"], ["--key", "ed25519:00"]):
        refused = plugins("install", "acme", *given)
        assert refused.exit_code == 2
        assert "--result and --key belong together" in refused.output


@pytest.mark.more
def test_what_ran_unconfined_is_bronze_and_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(_zygote: Zygote) -> str:
        return "this kernel is too old"

    monkeypatch.setattr(Zygote, "unavailable", unavailable)
    file = wheel(tmp_path, source=skill_source("acme"))
    plugins("key", "check.key")
    [made] = check_path_or_name(str(file))
    assert made.finding("host").detail == (
        "in a plugin host that this machine cannot confine (this kernel is too old): confinement"
        " was not checked"
    )
    assert made.grade is not None
    assert (made.grade.tier, made.grade.missing) == (TIERS[0], (made.finding("host"),))
    refused = plugins("check", str(file), "--sign", "check.key")
    assert refused.exit_code == 2
    assert "--sign: the plugin ran unconfined, where it could have read the key" in refused.output
    assert not list(tmp_path.glob("*.check.json"))
