"""``python -m sbx_flappy.zoo``."""

from sbx_flappy.zoo.cli import main

main()
