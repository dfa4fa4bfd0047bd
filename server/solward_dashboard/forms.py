"""Forms built from a JSON Schema, of a skill's parameters or a provider's options, or from the
fields of a declared request.

    form = Form(skill.parameters)
    ...
    try:
        params = form.values()
    except FormError:
        return  # the fields show the errors

Contents are read as exact values of the schema: numbers never become floats.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias

from nicegui import ui
from nicegui.elements.mixins.validation_element import ValidationElement

from solward.resources import fields as declared
from solward.support import jsontext
from solward.support.clean_text import one_line
from solward.types.address_book import AddressBook
from solward.types.errors import InvalidRequest
from solward_dashboard import parts as sw

Path: TypeAlias = tuple[str | int, ...]
"""The path of a value: `("payments", 0, "amount")`."""
Errors: TypeAlias = dict[Path, str]

_MAX_DEPTH = 4
_LONG_TEXT = 200
_WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
# A help text may be as long as a skill's description.
_MAX_LABEL = 100
_MAX_HELP = 1_024
_FIGURE = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_SIMPLE = {"string", "number", "integer", "boolean", "null"}
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,60}(?:\.[0-9]{0,60})?|\.[0-9]{1,60})", re.ASCII)
_REQUIRED = "is required"
# The value of an absent field.
_ABSENT: Final = object()
# Our own keyword: the labels of the values of `enum`, which JSON Schema cannot name.
_LABELS = "solward:labels"
RECIPIENT_HINT = "An address, or the name of a wallet or a contact."
_DAYS = {
    "type": "integer",
    "title": "Ends after days",
    "description": "Empty: it does not end by itself.",
    "minimum": 1,
    "maximum": 3650,
}


class Kind(StrEnum):
    """The kinds of inputs for fields."""

    TEXT = "text"
    """One line of text."""
    LONG_TEXT = "long_text"
    """Several lines of text."""
    NUMBER = "number"
    """A number, typed as text and read exactly."""
    SIMPLE = "simple"
    """Text that is read as one of several simple types."""
    SWITCH = "switch"
    """Yes or no."""
    CHOICE = "choice"
    """One of `choices`; the input's content is its index."""
    GROUP = "group"
    """An object with `fields`."""
    LIST = "list"
    """A list of any number of items like `item`."""
    JSON = "json"
    """Anything else, as JSON text."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form.

    Attributes:
        name: name of the property; for an item of a list, the list's name.
        help: description, bounds and default.
        schema: JSON Schema of only this value.
        initial: the input's first content: text, bool, the index of a choice, a dict for a group,
            a list for a list.
        unset: for an optional group, the content that means that it is absent.
    """

    name: str
    label: str
    kind: Kind
    required: bool
    help: str
    schema: Mapping[str, Any]
    initial: Any = None
    choices: tuple[Any, ...] = ()
    fields: tuple[Field, ...] = ()
    item: Field | None = None
    most: int | None = None
    unset: Any = None


def fields_of(
    schema: Mapping[str, Any], values: Mapping[str, Any] | None = None, depth: int = 0
) -> tuple[Field, ...]:
    """Return the fields of an object's schema, the required ones first.

    Args:
        values: known values; they override defaults.
    """
    required = schema.get("required", ())
    found = [
        field_of(name, each, name in required, (values or {}).get(name), depth)
        for name, each in schema.get("properties", {}).items()
    ]
    return tuple(sorted(found, key=lambda each: not each.required))


