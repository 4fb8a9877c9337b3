"""Articles of hyperpartisan news."""

from acclimate.core.types import Example, Rejected
from acclimate.tasks.formats.xml import ARTICLES, LABELS, hyperpartisan_examples


def test_an_article_is_its_title_and_text_without_tags(tmp_path):
    (tmp_path / ARTICLES).write_text(
        '<?xml version="1.0"?><articles>\n'
        '<article id="1" title="Fair &amp; square"><p>One <a href="x">link</a>.</p>\n<p>Two.</p></article>\n'
        '<article id="2" title="Unknown">text</article></articles>'
    )
    (tmp_path / LABELS).write_text('<articles><article hyperpartisan="true" id="1"/></articles>')
    first, second = hyperpartisan_examples(tmp_path)
    assert first == Example("1", "Fair & square One link . Two.", "true")
    assert isinstance(second, Rejected)
    assert second.place == f"{ARTICLES}:4"
