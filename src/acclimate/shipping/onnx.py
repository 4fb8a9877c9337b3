"""A shipped model once more as ONNX in 8 bits, for processors without PyTorch: what it loses and gains is measured.

The weights of matrix products and of embeddings become 8-bit integers, a scale for each output channel; activations
are scaled batch by batch as they come ("dynamic"), so what a text gets depends a little on the texts beside it. Weights
take 7 of the 8 bits: on processors without VNNI instructions two products of 8 by 8 bits would overflow and be cut.
"""

from __future__ import annotations

import itertools
import logging
import platform
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from acclimate.core.types import Example, Label, Watch, unwatched
from acclimate.shipping import predict
from acclimate.shipping.predict import Asked, Loaded
from acclimate.tasks.prepared import Prepared

PACKAGES = ("onnx", "onnxruntime", "onnxscript")
FILE = "onnx/model_int8.onnx"
OUTPUT = "logits"
TIMED = 256  # dev texts that speed is measured on
ROUNDS = 5
CHECKED = 4  # batches of dev on which the export is compared with the model
# How far the ONNX form may lie from the model before it is quantised. Both are float32 and differ by the order of their
# sums alone: CLOSE as a share of what the logits spread over, a thousandth of what a missing operation shows, and STEPS
# between float32 numbers of their size, where they hardly spread beside it (a number to predict, far from 0)
CLOSE = 1e-4
STEPS = 32
LOUD = ("torch.onnx", "onnxscript", "onnx_ir", "onnx_ir.passes", "root")


@dataclass(frozen=True)
class Int8:
    """What was measured of the copy, each against the PyTorch model in float32.

    agreement        share of the test texts on which both say the same; of a task that predicts a number, the
                     correlation of what they say
    dev, dev_float   score on dev of the copy and of the model
    faster           seconds of the model / of the copy on the same texts; slowest, fastest: the rounds' extremes
    texts            how many of dev that was
    size, size_float bytes of the two files of weights
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

    @property
    def smaller(self) -> float:
        return self.size_float / self.size


def require_packages() -> None:
    """Raises ValueError where what writes and runs ONNX is not installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"an ONNX copy needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed. "
            'Install with: pip install "acclimate[onnx]", or ship without --onnx'
        )


def copy_as_int8(
    directory: Path, task: Prepared, shipped: Loaded, scored: Sequence[Label], *, watch: Watch = unwatched
) -> Int8:
    """Write `directory/onnx/model_int8.onnx` and measure it on dev, and on the texts of the test set without labels.

    directory  where the model itself lies already
    scored     what the model predicts of the test texts, in their order

    Raises ValueError where packages are missing and where the model does not survive the export.
    """
    require_packages()
    path = directory / FILE
    path.parent.mkdir(exist_ok=True)
    whole = path.with_name("whole.onnx")
    dev = task.examples("dev")
    with _quiet():
        _export(shipped, dev, whole)
    _check(shipped, dev, _session(whole))
    with _quiet():
        _quantise(whole, path)
    whole.unlink()
    return _measured(directory, task, shipped, scored, watch=watch)


def _export(shipped: Loaded, examples: Sequence[Example], path: Path) -> None:
    """The model as ONNX in float32, any number of texts of any length a batch."""
    import onnx
    import torch

    _, inputs = next(predict.batches(examples, shipped.tokenizer, size=2))
    if len(examples) < 2:  # a batch of one would be taken for all there is
        inputs = {name: np.repeat(values, 2, axis=0) for name, values in inputs.items()}
    free = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        shipped.model,
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
    # the quantiser turns weights round and would then find that they contradict the shapes written down here
    del graph.graph.value_info[:]
    onnx.save(graph, path)


def _check(shipped: Loaded, examples: Sequence[Example], exported: Asked) -> None:
    """Raises ValueError where the model and its ONNX form differ on the longest texts by more than rounding can."""
    some = list(itertools.islice(predict.batches(examples, shipped.tokenizer), CHECKED))
    wanted, given = (
        np.concatenate([asked(inputs).ravel() for _, inputs in some]) for asked in (shipped.asked, exported)
    )
    off = float(np.abs(wanted - given).max())
    most = rounding(wanted)
    if not off <= most:  # what is no number is not close either
        raise ValueError(
            f"as ONNX, {type(shipped.model).__name__} gives other results than in PyTorch (logits differ by "
            f"{off:.2g}, rounding accounts for {most:.2g}): PyTorch's exporter does not do this family justice. Ship "
            "without --onnx"
        )


