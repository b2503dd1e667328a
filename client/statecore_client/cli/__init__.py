"""The command line `statecore`: everything an operator needs without a browser."""
