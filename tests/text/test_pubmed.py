import itertools

import numpy as np

from acclimate.text.documents import read_documents
from acclimate.text.pubmed import DELETED, LEFT_OUT, Citation, Deletion, pubmed_articles, superseded
from acclimate.text.untrusted import LIMITS

ARTICLE = """<PubmedArticle><MedlineCitation><PMID Version="{version}">{pmid}</PMID><Article>
<ArticleTitle>Title {pmid}.{version}</ArticleTitle></Article><CommentsCorrectionsList><CommentsCorrections>
<PMID Version="9">999</PMID></CommentsCorrections></CommentsCorrectionsList></MedlineCitation></PubmedArticle>"""
DELETE = '<DeleteCitation><PMID Version="1">4</PMID>\n<PMID Version="2">5</PMID><PMID>6</PMID></DeleteCitation>'


def test_articles_carry_their_citation_and_deletions_come_in_their_place(tmp_path):
    file = tmp_path / "a.xml"
    file.write_text(f"<PubmedArticleSet>{ARTICLE.format(pmid=4, version=2)}{DELETE}</PubmedArticleSet>")
    [(_, values), (_, deletion)] = pubmed_articles(file, "text", LIMITS)
    assert values["citation"] == Citation(4, 2)
    assert deletion == Deletion((Citation(4, 1), Citation(5, 2), Citation(6, 1)))
    assert [document.id for document in read_documents(file)] == ["4"]


def test_a_file_of_deletions_alone_is_read(tmp_path):
    file = tmp_path / "a.xml"
    file.write_text(f"<PubmedArticleSet>{DELETE}</PubmedArticleSet>")
    assert len(list(pubmed_articles(file, "text", LIMITS))) == 1


def gone(events):
    """Documents that do not stay, by one event after the other, as somebody would who keeps a table by hand."""
    table, everything = {}, set()
    for pmid, version, number in events:
        table.pop((pmid, version), None)
        if number != DELETED:
            table[pmid, version] = number
            everything.add(number)
    latest = {pmid: max(version for other, version in table if other == pmid) for pmid, _ in table}
    return everything - {table[key] for key in latest.items()} - {LEFT_OUT}


def test_later_files_replace_and_delete_as_a_table_kept_by_hand_would():
    generator = np.random.default_rng(0)
    for _ in range(200):
        numbers = itertools.count()
        events = []
        for _ in range(generator.integers(0, 30)):
            kind = generator.integers(0, 5)
            number = DELETED if kind == 0 else LEFT_OUT if kind == 1 else next(numbers)
            events.append((int(generator.integers(1, 5)), int(generator.integers(1, 3)), number))
        replaced, deleted = superseded(*np.array(events, np.int64).reshape(-1, 3).T)
        assert sorted([*replaced.tolist(), *deleted.tolist()]) == sorted(gone(events))


def test_what_is_deleted_in_the_end_is_told_apart_from_what_is_replaced():
    events = [(1, 1, 0), (2, 1, 1), (2, 1, 2), (1, 1, DELETED), (3, 1, 3), (3, 2, 4), (3, 2, DELETED)]
    replaced, deleted = superseded(*np.array(events, np.int64).T)
    assert (replaced.tolist(), deleted.tolist()) == ([1], [0, 4])