def rounding(logits: np.ndarray) -> float:
    """How far float32 logits like these may lie from those of the same model whose sums are taken in another order."""
    return CLOSE * float(np.ptp(logits)) + STEPS * float(np.spacing(np.abs(logits).max()))


def _quantise(whole: Path, path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    folded = whole.with_name("folded.onnx")
    quant_pre_process(whole, folded, skip_symbolic_shape=True)  # symbolic inference stumbles over dynamic lengths
    quantize_dynamic(folded, path, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
    folded.unlink()


def _measured(directory: Path, task: Prepared, shipped: Loaded, scored: Sequence[Label], *, watch: Watch) -> Int8:
    import onnxruntime
    import torch

    asked, dev = _session(directory / FILE), task.examples("dev")
    said = {}
    for split in ("test", "dev"):
        examples = task.examples("test") if split == "test" else dev
        stage = f"int8 on {split}"
        outputs = predict.outputs_of(examples, shipped.tokenizer, asked, task.kind, stage=stage, watch=watch)
        said[split] = predict.decoded(outputs, task.kind, task.labels)
    stage, asking = "float32 on dev", (shipped.tokenizer, shipped.asked, task.kind)
    outputs = predict.outputs_of(dev, *asking, stage=stage, watch=watch)
    gold = [example.label for example in dev]
    rounds = list(_rounds(dev[:TIMED], shipped, asked))
    ours, theirs = (sum(seconds) for seconds in zip(*rounds, strict=True))
    ratios = [plain / small for plain, small in rounds]
    weights = sum(file.stat().st_size for file in directory.glob("*.safetensors"))
    return Int8(
        agreement=_agreement(scored, said["test"]),
        items=len(scored),
        dev=task.score(gold, said["dev"]),
        dev_float=task.score(gold, predict.decoded(outputs, task.kind, task.labels)),
        faster=ours / theirs,
        slowest=min(ratios),
        fastest=max(ratios),
        texts=min(len(dev), TIMED),
        size=(directory / FILE).stat().st_size,
        size_float=weights,
        threads=torch.get_num_threads(),
        processor=processor(),
        date=time.strftime("%Y-%m-%d"),
        onnxruntime=onnxruntime.__version__,
    )


def _rounds(examples: Sequence[Example], shipped: Loaded, asked: Asked) -> Iterator[tuple[float, float]]:
    """Seconds of the model and of the copy on all texts, ROUNDS times; batch by batch in turn, each first as often."""
    encoded = [inputs for _, inputs in predict.batches(examples, shipped.tokenizer)]
    for side in (shipped.asked, asked):  # the first call takes memory
        side(encoded[0])
    sides = (shipped.asked, asked)
    for number in range(ROUNDS):
        seconds = [0.0, 0.0]
        for place, inputs in enumerate(encoded):
            for which in (0, 1) if (number + place) % 2 else (1, 0):
                begun = time.perf_counter()
                sides[which](inputs)
                seconds[which] += time.perf_counter() - begun
        yield seconds[0], seconds[1]


def _agreement(scored: Sequence[Label], said: Sequence[Label]) -> float:
    if not isinstance(scored[0], float):
        return sum(one == other for one, other in zip(scored, said, strict=True)) / len(scored)
    numbers = np.array([scored, said], dtype=float)
    if (numbers.std(axis=1) == 0).any():
        return float((numbers[0] == numbers[1]).all())
    return float(np.corrcoef(numbers)[0, 1])


def _session(path: Path) -> Asked:
    """Runs on the processor, with as many threads as PyTorch takes."""
    import onnxruntime
    import torch

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors only
    session: Any = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def asked(inputs: dict[str, np.ndarray]) -> np.ndarray:
        logits_BC: np.ndarray
        [logits_BC] = session.run([OUTPUT], {name: inputs[name] for name in names})
        return logits_BC

    return asked


def processor() -> str:
    """The processor as its maker calls it, as far as the system says; else its architecture."""
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the warnings of exporter and quantiser away from the terminal; what they raise is raised."""
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
