"""Hatch's build hook: a wheel or source distribution without the built page is refused, and the message says why.

Editable installs need none: the gateway then says at `/` what is missing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WITHOUT_PAGE = "AGUI_GATEWAY_WITHOUT_PAGE"


class RequirePage(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or os.environ.get(WITHOUT_PAGE) == "1":
            return
        page = Path(self.root, "gateway", "page_files")
        missing = [name for name in ("index.html", "shop.html", "widget.js") if not (page / name).is_file()]
        if missing:
            raise FileNotFoundError(
                f"the page is not built: gateway/page_files lacks {', '.join(missing)}. Build it with 'make page', "
                f"which needs Node.js, or set {WITHOUT_PAGE}=1 for a package whose gateway serves no page"
            )
