"""Where a model's files are: beside the preset, or in the Hugging Face cache after a download.

All of a model is there before any of it is loaded: what the hub, the network or the disk has
against it is told here, and afterwards nobody asks the hub again. What has been downloaded once is
found without a network.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import disk_usage
from typing import Any

from huggingface_hub import (
    DryRunFileInfo,
    HfApi,
    ResolvedRevision,
    constants,
    get_cached_repo_tree,
    get_token,
    snapshot_download,
)
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    DryRunError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.file_download import repo_folder_name

from tpu_ui.errors import LoadError
from tpu_ui.presets import Preset
from tpu_ui.runtime.checkpoint import Files, failure, names_in
from tpu_ui.shapes import amount

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
REFUSED = (401, 403)
ANSWER_S = 10.0


def fetch(preset: Preset, patterns: Sequence[str], begins: Callable[[int], None]) -> Files:
    """The model's files; those that match and are not there are downloaded.

    `begins` is told how many bytes are going to be downloaded. Raises LoadError.
    """
    if not preset.is_local:
        with _hub_errors(preset):
            return _downloaded(preset, patterns, begins)
    folder = Path(preset.source)
    if not folder.is_dir():
        raise LoadError(
            f"Model {preset.name} cannot be loaded: there is no folder {preset.repository} beside"
            " its preset."
        )
    return Files(preset, folder, names_in(folder))


def blobs(preset: Preset) -> Path:
    """The folder that grows while the preset's files are downloaded."""
    name = repo_folder_name(repo_id=preset.repository, repo_type="model")
    return Path(constants.HF_HUB_CACHE) / name / "blobs"


def _downloaded(preset: Preset, patterns: Sequence[str], begins: Callable[[int], None]) -> Files:
    name = preset.repository
    api = HfApi()
    # A commit is taken as it is; a branch is looked up, or taken as it was last time.
    commit = api.resolve_revision(name, revision=preset.revision)
    wanted: dict[str, Any] = {
        "repo_id": name,
        "revision": commit,
        "allow_patterns": list(patterns),
    }
    listed = _listed(name, commit)
    try:
        folder = snapshot_download(**wanted, local_files_only=True)
    except LocalEntryNotFoundError:
        api.repo_info(name, timeout=ANSWER_S)  # fails at once; a download tries for half a minute
        folder = ""
    if not folder or not listed:  # without the list a folder is taken for whole, whatever it holds
        with suppress(DryRunError):  # the hub does not answer, and the folder may be whole
            files: list[DryRunFileInfo] = snapshot_download(**wanted, dry_run=True)
            missing_bytes = sum(file.file_size or 0 for file in files if file.will_download)
            _check_room(preset, missing_bytes)
            begins(missing_bytes)
        folder = snapshot_download(**wanted)
        listed = _listed(name, commit)
    return Files(preset, Path(folder), listed or names_in(Path(folder)))


def _listed(name: str, commit: ResolvedRevision) -> frozenset[str]:
    """All files of the repository; none before a first download."""
    try:
        return frozenset(one.path for one in get_cached_repo_tree(name, revision=commit.resolved))
    except CachedRepoTreeNotFoundError:
        return frozenset()


def _check_room(preset: Preset, needed_bytes: int) -> None:
    cache = Path(constants.HF_HUB_CACHE)
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free_bytes = disk_usage(there).free
    if free_bytes < needed_bytes:
        raise failure(
            preset,
            f"{amount(needed_bytes)} are to be downloaded to {cache}, and {amount(free_bytes)} are"
            " free there",
            _ROOM,
        )


_ROOM = "Make room, or set HF_HOME to a folder on a larger disk."


class _hub_errors:
    """Turns the many ways in which a download fails into a LoadError with a remedy."""

    def __init__(self, preset: Preset) -> None:
        self._preset = preset

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, LoadError):
            raise failure(self._preset, *_explained(self._preset, error)) from error


def _explained(preset: Preset, error: BaseException) -> tuple[str, str]:
    """What is wrong, and the remedy. The libraries wrap what they meet; the first that says
    something counts."""
    for one in _chain(error):
        if (found := _known(preset, one)) is not None:
            return found
    return (
        f"the Hugging Face hub cannot be reached, and {preset.repository} has not been downloaded"
        " completely before",
        f"Check the network ({constants.ENDPOINT}), then try again.",
    )


def _known(preset: Preset, error: BaseException) -> tuple[str, str] | None:
    name = preset.repository
    page = f"{constants.ENDPOINT}/{name}"
    match error:
        case GatedRepoError() if get_token() is None:
            return (
                f"{name} is only for those who have accepted its licence",
                f"Accept it at {page}, and set HF_TOKEN to a token of your account.",
            )
        case GatedRepoError():
            return (
                f"the account of your Hugging Face token may not read {name}",
                f"Accept its licence at {page} with that account, and let the token read gated"
                " repositories.",
            )
        case RevisionNotFoundError():
            return (
                f"{name} has no revision {preset.revision}",
                f"Correct revision in {preset.name}.toml; {page}/commits/main lists them.",
            )
        case RepositoryNotFoundError():
            return (
                f"the hub has no repository {name}, or you may not see it",
                f"Correct repository in {preset.name}.toml; for a private one, set HF_TOKEN to a"
                " token that may read it.",
            )
        case HfHubHTTPError() if error.response.status_code in REFUSED:
            return (
                f"the hub does not accept your Hugging Face token for {name}",
                "Set HF_TOKEN to a valid token that may read it, or unset it.",
            )
        case HfHubHTTPError():
            return (
                f"the hub answered {error.response.status_code} for {name}",
                "Try again in a while.",
            )
        case OfflineModeIsEnabled():
            return (
                f"HF_HUB_OFFLINE is set, and {name} has not been downloaded completely before",
                "Unset it, and start again.",
            )
        case OSError() if error.errno in NO_ROOM:
            return f"the disk of {constants.HF_HUB_CACHE} is full", _ROOM
        case PermissionError():
            return (
                f"{constants.HF_HUB_CACHE} cannot be written to",
                "Set HF_HOME to a folder of yours.",
            )
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    follow: BaseException | None = error
    while follow is not None:
        yield follow
        follow = follow.__cause__ or follow.__context__
