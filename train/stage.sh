#!/bin/sh
# Training on a machine with a GPU, nvcc and python3 with torch but without Debian's packages, where each command transfers
# little data. WORK is a folder of that machine that outlives a command; all three commands can be repeated.
#   train/stage.sh store PIECES WORK                 builds the trainers; stores the pieces (of train/pack.sh) of a folder, and
#                                                    unpacks them when all are present
#   train/stage.sh train WORK RESULTS MIX [FLAGS]    runs one training stage with the flags of chimere-train train, then
#                                                    exports WORK/model.gguf as MIX
#   train/stage.sh measure WORK RESULTS              held-out figures of WORK/shipped.gguf
# A stage continues from WORK/checkpoint.pt, where the previous one stopped. RESULTS receives the model in pieces of at most
# 15 MB with their checksums, and the log. Use q8_0 for all stages but the last: if the machine is lost, --init with that file
# and --first-step continue from it.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
what=$1
shift

build() {
  prefix=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')
  cmake -G Ninja -S "$here" -B "$work/build" -DCHIMERE_TRAIN_ONLY=ON -DCHIMERE_TRAIN_CUDA=ON -DCMAKE_BUILD_TYPE=Release -DCHIMERE_TESTS=OFF \
    -DCMAKE_PREFIX_PATH="$prefix" -DCHIMERE_TRAIN_WERROR=OFF >"$work/configure.log" 2>&1 || { tail -20 "$work/configure.log"; exit 1; }
  ninja -C "$work/build" chimere-train chimere-drafter >"$work/build.log" 2>&1 || { grep -A5 -m5 error "$work/build.log"; exit 1; }
}

unpack() {
  [ -f "$work/data/complete" ] && return
  mkdir -p "$work/data"
  (cd "$work/pieces" && sha256sum -c --quiet SHA256SUMS) || { echo "pieces are missing or damaged" >&2; exit 1; }
  cat "$work"/pieces/piece.* | tar -x -C "$work/data"
  python3 -c 'import lzma, shutil, sys
for path in sys.argv[1:]:
    with lzma.open(path) as packed, open(path[:-3], "wb") as out: shutil.copyfileobj(packed, out, 1 << 20)' "$work"/data/*.xz
  touch "$work/data/complete"
}

case $what in
  store)
    pieces=$1 work=$2
    mkdir -p "$work/pieces"
    cp "$pieces"/* "$work/pieces"
    build
    (unpack) || echo "some pieces are still missing"
    ls -l "$work/pieces" "$work/data"
    ;;
  train)
    work=$1 results=$2 mix=$3
    shift 3
    mkdir -p "$results"
    [ -x "$work/build/train/chimere-train" ] || build
    unpack
    data=$work/data status=0
    "$work/build/train/chimere-train" train --documents "$data/train.tok" --chats "$data/chat.tok" \
      --heldout "$data/heldout.tok" --vocabulary "$data/vocabulary.gguf" --out "$work" "$@" >"$work/stage.log" 2>&1 || status=$?
    cat "$work/stage.log" >>"$work/run.log"
    cp "$work/run.log" "$results/run.log"
    tail -40 "$work/stage.log"
    file=$work/$mix.gguf
    "$work/build/train/chimere-train" export --in "$work/model.gguf" --out "$file" --mix "$mix"
    split -b 15000000 "$file" "$results/$mix.gguf."
    (cd "$results" && sha256sum "$mix".gguf.*) | tee "$results/SHA256SUMS"
    exit "$status"
    ;;
  measure)
    work=$1 results=$2
    mkdir -p "$results"
    program=$work/build/train/chimere-train heldout=$work/data/heldout.tok
    {
      for window in 512 2048 8192 16384; do
        echo "window $window"
        "$program" evaluate --in "$work/shipped.gguf" --heldout "$heldout" --tokens 1300000 --window $window
      done
      "$program" divergence --base "$work/model.gguf" --in "$work/shipped.gguf" --heldout "$heldout"
      "$program" evaluate --in "$work/model.gguf" --heldout "$heldout" --tokens 1000000 --window 2048
    } 2>&1 | tee "$results/measured.txt"
    ;;
  *)
    echo "train/stage.sh store|train|measure, see its head" >&2
    exit 2
    ;;
esac
