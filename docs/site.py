"""What mkdocs does with each page: links that leave docs/ lead to the repository, and each must exist there."""

import re
from pathlib import Path
from posixpath import dirname, normpath
from typing import Any

from mkdocs.exceptions import PluginError

ROOT = Path(__file__).parent.parent


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    def leading_out(link: re.Match[str]) -> str:
        path, _, anchor = link[1].partition("#")
        target = normpath(f"docs/{dirname(page.file.src_uri)}/{path}")
        if target.startswith("docs/"):
            return link[0]
        if not (ROOT / target).exists():
            raise PluginError(f"{page.file.src_uri}: the link {link[1]} leads to {target}, which does not exist")
        return f"]({config.repo_url}/blob/main/{target}{'#' * bool(anchor)}{anchor})"

    return re.sub(r"\]\((\.\./[^)\s]*)\)", leading_out, markdown)
