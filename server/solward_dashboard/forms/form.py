"""A form out of a JSON Schema: of a skill's parameters, of a provider's options.

    form = schema_form(skill.parameters)
    ...
    try:
        params = form.values()
    except FormError:
        return  # the fields say what is wrong

The pure parts are in `fields.py` (what to ask for) and `reading.py` (what it means).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from solward_dashboard.forms.fields import Field, Kind, fields_of
from solward_dashboard.forms.reading import Errors, Path, path_text, read


class FormError(ValueError):
    """What is typed does not fit; the fields show why."""

    def __init__(self, errors: Errors) -> None:
        said = [f"{path_text(path)}: {text}" if path else text for path, text in errors.items()]
        super().__init__("; ".join(said))
        self.errors = errors


class Form:
    """A form on the page, filled in by whoever looks at it."""

    def __init__(self, schema: Mapping[str, Any], values: Mapping[str, Any] | None = None) -> None:
        self._schema = schema
        self._fields = fields_of(schema, values)
        with ui.element("div").classes("sw-form") as self.element:
            self._group = _Group(self._fields, ())
            self._error = ui.label().classes("sw-error").props("role=alert")
        self._error.set_visibility(False)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to fill in."""
        return not self._fields

    def values(self) -> dict[str, Any]:
        """What is filled in; numbers are int or Decimal, what is left out is not there.

        Raises:
            FormError: something does not fit; the fields show what.
        """
        values, errors = read(self._schema, self._fields, self._group.typed())
        self._group.mark(errors)
        self.say(errors.get((), ""))
        if errors:
            raise FormError(errors)
        return values

    def clear(self) -> None:
        """Back to how it was before anybody typed."""
        self._group.type({each.name: each.initial for each in self._fields})
        self._group.mark({})
        self.say("")

    def say(self, error: str) -> None:
        """An error of the whole, for example the service's; empty takes it away."""
        self._error.set_text(error)
        self._error.set_visibility(bool(error))


def schema_form(schema: Mapping[str, Any], values: Mapping[str, Any] | None = None) -> Form:
    """A form at this place of the page.

    Args:
        schema: of an object, as skills and providers declare theirs.
        values: what is known already; it takes the place of the schema's defaults.
    """
    return Form(schema, values)


class _Part(Protocol):
    def typed(self) -> Any: ...
    def type(self, typed: Any) -> None: ...
    def mark(self, errors: Errors) -> None: ...


class _Group:
    def __init__(self, fields: tuple[Field, ...], path: Path) -> None:
        self._parts = {each.name: _part(each, (*path, each.name)) for each in fields}

    def typed(self) -> dict[str, Any]:
        return {name: part.typed() for name, part in self._parts.items()}

    def type(self, typed: Any) -> None:
        for name, part in self._parts.items():
            part.type(typed[name])

    def mark(self, errors: Errors) -> None:
        for part in self._parts.values():
            part.mark(errors)


class _Box:
    """One input of Quasar's."""

    def __init__(self, field: Field, path: Path) -> None:
        self._path = path
        self._element = _BOXES[field.kind](field)
        self._element.without_auto_validation()
        self._element.classes("sw-field").props("outlined dense hide-bottom-space")
        self._element.props["data-testid"] = f"field-{path_text(path)}"
        if field.help:
            self._element.props["hint"] = field.help
        # A mark is about what was typed then.
        self._element.on_value_change(lambda: self.mark({}))
        self.type(field.initial)

    def typed(self) -> Any:
        return self._element.value

    def type(self, typed: Any) -> None:
        self._element.set_value(typed)

    def mark(self, errors: Errors) -> None:
        self._element.error = errors.get(self._path)


class _Switch:
    def __init__(self, field: Field, path: Path) -> None:
        self._path = path
        with ui.element("div").classes("sw-field"):
            self._element = ui.switch(field.label)
            self._element.props["data-testid"] = f"field-{path_text(path)}"
            if field.help:
                ui.label(field.help).classes("sw-dim")
            self._error = ui.label().classes("sw-error")
        self.type(field.initial)
        self.mark({})

    def typed(self) -> bool:
        return bool(self._element.value)

    def type(self, typed: Any) -> None:
        self._element.set_value(bool(typed))

    def mark(self, errors: Errors) -> None:
        self._error.set_text(errors.get(self._path, ""))
        self._error.set_visibility(self._path in errors)


