"""The machines, one file each."""
