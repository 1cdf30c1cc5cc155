"""How sure a model was: from signals to a number that ranks answers, and from that number to a probability."""
