"""The demo from Python: race adaptation methods on titles of papers, from the encoder that comes along.

python examples/race_arxiv.py [DIRECTORY] [KEY=VALUE ...]
"""

import sys
from pathlib import Path

import acclimate
from acclimate.core import settings
from acclimate.races.recipe import for_model

run = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example-race")
recipe = settings.override(for_model(), sys.argv[2:])
report = acclimate.race("arxiv", recipe=recipe, out=run)
print(report.verdict)
