"""Where settings are read from: variables of the environment and of the `.env` file.

Lines of a `.env` are taken as they are written. dotenv would replace `${NAME}` by a variable of the
environment: a stranger's file could have any secret of it as part of an address, or as the token
that goes there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource


def env_file_values(path: Path) -> dict[str, str | None]:
    """name -> value of each line; none where there is no such file."""
    return dotenv_values(path, encoding="utf-8", interpolate=False)


class Variables(PydanticBaseSettingsSource):
    """Reads each field from the variable of its name, in upper or lower case.

    Every value is a text, which the field's type converts. An empty one counts as not set.
    """

    def __init__(
        self, settings_cls: type[BaseSettings], variables: Mapping[str, str | None]
    ) -> None:
        super().__init__(settings_cls)
        self._texts = {name.lower(): text for name, text in variables.items() if text}

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Returns the text of a field's variable, its name, and that it is no JSON."""
        return self._texts.get(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        fields = self.settings_cls.model_fields
        return {name: text for name, text in self._texts.items() if name in fields}
