"""The rooms and their one-way doors."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "dashcam"

# Each room imports only from those before it (and from itself). A module directly in the package that is not
# named here is a face of what stands behind it, and nobody inside imports it.
ROOMS = [
    "errors", "contracts", "sdk", "store", "dialects", "record", "views", "exports",
    "query", "host", "iterate", "proxy", "server", "cli",
]  # fmt: skip
FACES = {"__init__", "__main__", "testing"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "dashcam" and name != "dashcam"}


def test_every_module_stands_in_a_room() -> None:
    assert {room_of(path) for path in modules()} <= {*ROOMS, *FACES}


def test_a_room_imports_only_from_rooms_above_it() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules()
        if room_of(path) not in FACES
        for name in imports_of(path)
        if (room := name.split(".")[1]) in ROOMS and ROOMS.index(room) > ROOMS.index(room_of(path))
    ]
    assert wrong == []


def test_nobody_inside_imports_the_faces() -> None:
    inside = [path for path in modules() if room_of(path) not in FACES]
    assert [path.name for path in inside for name in imports_of(path) if name.split(".")[1] in FACES] == []


def test_sql_is_only_in_the_store_and_the_query_room() -> None:
    sql = re.compile(r"\b(SELECT .+ FROM|INSERT (OR \w+ )?INTO|DELETE FROM|CREATE TABLE|PRAGMA) ")
    wrong = [path for path in modules() if room_of(path) not in ("store", "query") and sql.search(path.read_text())]
    assert wrong == []


def test_modules_stay_readable() -> None:
    long = [(path.name, length) for path in modules() if (length := len(path.read_text().splitlines())) > 500]
    assert long == []


def test_no_file_of_ours_names_a_registry_or_a_path_of_one_machine() -> None:
    suspicious = re.compile(r"files\.pythonhosted|registry\.npmjs|https?://[^\s/]*(pypi|mirror)|/root/\w")
    files = [path for path in ROOT.rglob("*") if path.suffix in {".py", ".md", ".toml", ".lock", ".sql", ".sh", ""}]
    ours = [
        path
        for path in files
        if path.is_file() and not {".git", ".venv"} & set(path.parts) and "cache" not in str(path)
    ]
    assert [
        str(path) for path in ours if suspicious.search(path.read_text(errors="ignore")) and path != Path(__file__)
    ] == []
