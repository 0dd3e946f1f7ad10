"""`python -m memorist`: the command line."""

import sys

from memorist.cli.main import main

sys.exit(main())
