#!/usr/bin/env bash
# The command of `statecore agent`: doubles the sum of its input, and repeats the artifact of its dependency twice.
set -euo pipefail
[[ $(<"$STATECORE_INPUTS") =~ \"sum\":\ *([0-9]+) ]]
echo "{\"doubled\": $((BASH_REMATCH[1] * 2))}" >"$STATECORE_RESULT"
cat "$STATECORE_INPUT_ARTIFACTS"/numbers/numbers.txt "$STATECORE_INPUT_ARTIFACTS"/numbers/numbers.txt \
    >"$STATECORE_ARTIFACTS/twice.txt"
