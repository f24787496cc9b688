#!/bin/sh
# Packs the token files for train/leg.sh into folders 0, 1, ... of one piece each, to be sent one a call:
#   train/pack.sh CORPUS OUT [BYTES]      CORPUS holds train.tok chat.tok heldout.tok vocabulary.gguf; 28 MB a piece
set -eu
corpus=$1 out=$2 bytes=${3:-28000000}
rm -rf "$out"
mkdir -p "$out"
# Ids are 16 bits: the position's lowest bit says which byte of one it is. Two blocks for two cores.
tar -C "$corpus" -cf - vocabulary.gguf heldout.tok chat.tok train.tok |
  xz -T2 --block-size=200MiB --lzma2=preset=6,dict=128MiB,lc=1,lp=1,pb=1 | split -b "$bytes" -d -a 2 - "$out/piece."
(cd "$out" && sha256sum piece.* >SHA256SUMS)
i=0
for piece in "$out"/piece.*; do
  mkdir "$out/$i"
  mv "$piece" "$out/$i"
  cp "$out/SHA256SUMS" "$out/$i"
  i=$((i + 1))
done
rm "$out/SHA256SUMS"
ls -l "$out"/*
