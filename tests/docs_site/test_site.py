"""The site of the documentation is built without a warning, and read without a network."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MKDOCS = ROOT / ".venv/docs/bin/mkdocs"
NEEDS = pytest.mark.skipif(not MKDOCS.exists(), reason="needs what requirements/docs.txt names: make docs")


@pytest.fixture(scope="module")
def site(pages: Path) -> Path:
    """The site, as `make docs` builds it."""
    built = pages.parent / "html"
    settings = (ROOT / "mkdocs.yml").read_text()
    hook = "scripts/docs_site/without_network.py"
    settings = settings.replace("build/docs", str(pages)).replace("build/site", str(built))
    settings = settings.replace("paths: [src]", f"paths: [{ROOT / 'src'}]")
    (pages.parent / "mkdocs.yml").write_text(settings.replace(hook, str(ROOT / hook)))
    done = subprocess.run(
        [MKDOCS, "build", "--strict"],
        cwd=pages.parent,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return built


@NEEDS
def test_each_page_of_the_repository_and_each_generated_one_is_on_it(site: Path, pages: Path):
    missing = {str(page.relative_to(pages).with_suffix(".html")) for page in pages.rglob("*.md")} - {
        str(page.relative_to(site)) for page in site.rglob("*.html")
    }
    assert missing == {"decisions/README.html"}, "which is decisions/index.html"


@NEEDS
def test_the_reference_of_python_interfaces_has_their_methods_and_what_they_say(site: Path):
    page = (site / "reference" / "python-fence.html").read_text()
    assert "Cuts the target off, and looks that it is." in page
    assert 'id="mooring.fence.interface.Mechanism.fence"' in page
    assert (
        'id="mooring.volumes.interfaces.plugins.VolumePlugin.can_support"'
        in (site / "reference" / "python-volumes.html").read_text()
    )
    assert (
        'id="mooring.testing.cluster.Cluster.eventually"'
        in (site / "reference" / "python-testing.html").read_text()
    )


@NEEDS
def test_nothing_is_fetched_from_outside_when_it_is_read(site: Path):
    fetches = re.compile(
        r"<(?:script|img|iframe)[^>]*\ssrc=\"?https?:|<link[^>]*\shref=\"?https?:|url\(https?:"
    )
    texts = [page for page in site.rglob("*") if page.suffix in (".html", ".css")]
    assert texts
    assert [str(page) for page in texts if fetches.search(page.read_text())] == []


@NEEDS
def test_a_picture_that_a_page_shows_is_there(site: Path):
    for page in site.rglob("*.html"):
        for source in re.findall(r"<img[^>]*\ssrc=\"?([^\" >]+)", page.read_text()):
            assert (page.parent / source).resolve().is_file(), f"{page}: {source}"


def test_the_order_is_tutorials_how_to_reference_explanations():
    text = re.sub(r"!!python\S+ \{.*\}", "null", (ROOT / "mkdocs.yml").read_text())
    nav = [next(iter(each)) for each in yaml.safe_load(text)["nav"]]
    assert nav[1:5] == ["Tutorials", "How-to", "Reference", "Explanations"]
