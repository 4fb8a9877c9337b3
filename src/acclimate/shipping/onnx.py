"""Copies of a shipped model as ONNX, in 32 and in 8 bits, for machines without PyTorch; agreement, scores, speed
and size are measured.

The output is `logits`: (B, C); of tags (B, T, C), of spans (B, T, 2), begin and end. In 8 bits the weights of matrix
products and of embeddings become integers with one scale for each output channel. Activations are scaled for each batch
as it comes ("dynamic"), so a text's logits depend a little on the texts of its batch. Weights use 7 of the 8 bits: on
processors without VNNI instructions the sum of two products of 8 by 8 bits would overflow.
"""

from __future__ import annotations

import logging
import platform
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core.door import option
from acclimate.core.types import Example, Label, Watch, unwatched
from acclimate.models.classifier import SPAN, classifier_kind
from acclimate.models.formats import own_parts
from acclimate.shipping import check
from acclimate.shipping.check import Forward, Loaded
from acclimate.tasks.prepared import Prepared

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
FILE = "onnx/model_int8.onnx"
WHOLE = "onnx/model.onnx"  # in 32 bits
OUTPUT = "logits"
TIMED = 256  # dev texts on which speed is measured
ROUNDS = 5
CHECKED = 4  # batches of dev on which the export is compared with the model
# The largest difference between the logits of the model and of its ONNX form before quantisation. Both are float32 and
# add in different orders: CLOSE is a share of the range of the logits, a thousandth of what a missing operation causes;
# STEPS of float32 at the largest logit count where the range is small beside it, as for a predicted number far from 0
CLOSE = 1e-4
STEPS = 32
LOUD = ("torch.onnx", "onnxscript", "onnx_ir", "onnx_ir.passes", "root")


@dataclass(frozen=True)
class Int8:
    """Measurements of the copy in 8 bits, and of that in 32, beside those of the PyTorch model in float32.

    off, off_whole    largest difference of a logit on dev, of the copy in 8 bits and of that in 32
    same, same_whole  share of the dev texts with the same prediction; for predicted numbers their correlation
    size_whole        bytes of the copy in 32 bits
    agreement         share of the test texts with the same prediction; for predicted numbers their correlation
    items             number of test texts
    dev, dev_float    score on dev of the copy and of the model
    faster            seconds of the model divided by seconds of the copy, on the same texts
    slowest, fastest  least and largest of that ratio over the rounds
    texts             number of dev texts that were timed
    size, size_float  bytes of the weights of both
    threads           of PyTorch and of ONNX Runtime
    """

    agreement: float
    items: int
    dev: float
    dev_float: float
    faster: float
    slowest: float
    fastest: float
    texts: int
    size: int
    size_float: int
    threads: int
    processor: str
    date: str
    onnxruntime: str
    off: float
    off_whole: float
    same: float
    same_whole: float
    size_whole: int

    @property
    def smaller(self) -> float:
        """Size of the model divided by that of the copy."""
        return self.size_float / self.size


