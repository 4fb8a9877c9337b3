"""Write the raw texts that the claims' runs read, from a general corpus whose passages state source and domain.

python benchmarks/claims/texts.py general_corpus.jsonl.zst TEXTS

Each line of the corpus is a JSON object with `source`, `domain` and `text`. TEXTS gets one .jsonl file for each name of
FILES, with passages in the order of the corpus, up to the number of characters stated.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import zstandard

TRAINING_TEXT = ("biomed_jnlpba_train", "biomed_hoc_train", "biomed_bc2gm_train")  # training splits of BLURB datasets
GENERAL = ("wikipedia", "books", "news")  # domains
# name -> domains or sources whose passages it takes, and the most characters
FILES: dict[str, tuple[tuple[str, ...], int]] = {
    "biomedical": (("biomed",), 60_000_000),  # vocabularies: two texts of equal length
    "general": (GENERAL, 60_000_000),
    "mixed": ((*GENERAL, "biomed", "reviews", "cs"), 400_000_000),  # TLM retrieves from all text
    "abstracts": (("biomed_ohsumed", "biomed_bionlp_detok", "biomed_anatem"), 20_000_000),  # small pretrainings
    "full-texts": (("biomed_pmc_rct", "biomed_craft_fulltext"), 20_000_000),
    "domain-acl": (("cs_acl_abstracts",), 3_000_000),  # importance of heads: stand-ins for the paper's six domains
    "domain-ai": (("cs_arxiv_abstracts",), 3_000_000),
    "domain-pubmed": (("biomed_pmc_rct", "biomed_ohsumed"), 3_000_000),
    "domain-restaurant": (("reviews_yelp10k", "reviews_subjqa_restaurants"), 3_000_000),
    "domain-electronics": (("reviews_subjqa_electronics",), 3_000_000),
    "domain-news": (("news_reuters21578", "news_bbc"), 3_000_000),
}


def main(corpus: Path, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    left = {name: characters for name, (_, characters) in FILES.items()}
    files = {name: (out / f"{name}.jsonl").open("w", encoding="utf-8") for name in FILES}
    with corpus.open("rb") as packed:
        stream = zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(packed)
        for line in io.TextIOWrapper(stream, encoding="utf-8"):
            passage = json.loads(line)
            if passage["source"] in TRAINING_TEXT:
                continue
            for name, (of, _) in FILES.items():
                if left[name] > 0 and (passage["source"] in of or passage["domain"] in of):
                    files[name].write(json.dumps({"text": passage["text"]}, ensure_ascii=False) + "\n")
                    left[name] -= len(passage["text"])
    for file in files.values():
        file.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
