"""Files from outside: a hub repository at one commit, or a folder here; never a branch, a script or a pickle.

    fetch("dataset", "openai/gsm8k", "740312add88f781978c0658806c59bc2815b9866", ["main/test-*.parquet"])
    Fetched(folder=Path("…/snapshots/740312…"), files={"main/test-00000-of-00001.parquet": "ee7b8da9e381df27…"})

huggingface_hub does the transfer: HF_ENDPOINT names a mirror, HF_HUB_OFFLINE=1 forbids the network, HF_HUB_CACHE is
where files are kept, HF_TOKEN gives access to gated ones. This module adds: rules for what may be fetched, a check of
free disk space before the first byte, hashes, and resuming an interrupted transfer (`go_on`), since huggingface_hub
keeps complete files only. huggingface_hub compares sizes only, so here each file's hash is compared with the hub's
listing of the commit, with the configuration or the lock file, and with the hash found when it was first fetched, which
is kept in huggingface_hub's cache.

A branch or tag isn't accepted as a revision: `r1flow lock` finds its commit and writes that, with hashes, into
`sources.lock`, from which configurations are completed (`locked`). Left out: archives (unpack one and name the folder)
and uploads.
"""

import fnmatch
import hashlib
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import yaml

from r1flow.artifacts.manifest import read_json, sha256, write_json
from r1flow.core.errors import UserError, listed
from r1flow.core.files import BadFile, read_yaml, write_whole

if TYPE_CHECKING:
    from huggingface_hub import RepoFile

