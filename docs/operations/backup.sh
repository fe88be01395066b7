#!/usr/bin/env bash
# A copy of a model folder: backup.sh MODEL FOLDER [KEEP]. It becomes FOLDER/DATE once every checksum has been compared;
# the KEEP (14) latest copies stay. A model that is saved meanwhile may lose files under the copy: then it is made again.
set -euo pipefail
model=$1 folder=$2 keep=${3:-14}
mkdir -p "$folder"
new=$folder/.$$
trap 'rm -rf "$new"' EXIT
for attempt in 1 2 3; do
  rm -rf "$new"
  if cp -a "$model" "$new" && python -c 'import sys, sylvan; sylvan.load(sys.argv[1], mmap=False)' "$new"; then
    rm -f "$new/updating.lock"
    mv "$new" "$folder/$(date +%FT%H%M%S)"
    find "$folder" -mindepth 1 -maxdepth 1 -name '[0-9]*' | sort -r | tail -n +$((keep + 1)) | xargs -r rm -rf
    exit
  fi
  echo "$model couldn't be copied (attempt $attempt)." >&2
done
exit 1
