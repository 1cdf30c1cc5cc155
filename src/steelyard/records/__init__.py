"""What came in: immutable columns, the vocabulary they follow, and what derives from them."""
