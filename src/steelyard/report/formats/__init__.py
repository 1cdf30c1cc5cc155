"""How a report is rendered, one file per format."""
