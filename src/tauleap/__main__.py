"""``python -m tauleap`` is ``tauleap``."""

from __future__ import annotations

import sys

from tauleap.cli import main

if __name__ == "__main__":
    sys.exit(main())
