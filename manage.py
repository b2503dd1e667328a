#!/usr/bin/env python
"""Django's command line for a checkout of Statecore."""

from statecore.project.manage import main

if __name__ == "__main__":
    main()