LOCK = Path("sources.lock")
COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
ENDINGS = {
    "dataset": (".parquet", ".jsonl", ".jsonl.gz", ".json", ".csv"),
    "model": (".safetensors", ".json", ".jinja", ".txt", ".model"),  # .model: sentencepiece's own format
    "package": (".gguf",),
}
# A model's files without its weights, of which a hub's may have some.
SETTINGS = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
REFUSED = {
    "code, and r1flow runs none from outside": (".py", ".sh", ".so", ".ipynb"),
    "a pickle, which can run code when read": (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy"),
    "an archive; unpack it yourself and name the folder": (
        ".zip",
        ".tar",
        ".tgz",
        ".tar.gz",
        ".tar.zst",
        ".7z",
        ".rar",
    ),
}
GB = 1e9

TellBytes = Callable[[int, int], None]


@dataclass(frozen=True)
class Fetched:
    """Files on this machine whose hashes have been checked."""

    folder: Path
    files: dict[str, str]  # name relative to the folder → sha256


def fetch_files(
    kind: str,
    repo: str,
    revision: str,
    patterns: Collection[str] = (),
    hashes: Mapping[str, str] | None = None,
    progress: TellBytes = lambda done, total: None,
) -> Fetched:
    """The files of a hub repository at a commit, in huggingface_hub's cache; `kind` is "dataset" or "model".

    For a model without patterns, the files that transformers needs to load it. Raises UserError, in one line, if
    anything is wrong.
    """
    where = f"{repo}@{revision[:12]}"
    if not COMMIT.fullmatch(revision):
        pin = f"pin it with `{lock_command(kind, repo, revision)}`"
        raise UserError(f"{repo}: {revision!r} is no commit (40 hex digits), so it can move; {pin}")
    with explained(where):
        entries, online = files_of_commit(kind, repo, revision)
        of_model = kind == "model" and not patterns
        names = model_files(where, entries) if of_model else matching(where, entries, patterns)
        check_names(where, kind, names)
        check_pins(where, hashes or {}, entries)
        missing = [entries[name] for name in names if online and not is_here(kind, repo, revision, entries[name])]
        check_space(where, kind, repo, missing)
        told = bar_class(progress, sum(entry.size for entry in missing))
        for entry in missing:
            go_on(kind, repo, revision, entry, told)
        folder = download(kind, repo, revision, names, told)
        files = {name: sha256(folder / name) for name in names}
    memory = folder.parents[1] / "r1flow" / f"{revision}.json"
    first = remembered_hashes(memory)
    listed_as = {name: hash_in(entries[name], folder / name, files[name]) for name in names if online}
    for said, by in ((hashes or {}, "its pin"), (listed_as, "the hub's listing"), (first, "its first fetch")):
        check_hashes(where, folder, files, said, by)
    memory.parent.mkdir(exist_ok=True)
    write_json(memory, first | files)
    return Fetched(folder, files)


def fetch_settings(repo: str, revision: str) -> Path:
    """The folder with the settings and the tokenizer of a model at a commit; from the cache if they are there."""
    from huggingface_hub import try_to_load_from_cache

    cached = [try_to_load_from_cache(repo, name, revision=revision) for name in ("config.json", "tokenizer.json")]
    if all(isinstance(path, str) for path in cached):
        return Path(cached[0]).parent
    return fetch_files("model", repo, revision, SETTINGS).folder


def here(place: Path, patterns: Iterable[str]) -> Fetched:
    """One local file, or files of a folder; they may be links, but the patterns can't lead out of the folder."""
    folder = place.parent if place.is_file() else place
    return Fetched(folder, {name: sha256(folder / name) for name in names_here(place, patterns)})


def names_here(place: Path, patterns: Iterable[str]) -> list[str]:
    """The names of those files in their folder."""
    folder = place.parent if place.is_file() else place
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder; name one, or give a hub id its revision")
    files = {place.name} if place.is_file() else files_within(folder)
    names = matching(str(place), files, patterns)
    check_names(str(folder), "dataset", names)
    return names


def files_within(folder: Path) -> set[str]:
    """The names of a folder's files, at any depth, without hidden ones, such as a notebook's checkpoints.

    Raises UserError for a linked folder: it may lead anywhere, or in a circle, so its files aren't looked for.
    """
    files = set()
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if any(part.startswith(".") for part in name.parts):
            continue
        if path.is_symlink() and path.is_dir():
            raise UserError(f"{path}: is a link to a folder, whose files aren't read; put the folder itself there")
        if path.is_file():
            files.add(name.as_posix())
    return files


def matching(where: str, names: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """The names that match a pattern, sorted; with several patterns, at least one must match something."""
    matches: set[str] = set()
    for pattern in patterns:
        matches.update(fnmatch.filter(names, pattern))
    if not matches:
        raise UserError(f"{where}: no file matches {listed(list(patterns))}; it has {listed(sorted(names)) or 'none'}")
    return sorted(matches)


def model_files(where: str, entries: Iterable[str]) -> list[str]:
    """What transformers loads: safetensors, configuration and tokenizer at the top level; never pickled weights."""
    names = sorted(name for name in entries if "/" not in name and name.endswith(ENDINGS["model"]))
    if not any(name.endswith(".safetensors") for name in names):
        weights = [name for name in entries if name.endswith((".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack"))]
        pickled = f"weights that can run code when they are read: {listed(sorted(weights))}"
        others = f"only {pickled}" if weights else "no weights at all"
        raise UserError(f"{where}: no *.safetensors, {others}; choose a model or a revision that has them")
    return names


def check_names(where: str, kind: str, names: Iterable[str]) -> None:
    """Refuse files that may not be read, and names that lead out of their folder."""
    for name in names:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or not name.isprintable():
            raise UserError(f"{where}: the file name {name!r} leads out of the folder; don't trust this repository")
        why = next((why for why, endings in REFUSED.items() if name.lower().endswith(endings)), None)
        if why or not name.endswith(ENDINGS[kind]):
            what = why or f"not of a kind that is read here ({', '.join(ENDINGS[kind])})"
            raise UserError(f"{where}: {name} is {what}")


def check_pins(where: str, hashes: Mapping[str, str], entries: Iterable[str]) -> None:
    """Refuse a hash of a file that the commit doesn't have: it would never be compared."""
    for name in sorted(set(hashes) - set(entries)):
        raise UserError(
            f"{where}: sha256 has a hash of {name}, which isn't there; the repository has {listed(sorted(entries))}"
        )


def remembered_hashes(memory: Path) -> dict[str, str]:
    """The hashes of a commit's files when they were first fetched; empty before that."""
    try:
        first = read_json(memory) if memory.exists() else {}
    except ValueError:
        first = None
    if not isinstance(first, dict):
        raise UserError(
            f"{memory}: this record of hashes is damaged; remove it, and only the hub's listing is compared"
        )
    return first


def is_here(kind: str, repo: str, revision: str, entry: "RepoFile") -> bool:
    from huggingface_hub import try_to_load_from_cache

    part = partial_file(kind, repo, entry)
    cached = try_to_load_from_cache(repo, entry.path, revision=revision, repo_type=kind)
    return isinstance(cached, str) or (part is not None and blob_of(part).exists())


def check_space(where: str, kind: str, repo: str, missing: list["RepoFile"]) -> None:
    """Refuse a transfer that the disk has no room for, before it begins."""
    from huggingface_hub import constants

    cache = Path(constants.HF_HUB_CACHE)
    # The cache may not exist yet; its disk is then that of the first parent that does.
    disk = next(path for path in (cache, *cache.parents) if path.exists())
    parts = [partial_file(kind, repo, entry) for entry in missing]
    here_already = sum(part.stat().st_size for part in parts if part and part.exists())
    need, free = sum(entry.size for entry in missing) - here_already, shutil.disk_usage(disk).free
    if need > free:
        raise UserError(
            f"{where}: {need / GB:.2f} GB must be fetched, and {free / GB:.2f} GB are free in {cache}; "
            "make room, or set HF_HUB_CACHE to a folder on another disk"
        )


def files_of_commit(kind: str, repo: str, revision: str) -> tuple[dict[str, "RepoFile"], bool]:
    """The files of a commit by name, and whether the list came from the hub; offline it comes from the cache."""
    from huggingface_hub import HfApi, RepoFile, get_cached_repo_tree, is_offline_mode

    if is_offline_mode():
        return {entry.path: entry for entry in get_cached_repo_tree(repo, repo_type=kind, revision=revision)}, False
    entries = HfApi().list_repo_tree(repo, repo_type=kind, revision=revision, recursive=True)
    return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}, True


def hash_in(entry: "RepoFile", path: Path, of_file: str) -> str:
    """A file's sha256 by the hub's listing; for a small file the listing has git's hash, which is compared instead."""
    if entry.lfs:
        return entry.lfs.sha256
    content = path.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    return of_file if blob == entry.blob_id else f"(git) {entry.blob_id}"


def partial_file(kind: str, repo: str, entry: "RepoFile") -> Path | None:
    """The partial file of a large file's transfer, beside its place in the cache; None if it can't be resumed.

    Small files are fetched in one go; files above 50 GB the hub sends in another way, which can't be resumed.
    """
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    if not entry.lfs or not SHA256.fullmatch(entry.lfs.sha256) or entry.size > constants.MAX_HTTP_DOWNLOAD_SIZE:
        return None
    blobs = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repo, repo_type=kind) / "blobs"
    return blobs / f"{entry.lfs.sha256}.part.incomplete"


