"""The thirteen machines, one file each: `ls` is the product."""
