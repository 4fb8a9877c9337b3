"""Raw text read and filtered, a part after the other: what `preparation` chooses from.

The files are put together to units of some size, which several processes may read at once. A unit leaves one or more
parts, each a folder that is there whole or not at all; the last of them says so. A unit that was stopped goes on after
its last part.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core.files import new_directory, read_json, write_json
from acclimate.core.types import Document, Watch, counted, unwatched
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.documents import Rows, Separated, document_of, rows_of
from acclimate.text.overlap.near_duplicates import Sketches, sketches
from acclimate.text.pubmed import DELETED, LEFT_OUT, Citation, Deletion

# The language of a text, told by its script and its commonest words: no model, no download.
#
# The short words that hold a language together (the, of, und, que) are two or three of ten words in running text and
# hardly occur in another language's. So the language with the most of them is the text's. A word that several languages
# have counts for each of them by an equal share, and the first language must be clearly before all others but its
# sisters; a text with too few such words (a list of names, a table, a title) stays unknown. Scripts that one language,
# or one group of them, writes in are recognised by their letters.
#
# Known by words: Czech, Danish, Dutch, English, French, German, Hungarian, Indonesian, Italian, Norwegian, Polish,
# Portuguese, Romanian, Russian, Spanish, Swedish, Turkish, Ukrainian. By script: Arabic, Chinese, Greek, Hebrew, Hindi,
# Japanese, Korean, Thai. Any other language is unknown, or taken for the nearest of these: Catalan for Italian or
# Spanish, Bulgarian and Serbian for Russian or Ukrainian.

UNKNOWN = "und"  # as BCP 47 has it
READ = 2000  # characters of a text that are looked at: its first
_LEAST_FOUND = 2.0  # words, of which one that k languages have counts 1 / k
_LEAST_SHARE = 1 / 15  # of all words
_AHEAD = 1.3  # times as much as any other language but a sister
_SISTERS = ({"da", "no"}, {"ru", "uk"})  # so alike that either is accepted if both are near
_COMMON = {
    "cs": "a v se na je že o s z do i to k ve pro za by ale jako po jsou které která který byl bylo při jeho od nebo "
    "než však také tak podle až mezi není jsem si už jen",
    "da": "og i at det er en til af på for der med de som den ikke et har om var fra han blev jeg men eller kan ved "
    "også efter når havde over mellem blev disse hos være mod nogle ud",
    "de": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er "
    "hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis",
    "en": "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they "
    "which one were all we has been their there when who will more if can would its these than also may between",
    "es": "de la que el en y a los se del las por un para con no una su al lo como más pero sus le ya o este sí "
    "porque esta entre cuando muy sin sobre también me hasta hay donde quien desde todo nos durante fue es son",
    "fr": "de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il sont avec ou aux "
    "son ces cette été nous mais comme ont leur être elle même entre sa tout deux fait vous je on était",
    "hu": "a az és hogy nem is egy ez meg de volt már csak mint ha vagy el még azt ezt kell lehet után majd akkor mert "
    "amely van olyan között minden igen között szerint ezek",
    "id": "yang dan di dengan untuk dari ini pada itu dalam tidak akan adalah ke oleh sebagai juga dapat atau lebih "
    "karena bahwa telah ada mereka saya kami sudah secara antara",
    "it": "di e che la il un a per in una non sono è con si da come del della i le dei nel alla al ha più anche ma "
    "gli delle lo questo se o essere stato dal ed su tra dalla nella era due",
    "nl": "de van het een en in is dat op te zijn met voor niet aan er die als door om bij ook uit worden wordt werd "
    "maar naar dan heeft deze of ze nog kan meer over hij tot was hebben na geen je tussen",
    "no": "og i det er på en til som for av at med den de har ikke om et var fra han jeg men vi eller kan ved også "
    "etter når hadde over mellom ble disse hos være mot noen ut blir skal seg",
    "pl": "i w na z się do nie jest to że o od po jak za przez dla są oraz co był ale przy tym tylko który która "
    "które może być ich jego lub tak czy między było już przed można jako",
    "pt": "de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele das tem à seu "
    "sua ou ser quando muito há nos já está eu também só pelo pela até isso entre era são",
    "ro": "de și în la cu a pe nu o un este din că care pentru mai au ce se sau fost ca prin sunt după între fi lui "
    "această acest cele fiind dar ei am când dintre",
    "ru": "и в не на что с по как он это к из за от а его для но у же о так все они мы при было или быть был до если "
    "также она их может я только которые который между после этого ее",
    "sv": "och i att det som en på är av för med till den har de inte om ett han men var jag sig från vi så kan när "
    "eller under vid efter också över mellan hade blev dessa hos vara mot några än ut",
    "tr": "ve bir bu da de için ile olarak çok daha en gibi olan kadar ne ama sonra ya değil olduğu var her o mi "
    "tarafından ancak veya ise göre arasında",
    "uk": "і в не на що з та у до як за від це його для але про так ми при було або бути був є якщо також вона їх може "
    "я тільки які який між після й її",
}
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {}  # every common word -> the languages that have it
for _name, _words in _COMMON.items():
    for _word in dict.fromkeys(_words.split()):
        if len(_word) > 1:  # letters alone are initials, units and items of lists as well
            _LANGUAGES_OF[_word] = (*_LANGUAGES_OF.get(_word, ()), _name)
# first and last code point, and what is written so; "" for Latin and Cyrillic, of which the words tell
_SCRIPTS = (
    (0x0041, 0x024F, ""),
    (0x0370, 0x03FF, "el"),
    (0x0400, 0x052F, "cyrillic"),
    (0x0590, 0x05FF, "he"),
    (0x0600, 0x077F, "ar"),
    (0x0900, 0x097F, "hi"),
    (0x0E00, 0x0E7F, "th"),
    (0x1E00, 0x1EFF, ""),
    (0x3040, 0x30FF, "ja"),
    (0x3400, 0x9FFF, "zh"),
    (0xAC00, 0xD7AF, "ko"),
)
_BEGINS = np.array([first for first, _, _ in _SCRIPTS])
_ENDS = np.array([last for _, last, _ in _SCRIPTS])
LANGUAGES = tuple(sorted({*_COMMON, "ar", "el", "he", "hi", "ja", "ko", "th", "zh"}))


def check_language(name: str) -> None:
    """Raises ValueError for a language that cannot be recognised."""
    if name not in LANGUAGES:
        raise ValueError(
            f"language is '{name}', but only these can be recognised: {', '.join(LANGUAGES)}. Or leave it out"
        )


def language(text: str) -> str:
    """Two letters (ISO 639-1), or UNKNOWN; of the text's first READ characters."""
    text = text[:READ]
    script = "" if text.isascii() else _script(text)
    if script not in ("", "cyrillic"):
        return script
    words = text.lower().split()
    scores: dict[str, float] = {}
    found = 0
    for names, count in Counter(map(_LANGUAGES_OF.get, words)).items():
        for name in names or ():
            scores[name] = scores.get(name, 0.0) + count / len(names or ())
        found += count if names else 0
    order = sorted(scores, key=lambda name: (-scores[name], name))
    if script == "cyrillic":
        return next((name for name in order if name in ("ru", "uk")), "ru")
    if not order:
        return UNKNOWN
    best = order[0]
    others = [scores[name] for name in order[1:] if {best, name} not in _SISTERS]
    if scores[best] < max(_LEAST_FOUND, _AHEAD * max(others, default=0.0)) or found < _LEAST_SHARE * len(words):
        return UNKNOWN
    return best


