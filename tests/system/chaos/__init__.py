"""Faults under load: what is broken, who keeps the books meanwhile, and what must hold."""
