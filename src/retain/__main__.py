"""`python -m retain`: the command line."""

import sys

from retain.cli.main import main

sys.exit(main())
