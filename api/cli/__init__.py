"""The command line `statecore`: everything an operator needs where there is no browser."""
