"""The metrics, one file per question."""
