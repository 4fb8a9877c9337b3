"""Text from users in a model card: escaped, so that Markdown shows it as it is, and with paths cut to the last name."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import PurePosixPath, PureWindowsPath

from markupsafe import Markup

# an underscore within a word means nothing; a colon may begin an address or an emoji's name
SPECIAL = re.compile(r"[\\`*\[\]<>#|~&$^@]|(?<![^\W_])_|_(?![^\W_])|:(?=\S)")
STARTS = re.compile(r"^( ?\d*)([-+.=])(?=[-=\s]|$)")  # of a list, a rule or the line below a heading
JOINERS = "\u200c\u200d"  # zero width, but part of words in Persian, Hindi and others

_QUOTED = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_ADDRESS = re.compile(r"\b\w+://\S+")
# up to the last slash; names may have spaces within, but what follows an ending such as ".csv" is another word
_ROOTED = re.compile(r"(?<![\w/<])(?:~|\.{1,2})?/(?=[^\s/])(?:(?:(?!\.\w{1,8}\s)[^/\n,;:|<>\"'])*(?<!\s)/)*")
_DRIVE = re.compile(r"\b[A-Za-z]:\\(?:[^\\\n,;|<>\"']*\\)*|\\\\(?:[^\\\n,;|<>\"']+\\)+")
_BELOW = re.compile(r"(?:[\w.~-]+/)+(?=[\w.-]+\.(?:csv|tsv|txt|jsonl?|parquet|arrow|xml|toml|html|gz|zst)\b)")


def escaped(value: object) -> Markup:
    """Return the value on one line, with a backslash before each character that Markdown or HTML would interpret.

    A character that cannot be printed, such as one that changes the direction of writing, becomes a space. A `Markup`
    is Markdown already and stays as it is.
    """
    if isinstance(value, Markup):
        return value
    printable = "".join(
        character if character.isprintable() or character in JOINERS else " " for character in str(value)
    )
    marked = SPECIAL.sub(r"\\\g<0>", re.sub(" +", " ", printable))
    marked = re.sub(r"(?i)\bwww\.", r"www\\.", marked)  # otherwise Markdown makes it a link
    return Markup(STARTS.sub(r"\1\\\2", marked))


def fenced(text: str, language: str = "") -> Markup:
    """Return a block of code whose fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}{language}\n{text}\n{fence}")


def without_paths(text: str) -> str:
    """Return the text with the last name of each path in its place. Web addresses stay."""
    parts, end = [], 0
    for address in _ADDRESS.finditer(text):
        parts += [_names_only(text[end : address.start()]), address[0]]
        end = address.end()
    return "".join([*parts, _names_only(text[end:])])


def command_without_paths(command: str, keep: str | None = None) -> str:
    """Return a command line, or a call in Python, with the last name of each path in its place.

    keep: a hub id, which stays as it is
    """
    if re.match(r"[\w.]+\(", command):  # a call in Python
        return without_paths(_QUOTED.sub(lambda quoted: _string(quoted[0], keep), command))
    if not command.startswith("acclimate "):  # words
        return without_paths(command)
    return shlex.join(_word(word, keep) for word in shlex.split(command))


def _string(literal: str, keep: str | None) -> str:
    """Return a string literal of Python with the last name if it is a path. What has white space may be words."""
    value = ast.literal_eval(literal)
    return literal if re.search(r"\s", value) else repr(_name(value, keep))


def _word(word: str, keep: str | None) -> str:
    name, equals, value = word.partition("=")
    if equals and "/" not in name:
        return f"{name}={_name(value, keep)}"
    return _name(word, keep)


def _name(value: str, keep: str | None) -> str:
    if value == keep or _ADDRESS.fullmatch(value):
        return value
    if re.match(r"[A-Za-z]:\\|\\\\", value):
        return PureWindowsPath(value).name
    return (PurePosixPath(value).name or ".") if "/" in value else value


def _names_only(text: str) -> str:
    return _BELOW.sub("", _ROOTED.sub("", _DRIVE.sub("", text)))
