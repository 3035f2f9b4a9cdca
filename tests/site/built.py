"""Builds the site of the documentation, with Zensical."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.site.contents import pages
from tests.site.written import SITE, SOURCE, write


def build(target: Path, page_texts: dict[str, str] | None = None) -> None:
    """Build the site in `target`, a folder that does not exist yet. `page_texts` take the place of pages' texts.

    Raises:
        SystemExit: a link leads nowhere, or something else is wrong; it has been printed.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        for path, text in (page_texts or {}).items():
            (folder / SOURCE / path).write_text(text, "utf-8")
        command = [str(Path(sys.executable).with_name("zensical")), "build", "--strict"]
        built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if built.returncode:
            raise SystemExit((built.stdout + built.stderr).partition("Traceback")[0])
        for page in pages():  # llms.txt leads to them
            shutil.copyfile(folder / SOURCE / page.path, folder / SITE / page.path)
        shutil.move(folder / SITE, target)
