"""Which articles of PubMed's files stay, once all files are read: the baseline and the updates after it.

The rule of the files themselves: an article that comes again replaces the one before, a list of deletions takes away
what came before it, and of an article's versions the latest counts (`PMID Version`, of a few journals only).
"""

from __future__ import annotations

import numpy as np

DELETED = -2  # in place of a document's number
LEFT_OUT = -1  # an article that a filter dropped: it replaces an older one all the same


def superseded(pmids: np.ndarray, versions: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of documents that a later article replaced, and of those that were deleted; both ascending.

    pmids, versions, numbers   (E,) int64, in the order of the files: an article and its document's number (or
                               LEFT_OUT), or a deletion (DELETED)
    Memory: some 60 bytes an article.
    """
    if not len(pmids):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    order = np.lexsort((np.arange(len(pmids)), versions, pmids))
    pmids, versions, numbers = pmids[order], versions[order], numbers[order]
    last_of_version = np.append((pmids[1:] != pmids[:-1]) | (versions[1:] != versions[:-1]), True)
    # whether the version, in the end, is deleted: told by the last that is said of it
    groups = np.cumsum(last_of_version) - last_of_version
    deleted = (numbers[last_of_version] == DELETED)[groups]
    stays = last_of_version & ~deleted
    # of the versions that stay, only the latest of each article does
    kept = np.flatnonzero(stays)
    stays[kept[:-1][pmids[kept[1:]] == pmids[kept[:-1]]]] = False
    documents = numbers >= 0
    return np.sort(numbers[documents & ~stays & ~deleted]), np.sort(numbers[documents & deleted])
