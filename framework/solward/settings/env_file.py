"""The `.env` of the working directory, its lines taken as they are written.

dotenv would put variables of the environment where a line names one as `${NAME}`: a stranger's file
could have any secret of it as part of an address, or as the token that goes there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dotenv import dotenv_values
from pydantic_settings import DotEnvSettingsSource
from pydantic_settings.sources.utils import parse_env_vars


def env_file_values(path: Path, encoding: str | None = None) -> dict[str, str | None]:
    """name -> value of each line; none where there is no such file."""
    return dotenv_values(path, encoding=encoding or "utf-8", interpolate=False)


class PlainEnvFile(DotEnvSettingsSource):
    """The source of settings that reads a `.env`."""

    def _read_env_file(self, file_path: Path) -> Mapping[str, str | None]:
        return parse_env_vars(
            env_file_values(file_path, self.env_file_encoding),
            self.case_sensitive,
            self.env_ignore_empty,
            self.env_parse_none_str,
        )
