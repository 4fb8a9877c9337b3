"""Groups of verbs in which an option that takes one value is refused if it is typed twice or without a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # click's, or that of the copy of click in newer typer


class _Verb(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in order:
            value = values.get(parameter.name)
            if value == "" or (isinstance(value, list | tuple) and "" in value):
                raise USAGE_ERROR(f"{parameter.opts[-1]} is empty. Give it a value, or leave it out", ctx=ctx)
        for parameter, count in Counter(order).items():
            if count > 1 and not (parameter.multiple or ctx.resilient_parsing) and parameter.nargs == 1:
                raise USAGE_ERROR(f"{parameter.opts[-1]} appears {count} times. Give it once", ctx=ctx)
        return super().parse_args(ctx, args)


class Verbs(typer.Typer):
    """A group of verbs."""

    def command(self, *arguments: Any, **settings: Any) -> Callable[..., Any]:
        return super().command(*arguments, **{"cls": _Verb, **settings})
