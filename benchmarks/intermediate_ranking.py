"""Cheap rankings of intermediate tasks against the gains of Jeong and Hwang's matrices (their Tables 2 and 3).

    python benchmarks/intermediate_ranking.py --data blurb --rows 200 \
        --out benchmarks/reports/2026-11-30-intermediate-ranking.md

Each ranking is computed from training rows of two tasks and one frozen encoder, without fine-tuning:

* evidence: LogME (You et al. 2021) of the target's labels, given what a linear probe for the intermediate task reads in
  the target's texts
* texts: cosine of the tasks' mean states, as in Vu et al. (2020)
* size: training rows of the intermediate task, by the paper's Table 1

A rank correlation is the mean over targets of the correlation of score and gain over intermediate tasks. Its interval
resamples targets. Its p is one-sided, over permutations of the tasks that move a task's row and column together.

Shape suffixes: R rows or words, D numbers of a state, C labels.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from page import head, table, tell, write
from scipy import stats

from acclimate.methods.probe import load_encoder, probe_targets, states_of
from acclimate.models.loading import load_tokenizer
from acclimate.reading.labelled import fewer
from acclimate.reading.published import published
from acclimate.tasks.prepared import prepare
from acclimate.tasks.rows import encoded, with_labels

TITLE = "Rankings of intermediate tasks without fine-tuning, against a published matrix"
# Table 1: training rows; EBM PICO is missing, because its training rows are not public
SIZES = {
    "BC5-chem": 5203,
    "BC5-disease": 4182,
    "NCBI-disease": 5134,
    "BC2GM": 15197,
    "JNLPBA": 46750,
    "ChemProt": 18035,
    "DDI": 25296,
    "GAD": 4261,
    "PubMedQA": 450,
    "BioASQ": 670,
}
# Tables 2 and 3, without EBM PICO: the target alone, then after each task in the order of SIZES
BERT = """
88.92 -     89.37 89.46 89.47 89.66 89.38 89.54 89.23 89.27 89.27
80.74 80.69 -     81.35 81.32 80.93 80.32 80.38 80.80 80.58 80.70
85.33 86.19 85.93 -     86.37 85.32 85.76 86.05 86.12 86.60 85.53
80.83 80.64 81.02 81.43 -     81.28 80.80 80.95 81.27 81.65 80.97
77.32 77.16 77.61 77.52 77.63 -     77.51 77.62 77.63 77.64 77.84
71.23 71.00 71.06 70.86 69.82 71.05 -     70.96 71.47 71.82 71.68
77.01 77.32 78.38 77.87 74.57 77.71 79.03 -     78.91 78.29 78.23
78.93 77.21 78.40 78.79 80.56 79.12 78.91 78.59 -     79.70 77.97
50.60 50.20 51.10 50.80 50.90 51.80 58.30 58.50 51.10 -     53.40
61.43 66.91 68.33 71.90 62.86 67.38 75.48 76.66 70.48 66.66 -
"""
PUBMEDBERT = """
92.97 -     92.99 93.11 93.46 93.20 92.88 92.88 93.05 93.28 93.00
84.61 85.41 -     85.91 85.73 85.71 85.24 85.38 85.63 85.38 85.29
87.73 87.46 88.10 -     87.57 88.01 88.06 87.99 87.77 88.81 87.72
83.91 83.86 84.27 84.17 -     84.00 84.24 83.87 84.52 83.98 84.25
79.02 78.93 78.94 78.77 78.84 -     79.25 79.18 79.26 79.00 78.99
77.28 77.29 77.11 77.44 75.14 76.65 -     76.80 76.70 77.08 77.42
82.96 82.72 81.67 82.28 79.50 82.21 82.40 -     82.59 82.70 83.22
82.17 81.63 81.73 82.22 83.62 81.98 82.62 83.02 -     81.53 83.57
55.00 57.80 51.60 54.40 55.00 50.80 62.30 61.80 50.40 -     65.40
84.29 88.22 83.93 82.86 78.22 86.07 80.00 92.15 83.22 86.79 -
"""
RIDGE = 1.0  # of a probe, per row, on standardised states
DRAWS = 4_000
NOTE = """\
The gains are means of three fine-tunings of BERT-base and PubMedBERT-base, without stated spread. BioASQ's test set has
140 questions, so its gains are coarse. The scores come from another encoder, the embedded one. The two models of the
paper agree little themselves: the mean rank correlation of their gains is {agreement}.

