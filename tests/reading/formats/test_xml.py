import pytest

from acclimate.core.types import Example, Rejected
from acclimate.reading.formats.xml import ARTICLES, LABELS, elements, hyperpartisan_examples

BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE a [<!ENTITY x0 "ha"><!ENTITY x1 "&x0;&x0;&x0;">]>
<a><b>&x1;</b></a>"""
EXTERNAL = b"""<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a><b>&x;</b></a>"""
PARAMETER = b"""<!DOCTYPE a [<!ENTITY % x SYSTEM "http://127.0.0.1/x.dtd"> %x;]><a><b/></a>"""


def read(content: bytes, **settings: object) -> list[tuple[str, str | None, int]]:
    found = elements([content], "b", where="x.xml", **settings)  # type: ignore[arg-type]
    return [(element.tag, element.text, lines[element]) for element, lines in found]


def test_elements_come_with_their_trees_and_lines():
    content = b'<?xml version="1.0"?>\n<a>\n<b i="1">x &amp; &#955;<c/>\n</b><d/><b>\n<b/></b></a>'
    # in pieces of every size: an element may be cut anywhere
    for size in (1, 7, len(content)):
        pieces = [content[start : start + size] for start in range(0, len(content), size)]
        (first, lines), (second, more) = elements(pieces, "b", where="x.xml")
        assert (first.text, first.get("i"), [child.tag for child in first]) == ("x & λ", "1", ["c"])
        assert [lines[each] for each in first.iter()] == [3, 3]
        assert [more[each] for each in second.iter()] == [4, 5]


def test_other_encodings_are_read_and_a_document_type_is_not_fetched():
    assert read('<?xml version="1.0" encoding="latin-1"?><a><b>naïve</b></a>'.encode("latin-1")) == [("b", "naïve", 1)]
    assert read('<?xml version="1.0" encoding="utf-16"?><a><b>naïve</b></a>'.encode("utf-16")) == [("b", "naïve", 1)]
    assert read(b'<!DOCTYPE a SYSTEM "http://127.0.0.1:9/BioC.dtd"><a><b>x</b></a>') == [("b", "x", 1)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (BOMB, "x.xml:2: declares the entity 'x0'"),
        (EXTERNAL, "declares the entity 'x'"),
        (PARAMETER, "declares the entity 'x'"),
        (b'<!DOCTYPE a SYSTEM "x.dtd"><a><b>&nbsp;</b></a>', "uses the entity 'nbsp'"),
        (b"<a><b>&nbsp;</b></a>", "not well-formed XML"),
        (b"<a>\n<b>", "x.xml:2: not well-formed XML"),
        (b"", "not well-formed XML"),
        (b'<?xml version="1.0" encoding="x-none"?><a/>', "unknown encoding: x-none"),
        (b'<?xml version="1.0" encoding="shift_jis"?><a/>', "Convert it to UTF-8"),
        (b"<a>" * 300, "201 nested elements"),
        (b"<c><b/></c>", "the outermost element is 'c', but must be 'a'"),
        (b"<a><b>" + b"x" * 2000 + b"</b></a>", "more than 1,000"),
        (b"<a><b " + b"x" * 2000, "more than 1,000"),
        (b"<a><b>" + b"<c/>" * 2000 + b"</b></a>", "more than 1,000"),
    ],
)
def test_what_could_harm_is_refused(content, said):
    with pytest.raises(ValueError, match=said):
        read(content, root="a", longest=1000)


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
