"""Faults under load: what is broken, who works meanwhile, and what must hold."""