def blob_of(part: Path) -> Path:
    return part.with_name(part.name.partition(".")[0])


def go_on(kind: str, repo: str, revision: str, entry: "RepoFile", told: type) -> None:
    """Fetch a large file into huggingface_hub's cache, continuing where its last transfer stopped.

    huggingface_hub itself removes a partial file, since locks fail on some shared disks and two processes might write
    one file. Here the hash decides: a part that is wrong is removed, and `download` fetches the whole file. This uses
    plain HTTP with ranges: the hub's faster protocol (xet) starts every file anew.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import WeakFileLock, build_hf_headers

    part = partial_file(kind, repo, entry)
    if not part:
        return
    lock = part.parents[2] / ".locks" / part.parents[1].name / f"{entry.lfs.sha256}.lock"
    for folder in (part.parent, lock.parent):
        folder.mkdir(parents=True, exist_ok=True)
    url = hf_hub_url(repo, entry.path, repo_type=kind, revision=revision)
    with WeakFileLock(lock):
        if blob_of(part).exists():  # another process fetched it while we waited
            return
        # Too large, so the rest can't be requested.
        if part.exists() and part.stat().st_size > entry.size:
            part.unlink()
        with part.open("ab") as file:
            # Compressed, all of it would be sent.
            headers = build_hf_headers() | {"Accept-Encoding": "identity"}
            have = file.tell()
            http_get(url, file, resume_size=have, headers=headers, expected_size=entry.size, tqdm_class=told)
        if sha256(part) == entry.lfs.sha256:
            part.replace(blob_of(part))
        else:
            part.unlink()


def download(kind: str, repo: str, revision: str, names: list[str], told: type) -> Path:
    """Fetch these files; returns the commit's folder in the cache."""
    from huggingface_hub import is_offline_mode, snapshot_download

    exact = [re.sub(r"[*?\[]", r"[\g<0>]", name) for name in names]
    folder = snapshot_download(
        repo,
        repo_type=kind,
        revision=revision,
        allow_patterns=exact,
        local_files_only=is_offline_mode(),
        tqdm_class=told,
    )
    return Path(folder)


def bar_class(progress: TellBytes, total: int) -> type:
    """A class of invisible progress bars for huggingface_hub, which report the bytes fetched in all to `progress`."""
    from huggingface_hub.utils import tqdm

    told = [0]

    class Told(tqdm):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "disable": True})
            self.total = options.get("total")
            # huggingface_hub shows bytes twice: as they come, and as they are written
            self.counts = options.get("unit") == "B" and not str(options.get("desc", "")).startswith("Downloading")
            self.update(options.get("initial", 0))

        def update(self, n: float | None = 1) -> None:
            if self.counts and n:
                told[0] += int(n)
                progress(min(told[0], total), total)

    return Told


def check_hashes(where: str, folder: Path, files: Mapping[str, str], said: Mapping[str, str], by: str) -> None:
    for name, has in files.items():
        if said.get(name, has) != has:
            raise UserError(
                f"{where}: {name} has the sha256 {has[:12]}…, but by {by} it should be {said[name][:12]}…; if it is "
                f"damaged, remove {(folder / name).resolve()} and run again"
            )