def field_of(
    name: str, schema: Mapping[str, Any], required: bool, value: Any = None, depth: int = 0
) -> Field:
    """Return the field for a schema; `value` overrides the default of the schema."""
    known = schema.get("default") if value is None else value
    label = one_line(str(schema.get("title") or name_text(name)), _MAX_LABEL)
    kind, choices = _kind_of(schema, required, depth)
    field = Field(name, label, kind, required, _help_text(schema), schema, choices=choices)
    if kind is Kind.GROUP:
        fields = fields_of(schema, known if isinstance(known, Mapping) else {}, depth + 1)
        initial = {each.name: each.initial for each in fields}
        unset = initial if value is None and not required else None
        return replace(field, fields=fields, initial=initial, unset=unset)
    if kind is Kind.LIST:
        item = field_of(name, schema["items"], True, depth=depth + 1)
        contents = [
            field_of(name, schema["items"], True, each, depth + 1).initial
            for each in (known if isinstance(known, list | tuple) else ())
        ]
        # A required list begins with an empty line.
        lines = max(int(schema.get("minItems", 0)), 1 if required else 0)
        contents += [item.initial] * (lines - len(contents))
        return replace(field, item=item, most=schema.get("maxItems"), initial=contents)
    return replace(field, initial=content_of(field, known))


