"""`python -m acclimate.on_ray`: a command of acclimate in several processes of a Ray cluster (`cli/on_ray.py`)."""

from acclimate.cli.on_ray import main

if __name__ == "__main__":
    main()
