"""The options and arguments of a command, declared as data.

click costs three starts of a bare interpreter. So a well-formed call is parsed here, from the
declaration; for any other call, for help and for completions, click gets the same declaration.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    import click

COUNT = "count"  # the type of a whole number from 0 on
_CONTEXT = {"help_option_names": ["-h", "--help"]}


class Parameter:
    """An option, with its switches and its section in the help, or an argument; `more` are keywords
    of click."""

    def __init__(self, name: str, *switches: str, section: str | None = None, **more: Any) -> None:
        self.name, self.switches, self.section, self.more = name, switches, section, more
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


# The default value of a parameter of a command's function declares it. (Typed so that it fits any
# parameter.)


def option(*switches: str, **more: Any) -> Any:
    return switches, more


def flag(*switches: str, **more: Any) -> Any:
    return switches, {"is_flag": True, **more}


def argument(**more: Any) -> Any:
    return (), more


def declare(
    name: str,
    *,
    after: Mapping[str, Sequence[Parameter]] | None = None,
    examples: Mapping[str, str] | None = None,
    **more: Any,
) -> Callable[[Callable[..., Any]], Declared]:
    """Make a command of a function. `after` has parameters that the function takes as keywords, by
    the parameter that they follow; `examples` has calls and what they do, for the help."""
    return lambda function: Declared(function, name, after or {}, examples or {}, more)


class Declared:
    """A command: its function and its parameters. A function may also take click's context."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        after: Mapping[str, Sequence[Parameter]],
        examples: Mapping[str, str],
        more: dict[str, Any],
    ) -> None:
        self.function, self.name, self.examples, self.more = function, name, examples, more
        declared = function.__defaults__ or ()
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        self.needs_context = len(names) > len(declared)
        self.parameters: list[Parameter] = []
        for word, (switches, keywords) in zip(names[-len(declared) :], declared, strict=False):
            self.parameters += (Parameter(word, *switches, **keywords), *after.get(word, ()))
        variables = any("envvar" in one.more for one in self.parameters)
        self.plain = not (more or self.needs_context or variables)

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
        return {one.name: given.get(one.name, one.default()) for one in self.parameters}

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

        from sesh.commands import _help, _types

        function = click.pass_context(self.function) if self.needs_context else self.function
        for one in reversed(self.parameters):
            more = dict(one.more)
            if isinstance(more.get("type"), (str, tuple)):
                more["type"] = _types.named(more["type"])
            decorate: Any = click.option if one.switches else click.argument
            function = decorate(*one.switches, one.name, **more)(function)
        more = {"cls": _help.Command, **self.more}
        make: Any = click.command(self.name, context_settings=_CONTEXT, **more)
        made: _help.Command = make(function)
        made.sections = {one.name: one.section for one in self.parameters if one.section}
        made.examples = self.examples
        return made
