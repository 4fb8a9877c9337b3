"""Words and their tags: the words of a text, the tagging schemes, and the entities that tags name.

scheme   tags                meaning
BIO      B-, I-, O           B- begins an entity, I- goes on with it, O is outside of any
IO       I-, O               words of one type side by side are one entity, so two entities that touch become one
IOBES    B-, I-, E-, S-, O   E- is the last word of an entity, S- its only one
BIOUL    B-, I-, L-, U-, O   the same with other letters: L- the last, U- the only one (also called BILOU)

BMES and BMEWO are IOBES with M- for I- and W- for S-; `standard_tags` gives their tags in IOBES.

Entities are read as conlleval and seqeval (not strict) read them: an I-, E- or L- that does not follow a tag of its
type begins an entity. Tags may come without a type (B, I, O).

If entities of several types overlap, a word has a joint tag, `I-INT+I-PAR`: its tags for each type, sorted, with `+`
between them. To a model it is a tag like any other (a label powerset: Tsoumakas and Katakis, 2007, section 2.1), so
layers, losses and loaders do not change. PICO's three elements make eight sets with the empty one. One output an
element, each with a threshold, would need another head, loss and decoding, and could not learn that two elements seldom
share a word. It could predict sets that no training word has, which joint tags cannot; words with such sets are still
scored, element by element. Two entities of one type that overlap cannot be tagged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

Scheme = Literal["BIO", "IO", "IOBES", "BIOUL"]
OUTSIDE = "O"
UNTYPED = "_"  # the type of entities whose tags are B, I and O alone
LETTERS: dict[Scheme, frozenset[str]] = {
    "IO": frozenset("I"),
    "BIO": frozenset("BI"),
    "IOBES": frozenset("BIES"),
    "BIOUL": frozenset("BILU"),
}
_BRACKETS = re.compile(r"(?:\(([^()*\s]+))?\*?(\))?")
_OTHER_LETTERS = {"M": "I", "W": "S"}  # letters of BMES and BMEWO -> the same in IOBES
# scheme -> letters of an entity's first word, of those within, of its last, and of its only word
_WRITTEN: dict[Scheme, tuple[str, str, str, str]] = {
    "IO": ("I", "I", "I", "I"),
    "BIO": ("B", "I", "I", "B"),
    "IOBES": ("B", "I", "E", "S"),
    "BIOUL": ("B", "I", "L", "U"),
}
_KNOWN = frozenset[str]().union(*LETTERS.values())
LISTED = "B-, I-, E-, S-, L- or U-"
_JOINT = re.compile(r"\+(?=[BIESLU]-)")  # a + within a type, as in I-Na+, joins nothing


def words_of(text: str) -> list[str]:
    """Return the words of an example whose words have tags; single spaces separate them."""
    return text.split(" ")


def text_of(words: Iterable[str]) -> str:
    """Return the text that `words_of` splits into these words; no word may be empty or hold a space."""
    return " ".join(words)


def split_words(text: str) -> list[str]:
    """Return the words of running text as corpora of tagged words have them: punctuation at a word's ends stands alone.

    A text that has punctuation alone, and no comma or last stop with a word before it, is cut already: it is split at
    spaces. A stop becomes a word at the end of the text and before a capital letter, but for initials and abbreviations
    such as "Fig."; a bracket does unless its partner is within the word, as in "(E)-2-hexenal" and "IL-2(R)". Words of
    more than 100 characters stay whole.
    """
    brackets, others = {"(": ")", "[": "]", "{": "}"}, "\"'`«»“”‘’„.,;:!?…"
    marks = "".join([*brackets, *brackets.values(), others])
    short = " al approx ca cf dr eq eqs fig figs inc ltd mr mrs ms no nos pp prof ref refs resp sp spp st vol vs "
    words = text.split()
    whole = [not word.strip(marks) for word in words]  # punctuation alone
    attached = [word for word in words if len(word) > 1 and word.endswith(",")]
    if any(whole) and not attached and (whole[-1] or words[-1][-1] not in ".!?"):
        return words
    pieces = []
    for place, word in enumerate(words):
        if whole[place] or len(word) > 100:
            pieces.append(word)
            continue
        begin, end, inner = 0, len(word), word.rstrip(marks)
        while word[begin] in marks and brackets.get(word[begin], " ") not in inner[begin:]:
            begin += 1
        follows = words[place + 1].lstrip(marks)[:1] if place + 1 < len(words) else "A"
        while word[end - 1] in marks:
            mark, core = word[end - 1], word[begin : end - 1]
            opening = next((opener for opener, closer in brackets.items() if closer == mark), "")
            if opening and core.count(opening) > core.count(mark):
                break
            abbreviated = place + 1 < len(words) and ("." in core or len(core) == 1 or f" {core.lower()} " in short)
            if mark == "." and (not follows.isupper() or abbreviated or set(word[end:]) & set(",;:")):
                break
            end -= 1
        pieces += [*word[:begin], word[begin:end], *word[end:]]
    return pieces


def entities(tags: Sequence[str]) -> set[tuple[int, int, str]]:
    """Return (first word, last word, type) of each entity, read from the tags of any scheme as conlleval does.

    An I- that does not follow a tag of its type begins an entity. In joint tags each type is read separately. Raises
    ValueError for any other tag, and for a joint tag with one type twice.
    """
    if any(len(joined_tags(tag)) > 1 for tag in tags):
        return {entity for one_type in _split_types(tags) for entity in entities(one_type)}
    spans: set[tuple[int, int, str]] = set()
    start, before, kind_before = 0, OUTSIDE, ""
    for place, tag in enumerate([*tags, OUTSIDE]):
        letter, _, type_name = tag.partition("-")
        kind = type_name or UNTYPED
        if letter not in _KNOWN and tag != OUTSIDE:
            raise ValueError(f"the tag {tag!r} is not O and does not begin with {LISTED}; correct the labels")
        changes = letter in ("B", "S", "U") or before in (OUTSIDE, "E", "S", "L", "U") or kind != kind_before
        if before != OUTSIDE and (changes or tag == OUTSIDE):
            spans.add((start, place - 1, kind_before))
        if tag != OUTSIDE and changes:
            start = place
        before, kind_before = letter, kind
    return spans


def tags_of(spans: Iterable[tuple[int, int, str]], words: int, scheme: Scheme) -> tuple[str, ...]:
    """Return the tags of `words` words with these entities (first word, last word, type): `entities` reversed.

    In IO, entities of one type that touch become one. Raises ValueError if an entity ends behind the last word, or two
    overlap.
    """
    begin, inside, end, single = _WRITTEN[scheme]
    tags = [OUTSIDE] * words
    for first, last, kind in sorted(spans):
        if not 0 <= first <= last < words:
            raise ValueError(f"an entity from word {first} to word {last} exceeds {words} words")
        if any(tag != OUTSIDE for tag in tags[first : last + 1]):
            raise ValueError(f"the entity from word {first} to word {last} overlaps another, but a word has one tag")
        letters = [begin, *[inside] * (last - first - 1), end] if last > first else [single]
        tags[first : last + 1] = [letter if kind == UNTYPED else f"{letter}-{kind}" for letter in letters]
    return tuple(tags)


def converted(tags: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Return the tags of the same entities in another scheme.

    IO loses the boundary between entities of one type that touch. An I-, E- or L- that does not follow a tag of its
    type begins an entity for `entities`, and becomes the tag of a beginning.
    """
    return tags_of(entities(tags), len(tags), scheme)


