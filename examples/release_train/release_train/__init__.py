"""Release trains: a release boards changes, is loaded when its run has succeeded, and departs when it is due."""
