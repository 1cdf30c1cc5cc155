"""Suites that come with the package: each folder holds a `suite.yaml` and one file of cases per task."""
