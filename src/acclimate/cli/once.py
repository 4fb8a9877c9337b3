"""Groups of verbs in which an option that takes one value is refused if it is typed twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

USAGE_ERROR: Any = typer.BadParameter.__mro__[1]  # click's, or that of the copy of click in newer typer


class _Verb(TyperCommand):
    def make_parser(self, ctx: Any) -> Any:
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            values, rest, order = parse(args)
            for parameter, count in Counter(order).items():
                takes_several = getattr(parameter, "multiple", True) or getattr(parameter, "nargs", 1) != 1
                if count > 1 and not takes_several:
                    raise USAGE_ERROR(f"{parameter.opts[-1]} is given {count} times. Give it once", ctx=ctx)
            return values, rest, order

        parser.parse_args = parse_once
        return parser


class Verbs(typer.Typer):
    """A group of verbs."""

    def command(self, *arguments: Any, **settings: Any) -> Callable[..., Any]:
        return super().command(*arguments, **{"cls": _Verb, **settings})
