"""Commands and models that are run, and what they leave behind."""
