"""The native booster: the round loop and what it decides; trees, model and runtime have rooms of their own."""
