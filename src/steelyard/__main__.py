"""`python -m steelyard`: the command."""

from __future__ import annotations

from steelyard.cli.main import main

if __name__ == "__main__":
    main()
