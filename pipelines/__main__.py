"""``python -m pipelines`` is the command line."""

import sys

from pipelines.cli import main

sys.exit(main())