class _Fieldset:
    """An object within the object."""

    def __init__(self, field: Field, path: Path) -> None:
        with ui.element("fieldset").classes("sw-fieldset"):
            _legend(field)
            self._group = _Group(field.fields, path)

    def typed(self) -> dict[str, Any]:
        return self._group.typed()

    def type(self, typed: Any) -> None:
        self._group.type(typed)

    def mark(self, errors: Errors) -> None:
        self._group.mark(errors)


class _Lines:
    """A list: a line an item, more and fewer of them."""

    def __init__(self, field: Field, path: Path) -> None:
        self._field = field
        self._path = path
        self._items: list[_Part] = []
        with ui.element("fieldset").classes("sw-fieldset"):
            _legend(field)
            self._place = ui.element("div").classes("sw-form")
            self._error = ui.label().classes("sw-error").props("role=alert")
            self._more = ui.button(f"Add to {field.label.lower()}", icon="add", color=None)
            self._more.props("flat dense no-caps").on_click(self._add)
        self.type(field.initial)
        self.mark({})

    def typed(self) -> list[Any]:
        return [each.typed() for each in self._items]

    def type(self, typed: Any) -> None:
        # The paths of all lines behind a removed one change, so they are made anew.
        self._place.clear()
        self._items.clear()
        with self._place:
            for at, each in enumerate(typed):
                self._line(at, each)
        self._more.set_enabled(self._field.most is None or len(self._items) < self._field.most)

    def mark(self, errors: Errors) -> None:
        self._error.set_text(errors.get(self._path, ""))
        self._error.set_visibility(self._path in errors)
        for each in self._items:
            each.mark(errors)

    def _line(self, at: int, typed: Any) -> None:
        item = self._field.item
        assert item is not None
        with ui.element("div").classes("sw-line"):
            part = _part(item, (*self._path, at))
            part.type(typed)
            self._items.append(part)
            less = ui.button(icon="remove_circle_outline", color=None).props("flat round dense")
            less.props["aria-label"] = f"Remove {self._field.label.lower()} {at + 1}"
            less.on_click(lambda: self.type([*self.typed()[:at], *self.typed()[at + 1 :]]))

    def _add(self) -> None:
        assert self._field.item is not None
        self.type([*self.typed(), self._field.item.initial])


def _part(field: Field, path: Path) -> _Part:
    made: Callable[[Field, Path], _Part] = _PARTS.get(field.kind, _Box)
    return made(field, path)


_PARTS: dict[Kind, Callable[[Field, Path], _Part]] = {
    Kind.SWITCH: _Switch,
    Kind.GROUP: _Fieldset,
    Kind.LIST: _Lines,
}


def _legend(field: Field) -> None:
    with ui.element("legend"):
        ui.label(_label(field))
    if field.help:
        ui.label(field.help).classes("sw-dim")


def _label(field: Field) -> str:
    return field.label if field.required else f"{field.label} (optional)"


def _input(field: Field) -> ValidationElement[Any]:
    made = ui.input(_label(field))
    if field.schema.get("format") == "password" or field.schema.get("writeOnly"):
        made.props("type=password autocomplete=off")
    elif field.kind is Kind.NUMBER:
        made.props("inputmode=decimal autocomplete=off")
    else:
        made.props("autocomplete=off spellcheck=false")
    return made


def _area(field: Field) -> ValidationElement[Any]:
    return ui.textarea(_label(field)).props("autogrow")


def _select(field: Field) -> ValidationElement[Any]:
    names = {True: "yes", False: "no", None: "nothing"}
    options = {
        at: names[each] if each is None or isinstance(each, bool) else str(each)
        for at, each in enumerate(field.choices)
    }
    return ui.select(options, label=_label(field), clearable=not field.required)


_BOXES: dict[Kind, Callable[[Field], ValidationElement[Any]]] = {
    Kind.TEXT: _input,
    Kind.NUMBER: _input,
    Kind.SIMPLE: _input,
    Kind.LONG_TEXT: _area,
    Kind.JSON: _area,
    Kind.CHOICE: _select,
}
