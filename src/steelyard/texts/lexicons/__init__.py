"""The lexicons as data: tables of names and synonyms, written for this project."""
