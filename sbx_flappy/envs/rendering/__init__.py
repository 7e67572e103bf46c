"""How the native engine draws: 84x84 gray observations from tables, and full-size frames from upstream's sprites."""
