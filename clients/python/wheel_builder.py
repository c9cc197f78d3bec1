"""Builds the wheel and the source archive of the package with the standard library alone (PEP 517).

pip calls the functions build_wheel, build_editable and build_sdist. Without pip:

    python3 wheel_builder.py [DIRECTORY]      writes the wheel there (default: dist) and prints its path
"""

import base64
import hashlib
import io
import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any, Dict, Optional

ROOT = Path(__file__).resolve().parent
PACKAGE = "divvy"
TIMESTAMP = (1980, 1, 1, 0, 0, 0)  # The same sources give the same bytes.


def version() -> str:
    text = (ROOT / PACKAGE / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'^VERSION = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise ValueError("divvy/_version.py has no line VERSION = \"...\"")
    return found.group(1)


def _metadata() -> str:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

    def value(key: str) -> str:
        found = re.search(rf'^{key} = "(.*)"$', project, re.MULTILINE)
        assert found is not None, f"pyproject.toml has no {key}"
        return found.group(1)

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return (
        "Metadata-Version: 2.1\n"
        f"Name: {PACKAGE}\nVersion: {version()}\nSummary: {value('description')}\n"
        f"License: Apache-2.0\nRequires-Python: {value('requires-python')}\n"
        "Description-Content-Type: text/markdown\n\n" + readme
    )


def _write_wheel(directory: str, files: Dict[str, bytes]) -> str:
    info = f"{PACKAGE}-{version()}.dist-info"
    files = dict(files)
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: divvy\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for name, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    name = f"{PACKAGE}-{version()}-py3-none-any.whl"
    Path(directory).mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(Path(directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, TIMESTAMP)
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return name


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Optional[str] = None) -> str:
    sources = sorted(path for path in (ROOT / PACKAGE).iterdir() if path.suffix in (".py", ".typed"))
    return _write_wheel(wheel_directory, {f"{PACKAGE}/{path.name}": path.read_bytes() for path in sources})


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: Optional[str] = None) -> str:
    return _write_wheel(wheel_directory, {f"{PACKAGE}.pth": f"{ROOT}\n".encode()})


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    top = f"{PACKAGE}-{version()}"
    with tarfile.open(Path(sdist_directory) / f"{top}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(ROOT.glob("**/*")):
            if path.is_file() and path.suffix in (".py", ".typed", ".toml", ".md", ".ipynb"):
                archive.add(path, f"{top}/{path.relative_to(ROOT)}")
        metadata = _metadata().encode()
        entry = tarfile.TarInfo(f"{top}/PKG-INFO")
        entry.size = len(metadata)
        archive.addfile(entry, io.BytesIO(metadata))
    return f"{top}.tar.gz"


if __name__ == "__main__":
    target = sys.argv[1] if len(sys.argv) > 1 else "dist"
    print(Path(target) / build_wheel(target))
