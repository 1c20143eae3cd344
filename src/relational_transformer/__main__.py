"""`python -m relational_transformer` is `rt`."""

import sys

from relational_transformer.cli import main

if __name__ == "__main__":
    sys.exit(main())
