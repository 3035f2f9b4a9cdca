"""`agui-gateway` with the agent type of this folder, as if its file lay in gateway/loops."""

from __future__ import annotations

import sys
from pathlib import Path

import gateway.loops
from gateway.cli import main

gateway.loops.__path__.append(str(Path(__file__).parent / "loops"))

if __name__ == "__main__":
    sys.exit(main())
