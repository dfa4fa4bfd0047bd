"""Wheels made by hand, honest and hostile, with every byte of the archive as a test wants it."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.plugin_distributions import skill_source


def recorded(files: Mapping[str, bytes]) -> str:
    """The RECORD of files."""
    rows = []
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(content)}")
    return "\n".join(rows)


def wheel(
    folder: Path,
    files: Mapping[str, str | bytes] | None = None,
    *,
    name: str = "acme_tools",
    version: str = "1.0",
    plugin: str | None = "acme",
    group: str = "solward.skills",
    source: str | None = None,
    requires: tuple[str, ...] = (),
    entry_points: str = "",
    metadata: str | None = None,
    record: Callable[[str], str] = lambda text: text,
    change: Callable[[zipfile.ZipFile], None] = lambda _archive: None,
    file: str | None = None,
) -> Path:
    """Write a wheel of a `plugin` of a group and of `files`, and give its path.

    Args:
        source: the plugin's module; `{name}_{plugin}.py`.
        metadata: METADATA instead of the right one.
        record: changes the RECORD.
        change: adds to the archive after all else, unrecorded.
        file: its file name.
    """
    info = f"{name}-{version}.dist-info"
    content: dict[str, bytes] = {}
    for path, text in (files or {}).items():
        content[path] = text.encode() if isinstance(text, str) else text
    if plugin is not None:
        module = f"{name}_{plugin}"
        content[f"{module}.py"] = (source or skill_source(plugin)).encode()
        entry_points += f"\n[{group}]\n{plugin} = {module}\n"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    right = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
    content[f"{info}/METADATA"] = (metadata or right).encode()
    content[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    content[f"{info}/entry_points.txt"] = entry_points.encode()
    target = folder / (file or f"{name}-{version}-py3-none-any.whl")
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in {**content, f"{info}/RECORD": record(recorded(content)).encode()}.items():
            # Of one time, so that the same files are the same wheel.
            archive.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
        change(archive)
    return target
