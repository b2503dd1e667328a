"""The same tables as plain Django models, for the other libraries."""
