"""What deploy/ says is what runs."""
