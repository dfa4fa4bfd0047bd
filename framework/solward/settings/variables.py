"""Sources of settings: variables of the environment and of the `.env` file.

Lines of a `.env` are read literally. dotenv would replace `${NAME}` by a variable of the
environment, so a stranger's file could put any secret into an address, or into the token that is
sent to it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Mapping
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from solward.types.errors import ConfigError

_OF_LIMITS: Final = ("MAX_", "DAILY_", "SPENDING_", "LIMIT")
_LEAST_LIKENESS: Final = 0.75
_NAME = re.compile(r"\s*(?:export\s+)?(\w+)")


def env_file_values(path: Path) -> dict[str, str | None]:
    """Return the value of each name in the file; empty if there is no such file."""
    return dotenv_values(path, encoding="utf-8", interpolate=False)


def check_env_file(path: Path, fields: Collection[str], candidates: Collection[str]) -> None:
    """Check the lines of a `.env`; raises `ConfigError` for a line that may have no effect.

    Args:
        fields: the names of all settings.
        candidates: the settings that a similar name may mean.
    """
    lines: dict[str, int] = {}
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for each in parse_stream(io.StringIO(text)):
        number = each.original.line
        found = _NAME.match(each.original.string) if each.error else None
        name = found[1] if found else each.key or ""
        where = f"{path.absolute()}, line {number}: {name}"
        if name.lower() not in fields:
            meant = meant_setting(name, candidates) if each.value else None
            if meant is not None:
                raise ConfigError(f"{where} is not a setting, so it has no effect; {meant} is one")
        elif each.error:
            raise ConfigError(f"{where} is not valid: expected {name}=VALUE")
        elif lines.setdefault(name.lower(), number) != number:
            raise ConfigError(f"{where} is in line {lines[name.lower()]} too; keep one of them")


def meant_setting(name: str, candidates: Collection[str]) -> str | None:
    """Return the setting, in capitals, that a misspelt variable probably means, or None."""
    name = name.upper()
    known = [each.upper() for each in candidates]
    closest = max(known, key=lambda each: SequenceMatcher(None, name, each).ratio())
    alike = max(known, key=lambda each: _name_similarity(name, each))
    if _name_similarity(name, alike) >= _LEAST_LIKENESS:
        return alike
    return closest if name.startswith(_OF_LIMITS) else None


def _name_similarity(name: str, other: str) -> float:
    """Measure the similarity of two names, from 0 to 1, without the words with which both begin or
    end, because other programs' names have words such as API_KEY or PASSWORD too."""
    words, others = name.split("_"), other.split("_")
    for at in (0, -1):
        while words and others and words[at] == others[at]:
            del words[at], others[at]
    return SequenceMatcher(None, "_".join(words), "_".join(others)).ratio()


class Variables(PydanticBaseSettingsSource):
    """Reads each field from the variable of its name, in upper or lower case.

    Every value is text, which the field's type converts. An empty value counts as not set.
    """

    def __init__(
        self, settings_cls: type[BaseSettings], variables: Mapping[str, str | None]
    ) -> None:
        super().__init__(settings_cls)
        self._texts = {name.lower(): text for name, text in variables.items() if text}

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return the text of a field's variable, the name, and False: the text is not JSON."""
        return self._texts.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        fields = self.settings_cls.model_fields
        return {name: text for name, text in self._texts.items() if name in fields}
