"""What a text says: its words, the clinical entities in it, and how one text compares with another."""
