"""`python -m abc_plugins` is the command `abc-plugins`."""

import sys

from abc_plugins.cli import main

if __name__ == "__main__":
    sys.exit(main())
