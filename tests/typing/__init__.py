"""What users of the library see through a type checker."""
