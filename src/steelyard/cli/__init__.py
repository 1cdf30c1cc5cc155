"""The command line. A command parses, calls one library function, and prints."""
