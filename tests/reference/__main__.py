"""`python -m tests.reference`: write the pages of `docs/reference/`."""

from __future__ import annotations

from tests.reference.pages import FOLDER, PAGES

FOLDER.mkdir(exist_ok=True)
for name, make in PAGES.items():
    (FOLDER / name).write_text(make(), "utf-8")
    print(FOLDER / name)
