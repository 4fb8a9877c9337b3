"""What mkdocs does with each page: links that leave docs/ lead to the repository, and each must exist there.

errors.md gets its table.
"""

import re
import sys
from pathlib import Path
from posixpath import dirname, normpath
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import errors  # noqa: E402


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    def leading_out(link: re.Match[str]) -> str:
        path, _, anchor = link[1].partition("#")
        target = normpath(f"docs/{dirname(page.file.src_uri)}/{path}")
        if target.startswith("docs/"):
            return link[0]
        if not (ROOT / target).exists():
            raise PluginError(f"{page.file.src_uri}: the link {link[1]} leads to {target}, which does not exist")
        return f"]({config.repo_url}/blob/main/{target}{'#' * bool(anchor)}{anchor})"

    markdown = re.sub(r"\]\((\.\./[^)\s]*)\)", leading_out, markdown)
    return markdown.replace(errors.BEGIN, errors.tables()) if errors.BEGIN in markdown else markdown
