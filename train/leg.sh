#!/bin/sh
# Builds chimere-train against the torch of python3 and runs one leg of a training run on a machine that has nothing else:
#   train/leg.sh DATA WORK RESULTS [chimere-train train's flags]
# DATA holds train.tok.xz chat.tok.xz heldout.tok vocabulary.gguf. WORK keeps the checkpoint, so that the next leg goes on
# where this one stopped, and model.gguf in f32. RESULTS gets the quantised model in pieces of at most 15 MB.
set -eu
data=$1 work=$2 results=$3
shift 3
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$work" "$results"
prefix=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')
cmake -G Ninja -S "$here" -B "$work/build" -DCHIMERE_TRAIN_ONLY=ON -DCHIMERE_TRAIN_CUDA=ON -DCMAKE_BUILD_TYPE=Release -DCHIMERE_TESTS=OFF \
  -DCMAKE_PREFIX_PATH="$prefix" -DCHIMERE_TRAIN_WERROR=OFF >"$work/configure.log" 2>&1 || { tail -20 "$work/configure.log"; exit 1; }
ninja -C "$work/build" chimere-train >"$work/build.log" 2>&1 || { grep -A5 -m5 error "$work/build.log"; exit 1; }
for name in train chat; do
  [ -f "$work/$name.tok" ] || python3 -c 'import lzma, shutil, sys
shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' "$data/$name.tok.xz" "$work/$name.tok"
done
status=0
"$work/build/train/chimere-train" train --documents "$work/train.tok" --chats "$work/chat.tok" \
  --heldout "$data/heldout.tok" --vocabulary "$data/vocabulary.gguf" --out "$work" "$@" || status=$?
"$work/build/train/chimere-train" export --in "$work/model.gguf" --out "$work/shipped.gguf" --mix shipped
split -b 15000000 "$work/shipped.gguf" "$results/shipped.gguf."
exit "$status"
