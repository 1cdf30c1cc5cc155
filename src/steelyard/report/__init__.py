"""Results for people: a document of headings, tables and notes, and its renderings."""
