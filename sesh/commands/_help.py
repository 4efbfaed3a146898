"""The help of a command: its aliases, its options in sections, and examples."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

from sesh.terminal import command_table
from sesh.terminal.main import Context, Formatter

OPTIONS = "Options"  # the section of options that name none


class Command(click.Command):
    context_class = Context
    sections: Mapping[str, str] = MappingProxyType({})  # parameter → section
    examples: Mapping[str, str] = MappingProxyType({})  # call → what it does

    def section_of(self, param: click.Parameter) -> str:
        """The section of an option; --help is in the first one."""
        return self.sections.get(param.name or "", next(iter(self.sections.values()), OPTIONS))

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        aliases = command_table.aliases(self.name or "")
        if aliases:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(f"Aliases: {', '.join(aliases)}")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                row = (record[0], param.help or "")  # without the range of a number
                sections.setdefault(self.section_of(param), []).append(row)
        names = [name for rows in sections.values() for name, _ in rows]
        width = max(len(name) for name in names if len(name) <= 30)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<{width}}", text) for name, text in rows])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        assert isinstance(formatter, Formatter)
        if self.examples:
            formatter.write_examples(self.examples)
