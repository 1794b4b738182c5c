"""Reads configuration values and remembers everything that is wrong with them."""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, TypeVar, cast

T = TypeVar("T")


class SettingsError(Exception):
    """Every problem of a stack's configuration, one line each."""

    def __init__(self, stack: str, problems: Collection[str]) -> None:
        self.problems = tuple(problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"the configuration of stack {stack} has {_count(len(self.problems))}:\n{lines}")


class Required:
    """Marks a key that has no default."""


REQUIRED: Final = Required()


class Keys:
    """The configuration of one stack, asked for key by key.

    A value that cannot be used is noted and reading goes on, so that `finish` reports all problems
    at once. What a failed reading returns must not be used before `finish` has passed.

    Args:
        stack: Name of the stack, for the error's first line.
        project: Name of the Pulumi project: the namespace of keys that are written without one.
        values: Full key (`namespace:name`) to its text, as Pulumi hands it to the program.
        secrets: The full keys whose values are stored encrypted.
    """

    def __init__(
        self, *, stack: str, project: str, values: Mapping[str, str], secrets: Collection[str]
    ) -> None:
        self._stack = stack
        self._project = project
        self._values = dict(_flatten(values))
        self._secrets = secrets
        self._asked: dict[str, None] = {}
        self._problems: list[tuple[str, str]] = []

    def parsed(
        self, key: str, parse: Callable[[str], T], default: T | Required = REQUIRED, *, set_as: str
    ) -> T:
        """The value of `key` as `parse` understands it.

        Args:
            key: As an error names it: `capacity.type`, or with a namespace, `gcp:project`.
            parse: Raises ValueError with what is wrong and what to do.
            default: Used when the key is absent; without one the key is required.
            set_as: Example of a value, for the remedy of a missing key.
        """
        self._asked[key] = None
        text = self._values.get(self._full(key))
        if text is None:
            if isinstance(default, Required):
                self.problem(key, f"missing; set it with `pulumi config set {key} {set_as}`")
                return cast(T, None)
            return default
        try:
            return parse(text)
        except ValueError as error:
            self.problem(key, str(error))
            return cast(T, None)

    def text(
        self, key: str, pattern: str, rule: str, default: str | Required = REQUIRED, *, set_as: str
    ) -> str:
        """A text that matches `pattern` as a whole; `rule` says the pattern in words."""

        def parse(text: str) -> str:
            if not re.fullmatch(pattern, text):
                raise ValueError(f"{text!r} is not {rule}")
            return text

        return self.parsed(key, parse, default, set_as=set_as)

    def flag(self, key: str, default: bool) -> bool:
        """A truth value, written true or false."""

        def parse(text: str) -> bool:
            if text not in ("true", "false"):
                raise ValueError(f"{text!r} is neither true nor false")
            return text == "true"

        return self.parsed(key, parse, default, set_as="true")

    def integer(self, key: str, default: T, *, minimum: int, maximum: int) -> int | T:
        """A whole number between `minimum` and `maximum`, both allowed."""

        def parse(text: str) -> int:
            if not re.fullmatch(r"-?\d+", text) or not minimum <= int(text) <= maximum:
                raise ValueError(f"{text!r} is not a whole number from {minimum} to {maximum}")
            return int(text)

        return self.parsed(key, parse, default, set_as=str(default))

    def choice(self, key: str, choices: Collection[str], default: str | Required = REQUIRED) -> str:
        """One of `choices`."""

        def parse(text: str) -> str:
            if text not in choices:
                raise ValueError(f"{text!r} is not one of {', '.join(choices)}{_did_you_mean(text, choices)}")
            return text

        return self.parsed(key, parse, default, set_as="|".join(choices))

    def secret(self, key: str, rule: str, *, required: bool = True) -> None:
        """Checks a key that must be stored encrypted; the value itself never comes near a message.

        Args:
            key: The key.
            rule: What the value is, for the remedy.
            required: Whether there must be one.
        """
        self._asked[key] = None
        if not required and self._full(key) not in self._values:
            return
        command = f"`pulumi config set --secret {key}` asks for it and stores it encrypted"
        text = self._values.get(self._full(key))
        if text is None:
            self.problem(key, f"missing: {rule}; {command}")
        elif self._full(key) not in self._secrets:
            self.problem(key, f"is stored in plain text; remove it from the stack file, then {command}")
        elif not text or re.search(r"\s", text):
            self.problem(key, f"is empty or holds white space, so it is not {rule}; {command}")

    def problem(self, key: str, what: str) -> None:
        """Notes what is wrong with a key."""
        self._problems.append((key, what))

    def none_of(self, *keys: str, because: str) -> None:
        """Refuses keys that other keys leave without a meaning."""
        for key in keys:
            self._asked[key] = None
            if self._full(key) in self._values:
                self.problem(key, f"{because}; remove it with `pulumi config rm {key}`")

    def refused(self, *keys: str) -> bool:
        """Whether a problem has been noted for one of `keys`."""
        return any(key in keys for key, _ in self._problems)

    def finish(self) -> None:
        """Closes the reading: a key that nobody asked for is a problem too.

        Raises:
            SettingsError: As `check`.
        """
        self._problems += self._unknown()
        self.check()

    def check(self) -> None:
        """Raises SettingsError with every problem noted so far, if there is one."""
        if self._problems:
            raise SettingsError(self._stack, [f"{key}: {what}" for key, what in self._problems])

    def _unknown(self) -> Iterator[tuple[str, str]]:
        known = set(self._asked)
        for full in sorted(self._values):
            namespace, _, name = full.partition(":")
            if namespace == self._project:
                if name not in known:
                    yield name, f"unknown key{_did_you_mean(name, known) or _known(known)}"
            elif namespace not in _PROVIDER_NAMESPACES:
                own = {f"{self._project}:{key}" for key in known if ":" not in key}
                yield full, f"unknown namespace {namespace}{_did_you_mean(full, own)}"

    def _full(self, key: str) -> str:
        return key if ":" in key else f"{self._project}:{key}"


# Keys that the engine and the providers read themselves.
_PROVIDER_NAMESPACES: Final = ("gcp", "kubernetes", "pulumi")


def _did_you_mean(text: str, known: Collection[str]) -> str:
    """The end of a message: the known word nearest to `text`, if one is near."""
    near = difflib.get_close_matches(text, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _known(keys: Collection[str]) -> str:
    return f"; this scenario has {', '.join(sorted(keys))}"


def _flatten(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """`pulumi config set --path capacity.type spot` stores an object: read it as `capacity.type`."""
    for key, text in values.items():
        nested = _object(text)
        if nested is None:
            yield key, text
        else:
            inner = {f"{key}.{name}": _as_text(value) for name, value in nested.items()}
            yield from _flatten(inner)


def _object(text: str) -> dict[str, object] | None:
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _count(number: int) -> str:
    return "a problem" if number == 1 else f"{number} problems"
