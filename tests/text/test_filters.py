import pytest
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from acclimate.text.language import LANGUAGES, READ, UNKNOWN, language

# the first article of the Universal Declaration of Human Rights (United Nations, 1948), or how it begins
DECLARED = {
    "da": "Alle mennesker er født frie og lige i værdighed og rettigheder.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "en": "All human beings are born free and equal in dignity and rights.",
    "es": "Todos los seres humanos nacen libres e iguales en dignidad y derechos y",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "it": "Tutti gli esseri umani nascono liberi ed eguali in dignità e diritti.",
    "nl": "Alle mensen worden vrij en gelijk in waardigheid en rechten geboren.",
    "pt": "Todos os seres humanos nascem livres e iguais em dignidade e em direitos.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "sv": "Alla människor är födda fria och lika i värde och rättigheter.",
    "zh": "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "ja": "すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα.",
}


@pytest.mark.parametrize("name", DECLARED)
def test_running_text_is_told_by_its_words_or_letters(name):
    assert language(DECLARED[name]) == name
    assert name in LANGUAGES


@pytest.mark.parametrize(
    "text", ["", "E. coli K-12", "Smith J, Jones A, Brown B, Müller C.", "ACT CAA AGC AAA", "1,000 5.2 3.1", "€ — §"]
)
def test_what_is_no_running_text_stays_unknown(text):
    assert language(text) == UNKNOWN


def test_the_languages_are_those_of_the_model_that_have_two_letters():
    labels = LanguageIdentifier.from_model_file(MODEL_FILE).labels
    assert set(LANGUAGES) == {label for label in labels if len(label) == 2} - {"nn"}


def test_foreign_names_a_quotation_and_how_a_long_text_goes_on_change_nothing():
    text = f"{DECLARED['en']} The French text has « naissent libres et égaux », and α-helix and β-blockers are Greek."
    assert language(text) == "en"
    assert language(f"{DECLARED['en']} 日本 (Nihon)") == "en"
    assert language(f"{DECLARED['en']} " * (1 + READ // len(DECLARED["en"])) + DECLARED["de"] * 99) == "en"
