"""A mutant takes the place of its module for whoever imports it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutation import overlay
from tests.mutation.rooms import ROOT, SOURCE

FILE = SOURCE / "controllers/attacher/decide.py"
MODULE = "mooring.controllers.attacher.decide"


def said(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def installing(marked: str) -> str:
    return (
        "from tests.mutation import overlay\n"
        f"source = open({str(FILE)!r}).read() + {marked!r}\n"
        f"overlay.install({MODULE!r}, {str(FILE)!r}, source)\n"
    )


def test_every_way_of_importing_sees_the_mutant():
    program = installing("\ndef decide(*_, **__):\n    return 'mutant'\n") + (
        "import mooring.controllers.attacher.controller as user\n"
        "import mooring.controllers.attacher.decide as module\n"
        "from mooring.controllers.attacher import decide as from_package\n"
        "from mooring.controllers.attacher.decide import decide\n"
        "print(user.decide(), module.decide(), from_package.decide(), decide())\n"
    )
    assert said(program) == "mutant mutant mutant mutant"


def test_a_package_may_be_changed_and_keeps_its_modules():
    path = SOURCE / "controllers/attacher/__init__.py"
    program = (
        "from tests.mutation import overlay\n"
        f"overlay.install('mooring.controllers.attacher', {str(path)!r}, 'MARK = 1')\n"
        "import mooring.controllers.attacher as changed\n"
        "from mooring.controllers.attacher.decide import decide\n"
        "print(changed.MARK, changed.__file__)\n"
    )
    assert said(program) == f"1 {path}"


def test_all_other_modules_and_the_file_are_as_they_were():
    before = FILE.read_bytes()
    program = installing("\nMARK = 1\n") + (
        "import mooring.controllers.attacher.decide as changed, mooring.controllers.binding.decide as other\n"
        "print(changed.__file__, hasattr(changed, 'MARK'), hasattr(other, 'MARK'))\n"
    )
    assert said(program) == f"{FILE} True False"
    assert FILE.read_bytes() == before


def test_no_changed_code_is_left_in_a_cache():
    said(installing("\nMARK = 1\n") + f"import {MODULE}")
    assert said(f"import {MODULE} as module; print(hasattr(module, 'MARK'))") == "False"


def test_a_module_that_is_imported_already_cannot_be_changed():
    with pytest.raises(overlay.TooLate):
        overlay.install("tests.mutation.overlay", __file__, "")


def test_tests_see_the_mutant_that_the_environment_names(tmp_path: Path):
    (tmp_path / "changed.py").write_text(FILE.read_text() + "\nMARK = 1\n")
    environment = {
        overlay.MODULE: MODULE,
        overlay.FILE: str(FILE),
        overlay.SOURCE: str(tmp_path / "changed.py"),
    }
    program = f"import tests.mutation.overlay, {MODULE} as module; print(module.MARK)"
    assert said(program, **environment) == "1"
