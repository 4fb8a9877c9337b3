"""Set before torch and the libraries under numpy are loaded: they read these once."""

import os

# One thread a process: two workers run side by side, and sums come out the same whatever the number of cores.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"  # a test that needs a download is a test that fails on a train
os.environ["MPLBACKEND"] = "Agg"
