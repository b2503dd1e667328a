"""What operators and screens ask: machines, numbers, what is stuck, alerts, the journal. All but one only read."""
