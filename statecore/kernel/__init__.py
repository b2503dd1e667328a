"""What a machine is; this package knows none of them."""
