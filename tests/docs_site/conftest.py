"""The pages from which the site is built, made once."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.docs_site.__main__ import write_site


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that mkdocs reads."""
    folder = tmp_path_factory.mktemp("site") / "docs"
    write_site(folder)
    return folder
