"""The studies of model choices as values, and what one is told. study/choices.py runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from acclimate.methods import finetune
from acclimate.study.benchmark_recipe import Recipe as Benchmark
from acclimate.study.recipe import Search
from acclimate.tasks.relations import Encoding

CRF_RATE = 100.0  # at the encoder's own a CRF's weights stay near 0, and it is the linear layer


@dataclass(frozen=True)
class Variant:
    """settings: of fine-tuning; encoding: of a relation; further: not in the paper, and done where it is named."""

    name: str
    settings: Mapping[str, Any]
    encoding: Encoding | Literal[""] = ""
    further: bool = False


@dataclass(frozen=True)
class Study:
    """variants: the standard first; datasets: the paper's."""

    table: str
    datasets: tuple[str, ...]
    variants: tuple[Variant, ...]


def _layer(name: str, layer: str, further: bool = False) -> Variant:
    of_text, rate = ("linear", CRF_RATE) if "crf" in layer else (layer, 1.0)
    stated = {"tag_layer": layer, "tag_transitions": "any", "tag_transitions_rate": rate, "sequence_layer": of_text}
    return Variant(name, stated, further=further)


STUDIES: Mapping[str, Study] = {
    "layers": Study(
        "Table 10",
        ("BC5-chem", "BC5-disease", "JNLPBA", "ChemProt", "DDI", "GAD"),
        (
            _layer("linear", "linear"),
            _layer("BiLSTM", "bilstm"),
            _layer("CRF", "crf", further=True),
            _layer("BiLSTM-CRF", "bilstm-crf", further=True),
        ),
    ),
    "schemes": Study(
        "Table 11",
        ("BC5-chem", "BC5-disease", "JNLPBA"),
        tuple(Variant(scheme, {"tag_scheme": scheme}) for scheme in ("BIO", "BIOUL", "IO")),
    ),
    "relations": Study(
        "Table 12",
        ("ChemProt", "DDI"),
        (
            Variant("dummies, first token", {"pooling": "first"}, "dummies"),
            Variant("dummies, mentions", {"pooling": "mentions"}, "dummies"),
            Variant("original, first token", {"pooling": "first"}, "original"),
            Variant("original, mentions", {"pooling": "mentions"}, "original"),
            Variant("markers, first token", {"pooling": "first"}, "markers"),
            Variant("markers, mentions", {"pooling": "mentions"}, "markers"),
            Variant("markers, starts", {"pooling": "starts"}, "markers"),
        ),
    ),
}


@dataclass(frozen=True)
class Recipe:
    """A study of model choices. `finetune` is what every variant has but for what is varied.

    `datasets`, `rows`, `rows_seed` and `special` are for the datasets of a catalogue.
    """

    variants: tuple[str, ...] = ()  # by name, the one first that the others are compared with; (): the paper's
    datasets: tuple[str, ...] = ()  # (): the paper's, of which those whose files are there
    seeds: int = 5
    rows: int = 0  # so many of each train set, every class among them; 0: all
    rows_seed: int = 0  # of their draw
    max_tokens: int = 0  # of an example, where the dataset's own limit is no lower; 0: the dataset's
    special: bool = False  # the tokenizer keeps whole what an encoding writes into texts
    split: Literal["dev", "test"] = "dev"  # what is scored; each run with "test" is a look at the test set
    finetune: finetune.Recipe = field(default_factory=finetune.Recipe)

    def __post_init__(self) -> None:
        if self.seeds < 2:
            raise ValueError(f"seeds = {self.seeds}: one seed says nothing about chance. Give at least 2, better 5")

    def chosen(self, study: str) -> tuple[Variant, ...]:
        """Raises ValueError for a study or a variant that is not known."""
        if study not in STUDIES:
            raise ValueError(f"no study is called '{study}'. Known: {', '.join(STUDIES)}")
        known = {variant.name: variant for variant in STUDIES[study].variants}
        for name in self.variants:
            if name not in known or self.variants.count(name) > 1:
                raise ValueError(f"variants: '{name}' is not one of {', '.join(known)}, or stands there twice")
        if len(self.variants) == 1:
            raise ValueError(f"variants: '{self.variants[0]}' alone is compared with nothing. Name another one")
        return tuple(known[name] for name in self.variants) or tuple(own for own in known.values() if not own.further)

    def reading(self, variant: Variant) -> Benchmark:
        """How a benchmark reads and fine-tunes with the variant."""
        return Benchmark(
            datasets=self.datasets,
            seeds=self.seeds,
            rows=self.rows,
            rows_seed=self.rows_seed,
            max_tokens=self.max_tokens,
            encoding=variant.encoding,
            special=self.special,
            baseline=False,
            search=Search(),
            finetune=replace(self.finetune, **variant.settings),
        )
