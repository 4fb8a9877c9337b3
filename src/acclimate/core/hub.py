"""What goes wrong with the Hugging Face hub, said in one line with the way out."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from acclimate.core.names import nearest_folder

LOCAL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)  # faults of this machine, not of the hub
PLACES = {"model": "directory", "dataset": "file"}  # what else a name of each kind could have named


class UnreachableError(ValueError):
    """The hub cannot be asked; the message says why, and what to do."""


def _missing(repo: str, kind: Literal["model", "dataset"]) -> str:
    return f"{repo}: there is no such {PLACES[kind]} here{nearest_folder(Path(repo))}, and"


@contextmanager
def hub_errors(repo: str, kind: Literal["model", "dataset"], *, revision: str = "", way_out: str) -> Iterator[None]:
    """Turn errors of the hub's client in the block into ValueError, or UnreachableError if the hub cannot be asked.

    way_out  what a message says after "or", where the hub cannot be asked
    """
    from huggingface_hub import errors

    login = "run `hf auth login`, or set HF_TOKEN"
    try:
        yield
    except errors.GatedRepoError as error:
        raise ValueError(
            f"{repo}: its owner requires you to accept terms. Accept them on its page of the hub, then {login}"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ValueError(f"{repo}: has no commit, branch or tag {revision!r}. Name another revision") from error
    except errors.LocalEntryNotFoundError as error:  # a subclass of EntryNotFoundError
        raise UnreachableError(
            f"{repo}: a file is missing from the hub's cache, and the hub cannot be reached. Try again, or {way_out}"
        ) from error
    except errors.EntryNotFoundError as error:
        raise ValueError(f"{repo}: the hub lacks one of its files ({_line(error)}). Try again") from error
    except errors.RepositoryNotFoundError as error:
        raise ValueError(
            f"{_missing(repo, kind)} the hub has no such {kind} that you can access. Check the name; for a private "
            f"one {login}"
        ) from error
    except errors.OfflineModeIsEnabled as error:
        raise UnreachableError(
            f"{_missing(repo, kind)} the hub is not used because HF_HUB_OFFLINE is set. Unset it, or {way_out}"
        ) from error
    except errors.HFValidationError as error:
        raise ValueError(f"{repo}: is not the name of a {kind} on the hub. Write it as owner/name") from error
    except failures() as error:
        if isinstance(error, OSError) and error.errno in LOCAL:
            raise ValueError(
                f"{repo}: the hub's cache cannot be written ({error.strerror}). Free some space there, or set "
                "HF_HOME to another folder"
            ) from error
        status = status_of(error)
        if status in (401, 403):
            raise ValueError(f"{repo}: the hub refuses ({status}). R{login[1:]}") from error
        answer = f"answered {status}" if status else f"cannot be reached ({_line(error)})"
        raise UnreachableError(f"{_missing(repo, kind)} the hub {answer}. Try again, or {way_out}") from error


def failures() -> tuple[type[Exception], ...]:
    """Return what the hub's client raises if a request fails: OSError, and the base of its HTTP library's errors.

    By its version that library is requests or httpx; both call the base HTTPError.
    """
    from huggingface_hub.errors import HfHubHTTPError

    bases = [base for base in HfHubHTTPError.__mro__ if base.__name__ == "HTTPError"]
    return OSError, *(base for base in bases if issubclass(base, Exception))


def status_of(error: Exception) -> int | None:
    """Return the HTTP status with which the hub answered; None if it did not answer."""
    from huggingface_hub.errors import HfHubHTTPError

    return error.response.status_code if isinstance(error, HfHubHTTPError) else None


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return "".join(character for character in text if character.isprintable())[:120] or type(error).__name__
