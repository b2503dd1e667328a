"""An hour's worth of work in minutes, through nginx and two of everything, while one part after the other is killed."""
