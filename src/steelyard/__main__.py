"""`python -m steelyard`: the command.

Python looks for modules in the working folder then, and looks there first. The command does not: a file next to data
that is named like a package would run in its place. `python -P -m steelyard` leaves no time for one at all.
"""

from __future__ import annotations

import os
import sys

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from steelyard.cli.main import main

if __name__ == "__main__":
    main()
