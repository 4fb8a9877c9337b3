"""Find test rows with a partner in train that the search for leaks does not count: a row of the same template, a row
that shares one text of a pair, or the pair in the other order. A random split puts such rows on both sides.

A pair in the other order is no duplicate: where the order matters (entailment) or the label is a number, it asks
something else. It shares its words with train all the same, so the score without it is reported.
"""

from __future__ import annotations

from collections.abc import Sequence

from acclimate.core.door import option
from acclimate.core.types import Split
from acclimate.data.examination import SHOWN, Finding, PartnerKind, Partners
from acclimate.data.leaks import text_and_pair
from acclimate.reading.labelled import Labelled
from acclimate.reading.splitting import template_keys, text_keys
from acclimate.reports.page import amount, beginning, share
from acclimate.text.overlap.words import normalised_words

MANY = 0.1  # share of the test rows from which on partners are a warning
BEGINNING = 60  # characters of an example in a finding
Keys = Sequence[tuple[str, ...]]  # of each row


def find_partners(labelled: Labelled, *, every: bool = False) -> tuple[Partners, ...]:
    """Return the test rows that have a partner in train, by the kind of partner.

    every  True: each labelled row is a test row and a training row, as in a cross-validation
    """
    train, test = labelled.splits["train"], labelled.splits["test"]
    if every:
        train = test = tuple(row for rows in labelled.splits.values() for row in rows)
    rows = train if every else (*train, *test)
    items = range(len(rows) - len(test), len(rows))
    words = [(normalised_words(row.text), normalised_words(row.pair or "")) for row in rows]
    texts: Keys = [keys if row.pair else () for row, keys in zip(rows, text_keys(rows), strict=True)]
    pairs: Keys = [("\n".join(both),) if all(both) else () for both in words]
    turned: Keys = [("\n".join(reversed(both)),) if all(both) else () for both in words]
    templates: Keys = [(key,) for key in template_keys(rows)]
    searches: dict[PartnerKind, tuple[Keys, Keys]] = {
        "swapped": (pairs, turned),
        "text": (texts, texts),
        "template": (templates, templates),
    }
    kinds: list[Partners] = []
    swapped: set[int] = set()  # these share both texts
    for kind, (held, sought) in searches.items():
        holders: dict[str, list[int]] = {}  # key -> training rows, two with different words at most
        for row in range(len(train)):
            for key in filter(None, held[row]):
                same_key = holders.setdefault(key, [])
                if not same_key or (len(same_key) == 1 and words[same_key[0]] != words[row]):
                    same_key.append(row)
        partners: dict[int, int] = {}
        shared: set[str] = set()
        for item in items if kind != "text" else (item for item in items if item not in swapped):
            for key in sought[item]:
                # a row with the same words is a copy, which the search for leaks counts
                if (row := next((row for row in holders.get(key, ()) if words[row] != words[item]), -1)) >= 0:
                    shared.add(key)
                    partners.setdefault(item, row)
        if not partners:
            continue
        swapped = swapped or {*partners} if kind == "swapped" else swapped
        column = {"swapped": "", "text": "text", "template": "template"}[kind]
        if kind == "text":
            sides = {texts[item].index(key) for item in partners for key in texts[item] if key in shared}
            named = (labelled.columns.text, labelled.columns.pair or "text")
            column = named[sides.pop()] if len(sides) == 1 else "text"
        item, row = next(iter(partners.items()))
        example = tuple(f"{rows[place].id}: {beginning(text_and_pair(rows[place]), SHOWN)}" for place in (item, row))
        ids = frozenset(rows[place].id for place in partners)
        kinds.append(Partners(kind, ids, len(ids) / len(test), len(shared), column, example))
    return tuple(kinds)


def findings_on_partners(
    partners: Sequence[Partners], divided: Sequence[Split], *, every: bool = False
) -> list[Finding]:
    """Return a finding on each kind of partners. divided: the splits that were split off train."""
    findings = []
    where = "another row" if every else "a row of train"
    for kind in partners:
        count, plural = len(kind.ids), len(kind.ids) != 1
        what = {
            "swapped": f"{'are pairs' if plural else 'is a pair'} that {where} has in the other order",
            "text": f"{'share' if plural else 'shares'} one text of the pair with {where}",
            "template": f"{'differ' if plural else 'differs'} from {where} in numbers and names only",
        }[kind.kind]
        first, second = (beginning(text, BEGINNING) for text in kind.example)
        text = (
            f"{count:,} {'labelled' if every else 'test'} text{'s' * plural} ({share(kind.share)}) {what} "
            f"({amount(kind.groups, 'group')}), such as {first!r} and {second!r}."
        )
        way_out = "The report scores with and without these texts."
        if kind.option and (every or "test" in divided):
            way_out = f"{option('group', kind.option)} keeps such rows in one {'fold' if every else 'split'}. {way_out}"
        elif kind.option:
            way_out = f"{way_out} Give one file with {option('group', kind.option)} to keep such rows in one split."
        findings.append(Finding("warning" if kind.share >= MANY else "note", text, way_out))
    return findings
