"""What is taken out of a docstring: markup and doctests from every text, names of packages from the task's texts.

A text that names the package it comes from can be classified without being understood. So imports, references, dotted
names and names of packages or modules written as code become the word MASK. English stays English: "signal",
"sparse matrix" and "optimize" are the language of the field; `signal` in backticks and "the optimize module" are names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

MASK = "package"
LINK = "link"

# a prompt and all up to the next empty line
DOCTEST = re.compile(r"^[ \t]*>>>.*\n(?:[ \t]*\S.*\n)*", re.MULTILINE)
# directives without a text of their own, and the options of any
DIRECTIVE = re.compile(
    r"^[ \t]*\.\.[ ]+(?:_|(?:plot|autosummary|toctree|currentmodule|module|auto\w+|index|highlight|image|figure|"
    r"testsetup|testcode|include|contents|code|code-block|sourcecode|legacy)::).*\n"
    r"|^[ \t]+:[\w-]+:(?!`).*\n",
    re.MULTILINE,
)
# what a decorator would fill in
PLACEHOLDER = re.compile(r"%\(\w[^)\n]*\)s|^[ \t]*\{+\w+\}+[ \t]*$", re.MULTILINE)
_TITLE = r"[A-Z][\w ]{2,30}[ \t]*\n[ \t]*[-=~]{3,}[ \t]*\n"
EMPTY_SECTION = re.compile(rf"^{_TITLE}\s*(?=\Z|^{_TITLE})", re.MULTILINE)
UNDERLINE = re.compile(r"^[ \t]*([-=~*^#])\1{2,}[ \t]*\n", re.MULTILINE)

ADDRESS = re.compile(r"(?:(?:https?|ftp)://|\bwww\.)[^\s>`)\],]+(?<!\.)|:(?:doi|arxiv):`[^`]*`")
IMPORT = re.compile(
    r"^[ \t]*(?:from[ ]+[\w.]+[ ]+import\b.*"
    r"|import[ ]+[\w.]+(?:[ ]+as[ ]+\w+)?(?:[ ]*,[ ]*[\w.]+(?:[ ]+as[ ]+\w+)?)*[ \t]*)(?:\n|\Z)",
    re.MULTILINE,
)
ROLE = re.compile(r":(?!math:)[a-z]+(?::[a-z]+)?:`[^`]*`")
DOTTED = re.compile(r"~?(?<![\w.])_*[A-Za-z]\w*(?:\.[A-Za-z_]\w*)+")
AS_CODE = (
    re.compile(r"(?P<ticks>`+)(?P<name>\w+)(?P=ticks)"),
    re.compile(r"(?<![\w-])(?P<name>\w+)(?=\s+(?:(?:sub)?(?:modules?|packages?)|namespaces?|library)\b)"),
    re.compile(r"(?<=\bmodule )(?P<name>\w+)\b"),
    re.compile(r"(?<![\w-])(?P<name>_\w+)"),
)


def plain(text: str) -> str:
    """The text without doctests, directives that only steer Sphinx, placeholders, underlines and empty sections."""
    text = DOCTEST.sub("", text + "\n")
    text = PLACEHOLDER.sub("", DIRECTIVE.sub("", text))
    return _tidy(UNDERLINE.sub("", EMPTY_SECTION.sub("", text)))


def masker(packages: Iterable[str], modules: Iterable[str]) -> Callable[[str], str]:
    """A function that masks the names in a text which `plain` has cleaned.

    packages  masked wherever they stand as a word, in any case, and in dotted names: "scipy", "np", "linalg"
    modules   masked in dotted names and as code, that is in backticks or beside the word module, package or the like:
              "optimize", "sparse". Those that begin with an underscore are masked everywhere.
    """
    packages, modules = frozenset(packages), frozenset(modules)
    known = packages | modules
    everywhere = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(packages)))})(?![\w-])", re.IGNORECASE)

    def dotted(found: re.Match[str]) -> str:
        parts = found[0].lstrip("~").split(".")
        # "norm.pdf" and "OptimizeResult.x" say whose attribute it is; "i.e.", "A.T" and "J.A.Nelder" do not
        return MASK if len(parts[0]) > 1 or not known.isdisjoint(parts) else found[0]

    def as_code(found: re.Match[str]) -> str:
        return found[0].replace(found["name"], MASK) if found["name"] in modules else found[0]

    def mask(text: str) -> str:
        text = ROLE.sub(MASK, ADDRESS.sub(LINK, IMPORT.sub("", text)))
        text = everywhere.sub(MASK, DOTTED.sub(dotted, text))
        for pattern in AS_CODE:
            text = pattern.sub(as_code, text)
        return _tidy(text)

    return mask


def _tidy(text: str) -> str:
    """Without spaces at line ends, and with one empty line at most between paragraphs."""
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)).strip()
