"""Datasets of the Hugging Face hub, by their Parquet files: those of the repository, or else those that the hub has
made of it in the branch CONVERTED.

A dataset is written as `datasets` users know it: `owner/name`, with a config and a commit or branch where needed, as
options or in the name: `owner/name:config@revision`. `hf://datasets/...` before it makes clear that no file is meant.
With this prefix a CSV file of the repository may follow, `hf://datasets/owner/name/file.csv`, such as the retrieved
text that TLM's authors published beside their tasks.
The hub is asked through huggingface_hub alone, so HF_ENDPOINT, HF_TOKEN, HF_HOME and HF_HUB_OFFLINE hold. What the hub
said of a dataset is kept in the cache, so that a run can go on without a network.

The names of classes are in the metadata of the Parquet files, which `datasets` writes, or in the README's head.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from acclimate.core import files
from acclimate.core.door import option
from acclimate.core.hub import UnreachableError, hub_errors
from acclimate.core.names import nearest
from acclimate.core.settings import digest
from acclimate.data.dataset import Source, Table, group_by_split, parquet_table
from acclimate.text.documents import class_names
from acclimate.text.untrusted import INPUTS, printable

PREFIX = re.compile(r"hf:/{1,2}(datasets/)?")
NAME = re.compile(r"(?P<repo>\w[\w.-]*(/\w[\w.-]*)?)(:(?P<config>[\w.+-]+))?(@(?P<revision>[\w./+-]+))?")
CSV = re.compile(r"hf:/{1,2}datasets/(?P<repo>[\w.-]+/[\w.-]+?)(@(?P<revision>[\w.+-]+))?/(?P<path>\w[\w./-]*\.csv)")
CONVERTED = "refs/convert/parquet"  # branch in which the hub writes Parquet files of what a repository holds
# seconds for which the hub is not asked again what a dataset has: a command checks the dataset, then reads it
FRESH = 60.0
PATIENCE = 20.0  # seconds for the hub's answer
COMMIT = re.compile(r"[0-9a-f]{40}")
WAY_OUT = "name a local file, or download it on a machine with a network"
FILE_ENDINGS = re.compile(
    r"\.(csv|tsv|txt|tags|json|jsonl|ndjson|parquet|arrow|feather|xls|xlsx|ods|xml|nxml|conll|bio|iob2?|pubtator|gz|zst|zip|toml)$"
)


@dataclass(frozen=True)
class HubName:
    """A dataset of the hub as it was written. "" for what was not stated."""

    repo: str
    config: str = ""
    revision: str = ""


@dataclass(frozen=True)
class Listing:
    """What the hub says of a dataset.

    commit    of the Parquet files
    configs   config -> split -> Parquet files
    default   the config to take if none is stated; "" if there are several and none is the usual one
    classes   config -> column -> names of classes, by the README
    partial   config -> splits of which the hub has converted the beginning only
    """

    commit: str
    configs: Mapping[str, Mapping[str, Sequence[str]]]
    default: str
    classes: Mapping[str, Mapping[str, Sequence[str]]]
    partial: Mapping[str, Sequence[str]] = field(default_factory=dict)


_log = logging.getLogger(__name__)
# (endpoint, dataset, revision) -> when the hub listed it, and what it said
_listed_before: dict[tuple[str, str, str], tuple[float, Listing]] = {}


def parsed(text: str) -> HubName | None:
    """Return the dataset of the hub that the text names; None if it has another form, or rather names a file.

    Without the prefix `hf://datasets/` a name has an owner, no ending of a file, and no folder here is called as the
    owner: `data/train` is a file that is missing where there is a folder `data`.
    """
    prefix = PREFIX.match(text)
    match = NAME.fullmatch(text[prefix.end() :] if prefix else text)
    if match is None:
        return None
    repo = match["repo"]
    if not prefix and ("/" not in repo or FILE_ENDINGS.search(repo) or Path(repo).parent.is_dir()):
        return None
    return HubName(repo, match["config"] or "", match["revision"] or "")


def csv_source(text: str) -> Source | None:
    """Return the rows of a CSV file of a dataset's repository, which is downloaded when they are read; None if the text
    names none.

    Raises ValueError, with the way out, if the hub cannot be reached, and if the repository does not have the file.
    """
    from huggingface_hub import HfApi

    match = CSV.fullmatch(text)
    if match is None:
        return None
    repo, path = match["repo"], match["path"]
    with hub_errors(repo, "dataset", revision=match["revision"] or "", way_out=WAY_OUT):
        info = HfApi().dataset_info(repo, revision=match["revision"], timeout=PATIENCE)
    listed = [sibling.rfilename for sibling in info.siblings or () if sibling.rfilename.endswith(".csv")]
    if path not in listed:
        raise ValueError(f"{repo}: has no file {path}. Its CSV files: {', '.join(sorted(listed)) or 'none'}")
    commit = _commit(repo, info)
    splits, facts = {"train": partial(_csv_rows, repo, commit, path)}, {"dataset": repo, "file": path, "commit": commit}
    return Source(Path(path).stem, f"the hub's file {repo}/{path}", splits, facts)


def _csv_rows(repo: str, commit: str, path: str) -> Table:
    """Return the rows of a CSV file, which is downloaded unless the hub's cache has it.

    Values are texts, as of a file here: "007" is a label, and no number. The schema has the types of the first rows,
    which tell columns of text from others.
    """
    import pyarrow as pa
    from huggingface_hub import hf_hub_download
    from pyarrow import csv

    with hub_errors(repo, "dataset", way_out=WAY_OUT):
        local = hf_hub_download(repo, path, repo_type="dataset", revision=commit)
    parse = csv.ParseOptions(newlines_in_values=True)

    def batches(columns: Sequence[str]) -> Iterator[Any]:
        options = csv.ConvertOptions(include_columns=[*columns], column_types=dict.fromkeys(columns, pa.string()))
        with csv.open_csv(local, parse_options=parse, convert_options=options) as reader:
            yield from reader

    with csv.open_csv(local, parse_options=parse) as reader:
        return Table(reader.schema, batches)


def hub_source(text: str, *, config: str = "", revision: str = "") -> Source:
    """Return the dataset's splits; a split is downloaded when it is read.

    Raises ValueError, with the way out, if the hub cannot be reached, does not know the dataset, or asks for a login,
    and for a config that the dataset does not have.
    """
    hub_name = parsed(text)
    assert hub_name is not None
    for name, written, other in (("config", hub_name.config, config), ("revision", hub_name.revision, revision)):
        if written and other and written != other:
            raise ValueError(f"{text} names another {name} than {option(name, other)}. Remove one of them")
    config, revision = config or hub_name.config, revision or hub_name.revision
    listing = _listing(hub_name.repo, revision)
    config = config or listing.default
    if not config:
        raise ValueError(
            f"{hub_name.repo}: has the configs {_listed(listing.configs)}. Name one: {option('config', 'NAME')}, or "
            f"{hub_name.repo}:{next(iter(listing.configs))}"
        )
    if config not in listing.configs:
        raise ValueError(
            f"{hub_name.repo}: has no config {config!r}; the nearest is {nearest(config, listing.configs)!r} of "
            f"{_listed(listing.configs)}. Name one of these"
        )
    usual = config == listing.default
    about = f"{hub_name.repo}{'' if usual else f':{config}'}"
    splits = {
        name: partial(_rows, hub_name.repo, listing.commit, tuple(paths), listing.classes.get(config, {}))
        for name, paths in listing.configs[config].items()
    }
    facts: dict[str, Any] = {"dataset": hub_name.repo, "config": config, "revision": revision, "commit": listing.commit}
    if cut := listing.partial.get(config):
        listed = ", ".join(cut)
        facts["notes"] = [f"{about}: the hub has converted only the beginning of {listed}, so only that was read."]
    name = "-".join(filter(None, (hub_name.repo.rpartition("/")[2], "" if usual else config)))
    return Source(name, f"the hub's dataset {about}", splits, facts)


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join([*names][:20]) + (f", ... ({len(names)} in all)" if len(names) > 20 else "")


def _listing(repo: str, revision: str) -> Listing:
    """Return what the hub says, or said to this process less than FRESH seconds ago."""
    from huggingface_hub import constants

    key = (constants.ENDPOINT, repo, revision)
    since, listing = _listed_before.get(key, (0.0, None))
    if listing is None or time.monotonic() - since > FRESH:
        cache_file = files.cache() / INPUTS / "hub" / f"{digest(list(key))[:24]}.json"
        listing = _asked(repo, revision, cache_file)
        _listed_before[key] = time.monotonic(), listing
    return listing


def _asked(repo: str, revision: str, cache_file: Path) -> Listing:
    """Return what the hub says, and keep it; if it cannot be asked, what it said before."""
    from huggingface_hub import HfApi, errors

    partial_splits: dict[str, list[str]] = {}
    try:
        with hub_errors(repo, "dataset", revision=revision, way_out=WAY_OUT):
            api = HfApi()
            info = api.dataset_info(repo, revision=revision or None, timeout=PATIENCE)
            about: Any = info.card_data
            card: dict[str, Any] = about.to_dict() if about is not None else {}
            configs, default = _read_repository(_parquet(info.siblings), card)
            commit = _commit(repo, info)
            if not configs and not revision:
                try:
                    converted = api.dataset_info(repo, revision=CONVERTED, timeout=PATIENCE)
                    configs, partial_splits = _converted(_parquet(converted.siblings))
                    commit = _commit(repo, converted)
                except errors.RevisionNotFoundError:
                    configs = {}
                default = _default(configs, default)
    except UnreachableError as error:
        if not cache_file.is_file():
            raise
        listing = Listing(**files.read_json(cache_file))
        commit = listing.commit[:12]
        _log.warning(f"{error}\nUntil then {repo} is read at the commit {commit}, which the hub listed before.")
        return listing
    if not configs:
        where = f"at {revision} " if revision else ""
        raise ValueError(
            f"{repo}: {where}has no Parquet files, and the hub has not converted it. Download it (hf download "
            f"{repo} --repo-type dataset) and name its labelled file"
        )
    listing = Listing(commit, configs, default, _classes(card, configs), partial_splits)
    cache_file.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(cache_file, asdict(listing))
    return listing


def _commit(repo: str, info: Any) -> str:
    if not COMMIT.fullmatch(str(info.sha)):
        commit = printable(str(info.sha))[:60]
        raise ValueError(f"{repo}: the hub names the commit {commit!r}, which is not a valid one. Try again")
    return str(info.sha)


def _parquet(siblings: Any) -> list[str]:
    """Return the Parquet files, ordered. Raises ValueError for a path that leads out of the repository."""
    paths = sorted(sibling.rfilename for sibling in siblings or () if sibling.rfilename.endswith(".parquet"))
    for path in paths:
        if path.startswith("/") or "\\" in path or ".." in path.split("/"):
            outside = f"the hub lists the file {printable(path)[:120]!r}, which is outside its repository"
            raise ValueError(f"{outside}. Do not use this dataset")
    return paths


def _read_repository(paths: Sequence[str], card: Mapping[str, Any]) -> tuple[dict[str, dict[str, list[str]]], str]:
    """Return the configs of the repository's files and the usual one: by the README's head, or by their names."""
    configs: dict[str, dict[str, list[str]]] = {}
    default = ""
    entries = card.get("configs")
    listed = [about for about in entries if isinstance(about, Mapping)] if isinstance(entries, list) else []
    for about in listed:
        folder = _plain(str(about.get("data_dir") or ""))
        below = f"{folder}/" if folder else ""
        within = [path.removeprefix(below) for path in paths if path.startswith(below)]
        if about.get("data_files"):
            splits = {
                split: matching
                for split, patterns in _patterns(about["data_files"])
                if (matching := [path for path in within if any(_matches(path, pattern) for pattern in patterns)])
            }
        else:
            splits = group_by_split(within)
        splits = {split: [below + path for path in matching] for split, matching in splits.items()}
        if splits:
            name = str(about.get("config_name", "default"))
            configs[name] = splits
            default = name if about.get("default") else default
    if not listed and paths:
        configs = {"default": group_by_split(paths)}
    return configs, default or _default(configs, "")


def _plain(path: str) -> str:
    return path.removeprefix("./").strip("/")


def _matches(path: str, pattern: str) -> bool:
    """Return True if the path has the form of the pattern, in which `*` stays within a folder and `**` does not."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^]]+\])", _plain(pattern))
    meanings = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    expressions = (
        meanings.get(part) or (f"[{part[1:-1].replace('!', '^', 1)}]" if part[:1] == "[" else re.escape(part))
        for part in parts
    )
    return re.fullmatch("".join(expressions), path) is not None


