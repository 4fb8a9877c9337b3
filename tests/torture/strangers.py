# ruff: noqa: E501, UP031
"""Files, settings and models from strangers: mutated ones, and ones that would run code if they could."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import zstandard
from pyarrow import parquet

from torture import zygote
from torture.faults import Bench, Fault, Try

TOKENS = (
    "\x00",
    "\ud800",
    "NaN",
    "-1",
    "1" * 400,
    "1e999",
    "[" * 5000,
    "{}",
    "null",
    '"',
    "\t\t",
    "\r",
    "\u202e",
    "../../x",
)
VALUES: tuple[Any, ...] = (
    None,
    [],
    {},
    "",
    "x",
    -1,
    0,
    1.5,
    10**30,
    True,
    [[]],
    {"a": 1},
    ["x"] * 3,
    "\u0000",
    float("nan"),
)
FEW = ("plan.steps=1", "plan.batch=4", "epochs=0", "max_tokens=16")


@dataclass(frozen=True)
class Reader:
    """What reads a file. file: its path in the place. command: `{}` stands for it"""

    name: str
    file: str
    command: Sequence[str]
    content: Callable[[Path], bytes] | None = None

    def of(self, place: Path) -> bytes:
        return self.content(place) if self.content else (place / self.file).read_bytes()


def _rows(place: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (place / "in/train.jsonl").read_text().splitlines()] * 3


def _csv(place: Path) -> bytes:
    return ("text,label\n" + "".join(f'"{row["text"]}",{row["label"]}\n' for row in _rows(place))).encode()


def _parquet(place: Path) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(_rows(place)), sink)
    return sink.getvalue()


def _words(place: Path) -> bytes:
    return b"".join(b"gene%d\tB-X\nrow%d\tO\n\n" % (at, at) for at in range(40))


def _articles(place: Path) -> bytes:
    one = (
        "<PubmedArticle><MedlineCitation><PMID>{0}</PMID><Article><ArticleTitle>Title {0}</ArticleTitle><Abstract>"
        "<AbstractText>It is so {0}.</AbstractText></Abstract></Article></MedlineCitation></PubmedArticle>"
    )
    inside = "".join(one.format(at) for at in range(9))
    return f"<?xml version='1.0'?><PubmedArticleSet>{inside}</PubmedArticleSet>".encode()


def _recipe(place: Path) -> bytes:
    return b'epochs = 0.0\nmax_tokens = 16\nmasking = 0.15\n[plan]\nsteps = 2\nbatch = 4\nrate = 1e-3\nschedule = "linear"\n'


def _lines(place: Path) -> bytes:
    return (place / "in/domain.txt").read_bytes()


PREPARE = ("data", "prepare", "{}", "--out", "out")
CORPUS = ("data", "corpus", "{}", "--out", "out", "--processes", "1")
ADAPT = ("adapt", "mlm", "model=model", "corpus=in/domain.txt", "--out", "out", *FEW)
READERS = (
    Reader("csv", "a.csv", PREPARE, _csv),
    Reader("jsonl", "a.jsonl", PREPARE, lambda place: (place / "in/train.jsonl").read_bytes() * 3),
    Reader("json", "a.json", PREPARE, lambda place: json.dumps(_rows(place)).encode()),
    Reader("parquet", "a.parquet", PREPARE, _parquet),
    Reader("csv.gz", "a.csv.gz", PREPARE, lambda place: gzip.compress(_csv(place))),
    Reader("jsonl.zst", "a.jsonl.zst", PREPARE, lambda p: zstandard.compress((p / "in/train.jsonl").read_bytes() * 3)),
    Reader("tagged words", "a.tsv", (*PREPARE, "--kind", "tokens"), _words),
    Reader("lines of text", "b.txt", CORPUS, _lines),
    Reader("packed text", "b.txt.gz", CORPUS, lambda place: gzip.compress(_lines(place))),
    Reader("JSON lines of text", "b.jsonl", CORPUS, lambda place: (place / "in/train.jsonl").read_bytes()),
    Reader("PubMed", "b.xml", CORPUS, _articles),
    Reader("recipe", "r.toml", (*ADAPT[:-4], "plan.steps=1", "--recipe", "{}"), _recipe),
    *(
        Reader(f"model, {name}", f"model/{name}", ADAPT)
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
    ),
    *(
        Reader(f"run, {name}", f"raced/{name}", ("report", "raced"))
        for name in ("race.outcome.json", "study.json", "plan.jsonl", "study.lock.json")
    ),
    *(
        Reader(f"use, {name}", f"raced/use/{name}", ("predict", "raced", "in/test.jsonl"))
        for name in ("race.json", "config.json", "model.safetensors")
    ),
    *(
        Reader(f"shipped, {name}", f"raced/use/{name}", ("ship", "raced", "--to", "out"))
        for name in ("race.json", "tokenizer.json")
    ),
    Reader(
        "texts to predict", "c.jsonl", ("predict", "raced", "{}"), lambda place: (place / "in/test.jsonl").read_bytes()
    ),
    Reader("benchmark's copy", "copy/bioasq_yesno_7b/train.tsv", ("doctor", "blurb", "--data", "copy")),
)


def mutated(content: bytes, generator: random.Random) -> bytes:
    """Return another content: a value of its JSON, some bytes, or its order changed."""
    if generator.random() < 0.5:
        try:
            value = json.loads(content)
        except ValueError:
            value = None
        if isinstance(value, dict | list) and value:
            return json.dumps(_changed(value, generator)).encode("utf-8", "surrogatepass")
    changed = bytearray(content)
    for _ in range(generator.choice((1, 1, 2, 5))):
        size = max(1, len(changed))
        at, end = sorted(generator.randrange(size) for _ in range(2))
        how = generator.randrange(7)
        if how == 0:
            changed[at : at + 1] = bytes([generator.randrange(256)])
        elif how == 1:
            del changed[at:]
        elif how == 2:
            del changed[at:end]
        elif how == 3:
            changed[at:at] = changed[at:end]
        elif how == 4:
            changed[at:at] = generator.choice(TOKENS).encode("utf-8", "surrogatepass")
        elif how == 5:
            changed[at:end] = generator.randbytes(end - at)
        else:
            changed = bytearray(
                generator.choice((b"", bytes(64), bytes(changed[::-1]), b"PK\x03\x04" + bytes(changed)))
            )
    return bytes(changed)


def _changed(value: Any, generator: random.Random) -> Any:
    places = [(value, key) for key in (value if isinstance(value, dict) else range(len(value)))]
    below, key = generator.choice(places)
    if isinstance(below[key], dict | list) and below[key] and generator.random() < 0.7:
        below[key] = _changed(below[key], generator)
    elif isinstance(below, dict) and generator.random() < 0.3:
        del below[key]
    else:
        below[key] = generator.choice(VALUES)
    return value


def strange(bench: Bench, tries: int) -> Iterator[Try]:
    """Mutate a file, and give the command that reads it."""
    place = bench.fresh("strange")
    for number in range(tries):
        reader = READERS[number % len(READERS)]
        for name in ("out", "model", "raced", "copy"):
            shutil.rmtree(place / name, ignore_errors=True)
            if name != "out" and reader.file.startswith(name):
                shutil.copytree(bench.home / name, place / name)
        if not (place / "model").exists():
            shutil.copytree(bench.home / "model", place / "model")
        if not (place / "raced").exists() and "raced" in reader.command:
            shutil.copytree(bench.home / "raced", place / "raced")
        content = mutated(reader.of(place), bench.random)
        (place / reader.file).write_bytes(content)
        command = [word.replace("{}", reader.file) for word in reader.command]
        ended = zygote.run(command, place, before=zygote.bounded, within=zygote.SECONDS)
        failed = _against(ended, Path(reader.file))
        if failed:
            kept = bench.scratch.parent / f"torture-{reader.name.replace(', ', '-').replace(' ', '-')}-{number}"
            kept.write_bytes(content)
            failed = f"{reader.name} ({kept}): {failed}"
        yield Try(failed, "refused" if ended.status == 2 else "read")


def _against(ended: zygote.Ended, file: Path) -> str:
    """Return what is wrong with how a command ended that was given a strange file; "": nothing."""
    if ended.failed:
        return str(ended)
    message = ended.said[ended.said.rfind("acclimate: ") :] if ended.status == 2 else ""
    if ended.status == 2 and not any(word in message for word in (file.name, file.parent.name or file.name, file.stem)):
        return f"names no file: {ended}"
    return ""


class Payload:
    """Unpickling it makes the file `ran`."""

    def __init__(self, ran: str) -> None:
        self.ran = ran

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return (os.system, (f"touch {self.ran}",))


def _zip(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, content)
    return packed.getvalue()


def payloads(place: Path) -> Iterator[tuple[str, dict[str, bytes], list[str]]]:
    """Yield names, files to write to the place, and commands that meet them. What runs makes the file `ran`."""
    ran = str(place / "ran")
    pickles = {f"pickle {protocol}": pickle.dumps(Payload(ran), protocol) for protocol in (0, 2, 4, 5)}
    pickles["torch's zip"] = _zip("archive/data.pkl", pickles["pickle 2"])
    pickles["gzip"] = gzip.compress(pickles["pickle 2"])
    for name, content in pickles.items():
        for file in ("a.csv", "a.jsonl", "a.parquet"):
            yield f"{name} as {file}", {file: content}, [*PREPARE[:2], file, *PREPARE[3:]]
        for file in ("b.txt", "b.jsonl", "b.txt.gz"):
            yield f"{name} as {file}", {file: content}, [*CORPUS[:2], file, *CORPUS[3:]]
        for file in ("pytorch_model.bin", "model.safetensors", "training_args.bin", "tokenizer.json"):
            yield f"{name} as {file} of a model", {f"model/{file}": content}, [*ADAPT]
        yield (
            f"{name} as weights of a model",
            {"raced/use/model.safetensors": content},
            ["predict", "raced", "in/test.jsonl"],
        )
    python = f"open({ran!r}, 'w').close()"
    for command in ([*ADAPT], ["doctor", "in/train.jsonl", "--model", "model"]):
        for auto in ("AutoConfig", "AutoModel", "AutoModelForMaskedLM", "AutoTokenizer"):
            config = json.dumps({"model_type": "evil", "auto_map": {auto: "evil.Evil"}}).encode()
            files = {"model/config.json": config, "model/evil.py": python.encode()}
            yield f"remote code by {auto}, {command[0]}", files, command
            files = {"model/tokenizer_config.json": config, "model/evil.py": python.encode()}
            yield f"remote code of the tokenizer by {auto}, {command[0]}", files, command
    of_jinja = (
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('touch %s') }}" % ran,
        "{%% for c in [1] %%}{{ self.__init__.__globals__.__builtins__.open('%s', 'w') }}{%% endfor %%}" % ran,
        "{{ lipsum.__globals__['os'].popen('touch %s').read() }}" % ran,
    )
    for number, template in enumerate(of_jinja):
        for file in ("chat_template.jinja", "additional_chat_templates/default.jinja"):
            yield f"chat template {number} in {file}", {f"model/{file}": template.encode()}, [*ADAPT]
        yield (
            f"template {number} as a label",
            {"a.csv": f'text,label\n"{template}",a\n'.encode()},
            [*PREPARE[:2], "a.csv", *PREPARE[3:]],
        )
    code = f"__import__('os').system('touch {ran}')"
    shell = f"$(touch {ran})"
    for setting in ("plan.steps", "plan.schedule", "masking", "precision", "whole_words", "model", "corpus"):
        for value in (code, shell, f"`touch {ran}`", f"|touch {ran}"):
            yield f"{setting}={value[:9]}", {}, [*ADAPT, f"{setting}={value}"]
            yield (
                f"{setting} = {value[:9]} in a recipe",
                {"r.toml": f'{setting} = "{value}"\n'.encode()},
                [*ADAPT[:-4], "--recipe", "r.toml"],
            )
    secret = "SECRET-OF-ANOTHER-FILE"
    for kind in (
        "<!ENTITY x SYSTEM 'secret.txt'>",
        f"<!ENTITY x SYSTEM 'file://{place}/secret.txt'>",
        "<!ENTITY % x SYSTEM 'secret.txt'> %x;",
    ):
        article = (
            _articles(place)
            .decode()
            .replace("<PubmedArticleSet>", f"<!DOCTYPE PubmedArticleSet [{kind}]><PubmedArticleSet>", 1)
        )
        files = {"b.xml": article.replace("Title 3", "&x;").encode(), "secret.txt": secret.encode()}
        yield f"XML {kind[:12]}", files, [*CORPUS[:2], "b.xml", *CORPUS[3:]]


def executed(bench: Bench, tries: int) -> Iterator[Try]:
    """Give each payload to the commands that meet it."""
    place = bench.fresh("payloads")
    listed = [*payloads(place)]
    for name, files, command in listed if tries >= len(listed) else bench.random.sample(listed, tries):
        for each in ("out", "model", "raced"):
            shutil.rmtree(place / each, ignore_errors=True)
            if each != "out":
                shutil.copytree(bench.home / each, place / each)
        for file, content in files.items():
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_bytes(content)
            if file == "model/pytorch_model.bin":
                (place / "model/model.safetensors").unlink()
        ended = zygote.run(command, place, before=zygote.bounded, within=zygote.SECONDS)
        read = b"SECRET" in b"".join(path.read_bytes() for path in (place / "out").rglob("*") if path.is_file())
        if (place / "ran").exists() or read:
            (place / "ran").unlink(missing_ok=True)
            yield Try(f"{name}: it ran: {ended}")
        else:
            yield Try(f"{name}: {ended}" if ended.failed else "", "refused" if ended.status else "read as data")


FAULTS = (
    Fault(
        "strangers",
        f"A mutated file for each of {len(READERS)} readers: labelled files, raw text, recipes, models, runs, shipments, benchmarks",
        "Exit status 0 or 2; one line that names the file; no traceback; at most 20 s and 2 GB",
        3000,
        strange,
    ),
    Fault(
        "payloads",
        "Pickles, remote code, templates, shell and Python code as settings, XML entities, in all places that read them",
        "Nothing of it runs, and no other file is read",
        1000,
        executed,
    ),
)
