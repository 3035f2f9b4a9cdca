"""The pages of `docs/reference/`, made from the code: `make reference` writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.documentation import ROOT
from tests.reference.configuration_page import configuration_page
from tests.reference.errors_page import errors_page
from tests.reference.metrics_page import metrics_page
from tests.reference.tools_page import tools_page

FOLDER: Final = ROOT / "docs" / "reference"
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "configuration.md": configuration_page,
    "errors.md": errors_page,
    "metrics.md": metrics_page,
    "tools.md": tools_page,
}
"""What makes the text of each page, by the page's name in FOLDER."""