def content_of(field: Field, value: Any) -> Any:
    """Return the content of a field's input that stands for a value."""
    if field.kind is Kind.CHOICE:
        places = [at for at, each in enumerate(field.choices) if is_same(each, value)]
        only = 0 if field.required and len(field.choices) == 1 else None
        return next(iter(places), only) if value is not None else only
    if field.kind is Kind.SWITCH:
        return value is True
    if field.kind is Kind.JSON:
        return "" if value is None else jsontext.dumps(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else _plain_text(value)


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal in JSON, where true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def name_text(name: str) -> str:
    """Return a name in words: `slippageBps` is `Slippage bps`, `max_items` is `Max items`."""
    words = [
        each if each.isupper() and len(each) > 1 else each.lower() for each in _WORD.findall(name)
    ]
    text = " ".join(words) or name
    return text[0].upper() + text[1:]


def _kind_of(schema: Mapping[str, Any], required: bool, depth: int) -> tuple[Kind, tuple[Any, ...]]:
    choices = _choices(schema)
    if choices is not None:
        return Kind.CHOICE, choices
    kinds = _allowed_types(schema)
    if kinds == {"boolean"}:
        # Without a default, absent differs from false: a choice of three.
        certain = required or "default" in schema
        return (Kind.SWITCH, ()) if certain else (Kind.CHOICE, (True, False))
    if kinds == {"string"}:
        long = int(schema.get("maxLength", 0)) > _LONG_TEXT
        return (Kind.LONG_TEXT if long else Kind.TEXT), ()
    if kinds and kinds <= {"number", "integer"}:
        return Kind.NUMBER, ()
    if kinds and kinds <= _SIMPLE:
        return Kind.SIMPLE, ()
    if depth < _MAX_DEPTH and not schema.keys() & {"anyOf", "oneOf"}:
        if kinds == {"object"} and "patternProperties" not in schema:
            return Kind.GROUP, ()
        if kinds == {"array"} and "prefixItems" not in schema and schema.get("items"):
            return Kind.LIST, ()
    return Kind.JSON, ()


def _choices(schema: Mapping[str, Any]) -> tuple[Any, ...] | None:
    if "const" in schema:
        return (schema["const"],)
    if "enum" in schema:
        return tuple(schema["enum"])
    branches = [_choices(each) for each in _alternatives(schema)]
    known = [each for each in branches if each is not None]
    return tuple(itertools.chain(*known)) if branches and len(known) == len(branches) else None


def _allowed_types(schema: Mapping[str, Any]) -> set[str]:
    """Return the types that a schema allows, without null, which means absent; maybe empty."""
    branches = _alternatives(schema)
    if branches and "type" not in schema:
        each = [_allowed_types(branch) for branch in branches]
        null = [branch.get("type") == "null" for branch in branches]
        if any(not kinds and not nothing for kinds, nothing in zip(each, null, strict=True)):
            return set()
        return set().union(*each)
    kinds = schema.get("type", ())
    return ({kinds} if isinstance(kinds, str) else set(kinds)) - {"null"}


def _alternatives(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


_BOUNDS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
)


def _help_text(schema: Mapping[str, Any]) -> str:
    description = one_line(str(schema.get("description", "")), _MAX_HELP)
    bounds = [text.format(_plain_text(schema[key])) for key, text in _BOUNDS if schema.get(key)]
    # A bound whose number is in the description is not repeated.
    mentioned = _FIGURE.findall(description.replace(",", ""))
    notes = [each for each in bounds if each.split()[-1] not in mentioned]
    if schema.get("examples"):
        notes.append(f"for example {_plain_text(schema['examples'][0])}")
    more = "; ".join(notes)
    told = f"{more[0].upper()}{more[1:]}." if more else ""
    return f"{description} {told}".strip()


def _plain_text(value: Any) -> str:
    if isinstance(value, float):
        value = Decimal(repr(value))
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


class FormError(ValueError):
    """A content is not valid; the form shows the error at its field."""

    def __init__(self, errors: Errors) -> None:
        texts = [f"{path_text(path)}: {text}" if path else text for path, text in errors.items()]
        super().__init__("; ".join(texts))
        self.errors = errors


class Form:
    """A form at the current place of the page.

    Args:
        schema: JSON Schema of an object, such as skills and providers declare.
        values: known values; they override the schema's defaults.
    """

    def __init__(self, schema: Mapping[str, Any], values: Mapping[str, Any] | None = None) -> None:
        self._schema = schema
        self._fields = fields_of(schema, values)
        self._recipients: dict[str, AddressBook] = {}
        with ui.element("div").classes("sw-form") as self.element:
            self._group = _Group(self._fields, ())
            self._error = sw.error_text()

    @property
    def empty(self) -> bool:
        """True if the form has no fields."""
        return not self._fields

    def values(self) -> dict[str, Any]:
        """Return the values; numbers are int or Decimal, absent values are left out.

        Raises:
            FormError: contents do not fit; the fields show why.
        """
        values, errors = self._read()
        self._group.show_errors(errors)
        self.show_error(errors.get((), ""))
        if errors:
            raise FormError(errors)
        return values

    def offer_names(self, field: str, recipients: AddressBook) -> None:
        """Let `field` accept recipients' names, with completion; its value is the address."""
        self._recipients[field] = recipients
        self._group.suggest(field, recipients.suggested)

    def _read(self) -> tuple[dict[str, Any], Errors]:
        content = self._group.content()
        unknown: Errors = {}
        for field, recipients in self._recipients.items():
            if str(content[field] or "").strip():
                try:
                    content[field] = recipients.address(content[field].strip(), field)
                except InvalidRequest as error:
                    unknown[(field,)] = str(error)
        values, errors = read(self._schema, self._fields, content)
        return values, errors | unknown

    def show_errors(self, errors: Errors) -> None:
        """Show errors at their fields, such as those of the service, and remove other errors."""
        self._group.show_errors(errors)

    def valid_values(self) -> dict[str, Any] | None:
        """Return the values, or None if one is invalid; no error is shown."""
        values, errors = self._read()
        return None if errors else values

    def clear(self) -> None:
        """Reset every field to its first content."""
        self._group.set_content({each.name: each.initial for each in self._fields})
        self._group.show_errors({})
        self.show_error("")

    def show_error(self, error: str) -> None:
        """Show an error of the whole form, such as the service's; an empty text removes it."""
        self._error.set_text(error)


def read_all(*forms: Form) -> list[dict[str, Any]]:
    """Return the values of several forms; raises `FormError` once all of them show their errors."""
    found: list[dict[str, Any]] = []
    errors: Errors = {}
    for each in forms:
        try:
            found.append(each.values())
        except FormError as error:
            errors |= error.errors
    if errors:
        raise FormError(errors)
    return found


class _Input(Protocol):
    def content(self) -> Any: ...
    def set_content(self, content: Any) -> None: ...
    def show_errors(self, errors: Errors) -> None: ...


class _Group:
    def __init__(self, fields: tuple[Field, ...], path: Path) -> None:
        self._inputs = {
            each.name: _INPUTS.get(each.kind, _Single)(each, (*path, each.name)) for each in fields
        }

    def content(self) -> dict[str, Any]:
        return {name: part.content() for name, part in self._inputs.items()}

    def suggest(self, field: str, names: list[str]) -> None:
        part = self._inputs[field]
        assert isinstance(part, _Single)
        part.suggest(names)

    def set_content(self, content: Any) -> None:
        for name, part in self._inputs.items():
            part.set_content(content[name])

    def show_errors(self, errors: Errors) -> None:
        for part in self._inputs.values():
            part.show_errors(errors)


class _Single:
    """A single NiceGUI input."""

    def __init__(self, field: Field, path: Path) -> None:
        self._path = path
        self._element = _make_input(field)
        self._element.without_auto_validation()
        self._element.classes("sw-field").props("outlined dense hide-bottom-space")
        self._element.props["data-testid"] = f"field-{path_text(path)}"
        if field.help:
            self._element.props["hint"] = field.help
        # The shown error was about the content before the change.
        self._element.on_value_change(lambda: self.show_errors({}))
        self.set_content(field.initial)

    def content(self) -> Any:
        return self._element.value

    def set_content(self, content: Any) -> None:
        self._element.set_value(content)

    def show_errors(self, errors: Errors) -> None:
        self._element.error = errors.get(self._path)

    def suggest(self, names: list[str]) -> None:
        """Offer names for completion, with a hint that a name may be typed."""
        assert isinstance(self._element, ui.input)
        self._element.set_autocomplete(names)
        self._element.props["hint"] = RECIPIENT_HINT


class _Switch:
    def __init__(self, field: Field, path: Path) -> None:
        self._path = path
        with ui.element("div").classes("sw-field"):
            self._element = ui.switch(field.label)
            self._element.props["data-testid"] = f"field-{path_text(path)}"
            if field.help:
                ui.label(field.help).classes("sw-dim")
            self._error = sw.error_text()
        self.set_content(field.initial)

    def content(self) -> bool:
        return bool(self._element.value)

    def set_content(self, content: Any) -> None:
        self._element.set_value(bool(content))

    def show_errors(self, errors: Errors) -> None:
        self._error.set_text(errors.get(self._path, ""))


class _Fieldset(_Group):
    """A nested object."""

    def __init__(self, field: Field, path: Path) -> None:
        with fieldset(_label(field), field.help):
            super().__init__(field.fields, path)


class _Lines:
    """A list with one line per item; lines can be added and removed."""

    def __init__(self, field: Field, path: Path) -> None:
        self._field = field
        self._path = path
        self._items: list[_Input] = []
        with fieldset(_label(field), field.help):
            self._place = ui.element("div").classes("sw-form")
            self._error = sw.error_text()
            self._more = ui.button(f"Add to {field.label.lower()}", icon="add", color=None)
            self._more.props("flat dense no-caps").on_click(self._add)
        self.set_content(field.initial)

    def content(self) -> list[Any]:
        return [each.content() for each in self._items]

    def set_content(self, content: Any) -> None:
        # Removing a line changes the paths of all after it, so all lines are rebuilt.
        self._place.clear()
        self._items.clear()
        with self._place:
            for at, each in enumerate(content):
                self._add_line(at, each)
        self._more.set_enabled(self._field.most is None or len(self._items) < self._field.most)

    def show_errors(self, errors: Errors) -> None:
        self._error.set_text(errors.get(self._path, ""))
        for each in self._items:
            each.show_errors(errors)

    def _add_line(self, at: int, content: Any) -> None:
        item = self._field.item
        assert item is not None
        with ui.element("div").classes("sw-line"):
            part = _INPUTS.get(item.kind, _Single)(item, (*self._path, at))
            part.set_content(content)
            self._items.append(part)
            less = ui.button(icon="remove_circle_outline", color=None).props("flat round dense")
            less.props["aria-label"] = f"Remove {self._field.label.lower()} {at + 1}"
            less.on_click(
                lambda: self.set_content([*self.content()[:at], *self.content()[at + 1 :]])
            )

    def _add(self) -> None:
        assert self._field.item is not None
        self.set_content([*self.content(), self._field.item.initial])


_INPUTS: dict[Kind, Callable[[Field, Path], _Input]] = {
    Kind.SWITCH: _Switch,
    Kind.GROUP: _Fieldset,
    Kind.LIST: _Lines,
}


@contextmanager
def fieldset(title: str, about: str = "") -> Iterator[None]:
    """Group the fields that are built inside under a title."""
    with ui.element("fieldset").classes("sw-fieldset"):
        with ui.element("legend"):
            ui.label(title)
        if about:
            ui.label(about).classes("sw-dim")
        yield


def _label(field: Field) -> str:
    return field.label if field.required else f"{field.label} (optional)"


def _make_input(field: Field) -> ValidationElement[Any]:
    label = _label(field)
    if field.kind is Kind.CHOICE:
        names = {True: "yes", False: "no", None: "nothing"}
        labels = field.schema.get(_LABELS) or [
            names[each] if each is None or isinstance(each, bool) else str(each)
            for each in field.choices
        ]
        many = len(labels) > sw.MANY
        options = dict(enumerate(labels))
        return ui.select(options, label=label, clearable=not field.required, with_input=many)
    if field.kind in (Kind.LONG_TEXT, Kind.JSON):
        return ui.textarea(label).props("autogrow")
    element = ui.input(label)
    if field.schema.get("format") == "password" or field.schema.get("writeOnly"):
        element.props("type=password autocomplete=off")
    elif field.kind is Kind.NUMBER:
        element.props("inputmode=decimal autocomplete=off")
    else:
        element.props("autocomplete=off spellcheck=false")
    return element


def read(
    schema: Mapping[str, Any], fields: Sequence[Field], content: Mapping[str, Any]
) -> tuple[dict[str, Any], Errors]:
    """Return the values, and the errors by path, which is `()` for an error of the whole form.

    Numbers are `int` or `Decimal`, never float. Absent fields are left out, so that the service's
    defaults hold.
    """
    errors: Errors = {}
    values = _read_group(fields, content, (), errors)
    if not errors:
        try:
            _validate(schema, values)
        except InvalidRequest as error:
            errors[()] = str(error)
    return values, errors


def _validate(schema: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    # Imported here because jsonschema takes 3 MB, and pages are shown more than forms are sent.
    from solward.plugins.parameters import Parameters

    Parameters(schema).validate(values)


def path_text(path: Path) -> str:
    """Return a path as text, such as `payments[0].amount`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _read_group(
    fields: Sequence[Field], content: Mapping[str, Any], path: Path, errors: Errors
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields:
        value = _read_value(field, content.get(field.name), (*path, field.name), errors)
        if value is not _ABSENT:
            values[field.name] = value
    return values


def _read_value(field: Field, content: Any, path: Path, errors: Errors) -> Any:
    if field.kind is Kind.GROUP:
        inner = content if isinstance(content, Mapping) else {}
        if inner == field.unset:
            return _ABSENT
        return _read_group(field.fields, inner, path, errors)
    if field.kind is Kind.LIST:
        return _read_list(field, content or [], path, errors)
    if field.kind is Kind.SWITCH:
        return bool(content)
    if field.kind is Kind.CHOICE:
        return _check(field, _ABSENT if content is None else field.choices[content], path, errors)
    text = "" if content is None else str(content)
    if not text.strip():
        return _check(field, _ABSENT, path, errors)
    try:
        value = _parse_text(field, text)
    except ValueError as error:
        errors[path] = str(error)
        return _ABSENT
    return _check(field, value, path, errors)


def _read_list(field: Field, content: Sequence[Any], path: Path, errors: Errors) -> Any:
    absent = not content and not field.required and "default" not in field.schema
    if field.item is None or absent:
        return _ABSENT
    values = [_read_value(field.item, each, (*path, at), errors) for at, each in enumerate(content)]
    if not any(each[: len(path)] == path for each in errors):
        problem = _problem_text(field, values)
        if problem is not None:
            errors[path] = problem
    return values


def _check(field: Field, value: Any, path: Path, errors: Errors) -> Any:
    if value is _ABSENT:
        if field.required:
            if _problem_text(field, None) is None:
                return None
            errors[path] = _REQUIRED
        return value
    problem = _problem_text(field, value)
    if problem is not None:
        errors[path] = problem
    return value


def _parse_text(field: Field, text: str) -> Any:
    if field.kind is Kind.NUMBER:
        return _parse_number(text)
    if field.kind is Kind.JSON:
        try:
            return jsontext.read(text)
        except ValueError as error:
            raise ValueError(f"must be JSON: {error}") from None
    if field.kind is not Kind.SIMPLE:
        return text
    # The text is read as the narrowest type that fits.
    value: Any = {"true": True, "false": False}.get(text.strip(), text)
    if _NUMBER.fullmatch(text.strip()):
        value = _parse_number(text)
    return value if _problem_text(field, value) is None else text


def _parse_number(text: str) -> Decimal | int:
    plain = text.strip()
    if not _NUMBER.fullmatch(plain):
        raise ValueError("must be a number such as 0.5")
    number = Decimal(plain)
    return int(number) if "." not in plain else number


def _problem_text(field: Field, value: Any) -> str | None:
    """Return why a value is invalid, in the service's words; None if it is valid."""
    try:
        _validate({"properties": {"value": field.schema}}, {"value": value})
    except InvalidRequest as error:
        return "; ".join(each.removeprefix("value: ") for each in str(error).split("; value: "))
    return None


def form_schema(fields: Iterable[declared.Field]) -> dict[str, Any]:
    """Return the schema of a form with those of the fields that the dashboard shows."""
    shown = [each for each in fields if "dashboard" not in each.left_out]
    return {
        "type": "object",
        "properties": {each.json: _schema(each) for each in shown},
        "required": [each.json for each in shown if each.is_required],
        "additionalProperties": False,
    }


class RequestForm(Form):
    """A form at the current place of the page. Its values are the client's arguments.

    Args:
        known: values by their names in JSON.
        choices: field -> its options, as value -> label; "" means no value.
    """

    def __init__(
        self,
        fields: Iterable[declared.Field],
        known: Mapping[str, Any] | None = None,
        choices: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._declared = tuple(fields)
        schema = form_schema(self._declared)
        for each in self._declared:
            if each.name in (choices or {}):
                options = (choices or {})[each.name]
                listed = {"enum": [*options], _LABELS: [*options.values()]}
                schema["properties"][each.json] = {"title": each.label} | listed
                schema["required"].append(each.json)
        super().__init__(schema, known)

    def values(self) -> dict[str, Any]:
        """See `Form.values`."""
        given = super().values()
        found = {
            each.name: given[each.json]
            for each in self._declared
            # Defaults are left to the service, since another field may exclude them.
            if each.json in given and given[each.json] not in (each.default, "")
        }
        for each in self._declared:
            if isinstance(each, declared.Time) and each.name in found:
                found[each.name] = datetime.now(UTC) + timedelta(days=found[each.name])
        return found


def _schema(field: declared.Field) -> dict[str, Any]:
    if isinstance(field, declared.Time):
        return _DAYS
    made = field.form_schema()
    if isinstance(field.default, declared.Setting):
        text = f"{field.text} Empty: the service's {field.default.name}."
        return {name: value for name, value in made.items() if name != "default"} | {
            "description": text
        }
    return made
