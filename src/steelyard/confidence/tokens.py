"""Signals from the log-probabilities of an answer's tokens: defined in `records.token_signals`, as logs carry them."""

from steelyard.records.token_signals import token_energy, token_msp, token_pe

__all__ = ["token_energy", "token_msp", "token_pe"]
