"""From a cause to the page of its reason code."""

from __future__ import annotations

from mooring.kube.reason import Reason
from mooring.why import text
from mooring.why.cause import Cause
from mooring.why.reason_pages import MOST_NAMED, MOST_NEAR, more, near, pages


def cause(code: str, *causes: Cause, ok: bool = False) -> Cause:
    return Cause("pod/default/app", Reason(code, "so"), ok=ok, causes=causes)


def plain(shown: str, colour: str) -> str:
    return shown


def test_an_explanation_names_the_pages_of_the_ends_of_its_chain_once_each():
    found = cause(
        "NodeProblem", cause("InUse"), cause("WaitingForClaims", cause("MultiAttach"), cause("InUse"))
    )
    assert text.more_line(found, plain) == "more: mooring reason InUse MultiAttach"


def test_where_nothing_is_wrong_no_page_is_named():
    fine = cause("MultiAttach", ok=True)
    assert text.more_line(fine, plain) == ""
    assert "more" not in fine.as_json()


def test_a_program_reads_the_command_of_each_cause():
    found = cause("NodeProblem", cause("InUse")).as_json()
    assert found["more"] == "mooring reason NodeProblem"
    assert found["causes"][0]["more"] == "mooring reason InUse"


def test_a_code_of_another_program_has_no_page_and_is_not_named():
    foreign = cause("Foreign; rm -rf /")
    assert text.more_line(foreign, plain) == ""
    assert "more" not in foreign.as_json()


def test_one_line_names_only_so_many():
    assert len(more(list(pages())).split()) == 2 + MOST_NAMED


def test_codes_that_were_perhaps_meant_are_found_by_case_by_likeness_and_by_part():
    assert near("multiattach")[0] == "MultiAttach"
    assert "FailedMount" in near("FailedMnt")
    assert "CSIDriverNotReady" in near("CSIDriver")
    assert near("") == []
    assert len(near("a")) <= MOST_NEAR


def test_each_page_says_what_to_do():
    for page in pages().values():
        assert page.means or page.says, page.code
        assert page.do
        assert page.said_by
        assert "](" not in page.do, "a link leads nowhere on a terminal"
