"""State diagrams of the machines, drawn from their declarations."""
