"""What is kept: the documents that are written, and how they reach the disk."""
