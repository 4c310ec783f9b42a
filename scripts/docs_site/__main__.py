"""Makes what the site and the man pages are built from: `python -m scripts.docs_site pages FOLDER`, `... man FOLDER`.

`... reasons` makes anew what `mooring reason` prints, after docs/reasons.toml or a reason in the code has changed.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from . import commands, facts, interfaces, kinds, man, pages, reasons


def write_site(folder: Path) -> None:
    """All pages, those of the repository and those that are generated. The folder is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    pages.write(folder)
    (folder / "assets").mkdir()
    shutil.copy(Path(__file__).with_name("worker_in_frame.js"), folder / "assets")
    reference = folder / "reference"
    (reference / reasons.FOLDER).mkdir(parents=True)
    (reference / "commands.md").write_text(commands.page())
    (reference / "metrics.md").write_text(facts.metrics_page())
    (reference / "events.md").write_text(facts.events_page())
    (reference / kinds.NAME).write_text(kinds.page())
    for name, text in (*reasons.pages(), *interfaces.pages()):
        (reference / name).write_text(text)


def main() -> None:
    """Returns nothing; a wrong call ends with status 2 and says how it is called."""
    match sys.argv[1:]:
        case ["pages", folder]:
            write_site(Path(folder))
        case ["man", folder]:
            man.write(Path(folder))
        case ["reasons"]:
            reasons.DATA.write_text(reasons.data())
        case _:
            print(__doc__, file=sys.stderr)
            sys.exit(2)


if __name__ == "__main__":
    main()
