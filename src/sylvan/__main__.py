"""``python -m sylvan``: the same as the ``sylvan`` command."""

import sys

from sylvan.cli import main

sys.exit(main())
