"""AdamW for word embeddings of which a step has a few rows.

A step of fine-tuning on short texts has some 200 of a vocabulary's 30,000 words, but their matrix is half of a small
model: zeros as the gradient of all other rows, their length and their update took 4% of a step on a CPU. A row that no
step has had yet has running means of 0, so AdamW only decays it. Here the gradient of the matrix holds the rows of the
step alone (`gradient_by_rows`), and only those rows move that some step had (`AdamW`).

Shape suffixes: V words of the vocabulary, D numbers of an embedding; I rows that have a gradient, J rows that had one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from acclimate.core.compiled import compiled, run_threads


def word_embeddings(module: nn.Module) -> list[nn.Embedding]:
    """Return the float32 word embeddings of a module's encoders, each once, without those whose matrix a head shares.

    A head gives each word a gradient, so a few rows would not do.
    """
    from transformers import PreTrainedModel  # takes seconds, which a dry run does without

    encoders = (part for part in module.modules() if isinstance(part, PreTrainedModel))
    embeddings = {encoder.get_input_embeddings(): None for encoder in encoders}
    plain = [layer for layer in embeddings if type(layer) is nn.Embedding and layer.weight.dtype == torch.float32]
    users = Counter(id(parameter) for _, parameter in module.named_parameters(remove_duplicate=False))
    return [layer for layer in plain if users[id(layer.weight)] == 1]


@contextmanager
def gradient_by_rows(words: Sequence[nn.Embedding]) -> Iterator[None]:
    """In the block, backward passes leave a sparse gradient for these embeddings: rows of words that the texts have.

    Where a loss has the whole matrix as well, torch adds both, and the gradient is dense as ever.
    """
    for embedding in words:
        embedding.sparse = True
    try:
        yield
    finally:
        for embedding in words:
            embedding.sparse = False
            if embedding.weight.grad is not None and embedding.weight.grad.is_sparse:
                embedding.weight.grad = _summed(embedding.weight.grad)


def _summed(gradient: Tensor) -> Tensor:
    """Return a sparse gradient with each row once, summed by what sums dense gradients of embeddings."""
    rows_I, places_N = torch.unique(gradient._indices()[0], return_inverse=True)
    sums_ID = torch.ops.aten.embedding_dense_backward(gradient._values(), places_N, len(rows_I), -1, False)
    return torch.sparse_coo_tensor(rows_I[None], sums_ID, gradient.shape, is_coalesced=True, check_invariants=False)


class AdamW(torch.optim.AdamW):
    """torch's fused AdamW, which on a CPU takes coalesced gradients of rows, too. They do what dense ones would:

        m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
        p = (1 - rate decay) p - rate m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon)

    (Loshchilov and Hutter, 2019, "Decoupled Weight Decay Regularization", algorithm 2.) Its state is torch's own.
    """

    def __init__(self, groups: list[dict[str, Any]], **options: Any) -> None:
        super().__init__(groups, fused=True, **options)
        # of a matrix: its state and the steps in it when it was last moved by rows; (V,) bool: which had moved by then
        self._met: dict[nn.Parameter, tuple[Tensor | None, int, np.ndarray]] = {}

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Move all parameters that have a gradient."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is not None and matrix.grad.is_sparse:
                    self._move_rows(matrix, matrix.grad, group)
                    matrix.grad = None
        return super().step(closure)

    @torch.no_grad()
    def _move_rows(self, matrix_VD: nn.Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[matrix_VD]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(matrix_VD), torch.zeros_like(matrix_VD)
        m_VD, v_VD = state["exp_avg"], state["exp_avg_sq"]
        of, before, met_V = self._met.get(matrix_VD, (None, 0, np.empty(0, bool)))
        if of is not m_VD or before != int(state["step"]):  # the state was loaded, or a dense gradient moved all rows
            met_V = ((m_VD != 0) | (v_VD != 0)).any(1).numpy()
        rows_I = gradient.indices()[0].numpy()
        met_V[rows_I] = True
        state["step"] += 1
        steps = int(state["step"])
        self._met[matrix_VD] = m_VD, steps, met_V

        rate, (b1, b2) = float(group["lr"]), group["betas"]
        matrix_VD.mul_(1 - rate * group["weight_decay"])
        rows_J = np.flatnonzero(met_V)
        places_J = np.full(len(rows_J), len(rows_I))
        places_J[np.searchsorted(rows_J, rows_I)] = np.arange(len(rows_I))
        gradient_ID = nn.functional.pad(gradient.values(), (0, 0, 0, 1))  # the last row is of those that have none
        factors = (1 - b1, b2, 1 - b2, -(rate / (1 - b1**steps)), (1 - b2**steps) ** 0.5, group["eps"])
        numbers = torch.tensor(factors, dtype=torch.float32).numpy()  # too large a rate is infinite, as in torch's loop
        bounds = np.linspace(0, len(rows_J), torch.get_num_threads() + 1).astype(np.int64)
        arrays = (tensor.detach().numpy() for tensor in (matrix_VD, m_VD, v_VD, gradient_ID))
        run_threads(_move, bounds.tolist(), rows_J, places_J, *arrays, *numbers)


# A check for division by 0 would keep the loop from vector instructions. With "contract", products are added as torch's
# own loop adds them, and in this order of factors the results are torch's to the bit.
@partial(compiled, error_model="numpy", fastmath={"contract"})
def _move(  # noqa: PLR0917
    begin: int, end: int, rows_J: Any, places_J: Any, matrix_VD: Any, m_VD: Any, v_VD: Any, gradient_ID: Any,
    a1: Any, b2: Any, a2: Any, factor: Any, root: Any, epsilon: Any,
) -> None:  # fmt: skip
    """Move rows begin to end of rows_J. a1 = 1 - b1, a2 = 1 - b2, factor = -rate / (1 - b1^t), root^2 = 1 - b2^t"""
    for number in range(begin, end):
        row = rows_J[number]
        p, m, v, g = matrix_VD[row], m_VD[row], v_VD[row], gradient_ID[places_J[number]]
        for place in range(len(p)):
            mean = m[place] + (g[place] - m[place]) * a1
            square = a2 * g[place] * g[place] + v[place] * b2
            p[place] += factor * mean / (np.sqrt(square) / root + epsilon)
            m[place], v[place] = mean, square