A ranking is kept only if the interval of its correlation is above 0 with both models of the paper, and its p, corrected
by Holm over the table, is below 5%.

LogME's authors compute it on encoders that are already trained differently. Here that would cost a fine-tuning per
intermediate task, and was not measured.
"""
OURS = """\
Our own matrix ([S1](../../docs/claims/stilt.md)) has three tasks, so two intermediate tasks per target. No rank
correlation can be established on it: all three targets ordered correctly would still have p = 1/8.
"""


def gains(matrix: str) -> np.ndarray:
    """(targets, intermediate tasks) in points; NaN on the diagonal."""
    scores = np.array(
        [[np.nan if cell == "-" else float(cell) for cell in line.split()] for line in matrix.split("\n") if line]
    )
    return scores[:, 1:] - scores[:, :1]


class Read:
    """The states and labels of a task's sampled training rows: of a tagged task those of its words."""

    def __init__(self, name: str, data: Path, place: Path, rows: int, max_tokens: int) -> None:
        labelled = fewer(published(name, data), rows, 0)
        task = prepare(replace(labelled, max_tokens=max_tokens).task(), data, place / name)
        encoder, _ = load_encoder("embedded")
        tokenizer, examples = load_tokenizer("embedded"), task.examples("train")
        batch = with_labels(encoded(task, "train", examples, tokenizer), examples, task.kind, task.labels)
        read_out = "pieces" if task.kind == "tokens" else "mean"
        states_RD = states_of(encoder, batch, (read_out,))[read_out].astype(np.float64)
        codes_R = probe_targets(batch)
        self.states_RD = states_RD
        self.wanted_RC = (codes_R[:, None] == np.unique(codes_R)).astype(np.float64)
        tell(f"{name}: {self.wanted_RC.shape}, {time.process_time():.0f} processor seconds so far")


def probe_weights(task: Read) -> np.ndarray:
    """(D, C - 1): a ridge regression of the labels on the states, standardised by the task; one label is redundant."""
    x_RD = (task.states_RD - task.states_RD.mean(0)) / task.states_RD.std(0)
    y_RC = task.wanted_RC[:, 1:] - task.wanted_RC[:, 1:].mean(0)
    gram_DD = x_RD.T @ x_RD + RIDGE * len(x_RD) * np.eye(x_RD.shape[1])
    return np.linalg.solve(gram_DD, x_RD.T @ y_RC) / task.states_RD.std(0)[:, None]


def log_evidence(features_RD: np.ndarray, wanted_RC: np.ndarray) -> float:
    """LogME: the mean over labels of the log evidence per row of y ~ N(F w, 1 / beta), w ~ N(0, 1 / alpha), at the
    alpha and beta that maximise it (You et al. 2021, Algorithm 1).
    """
    rows, width = features_RD.shape
    left_RK, singular_K, _ = np.linalg.svd(features_RD, full_matrices=False)
    squares_K, evidences = singular_K**2, []
    for y_R in wanted_RC.T:
        projected_K, total = left_RK.T @ y_R, y_R @ y_R
        alpha = beta = 1.0
        for _ in range(200):
            before = alpha / beta
            mean_K = beta * singular_K * projected_K / (alpha + beta * squares_K)  # of w, in the basis of F
            gamma = (beta * squares_K / (alpha + beta * squares_K)).sum()
            residual = total - projected_K @ projected_K + ((projected_K - singular_K * mean_K) ** 2).sum()
            alpha, beta = gamma / (mean_K @ mean_K), (rows - gamma) / residual
            if abs(alpha / beta - before) < 1e-6 * before:
                break
        log_determinant = np.log(alpha + beta * squares_K).sum() + (width - len(squares_K)) * np.log(alpha)
        evidence = rows * np.log(beta) + width * np.log(alpha) - rows * np.log(2 * np.pi) - log_determinant
        evidences.append((evidence - beta * residual - alpha * mean_K @ mean_K) / 2 / rows)
    return float(np.mean(evidences))