@contextmanager
def explained(where: str, from_cache: bool = True) -> Iterator[None]:
    """Turn huggingface_hub's errors into one line with the remedy; `from_cache`: files fetched before would suffice."""
    import httpx
    from huggingface_hub import errors, is_offline_mode

    def line(text: str) -> UserError:
        return UserError(f"{where}: {text}")

    try:
        yield
    except errors.GatedRepoError:
        raise line("gated; accept its terms on the hub, then run `hf auth login` or set HF_TOKEN") from None
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise line("the hub has no such repository (or it is private: set HF_TOKEN)") from None
    except errors.RevisionNotFoundError:
        raise line("the repository has no such revision; look at its history on the hub") from None
    except (errors.HfHubHTTPError, errors.CachedRepoTreeNotFoundError, httpx.HTTPError, OSError) as error:
        if is_offline_mode():
            why = "the cache hasn't all of it, and " if from_cache else ""
            raise line(f"{why}HF_HUB_OFFLINE forbids asking the hub; unset HF_HUB_OFFLINE") from None
        if isinstance(error, OSError) and error.filename:  # of this machine, not of the transfer
            remedy = "set HF_HUB_CACHE to a folder that you may write"
            raise line(f"{error.filename}: {error.strerror}, and huggingface_hub's cache is there; {remedy}") from None
        reason = str(error.__cause__ or error).partition("\n")[0] or type(error).__name__
        otherwise = (
            "; if all of it was fetched before, set HF_HUB_OFFLINE=1 to use the cache alone" if from_cache else ""
        )
        raise line(f"the transfer failed ({reason}); run again, and it goes on where it stopped{otherwise}") from None


# Locks: the commits that branches and tags point to.


def lock_command(kind: str, repo: str, revision: str) -> str:
    return f"r1flow lock {'--model ' if kind == 'model' else ''}{repo}@{revision}"


def lock(kind: str, repo: str, revision: str, path: Path = LOCK) -> dict[str, Any]:
    """Write the commit that a branch or tag is now, and its files' sha256, into the lock file; returns the entry.

    The hub lists the hashes of large files; small files are fetched to compute them.
    """
    from huggingface_hub import HfApi, hf_hub_download

    where = f"{repo}@{revision}"
    with explained(where, from_cache=False):
        commit = HfApi().repo_info(repo, repo_type=kind, revision=revision).sha
        entries, _ = files_of_commit(kind, repo, commit)
        names = model_files(where, entries) if kind == "model" else [n for n in entries if n.endswith(ENDINGS[kind])]
        check_names(where, kind, names)
        hashes = {}
        for name in sorted(names):
            large = entries[name].lfs
            hashes[name] = (
                large.sha256 if large else sha256(Path(hf_hub_download(repo, name, repo_type=kind, revision=commit)))
            )
    entry = {"revision": commit, "sha256": hashes}
    known = read_lock(path) | {lock_key(kind, repo, revision): entry}
    write_whole(path, "# Written by `r1flow lock`; commit it.\n" + yaml.safe_dump(known, sort_keys=True, width=200))
    return entry


def lock_key(kind: str, repo: str, revision: str) -> str:
    return f"{kind} {repo}@{revision}"


def read_lock(path: Path = LOCK) -> dict[str, Any]:
    """The entries of the lock file; raises UserError for one that `lock` doesn't write."""
    try:
        known = (read_yaml(path) or {}) if path.exists() else {}
    except BadFile as error:
        raise UserError(f"{error}: correct it, or remove it and run `r1flow lock` again") from None
    if not isinstance(known, dict):
        raise UserError(f"{path}: should be a mapping of entries; correct it, or remove it and run `r1flow lock` again")
    for key, entry in known.items():
        if not is_entry(entry):
            wanted = "a revision of 40 hex digits and a sha256 of each file"
            raise UserError(f"{path}: {key} needs {wanted}; remove the entry and run `r1flow lock` again")
    return known


def is_entry(entry: Any) -> bool:
    match entry:
        case {"revision": str(revision), "sha256": dict(hashes)} if COMMIT.fullmatch(revision):
            return all(SHA256.fullmatch(str(hashed)) for hashed in hashes.values())
    return False


def fill_in_locked(run: dict[str, Any], path: Path = LOCK) -> None:
    """Replace the branches and tags in a configuration by commits and hashes from the lock file."""
    known = read_lock(path)
    for source in (run["data"].get("sources") or {}).values():
        entry = known.get(lock_key("dataset", source.get("repo"), source.get("revision")))
        if entry:
            source["revision"], source["sha256"] = entry["revision"], entry["sha256"] | source["sha256"]
    for stage in run.values():
        if isinstance(stage, dict) and stage.get("revision"):
            entry = known.get(lock_key("model", stage.get("init_from"), stage["revision"]))
            if entry:
                stage["revision"], stage["sha256"] = entry["revision"], entry["sha256"] | (stage.get("sha256") or {})