def _patterns(data_files: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield each split with the patterns of its files. A README states a pattern, a list of them, or splits."""
    for entry in data_files if isinstance(data_files, list) else [data_files]:
        if isinstance(entry, str):
            yield "train", [entry]
        elif isinstance(entry, Mapping):
            paths = entry.get("path")
            yield str(entry.get("split", "train")), [*map(str, paths if isinstance(paths, list) else [paths])]


def _converted(paths: Sequence[str]) -> tuple[dict[str, dict[str, list[str]]], dict[str, list[str]]]:
    """Return the configs of the hub's own Parquet files, `config/split/0000.parquet`, and config -> splits of which it
    converted the beginning only, which it calls `partial-train`.
    """
    cut: dict[str, list[str]] = {}
    configs: dict[str, dict[str, list[str]]] = {}
    for path in paths:
        config, _, inner_path = path.partition("/")
        folder = inner_path.partition("/")[0]
        split = folder.removeprefix("partial-")
        if split != folder and split not in cut.setdefault(config, []):
            cut[config].append(split)
        configs.setdefault(config, {}).setdefault(split, []).append(path)
    return configs, cut


def _default(configs: Mapping[str, Any], default: str) -> str:
    """Return the config that is meant if none is named; "" if that cannot be known."""
    if default in configs:
        return default
    return "default" if "default" in configs else next(iter(configs)) if len(configs) == 1 else ""


def _classes(card: Mapping[str, Any], configs: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Return config -> column -> names of classes, as the README's head has them."""
    infos = card.get("dataset_info") or []
    classes: dict[str, dict[str, list[str]]] = {}
    for about in infos if isinstance(infos, list) else [infos]:
        features = about.get("features") if isinstance(about, Mapping) else None
        named = {
            str(feature.get("name")): names
            for feature in (features if isinstance(features, list) else ())
            if isinstance(feature, Mapping) and (names := _written_names(feature))
        }
        config = str(about.get("config_name", "")) if isinstance(about, Mapping) else ""
        for name in [config] if config in configs else configs if not config else ():
            classes[name] = named
    return classes


def _written_names(feature: Mapping[str, Any]) -> list[str]:
    """Return the names of classes in a README's feature: `dtype: {class_label: {names: {"0": ..., "1": ...}}}`."""
    for key in ("dtype", "sequence", "list"):
        inner = feature.get(key)
        if isinstance(inner, Mapping):
            label = inner.get("class_label")
            names = label.get("names") if isinstance(label, Mapping) else None
            if isinstance(names, Mapping):
                return [str(names[number]) for number in sorted(names, key=int)]
            if isinstance(names, list):
                return class_names({"_type": "ClassLabel", "names": names})
            return _written_names(inner)
    return []


def _rows(repo: str, commit: str, paths: Sequence[str], classes: Mapping[str, Sequence[str]]) -> Table:
    """Return the rows of these files, which are downloaded unless the hub's cache has them."""
    from huggingface_hub import hf_hub_download

    with hub_errors(repo, "dataset", way_out=WAY_OUT):
        local_files = [Path(hf_hub_download(repo, path, repo_type="dataset", revision=commit)) for path in paths]
    return parquet_table(local_files, classes)
