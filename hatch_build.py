"""Build hook: generates Python modules and their type stubs from the `.proto` files, beside them; and takes the man
pages of `make man` along, if they were made.

It runs for wheels and for editable installs; `make` runs it again after a `.proto` file was changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
SOURCES = ROOT / "src"
MAN = "build/man"


class GenerateMessages(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        generate()
        if (ROOT / MAN).is_dir() and self.target_name == "wheel":
            build_data["shared_data"][MAN] = "share/man/man1"
        elif (ROOT / MAN).is_dir():
            build_data["force_include"][MAN] = MAN


def generate() -> None:
    """Raises RuntimeError if a file cannot be compiled; what is wrong with it has been printed."""
    import grpc_tools
    from grpc_tools import protoc

    well_known = Path(grpc_tools.__file__).parent / "_proto"
    files = sorted(str(path) for path in SOURCES.rglob("*.proto"))
    flags = [f"-I{SOURCES}", f"-I{well_known}", f"--python_out={SOURCES}", f"--pyi_out={SOURCES}"]
    if protoc.main(["protoc", *flags, *files]) != 0:
        raise RuntimeError(f"protoc could not compile {', '.join(files)}")


if __name__ == "__main__":
    generate()
