"""Ways to ask a model: one file each, `contract` says how to add one."""
