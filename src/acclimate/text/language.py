"""Recognise the language of a text by its script and its commonest words, without a model or a download.

The short words that hold sentences together (the, of, und, que) are two or three of ten words in running text, and they
hardly occur in other languages. So a text is taken to be in the language with most of these words. A word of several
languages counts an equal share for each. The first language must be clearly ahead of all others but its sisters. A text
with too few such words (a list of names, a table, a title) stays unknown. A script that only one language or one group
of languages uses is recognised by its letters.

By words: Czech, Danish, Dutch, English, French, German, Hungarian, Indonesian, Italian, Norwegian, Polish, Portuguese,
Romanian, Russian, Spanish, Swedish, Turkish, Ukrainian. By script: Arabic, Chinese, Greek, Hebrew, Hindi, Japanese,
Korean, Thai. Any other language is unknown or taken for the nearest of these: Catalan for Italian or Spanish,
Bulgarian and Serbian for Russian or Ukrainian.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

UNKNOWN = "und"  # as BCP 47 has it
READ = 2000  # first characters of a text, by which its language is recognised
_LEAST_FOUND = 2.0  # common words that a language needs; a word of k languages counts 1 / k
_LEAST_SHARE = 1 / 15  # share of common words that a text needs
_AHEAD = 1.3  # the first language needs so many times the score of any other but a sister
_SISTERS = ({"da", "no"}, {"ru", "uk"})  # so alike that the first of them need not be clearly ahead of the other
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
_LANGUAGES_OF: dict[str, tuple[str, ...]] = {}  # common word -> its languages
for _name, _words in _COMMON.items():
    for _word in dict.fromkeys(_words.split()):
        if len(_word) > 1:  # single letters are also initials, units and items of lists
            _LANGUAGES_OF[_word] = (*_LANGUAGES_OF.get(_word, ()), _name)
# first and last code point, and the language of the script; "" for Latin, whose words decide
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
    """Raise ValueError for a language that cannot be recognised."""
    if name not in LANGUAGES:
        raise ValueError(
            f"language is '{name}', but only these can be recognised: {', '.join(LANGUAGES)}. Or leave it out"
        )


def language(text: str) -> str:
    """Return the language of the text's first READ characters as two letters (ISO 639-1), or UNKNOWN."""
    text = text[:READ]
    script = "" if text.isascii() else _script(text)
    if script not in ("", "cyrillic"):
        return script
    words = text.lower().split()
    scores: dict[str, float] = {}
    evidence = 0
    for names, count in Counter(map(_LANGUAGES_OF.get, words)).items():
        for name in names or ():
            scores[name] = scores.get(name, 0.0) + count / len(names or ())
        evidence += count if names else 0
    order = sorted(scores, key=lambda name: (-scores[name], name))
    if script == "cyrillic":
        return next((name for name in order if name in ("ru", "uk")), "ru")
    if not order:
        return UNKNOWN
    best = order[0]
    others = [scores[name] for name in order[1:] if {best, name} not in _SISTERS]
    if scores[best] < max(_LEAST_FOUND, _AHEAD * max(others, default=0.0)) or evidence < _LEAST_SHARE * len(words):
        return UNKNOWN
    return best


def _script(text: str) -> str:
    """Return the script of most letters of the text: a language, "cyrillic", or "" for Latin."""
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    block = np.searchsorted(_BEGINS, points, side="right") - 1
    block = block[(block >= 0) & (points <= _ENDS[block])]
    counts: Counter[str] = Counter()
    for number, count in enumerate(np.bincount(block, minlength=len(_SCRIPTS)).tolist()):
        counts[_SCRIPTS[number][2]] += count
    # a tenth of kana is more than a quotation, so the ideographs between them are Japanese
    if counts["ja"] > 0.1 * (counts["ja"] + counts["zh"]) and counts["ja"]:
        counts["ja"] += counts.pop("zh", 0)
    # a letter of Latin or Cyrillic is about a fifth of a word, an ideograph more than half of one
    weights = {name: count * (3 if name in ("zh", "ja", "ko") else 1) for name, count in counts.items()}
    return max(weights, key=lambda name: (weights[name], name)) if any(weights.values()) else ""
