"""When waiting jobs start: the cycle run ahead on a virtual clock, and ranges around what it says."""