def _script(text: str) -> str:
    """Return what most letters of the text are written in: a language, "cyrillic", or "" for Latin."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    block = np.searchsorted(_BEGINS, points, side="right") - 1
    block = block[(block >= 0) & (points <= _ENDS[block])]
    counts: Counter[str] = Counter()
    for number, count in enumerate(np.bincount(block, minlength=len(_SCRIPTS)).tolist()):
        counts[_SCRIPTS[number][2]] += count
    # kana are Japanese, however many ideographs stand between them: a tenth is more than a quotation
    if counts["ja"] > 0.1 * (counts["ja"] + counts["zh"]) and counts["ja"]:
        counts["ja"] += counts.pop("zh", 0)
    # a letter of Latin or Cyrillic is a fifth of a word, an ideograph more than half of one
    weights = {name: count * (3 if name in ("zh", "ja", "ko") else 1) for name, count in counts.items()}
    return max(weights, key=lambda name: (weights[name], name)) if any(weights.values()) else ""


UNIT = 64 << 20  # bytes of files, from which on a unit is over
PART = 32 << 20  # characters, from which on a part is over
TOLD = 3  # documents of each kind that each part lists
_EXCERPT = 160
_BATCH = 1 << 20  # characters whose sketches are made at a time
_ARRAYS = ("hashes", "bands", "signatures", "lengths", "citations")


@dataclass(frozen=True)
class Filters:
    """What a document must be to stay; 0 and "" ask for nothing. Words are what stands between white space."""

    language: str = ""
    least_words: int = 0
    most_words: int = 0
    least_characters: int = 0
    most_characters: int = 0

    def against(self, text: str, found: str) -> tuple[str, str] | None:
        """Why a text in this language does not stay: the filter, and what it met; None where it does."""
        if not text.strip():
            return "empty", "white space"
        words, characters = len(text.split()), len(text)
        if words < self.least_words or characters < self.least_characters:
            return "short", f"{words:,} words, {characters:,} characters"
        if 0 < self.most_words < words or 0 < self.most_characters < characters:
            return "long", f"{words:,} words, {characters:,} characters"
        if self.language and found not in (self.language, UNKNOWN):
            return "language", found
        return None


@dataclass(frozen=True)
class Unit:
    """Files that are read one after the other, each with the folder that its documents' places are named from."""

    number: int
    files: tuple[tuple[Path, Path], ...]


