"""Upload a shipment to the Hugging Face hub, by the public interface of huggingface_hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from acclimate.core import files
from acclimate.core.hub import failures, status_of
from acclimate.models.loading import HUB_ID
from acclimate.shipping.texts import CARD, MARK


@dataclass(frozen=True)
class Upload:
    """What was uploaded, or would be: the address of the repository and the files with their sizes in bytes."""

    address: str
    files: tuple[tuple[str, int], ...]

    @property
    def size(self) -> int:
        return sum(size for _, size in self.files)


def push(
    shipped: str | Path, repository: str, *, private: bool = True, revision: str | None = None, dry_run: bool = False
) -> Upload:
    """Upload a directory that `ship` wrote to the hub as `repository` (owner/name). Return what was uploaded.

    private   whether the repository is private if this call creates it; one that exists stays as it is
    revision  branch to upload to, which is created if it is missing; None: main
    dry_run   check everything that can be checked here, and upload nothing

    Raises ValueError if `shipped` is no whole shipment or holds other files, if the hub cannot be reached, and if it
    refuses.

    >>> acclimate.push("shipped", "owner/name").address
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import HFValidationError

    directory = Path(shipped)
    check_shipment(directory)
    check_repository(repository)
    paths = sorted(file for file in directory.rglob("*") if file.is_file())
    listed = tuple((str(file.relative_to(directory)), file.stat().st_size) for file in paths)
    if dry_run:
        return Upload(f"{constants.ENDPOINT}/{repository}", listed)
    api = HfApi()
    try:
        repo = api.create_repo(repository, private=private, exist_ok=True)
        if revision is not None:
            api.create_branch(repo.repo_id, branch=revision, exist_ok=True)
        api.upload_folder(
            repo_id=repo.repo_id, folder_path=directory, revision=revision, commit_message="Shipped by acclimate"
        )
    except HFValidationError as error:
        raise ValueError(f"'{repository}' is not the name of a model on the hub (owner/name): {error}") from error
    except failures() as error:
        raise ValueError(f"{directory} was not uploaded to {repository}: {_reason(error)}") from error
    return Upload(str(repo), listed)


def check_repository(repository: str) -> None:
    """Raises ValueError if this is no hub id."""
    if not HUB_ID.fullmatch(repository):
        raise ValueError(f"'{repository}' is not the name of a model on the hub. Write it as owner/name")


def check_shipment(directory: Path) -> None:
    """Raises ValueError if the directory is no whole shipment, or holds other files or links. The card may differ."""
    if not (directory / MARK).exists():
        raise ValueError(f"{directory} is not a shipment. Write one with: acclimate ship RUN --to {directory}")
    files.check_manifest(directory, edited=(CARD,))
    listed = {files.MANIFEST, *files.read_json(directory / files.MANIFEST)}
    for file in sorted(directory.rglob("*")):
        name = str(file.relative_to(directory))
        if file.is_symlink():
            raise ValueError(f"{directory}: {name} is a link. Replace it with the file itself")
        if not file.is_dir() and name not in listed:
            raise ValueError(f"{directory}: {name} is not a file of the shipment. Move it away. Nothing was uploaded")


def _reason(error: Exception) -> str:
    """Return in one line why the upload failed, and the way out."""
    from huggingface_hub.errors import LocalTokenNotFoundError, OfflineModeIsEnabled

    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set. Unset it to upload"
    status = status_of(error)
    if isinstance(error, LocalTokenNotFoundError) or status in (401, 403):
        return "you have no token that may write to that repository. Run `hf auth login`, or set HF_TOKEN"
    message = " ".join(str(error).split())[:200]
    if status is not None:
        return f"the hub answered {status}: {message}"
    return f"the hub cannot be reached ({message or type(error).__name__}). Check the network and try again"