def scores_of(tasks: Mapping[str, Read]) -> dict[str, np.ndarray]:
    """Return score -> (targets, intermediate tasks)."""
    names, weights = [*tasks], {name: probe_weights(task) for name, task in tasks.items()}
    means = {name: task.states_RD.mean(0) for name, task in tasks.items()}
    centre = np.mean([*means.values()], axis=0)
    scores = {name: np.full((len(names), len(names)), np.nan) for name in ("evidence", "texts", "size")}
    for (i, target), (j, first) in itertools.permutations(enumerate(names), 2):
        read_RC = tasks[target].states_RD @ weights[first]
        ones_R1 = np.ones((len(read_RC), 1))
        standard_RC = (read_RC - read_RC.mean(0)) / read_RC.std(0)
        scores["evidence"][i, j] = log_evidence(np.hstack([standard_RC, ones_R1]), tasks[target].wanted_RC)
        one, other = means[target] - centre, means[first] - centre
        scores["texts"][i, j] = one @ other / np.sqrt((one @ one) * (other @ other))
        scores["size"][i, j] = SIZES[first]
    return scores


def correlations(score: np.ndarray, gain: np.ndarray, of: Callable[..., tuple[float, float]]) -> np.ndarray:
    """(targets,) of the intermediate tasks of each target."""
    return np.array(
        [of(*(np.delete(values[target], target) for values in (score, gain)))[0] for target in range(len(score))]
    )


def spearman(score: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """(targets,) as `correlations` with Spearman's, faster."""
    off = ~np.eye(len(score), dtype=bool)
    ranks = [stats.rankdata(values[off].reshape(len(score), -1), axis=1) for values in (score, gain)]
    first, second = (values - values.mean(1, keepdims=True) for values in ranks)
    return (first * second).sum(1) / np.sqrt((first**2).sum(1) * (second**2).sum(1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        read = {name: Read(name, options.data, Path(folder), options.rows, options.max_tokens) for name in SIZES}
    scores, generator, lines, ps = scores_of(read), np.random.default_rng(0), [], []
    for (model, matrix), name in itertools.product({"BERT": BERT, "PubMedBERT": PUBMEDBERT}.items(), scores):
        gain, score = gains(matrix), scores[name]
        of_targets, number = spearman(score, gain), len(score)
        np.testing.assert_allclose(of_targets, correlations(score, gain, stats.spearmanr))
        resampled = of_targets[generator.integers(number, size=(DRAWS, number))].mean(1)
        low, high = np.quantile(resampled, [0.025, 0.975])
        orders = (generator.permutation(number) for _ in range(DRAWS))
        null = np.array([spearman(score[np.ix_(order, order)], gain).mean() for order in orders])
        ps.append((1 + np.count_nonzero(null >= of_targets.mean())) / (1 + DRAWS))
        kendall = correlations(score, gain, stats.kendalltau).mean()
        best = np.nanargmax(score, axis=1)
        chosen = gain[np.arange(number), best].mean()
        row = (f"{of_targets.mean():+.2f} [{low:+.2f}, {high:+.2f}]", f"{kendall:+.2f}", f"{ps[-1]:.3f}")
        lines.append((f"{name}, {model}", *row, f"{chosen:+.2f}", f"{np.nanmean(gain):+.2f}"))
    holm = np.minimum(1, np.maximum.accumulate(np.sort(ps) * np.arange(len(ps), 0, -1)))
    by_place = dict(zip(np.argsort(ps), holm, strict=True))
    results = [(*line[:4], f"{by_place[place]:.3f}", *line[4:]) for place, line in enumerate(lines)]
    columns = ("score, model of the paper", "Spearman", "Kendall", "p", "Holm", "gain of the first", "mean gain")
    facts = [
        ("tasks", f"{', '.join(SIZES)}: {len(SIZES) * (len(SIZES) - 1)} pairs"),
        ("training rows read", f"{options.rows} per task, cut to {options.max_tokens} tokens"),
        ("processor seconds", f"{time.process_time():.0f}"),
    ]
    explained = __doc__[__doc__.index("Each") : __doc__.index("Shape")]
    agreement = spearman(gains(PUBMEDBERT), gains(BERT)).mean()
    note = NOTE.format(agreement=f"{agreement:+.2f}")
    write(options.out, [head(TITLE, facts=facts), explained, table(columns, results), note, OURS])


if __name__ == "__main__":
    main()