def joined_tags(tag: str) -> tuple[str, ...]:
    """Return the tags that a joint tag consists of; for any other tag, that tag."""
    return tuple(_JOINT.split(tag)) if "+" in tag else (tag,)


def join_tags(parts: Iterable[str]) -> str:
    """Return the joint tag of these tags, which must be of different types; O for no tags."""
    return "+".join(sorted(parts)) or OUTSIDE


def scheme_of(tags: Collection[str]) -> Scheme | None:
    """Return the scheme of a set of tags; None if they name no entities, as with parts of speech."""
    tags = {part for tag in tags for part in joined_tags(tag)}
    letters = {tag.partition("-")[0] for tag in tags if tag != OUTSIDE}
    if not letters or any(tag[1:2] not in ("", "-") or tag.endswith("-") for tag in tags):
        return None
    return next((scheme for scheme, scheme_letters in LETTERS.items() if letters <= scheme_letters), None)


def standard_tags(tags: Collection[str]) -> dict[str, str]:
    """Return tag -> its usual spelling if the tags name entities in another one; {} if they need none, or name none.

    Supported are PER-B, B_PER, b-per, Begin-PER, M-PER and W-PER of BMES and BMEWO and, as tags of IO, types alone
    (PER). O must be among the tags, or o, or one tag besides those that begin with a letter: 0, _, NULL.
    """
    names = {tag for tag in tags if tag not in (OUTSIDE, "o")}
    if not names or scheme_of(tags) is not None:
        return {}
    inside = any(tag.lower().startswith("inside") for tag in names)
    letter = r"[BIESLUMW]|(?i:begin(?:ning)?|inside|end|last|single|unit)(?=[-_:./])" if inside else "[BIESLUMW]"
    if len(names) == len({*tags}):
        typed = {tag: match for tag in names if (match := re.fullmatch(rf"({letter}|[biesluw])[-_:./](.+)", tag))}
        outside = next(iter(names - typed.keys()), "")
        alone = len(typed) == len(names) - 1 and not re.search(r"\w\W\w", outside)
        named = {match[2].lower() for match in typed.values()}
        if not alone or outside.lower() in named or not any(tag[0] in "BbIi" for tag in typed):
            return {}
        names = {*typed}
        if scheme_of(names) is not None:
            return {tag: tag if tag in names else OUTSIDE for tag in tags}
    first, last = rf"(?P<letter>{letter})(?:[-_:./](?P<type>.+))?", r"(?P<type>.+)[-_:./](?P<letter>[BIESLUMW])"
    for pattern in (first, first.replace("BIESLUMW", "bieslumw"), last):
        parts = {tag: re.fullmatch(pattern, tag) for tag in names}
        spelling: dict[str, str] = {}
        letters = {part["letter"][0].upper() for part in parts.values() if part}
        if letters & {*_OTHER_LETTERS} and "B" not in letters:  # M and W of another meaning
            continue
        for tag, part in parts.items():
            if part:
                letter = part["letter"][0].upper()
                spelling[tag] = "-".join(filter(None, (_OTHER_LETTERS.get(letter, letter), part["type"])))
        if len({*spelling.values()}) == len(names) and scheme_of(spelling.values()) is not None:
            return {**spelling, **{tag: OUTSIDE for tag in tags if tag not in names}}
    bare = r"[^\W\d_][\w&-]+|[\u3400-\u9fff]"  # a type may be one Chinese character
    types = [tag for tag in names if re.fullmatch(bare, tag) and not re.match(r"[BIESLU][-_]", tag)]
    if len(types) != len(names):
        return {}
    return {**{tag: f"I-{tag}" for tag in types}, **{tag: OUTSIDE for tag in tags if tag not in names}}


