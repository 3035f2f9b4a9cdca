"""`python -m tests.site FOLDER`: build the site of the documentation in a new folder. A warning fails it."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.site.built import build

build(Path(sys.argv[1]))