def require_packages() -> None:
    """Raises ValueError if the packages that write and run ONNX are not installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"an ONNX copy needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed. "
            f'Install with: pip install "acclimate[onnx]", or ship without {option("onnx")}'
        )


def copy_as_int8(
    directory: Path, task: Prepared, shipped: Loaded, scored: Sequence[Label], *, watch: Watch = unwatched
) -> Int8:
    """Write `onnx/model.onnx` and `onnx/model_int8.onnx` in the directory, and measure both on dev, and the second on
    the test texts, without their labels.

    directory  holds the model already
    scored     predictions of the model for the test texts, in their order

    Raises ValueError if packages are missing, and if the exported model gives other logits.
    """
    require_packages()
    path = directory / FILE
    path.parent.mkdir(exist_ok=True)
    whole = directory / WHOLE
    inputs = list(check.batches_of(task.examples("dev"), shipped.tokenizer, task.kind))
    with _quiet():
        _export(shipped, inputs[0], whole)
    _check(shipped, inputs[:CHECKED], _session(whole))
    with _quiet():
        from onnxruntime.quantization import QuantType, quantize_dynamic
        from onnxruntime.quantization.shape_inference import quant_pre_process

        folded = whole.with_name("folded.onnx")
        quant_pre_process(whole, folded, skip_symbolic_shape=True)  # symbolic inference fails on dynamic lengths
        quantize_dynamic(folded, path, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
        folded.unlink()
    return _measured(directory, task, shipped, scored, watch=watch)


def _export(shipped: Loaded, batch: Mapping[str, np.ndarray], path: Path) -> None:
    """Write the model as ONNX in float32, for batches of any number of texts of any length. batch: inputs of some"""
    import onnx
    import torch

    # two rows, for the exporter would fix the batch size at 1
    inputs = {name: np.repeat(values, 2, axis=0)[:2] for name, values in batch.items()}
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}

    class Named(torch.nn.Module):
        """The exporter wants to know the inputs by name, and a classifier of pooled states takes any."""

        def __init__(self) -> None:
            super().__init__()
            self.model = shipped.model

        def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any = None) -> Any:
            types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
            return check.logits_in(self.model(input_ids=input_ids, attention_mask=attention_mask, **types))

    needs_wrapper = classifier_kind(shipped.model) == SPAN or own_parts(shipped.model.config)
    torch.onnx.export(
        Named() if needs_wrapper else shipped.model,
        (),
        path,
        kwargs={name: torch.from_numpy(values) for name, values in inputs.items()},
        input_names=list(inputs),
        output_names=[OUTPUT],
        dynamic_shapes=dict.fromkeys(inputs, free),
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    graph = onnx.load(path)
    # the quantiser transposes weights, which would then contradict the shapes that are stored here
    del graph.graph.value_info[:]
    onnx.save(graph, path)


def _check(shipped: Loaded, batches: Sequence[dict[str, np.ndarray]], exported: Forward) -> None:
    """Raises ValueError if the logits of the model and of its ONNX form differ by more than rounding."""
    expected = _logits(shipped.logits, batches)
    off = _apart(expected, _logits(exported, batches))
    most = rounding(expected)
    if not off <= most:  # true for NaN too
        raise ValueError(
            f"the ONNX copy of {type(shipped.model).__name__} differs from PyTorch (by {off:.2g} in logits, "
            f"rounding explains {most:.2g}): PyTorch's exporter does not support this family. Ship without "
            f"{option('onnx')}"
        )


def _logits(forward: Forward, batches: Sequence[dict[str, np.ndarray]]) -> np.ndarray:
    """Return all logits but those of padding, flat."""
    arrays = []
    for inputs in batches:
        logits = forward(inputs)
        arrays.append((logits[inputs["attention_mask"] == 1] if logits.ndim == 3 else logits).ravel())
    return np.concatenate(arrays)


def _apart(logits: np.ndarray, others: np.ndarray) -> float:
    return float(np.abs(logits - others).max())


def rounding(logits: np.ndarray) -> float:
    """Return the largest difference that the order of float32 sums can make between such logits."""
    return CLOSE * float(np.ptp(logits)) + STEPS * float(np.spacing(np.abs(logits).max()))


def _measured(directory: Path, task: Prepared, shipped: Loaded, scored: Sequence[Label], *, watch: Watch) -> Int8:
    import onnxruntime
    import torch

    exported, whole, dev = _session(directory / FILE), _session(directory / WHOLE), task.examples("dev")

    def predicted(examples: Sequence[Example], model: Forward, stage: str) -> list[Label]:
        outputs = check.outputs_of_examples(examples, shipped.tokenizer, model, task.kind, stage=stage, watch=watch)
        return list(check.decoded(outputs, task.kind, task.labels))

    on_test = predicted(task.examples("test"), exported, "int8 on test")
    on_dev = predicted(dev, exported, "int8 on dev")
    on_dev_float = predicted(dev, shipped.logits, "float32 on dev")
    on_dev_whole = predicted(dev, whole, "float32 ONNX on dev")
    gold = [example.label for example in dev]
    batches = list(check.batches_of(dev, shipped.tokenizer, task.kind))
    logits = _logits(shipped.logits, batches)
    rounds = list(_rounds(list(check.batches_of(dev[:TIMED], shipped.tokenizer, task.kind)), shipped, exported))
    seconds_float, seconds = (sum(times) for times in zip(*rounds, strict=True))
    ratios = [plain / small for plain, small in rounds]
    weights = sum(file.stat().st_size for file in directory.rglob("*.safetensors"))
    return Int8(
        agreement=_agreement(scored, on_test),
        items=len(scored),
        dev=task.score(gold, on_dev),
        dev_float=task.score(gold, on_dev_float),
        faster=seconds_float / seconds,
        slowest=min(ratios),
        fastest=max(ratios),
        texts=min(len(dev), TIMED),
        size=(directory / FILE).stat().st_size,
        size_float=weights,
        threads=torch.get_num_threads(),
        processor=processor(),
        date=time.strftime("%Y-%m-%d"),
        onnxruntime=onnxruntime.__version__,
        off=_apart(logits, _logits(exported, batches)),
        off_whole=_apart(logits, _logits(whole, batches)),
        same=_agreement(on_dev_float, on_dev),
        same_whole=_agreement(on_dev_float, on_dev_whole),
        size_whole=(directory / WHOLE).stat().st_size,
    )


def _rounds(
    encoded: Sequence[dict[str, np.ndarray]], shipped: Loaded, exported: Forward
) -> Iterator[tuple[float, float]]:
    """Yield, ROUNDS times, the seconds that the model and the copy take for all batches.

    Both predict each batch in turn, and each of them goes first for half of the batches.
    """
    sides = (shipped.logits, exported)
    for side in sides:  # the first call allocates memory
        side(encoded[0])
    for number in range(ROUNDS):
        seconds = [0.0, 0.0]
        for place, inputs in enumerate(encoded):
            for which in (0, 1) if (number + place) % 2 else (1, 0):
                begun = time.perf_counter()
                sides[which](inputs)
                seconds[which] += time.perf_counter() - begun
        yield seconds[0], seconds[1]


def _agreement(scored: Sequence[Label], predicted: Sequence[Label]) -> float:
    """Return the share of equal labels; of numbers the correlation, or if one side is constant, 1 if all are equal."""
    if not isinstance(scored[0], float):
        return sum(one == other for one, other in zip(scored, predicted, strict=True)) / len(scored)
    numbers = np.array([scored, predicted], dtype=float)
    if (numbers.std(axis=1) == 0).any():
        return float((numbers[0] == numbers[1]).all())
    return float(np.corrcoef(numbers)[0, 1])


def _session(path: Path) -> Forward:
    """Return a function that computes logits with the ONNX file, on the processor with as many threads as PyTorch."""
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors only
    session: Any = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [node.name for node in session.get_inputs()]

    def asked(inputs: dict[str, np.ndarray]) -> np.ndarray:
        logits_BC: np.ndarray
        [logits_BC] = session.run([OUTPUT], {name: inputs[name] for name in names})
        return logits_BC

    return asked


def processor() -> str:
    """Return the name of the processor's model, or its architecture if the system does not state the name."""
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


@contextmanager
def _quiet() -> Iterator[None]:
    """Within the block, exporter and quantiser print no warnings. Their errors are raised."""
    before = {name: logging.getLogger(name).level for name in LOUD}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for name in LOUD:
                logging.getLogger(name).setLevel(logging.ERROR)
            yield
        finally:
            for name, level in before.items():
                logging.getLogger(name).setLevel(level)