@dataclass
class Counts:
    """Documents and characters of each kind, and the first TOLD of each: kind -> [id, what was met, excerpt]."""

    documents: dict[str, int] = field(default_factory=dict)
    characters: dict[str, int] = field(default_factory=dict)
    languages: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[list[str]]] = field(default_factory=dict)

    def add(self, kind: str, characters: int, example: tuple[str, str, str] | None = None) -> None:
        """example: id, what was met, text."""
        self.documents[kind] = self.documents.get(kind, 0) + 1
        self.characters[kind] = self.characters.get(kind, 0) + characters
        told = self.examples.setdefault(kind, []) if example else []
        if example and len(told) < TOLD:
            told.append([example[0], example[1], " ".join(example[2][: 4 * _EXCERPT].split())[:_EXCERPT]])

    def merge(self, other: Counts) -> None:
        for name in ("documents", "characters", "languages"):
            mine = getattr(self, name)
            for kind, count in getattr(other, name).items():
                mine[kind] = mine.get(kind, 0) + count
        for kind, told in other.examples.items():
            kept = self.examples.setdefault(kind, [])
            kept += told[: TOLD - len(kept)]


@dataclass(frozen=True)
class Part:
    """A part on disk. corpus: the documents that stay so far; None where none does."""

    path: Path

    @property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = read_json(self.path / "part.json")
        return found

    @property
    def corpus(self) -> Corpus | None:
        return Corpus(self.path / "corpus") if (self.path / "corpus").exists() else None

    def array(self, name: str) -> np.ndarray:
        file = self.path / f"{name}.npy"
        found: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
        return found

    def sketches(self) -> Sketches:
        return Sketches(*(self.array(name) for name in ("hashes", "bands", "signatures")))


def units(files: Sequence[tuple[Path, Path]]) -> list[Unit]:
    """files: each with the folder that its documents' places are named from, in order."""
    found: list[Unit] = []
    waiting: list[tuple[Path, Path]] = []
    size = 0
    for file, above in files:
        waiting.append((file, above))
        size += os.stat(file).st_size
        if size >= UNIT:
            found.append(Unit(len(found), tuple(waiting)))
            waiting, size = [], 0
    if waiting:
        found.append(Unit(len(found), tuple(waiting)))
    return found


def parts_of(unit: int, folder: Path) -> list[Part]:
    """Return the unit's parts that are there, in order."""
    return [Part(path) for path in sorted(folder.glob(f"{unit:06}-*"))]


