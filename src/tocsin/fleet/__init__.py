"""Many projects behind one address: the catalogue of projects, opening and closing them, and routing callers."""