def are_brackets(tags: Collection[str]) -> bool:
    """Return True for entities in the brackets of CoNLL-2012: `(PERSON*`, `*`, `*)`, `(GPE)`."""
    return "*" in tags and any(tag[:1] == "(" for tag in tags) and all(map(_BRACKETS.fullmatch, tags))


def tags_of_brackets(brackets: Sequence[str]) -> tuple[str, ...]:
    """Return the tags of scheme BIO of a sentence whose entities are in brackets."""
    tags, kind = [], ""
    for bracket in brackets:
        match = _BRACKETS.fullmatch(bracket)
        assert match is not None
        begin, end = match.groups()
        kind = begin or kind
        tags.append(f"{'B' if begin else 'I'}-{kind}" if kind else OUTSIDE)
        kind = "" if end else kind
    return tuple(tags)


def odd_tag(counts: Mapping[str, int]) -> str:
    """Return the rarest tag that does not fit the others, if some tags name entities (B-PER) beside O; "" for none."""
    typed = {tag for tag in counts if re.fullmatch(r"[BIESLU]-.+", tag) or tag in _KNOWN}
    others = {tag for tag in counts if tag != OUTSIDE} - typed
    named = {tag for tag in typed if "-" in tag}
    if OUTSIDE not in counts or not named or scheme_of(counts) is not None or standard_tags(counts):
        return ""
    if not others:  # letters of two schemes
        letters = {
            letter: sum(counts[tag] for tag in typed if tag[0] == letter) for letter in {tag[0] for tag in typed}
        }
        rarest = min(letters, key=lambda letter: (letters[letter], letter))
        others = {tag for tag in typed if tag[0] == rarest}
    odd = others if sum(counts[tag] for tag in others) <= sum(counts[tag] for tag in typed) else typed
    return min(odd, key=lambda tag: (counts[tag], tag))


def fallback(labels: Sequence[str]) -> str:
    """Return the tag of a word for which the tokenizer has no token: O, or the first label if O is none of them."""
    return OUTSIDE if OUTSIDE in labels else labels[0]


def borne(tags: Sequence[str], *, named: bool) -> tuple[str, ...]:
    """Return, sorted, the types of a sentence's entities; if tags name no entities (`named` False), its tags."""
    return tuple(sorted({kind for _, _, kind in entities(tags)} if named else set(tags)))


def all_tags(tags: Collection[str], scheme: Scheme) -> tuple[str, ...]:
    """Return O and every tag of the scheme for the types of these tags."""
    kinds = dict.fromkeys(kind for tag in tags for _, _, kind in entities([tag]))
    letters = dict.fromkeys(_WRITTEN[scheme])
    return (OUTSIDE, *(letter if kind == UNTYPED else f"{letter}-{kind}" for kind in kinds for letter in letters))


def _split_types(tags: Sequence[str]) -> list[list[str]]:
    """Return for each type, in sorted order, the tags of its entities, with O for all others."""
    parts = [{part.partition("-")[2]: part for part in joined_tags(tag) if part != OUTSIDE} for tag in tags]
    if odd := [
        tag for tag, types in zip(tags, parts, strict=True) if tag != OUTSIDE and len(types) < len(joined_tags(tag))
    ]:
        raise ValueError(
            f"the tag {odd[0]!r} joins two entities of one type, but a word can have one of each type. Correct the "
            "labels"
        )
    return [[types.get(kind, OUTSIDE) for types in parts] for kind in sorted(set().union(*parts))]
