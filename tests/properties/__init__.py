"""What is true of every walk and of every journal, tried with values nobody would think of."""
