#!/bin/sh
# Packs the token files for train/stage.sh into folders 0, 1, ... of one piece each, to be sent one by one:
#   train/pack.sh CORPUS OUT [BYTES]      CORPUS holds train.tok chat.tok heldout.tok vocabulary.gguf; 32 MB a piece
# Compressed files are kept beside the token files, and made again if those are newer.
set -eu
corpus=$1 out=$2 bytes=${3:-32000000}
rm -rf "$out"
mkdir -p "$out"
for name in vocabulary.gguf heldout.tok chat.tok train.tok; do
  file=$corpus/$name
  [ -z "$(find "$file.xz" -newer "$file" 2>/dev/null)" ] || continue
  # Ids have 16 bits: the lowest bit of a position selects their byte (pb, lp = 1). Blocks for two cores.
  xz -T2 --block-size=176MiB --lzma2=preset=6,dict=128MiB,lc=1,lp=1,pb=1 -c "$file" >"$file.xz.new"
  mv "$file.xz.new" "$file.xz"
done
tar -C "$corpus" -cf - vocabulary.gguf.xz heldout.tok.xz chat.tok.xz train.tok.xz | split -b "$bytes" -d -a 2 - "$out/piece."
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
