"""What a race is planned with of methods/tapter.py: its settings, and its value of `Method`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from acclimate.core.settings import Dropout, Range, check_ranges, to_mapping
from acclimate.methods.method import Contestant, First, Method, deferred
from acclimate.methods.recipes.mlm import Epochs, Length, Share, check_length
from acclimate.text.vectors.of_vocabulary import Unseen
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.training.plan import Plan

CHARACTERS_A_WORD = 6.0  # spaces and punctuation included; for estimates of time
WORDS_A_SECOND = 1e5  # speed of one thread for vectors of 100 numbers; not measured on this machine
Per = Literal["occurrence", "type"]
Ids = Literal["original", "masked"]
VectorScale = Literal["auto", "given", "unit"]


@dataclass(frozen=True)
class TapterRecipe:
    """TAPTER. The defaults are the paper's for SQuAD (Tables 4 and 5), but for `max_tokens` (512 there), public vectors
    to start from (none are given here) and the rate at which vectors go on from a .bin (.025; the tool's .05 there).
    """

    model: str = ""  # checkpoint to start from: a local directory or a hub id
    corpus: Path = Path()  # the task's texts: raw text on the command line, or a prepared corpus
    dev: Path = Path()
    """Held-out texts of the same kind, as for corpus: both terms on them are written to `curve.json`; none: only the
    training losses."""
    vectors: str = ""
    """A fastText .bin or .vec file to continue from (the paper: wiki.en.bin); "": vectors are trained from
    scratch."""
    train_vectors: bool = True  # train the vectors on the texts; false: use `vectors` unchanged
    vectors_corpus: Path = Path()  # more text to train vectors on, in addition to `corpus`
    skipgram: Skipgram = field(default_factory=lambda: Skipgram(lower=True, threads=1))  # how vectors are trained
    scale: VectorScale = "auto"
    """Scale of the vectors. `"given"`: unchanged; `"unit"`: all divided by their standard deviation; `"auto"`: unit
    if they are trained from scratch, given if `vectors` names some."""
    per: Per = "occurrence"
    """Which pieces the regularisation counts: every occurrence of a piece, or with "type" each piece once in a step."""
    ids: Ids = "original"
    """Whose vector a predicted position is drawn to: that of the piece in the text, or of the piece in the "masked"
    input."""
    unseen: Unseen = "keep"
    """Pieces whose n-grams mostly occur in no word of the vectors, so that their vectors are mostly those of other
    n-grams. "keep": include them in the regularisation, as in the paper; "drop": exclude them."""
    regularisation: Annotated[float, Range(above=0, hint=", or take the method mlm")] = 1.0
    """Weight of the term that pulls embeddings towards the vectors, above 0; the paper: 1."""
    permuted: bool = False
    """True: give each piece the vector of another piece, drawn at random. A control: the same loss without meaning."""
    looks: Annotated[int, Range(least=1)] = 20
    """Number of points of `curve.json`, at least 1, evenly spaced, the last one at the end."""
    max_tokens: Length = 128
    """Longest sequence in tokens, special ones included; longer documents are cut; the paper: 512."""
    masking: Share = 0.15  # share of the tokens that are predicted, above 0 and at most 1; the paper: .15
    whole_words: bool = False
    """True: a word is masked with all its tokens or not at all, unless its row has too few words that fit `masking`;
    false: tokens are masked one by one."""
    dropout: Dropout | None = None  # dropout of hidden states, 0 to 1; None: as in the model's configuration
    attention_dropout: Dropout | None = None  # dropout of attention, 0 to 1; None: as in the model
    epochs: Epochs = 100.0  # passes over the corpus; 0: plan.steps sets the length; the paper: 100
    plan: Plan = field(default_factory=lambda: Plan(batch=256, rate=5e-5, warmup=0.06, clip=0.0))
    """Steps, batch, rate, precision: batches of 256 at 5e-5 with 6% warm-up in the paper; gradients are not clipped"""

    def __post_init__(self) -> None:
        check_ranges(self)
        check_length(self.epochs, self.plan)
        if not self.train_vectors and not self.vectors:
            raise ValueError("train_vectors = false uses given vectors unchanged, but there are none. Add vectors=FILE")


def resolved_scale(recipe: TapterRecipe) -> VectorScale:
    """Return the recipe's scale, "auto" resolved: the size of vectors from nothing depends on how long they trained."""
    if recipe.scale != "auto":
        return recipe.scale
    return "given" if recipe.vectors else "unit"


def vectors_settings(recipe: TapterRecipe) -> dict[str, Any] | None:
    """Return the settings that the vectors depend on; None if the recipe takes given vectors as they are.

    Raises ValueError if the file that they go on from does not exist.
    """
    if recipe.vectors and not Path(recipe.vectors).is_file():
        raise ValueError(f"tapter.vectors = {recipe.vectors}: there is no such file. Give a fastText .bin or .vec")
    return to_mapping(recipe.skipgram) if recipe.train_vectors else None


def vectors_start(recipe: TapterRecipe) -> Path | None:
    return Path(recipe.vectors).absolute() if recipe.vectors else None


def vectors_seconds(settings: Mapping[str, Any], characters: int) -> float:
    return float(characters / CHARACTERS_A_WORD * settings["epochs"] / WORDS_A_SECOND)


def raced(recipe: TapterRecipe) -> TapterRecipe:
    """Return the recipe with its scale resolved: a race's job gets a file of vectors, and cannot see how they began."""
    return replace(recipe, scale=resolved_scale(recipe))


# for vectors from nothing on the little text of a race: words that occur twice, as in the paper's Table 5 for BioASQ
_SMALL_VECTORS = Skipgram(dim=100, min_count=2, buckets=50_000, lower=True, threads=1)
_SMALL = TapterRecipe(
    skipgram=_SMALL_VECTORS,
    looks=10,
    whole_words=True,
    epochs=0.0,
    plan=Plan(steps=300, batch=16, rate=1e-3, warmup=0.06, clip=0.0),
)
# with fewer n-gram buckets than the 2,000,000 of public vectors
_USUAL = TapterRecipe(skipgram=replace(_SMALL_VECTORS, dim=300, buckets=200_000))
METHOD = Method(
    name="tapter",
    recipe=TapterRecipe,
    adapt=deferred("acclimate.methods.tapter", "adapt"),
    contestants=(
        Contestant("TAPTER", "task", small=_SMALL, usual=_USUAL, after=("DAPT",)),
        Contestant("TAPTER permuted", "task", {"permuted": True}, small=_SMALL, usual=_USUAL),
    ),
    raced=raced,
    first=First(
        "word vectors",
        "vectors",
        vectors_settings,
        vectors_start,
        deferred("acclimate.methods.tapter", "shared_vectors"),
        vectors_seconds,
        then={"train_vectors": False},
    ),
    moves=True,
    curves={"embedding": ("Distance to the vectors of fastText", "distance to fastText, squared")},
)
