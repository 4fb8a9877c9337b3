"""What a preparation kept, and what it left out and why: as text, and as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

from acclimate.text.recognise import printable

KINDS = ("rejected", "empty", "short", "long", "language", "replaced", "deleted", "repeated", "nearly repeated")
_LANGUAGES = 8  # that are told
_UNREAD = 5  # files that are named


def as_text(facts: dict[str, Any]) -> str:
    """A table of counts, the languages found, and of each kind the first documents that were left out."""
    rows = [("", "documents", "characters"), *((name, f"{of:,}", f"{size:,}") for name, of, size in _counts(facts))]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{name:<{widths[0]}}  {of:>{widths[1]}}  {size:>{widths[2]}}" for name, of, size in rows]
    found = sorted(facts["languages"].items(), key=lambda item: (-item[1], item[0]))
    told = ", ".join(f"{name} {count:,}" for name, count in found[:_LANGUAGES])
    more = f" and {len(found) - _LANGUAGES} more" if len(found) > _LANGUAGES else ""
    lines += ["", f"Languages of what was read, by number of documents (und: unknown): {told}{more}."]
    if unread := facts["unread"]:
        several = f", and {len(unread) - _UNREAD:,} more" if len(unread) > _UNREAD else ""
        lines.append(f"Passed over for their endings: {', '.join(map(printable, unread[:_UNREAD]))}{several}.")
    for kind in KINDS:
        for name, met, excerpt in facts["examples"].get(kind, []):
            about = f" ({met})" if met else ""
            lines.append(f"{_meaning(kind, facts['settings'])}: {name}{about}{': ' if excerpt else ''}{excerpt}")
    return "\n".join(lines)


def as_csv(facts: dict[str, Any]) -> str:
    """The table of counts."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([("what", "documents", "characters"), *_counts(facts)])
    return file.getvalue()


def _counts(facts: dict[str, Any]) -> list[tuple[str, int, int]]:
    """What, documents, characters: read, then each filter that left something out, then what was kept."""
    documents, characters = facts["documents"], facts["characters"]
    left_out = [
        (_meaning(kind, facts["settings"]), documents[kind], characters[kind]) for kind in KINDS if kind in documents
    ]
    read = ("read", documents.get("read", 0) + documents.get("rejected", 0), characters.get("read", 0))
    return [read, *left_out, ("kept", facts["kept"]["documents"], facts["kept"]["characters"])]


def _meaning(kind: str, settings: dict[str, Any]) -> str:
    """A line of the table, in words."""
    if kind in ("short", "long"):
        side, word = ("least", "fewer") if kind == "short" else ("most", "more")
        bounds = [
            f"{word} than {settings[f'{side}_{what}']:,} {what}"
            for what in ("words", "characters")
            if settings[f"{side}_{what}"]
        ]
        return " or ".join(bounds)
    return {
        "rejected": "cannot be used",
        "empty": "nothing but white space",
        "language": f"in another language than {settings['language']}",
        "replaced": "replaced by a later PubMed record",
        "deleted": "deleted by PubMed",
        "repeated": "the same words as an earlier one",
        "nearly repeated": f"nearly the same as an earlier one ({settings['near']:g})",
    }[kind]
