"""How many files, and so connections, a web process may have open at once."""

import resource

# The streams and the claims that one process lets wait, and as much again for all that come and go.
WANTED = 20_000


def allow_many() -> None:
    """Most systems allow 1,024 to who does not ask for more; whoever comes then would not be answered at all."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if most == resource.RLIM_INFINITY else min(WANTED, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
