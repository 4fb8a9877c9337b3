"""L6: how much heads look at neighbours and marks after TLM's first stage, and after pretraining on general text.

python benchmarks/claims/heads.py FILE --tlm CHECKPOINT... --pretrained CHECKPOINT... [--seconds S] [--commit C]

FILE has the texts that the heads read; each CHECKPOINT is of another seed. S: processor seconds of the pretrainings. C:
the commit by which they ran. The figure is Welch's test over checkpoints of the share of maxima that fall on adjacent
tokens, [CLS], [SEP] or a period. The paper counts heads of which 90% do; so small and short a model may have none.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from outcomes import commit, from_error, write

from acclimate.analyses.attention import OTHER, analyse_heads
from acclimate.analyses.texts import sample_texts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("texts", type=Path)
    parser.add_argument("--tlm", nargs="+", required=True)
    parser.add_argument("--pretrained", nargs="+", required=True)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--commit", default="")
    given = parser.parse_args()
    texts = sample_texts(given.texts, column="text", size=200)
    shares: dict[str, list[float]] = {}
    looking: dict[str, list[float]] = {}
    for name, places in (("TLM", given.tlm), ("pretrained", given.pretrained)):
        found = [each for each in analyse_heads(places, texts, source=given.texts.name).heads if not each.twin]
        shares[name] = [float(np.mean(each.kinds != OTHER)) for each in found]
        looking[name] = [float(np.mean(each.positional + each.vertical)) for each in found]
    parts = [float(np.var(each, ddof=1)) / len(each) for each in looking.values()]
    freedoms = [len(each) - 1 for each in shares.values()]
    squares = sum(part**2 / freedom for part, freedom in zip(parts, freedoms, strict=True))
    if not squares:
        raise ValueError(f"the checkpoints of each kind have equal shares: {looking}. There is no chance to count")
    difference = float(np.mean(looking["TLM"]) - np.mean(looking["pretrained"]))
    over = f"{len(given.tlm)} and {len(given.pretrained)} encoders"
    places = {name: ", ".join(f"{share:.0%}" for share in each) for name, each in shares.items()}
    maxima = {name: f"{float(np.mean(each)):.0%}" for name, each in looking.items()}
    write(
        "tlm-heads",
        {
            "share of maxima on neighbours and marks against a pretrained model": from_error(
                difference, sum(parts) ** 0.5, sum(parts) ** 2 / squares, over
            )
        },
        commands=["python benchmarks/claims/heads.py FILE --tlm CHECKPOINT... --pretrained CHECKPOINT..."],
        seconds=given.seconds + time.process_time(),
        made_by=given.commit or commit(),
        facts={"share of heads": shares, "share of maxima": looking},
        remark=f"Share of heads that are positional or vertical: {places['TLM']} after TLM, {places['pretrained']} "
        f"after pretraining. Of all maxima {maxima['TLM']} and {maxima['pretrained']} fall on neighbours, [CLS], [SEP] "
        "or a period.",
    )


if __name__ == "__main__":
    main()
