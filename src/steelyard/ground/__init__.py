"""What every room stands on: arrays, files, JSON, digests, randomness; nothing of the domain."""
