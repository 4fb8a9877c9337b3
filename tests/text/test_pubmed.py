import gzip
import itertools

import numpy as np
import pytest

from acclimate.core.types import Document
from acclimate.text.documents import read_documents
from acclimate.text.pubmed import DELETED, LEFT_OUT, Citation, Deletion, pubmed_articles, superseded
from acclimate.text.untrusted import LIMITS

ARTICLE = """<PubmedArticle><MedlineCitation><PMID Version="{version}">{pmid}</PMID><Article>
<ArticleTitle>Title {pmid}.{version}</ArticleTitle></Article><CommentsCorrectionsList><CommentsCorrections>
<PMID Version="9">999</PMID></CommentsCorrections></CommentsCorrectionsList></MedlineCitation></PubmedArticle>"""
DELETE = '<DeleteCitation><PMID Version="1">4</PMID>\n<PMID Version="2">5</PMID><PMID>6</PMID></DeleteCitation>'


def test_articles_carry_their_citation_and_deletions_come_in_their_place_or_alone(tmp_path):
    file = tmp_path / "a.xml"
    file.write_text(f"<PubmedArticleSet>{ARTICLE.format(pmid=4, version=2)}{DELETE}</PubmedArticleSet>")
    [(_, values), (_, deletion)] = pubmed_articles(file, "text", LIMITS)
    assert values["citation"] == Citation(4, 2)
    assert deletion == Deletion((Citation(4, 1), Citation(5, 2), Citation(6, 1)))
    assert [document.id for document in read_documents(file)] == ["4"]
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


def test_later_files_replace_and_delete_as_a_table_kept_by_hand_would_and_tell_which():
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
    events = [(1, 1, 0), (2, 1, 1), (2, 1, 2), (1, 1, DELETED), (3, 1, 3), (3, 2, 4), (3, 2, DELETED)]
    replaced, deleted = superseded(*np.array(events, np.int64).T)
    assert (replaced.tolist(), deleted.tolist()) == ([1], [0, 4])


HEAD = """<?xml version="1.0"?><!DOCTYPE article PUBLIC "-//NLM//DTD JATS v1.2//EN" "JATS-archivearticle1.dtd">
<article xmlns:mml="http://www.w3.org/1998/Math/MathML" article-type="research-article"><front>
<journal-meta><journal-title-group><journal-title>A Journal</journal-title></journal-title-group></journal-meta>
<article-meta><article-id pub-id-type="pmid">77</article-id><article-id pub-id-type="pmc">123</article-id>
<title-group><article-title>Naloxone in <italic>vivo</italic><xref ref-type="fn" rid="f1">*</xref></article-title>
<alt-title>Short</alt-title></title-group><contrib-group><contrib><name><surname>Smith</surname></name></contrib>
</contrib-group><author-notes><fn id="f1"><p>Equal.</p></fn></author-notes>
<abstract><sec><title>Aim</title><p>To see.</p></sec></abstract>
<abstract abstract-type="graphical"><p>A picture.</p></abstract>
<trans-abstract xml:lang="fr"><p>Voir.</p></trans-abstract>
<kwd-group><kwd>rats</kwd></kwd-group></article-meta></front>"""
TAIL = """<back><ack><p>Thanks.</p></ack><ref-list><title>References</title><ref id="r1"><mixed-citation>Smith 1999.
</mixed-citation></ref></ref-list></back>
<sub-article><front-stub><title-group><article-title>Review</article-title></title-group></front-stub>
<body><p>I like it.</p></body></sub-article></article>"""


def read(tmp_path, content, name="a.nxml"):
    (tmp_path / name).write_text(content, "utf-8")
    return list(read_documents(tmp_path / name))


def body(inside):
    return f"{HEAD}<body>{inside}</body>{TAIL}"


@pytest.mark.parametrize("name", ["a.nxml", "a.xml"])
def test_full_text_is_title_abstract_and_body_under_the_number_of_pubmed_central(tmp_path, name):
    inside = "<sec><label>1</label><title>Methods</title><p>Rats\n ate <bold>oats</bold>.</p><p>Twice.</p></sec>"
    [document] = read(tmp_path, body(inside), name)
    assert document == Document("PMC123", "Naloxone in vivo*\nAim\nTo see.\nMethods\nRats ate oats.\nTwice.")


def test_packed_articles_are_read(tmp_path):
    (tmp_path / "a.nxml.gz").write_bytes(gzip.compress(body("<p>So.</p>").encode()))
    assert [document.id for document in read_documents(tmp_path)] == ["PMC123"]


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<p>Before.</p><table-wrap><label>1</label><caption><p>Doses</p></caption><table><tr><td>5</td></tr></table>"
         "</table-wrap><p>After.</p>", ["Before.", "After."]),
        ("<p>So (<xref ref-type='fig' rid='f'>Fig. 1</xref>).</p><fig><caption><p>Rats.</p></caption></fig>",
         ["So (Fig. 1)."]),
        ("<p>Then <inline-formula><mml:math><mml:mi>x</mml:mi></mml:math></inline-formula> grows:<disp-formula>"
         "<tex-math>y</tex-math></disp-formula> always.</p>", ["Then grows: always."]),
        ("<p>Known [<xref ref-type='bibr'>1</xref>, <xref ref-type='bibr'>2</xref>].</p>", ["Known."]),
        ("<p>Known<sup><xref ref-type='bibr'>1</xref>–<xref ref-type='bibr'>3</xref></sup>, and 10<sup>3</sup>.</p>",
         ["Known, and 103."]),
        ("<p>Smith (<xref ref-type='bibr'>1999</xref>) did (in part).</p>", ["Smith did (in part)."]),
        ("<p>Two:<list><list-item><p>one</p></list-item><list-item><p>other</p></list-item></list>done.</p>",
         ["Two:", "one", "other", "done."]),
        ("<p>A<break/>B<fn><p>note</p></fn> C</p>", ["A B C"]),
    ],
)  # fmt: skip
def test_what_is_no_running_text_is_left_out(tmp_path, inside, expected):
    [document] = read(tmp_path, body(inside))
    assert document.text.split("\n")[3:] == expected


def test_several_articles_of_a_file_come_one_by_one(tmp_path):
    articles = "".join(
        f"<article><front><article-meta><article-id pub-id-type='{kind}'>{name}</article-id></article-meta></front>"
        f"<body><p>Text {name}</p></body></article>"
        for kind, name in (("pmc", "PMC5"), ("doi", "10.1/x"), ("publisher-id", "z"))
    )
    documents = read(tmp_path, f"<pmc-articleset>{articles}</pmc-articleset>")
    assert [document.id for document in documents] == ["PMC5", "10.1/x", "a.nxml:1"]
    assert [document.text for document in documents] == ["Text PMC5", "Text 10.1/x", "Text z"]


def test_an_article_without_text_is_told_of(tmp_path):
    article = "<article><front/><body><fig><caption><p>A</p></caption></fig></body></article>"
    whole = "<article><body><p>B</p></body></article>"
    (tmp_path / "a.xml").write_text(f"<pmc-articleset>{article}{whole}</pmc-articleset>")
    documents = read_documents(tmp_path / "a.xml")
    assert [document.text for document in documents] == ["B"]
    assert documents.rejected[0].reason == "the article has neither title nor abstract nor body"
    with pytest.raises(ValueError, match="contains no article; its outermost element is 'pmc-articleset'"):
        read(tmp_path, "<pmc-articleset></pmc-articleset>", "b.xml")
