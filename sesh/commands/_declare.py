"""The options and arguments of a command, declared as data.

click costs three starts of a bare interpreter. So a well-formed call is parsed here, from the
declaration; for any other call, for help and for completions, click gets the same declaration.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    import click

    F = TypeVar("F", bound=Callable[..., Any])

COUNT = "count"  # the type of a whole number from 0 on


class Parameter:
    """One option or argument, in the words of click."""

    def __init__(self, words: tuple[str, ...], more: dict[str, Any]) -> None:
        self.words, self.more = words, more
        self.switches = [word for word in words if word.startswith("-")]
        plain = [word for word in words if not word.startswith("-")]
        longest = max(words, key=lambda word: len(word) - len(word.lstrip("-")))
        self.name = plain[0] if plain else longest.lstrip("-").replace("-", "_")
        self.flag = more.get("is_flag", False)
        self.many = more.get("multiple", False) or more.get("nargs") == -1

    def default(self) -> Any:
        return self.more.get("default", False if self.flag else () if self.many else None)

    def read(self, text: str) -> Any:
        """The value that a text means; None where only click can tell."""
        kind = self.more.get("type")
        if not text or text.startswith("-"):
            return None
        if kind is None:
            return text
        if kind == COUNT:
            return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
        return text if isinstance(kind, tuple) and text in kind else None


class Declared:
    """A command: its function and its parameters."""

    def __init__(self, function: Callable[..., Any], name: str, more: dict[str, Any]) -> None:
        self.function, self.name, self.more = function, name, more
        self.parameters: list[Parameter] = list(reversed(function.__dict__.pop(_ATTRIBUTE, [])))
        needs_context = hasattr(function, "__wrapped__")  # click.pass_context
        variables = any("envvar" in one.more for one in self.parameters)
        self.plain = not (more or needs_context or variables)

    def parse(self, argv: Sequence[str]) -> dict[str, Any] | None:
        """The arguments of the function, as click would give them; None where click has to read the
        call: a mistake, an abbreviation, anything that stands for more than itself."""
        if not self.plain:
            return None
        switches = {word: one for one in self.parameters for word in one.switches}
        given: dict[str, Any] = {}
        rest: list[str] = []
        words = iter(argv)
        for word in words:
            if not word.startswith("-"):
                rest.append(word)
                continue
            switch, equals, text = word.partition("=")
            option = switches.get(switch)
            if option is None or (equals and not switch.startswith("--")):
                return None
            value = True if option.flag else option.read(text if equals else next(words, "-"))
            repeated = option.name in given and not option.many
            if value is None or repeated or (option.flag and equals):
                return None
            given[option.name] = (*given.get(option.name, ()), value) if option.many else value
        if not self._place(rest, given):
            return None
        wanted = [one for one in self.parameters if one.more.get("expose_value", True)]
        return {one.name: given.get(one.name, one.default()) for one in wanted}

    def _place(self, rest: list[str], given: dict[str, Any]) -> bool:
        """Give the other words to the arguments; False where there are too many or too few."""
        for one in self.parameters:
            if one.switches:
                continue
            count = len(rest) if one.many else 1
            taken, rest = rest[:count], rest[count:]
            values = [one.read(text) for text in taken]
            if None in values or (not taken and one.more.get("required", not one.many)):
                return False
            if taken:
                given[one.name] = tuple(values) if one.many else values[0]
        return not rest

    def click(self) -> click.Command:
        """The same command, made by click."""
        import click

        from sesh.commands import _types

        function = self.function
        for one in reversed(self.parameters):
            more = dict(one.more)
            if isinstance(more.get("type"), (str, tuple)):
                more["type"] = _types.named(more["type"])
            decorate: Any = click.option if one.switches else click.argument
            function = decorate(*one.words, **more)(function)
        make: Any = click.command(self.name, context_settings=_CONTEXT, **self.more)
        made: click.Command = make(function)
        return made


_CONTEXT = {"help_option_names": ["-h", "--help"]}
_ATTRIBUTE = "_sesh_parameters"


def declare(name: str, **more: Any) -> Callable[[Callable[..., Any]], Declared]:
    return lambda function: Declared(function, name, more)


def option(*words: str, **more: Any) -> Callable[[F], F]:
    def add(function: F) -> F:
        function.__dict__.setdefault(_ATTRIBUTE, []).append(Parameter(words, more))
        return function

    return add


argument = option  # without a switch among its words
