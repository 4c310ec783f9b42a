"""How a page of the repository becomes one of the site."""

from __future__ import annotations

from scripts.docs_site.pages import DOCS, ROOT, page


def test_a_link_to_a_page_of_the_site_leads_there():
    assert page("[a](why.md#causes)", DOCS / "index.md") == "[a](why.md#causes)\n"
    assert page("[a](docs/why.md)", ROOT / "SECURITY.md") == "[a](../why.md)\n"
    assert page("[a](../CONTRIBUTING.md)", DOCS / "contributing.md") == "[a](project/contributing.md)\n"


def test_what_is_not_on_the_site_is_named():
    assert page("[etcd](../examples/etcd.yaml)", DOCS / "index.md") == "etcd (`examples/etcd.yaml`)\n"
    assert page("[deploy](../deploy)", DOCS / "index.md") == "`deploy`\n"


def test_what_looks_like_a_link_in_code_is_left_as_it_is():
    text = "```\n[a](../src)\n```\n"
    assert page(text, DOCS / "index.md") == text


def test_a_list_that_follows_a_paragraph_is_a_list():
    assert page("Two:\n- a\n- b\n  c\n- d", DOCS / "index.md") == "Two:\n\n- a\n- b\n  c\n- d\n"
