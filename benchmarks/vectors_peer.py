"""The official fastText as a peer of `benchmarks/vectors_speed.py`, in a separate environment.

    PYTHON vectors_peer.py TEXT OUT SETTINGS.json THREADS

Trains on the text, writes OUT and says how many seconds of the processor training took: those of the whole call less
those of a call for no epochs, which reads the text and fills the rows only.
"""

from __future__ import annotations

import json
import sys
import time

import fasttext


def main() -> None:
    text, out, settings, threads = sys.argv[1:]
    given = json.loads(settings)
    seconds = {}
    for epochs in (0, given["epoch"]):
        begun = time.process_time()
        model = fasttext.train_unsupervised(
            text, "skipgram", thread=int(threads), verbose=0, **{**given, "epoch": epochs}
        )
        seconds[epochs] = time.process_time() - begun
    model.save_model(out)
    print(json.dumps({"seconds": seconds[given["epoch"]] - seconds[0]}))


if __name__ == "__main__":
    main()