def read_unit(
    unit: Unit,
    *,
    folder: Path,
    filters: Filters,
    near: float,
    column: str,
    separated: Separated,
    watch: Watch = unwatched,
) -> int:
    """Write the unit's parts that are not there yet; the number of its parts.

    column  the field, or column, that holds the text
    Raises ValueError as `read_documents` does for a file that cannot be read.
    """
    done = parts_of(unit.number, folder)
    facts = done[-1].facts if done else {"last": False, "rows": 0}
    if facts["last"]:
        return len(done)
    rows = chain.from_iterable(rows_of(file, above, separated, column) for file, above in unit.files)
    for _ in islice(rows, facts["rows"]):
        pass
    number, seen, last = len(done), int(facts["rows"]), False
    told = counted(rows, watch, "reading", unit="documents")
    while not last:
        reading = _Reading(told, filters, near, column)
        with new_directory(folder / f"{unit.number:06}-{number:06}") as directory:
            reading.write(directory, seen)
        seen, last, number = seen + reading.rows, reading.last, number + 1
    return number


class _Reading:
    """A part in the making."""

    def __init__(self, rows: Rows, filters: Filters, near: float, column: str) -> None:
        self.rows = 0
        self.last = True
        self._given, self._filters, self._near, self._column = rows, filters, near, column
        self._counts = Counts()
        self._sketched: list[Sketches] = [sketches([], near)]
        self._lengths: list[int] = []
        self._texts: list[str] = []  # whose sketches are not made yet
        self._waiting = 0  # their characters
        self._citations: list[tuple[int, int, int]] = []

    def write(self, directory: Path, before: int) -> None:
        """before: rows of the unit's earlier parts."""
        documents = self._documents()
        if (first := next(documents, None)) is not None:
            write_corpus(chain([first], documents), directory / "corpus")
        self._sketch()
        hashes, bands, signatures = zip(*self._sketched, strict=True)
        arrays = [np.concatenate(hashes), np.concatenate(bands, axis=1), np.concatenate(signatures)]
        arrays += [np.array(self._lengths, np.int64), np.array(self._citations, np.int64).reshape(-1, 3)]
        for name, values in zip(_ARRAYS, arrays, strict=True):
            np.save(directory / f"{name}.npy", values, allow_pickle=False)
        counts = {name: getattr(self._counts, name) for name in ("documents", "characters", "languages", "examples")}
        write_json(directory / "part.json", {"rows": before + self.rows, "last": self.last, "counts": counts})

    def _documents(self) -> Iterator[Document]:
        """Yield the documents that stay, until the part is large enough."""
        characters = 0
        for place, values in self._given:
            self.rows += 1
            if isinstance(values, Deletion):
                self._citations += [(each.pmid, each.version, DELETED) for each in values.citations]
                continue
            document = document_of(place, values, self._column)
            citation = None if isinstance(values, str) else values.get("citation")
            characters += len(document.text) if isinstance(document, Document) else 0
            if isinstance(document, str):
                self._counts.add("rejected", 0, (place, document, ""))
            elif self._stays(document, citation):
                yield document
            if characters >= PART:
                self.last = False
                return

    def _stays(self, document: Document, citation: Citation | None) -> bool:
        text = document.text
        found = language(text)
        self._counts.add("read", len(text))
        self._counts.languages[found] = self._counts.languages.get(found, 0) + 1
        against = self._filters.against(text, found)
        if citation is not None:
            self._citations.append((citation.pmid, citation.version, LEFT_OUT if against else len(self._lengths)))
        if against:
            self._counts.add(against[0], len(text), (document.id, against[1], text))
            return False
        self._lengths.append(len(text))
        self._texts.append(text)
        self._waiting += len(text)
        if self._waiting >= _BATCH:
            self._sketch()
        return True

    def _sketch(self) -> None:
        self._sketched.append(sketches(self._texts, self._near))
        self._texts, self._waiting = [], 0


def counts_of(parts: Iterable[Part]) -> Counts:
    """Of all parts together."""
    found = Counts()
    for part in parts:
        found.merge(replace(Counts(), **part.facts["counts"]))
    return found
