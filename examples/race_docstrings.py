"""The demo from Python: race adaptation methods on the docstrings installed on this machine.

python examples/race_docstrings.py [DIRECTORY] [KEY=VALUE ...]
"""

import sys
from pathlib import Path

from acclimate.core import files, settings
from acclimate.study import materials
from acclimate.study.outcome import write_pages
from acclimate.study.race import Recipe, race

run = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example-race")
recipe = settings.override(Recipe(), sys.argv[2:])

with files.hold(run):  # nobody else works in it meanwhile
    data = materials.docstrings(run, labels_per_class=32, model=None)
    race(recipe, data, run, command="python " + " ".join(sys.argv))
print(write_pages(run).verdict)
