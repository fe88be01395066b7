#!/usr/bin/env bash
# The nightly job: nightly.sh [FOLDER]. The day's records are converted, checked and learned by a candidate, which takes
# the place of the live model where it is better by more than chance; then records without subjects get suggestions.
#
# In FOLDER (/srv/sylvan): live/ and candidate/, at first two copies of a model that keeps its rows (--set
# keep_rows=true), trained on records that the same `convert` has made; dev.jsonl, records that no model learns from;
# inbox/new.csv, which people have indexed since yesterday; inbox/open.csv, which nobody has;
# subjects.tsv (or what `vocabulary` names), where subjects are codes: what they are called.
# The exit code is 0 where all went well. A file that couldn't be used stays in inbox/.
set -euo pipefail
cd "${1:-/srv/sylvan}"
text=title,author                # columns of text of both files
labels=subjects                  # column of subjects
vocabulary=subjects.tsv          # names of subjects that are codes, where that file is there
language=                        # of these names, where the file has several
threshold=0.5                    # of suggestions
server=${SYLVAN_SERVER:-}        # address of the model at the server, which must take up what is promoted
key=${SYLVAN_API_KEY:-${SYLVAN_ADMIN_KEY:-}}  # of that server, where it has keys
now=$(date +%FT%H%M%S)
mkdir -p done rejected reports suggestions
[ -e "$vocabulary" ] || vocabulary= language=

learn() {  # each step says what is wrong, and ends it
  local new=new.jsonl code=0
  sylvan convert inbox/new.csv "$new" --text-field "$text" --labels-field "$labels" --quiet || return
  sylvan check "$new" --test dev.jsonl --quiet || return
  sylvan update candidate "$new" --keep 7 || return
  mv inbox/new.csv "done/$now.csv"
  sylvan evaluate candidate dev.jsonl --json "reports/$now.json" > "reports/$now.txt" || return
  sylvan thresholds candidate dev.jsonl --save --quiet > "reports/$now-thresholds.txt" || return  # for the page
  sylvan promote candidate live dev.jsonl --significance 0.01 --json - >> promotions.jsonl || code=$?
  case $code in
    0) take_up ;;
    3) ;;                        # neither better nor worse so far: it goes on learning
    4) sylvan update candidate --undo && mv "done/$now.csv" rejected && return 1 ;;
    *) return "$code" ;;
  esac
}

take_up() {  # by the server, within a minute; or the live model is the one before again
  [ -n "$server" ] || return 0
  local version seconds
  version=$(tail -n 1 promotions.jsonl | grep -o '"version_after": "[^"]*"' | cut -d '"' -f 4)
  for ((seconds = 0; seconds < 60; seconds++)); do
    if curl -sf -H @- "$server" <<< "X-API-Key: $key" | grep -qF "\"version\":\"$version\""; then return; fi
    sleep 1
  done
  echo "$server doesn't serve version $version: going back." >&2
  sylvan update live --undo
  return 1
}

suggest() {
  sylvan predict live inbox/open.csv --text-field "$text" --threshold "$threshold" --quiet \
    ${vocabulary:+--vocabulary "$vocabulary"} ${language:+--language "$language"} \
    -o "suggestions/$now.jsonl" || return
  mv inbox/open.csv "done/$now-open.csv"
}

has_records() { [ -s "$1" ] && [ -n "$(sed -n 2p "$1")" ]; }  # more than a header

failed=0
if has_records inbox/new.csv; then learn || failed=$?; fi
if has_records inbox/open.csv; then suggest || failed=$?; fi
exit "$failed"
