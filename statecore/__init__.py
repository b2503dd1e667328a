"""Protected state machines behind one door: nothing changes except by a legal, recorded transition."""
