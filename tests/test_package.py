"""What a user installs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import dashcam

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"dashcam/py.typed", "dashcam/store/sqlite/migrations/0001_spine.sql"} <= set(names)
    assert {name.partition("/")[0] for name in names} == {"dashcam", f"dashcam-{dashcam.__version__}.dist-info"}


def test_the_core_needs_only_msgspec_and_the_rest_are_extras(wheel: Path) -> None:
    (metadata,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("/METADATA"))
    text = zipfile.ZipFile(wheel).read(metadata).decode()
    assert [line for line in re.findall(r"^Requires-Dist: (.*)$", text, re.M) if "extra ==" not in line] == [
        "msgspec>=0.19"
    ]
    assert {"cli", "prices", "serve", "host", "query", "all"} == set(re.findall(r"^Provides-Extra: (\w+)$", text, re.M))


def test_the_sdk_works_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """Straight from the archive, without site-packages: only msgspec is put beside it."""
    import msgspec

    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "msgspec").symlink_to(Path(msgspec.__file__).parent)
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    code = "import dashcam; print(dashcam.log_event(dashcam.new_trace('s'), 'tool_call', tool='x').step)"
    environment = {"PYTHONPATH": f"{tmp_path / 'installed'}:{beside}", "DASHCAM_DATA": str(tmp_path / "data")}
    command = [sys.executable, "-S", "-c", code]
    assert subprocess.check_output(command, env={**os.environ, **environment}).strip() == b"1"
    command = [sys.executable, "-S", "-m", "dashcam", "sessions"]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 3
    assert "pip install 'dashcam[cli]'" in done.stderr


def test_the_version_is_told_once(wheel: Path) -> None:
    assert f"-{dashcam.__version__}-" in wheel.name


def test_the_lock_pins_everything_with_hashes_and_names_no_registry() -> None:
    text = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^([a-z0-9-]+)==", text, re.M)
    assert {"msgspec", "typer", "pytest", "hatchling"} <= set(pins)
    assert len(re.findall(r"--hash=sha256:", text)) >= len(pins)
    assert "://" not in text
