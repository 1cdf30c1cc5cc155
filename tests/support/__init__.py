"""What several test modules share: tests import from here, and never from each other."""
