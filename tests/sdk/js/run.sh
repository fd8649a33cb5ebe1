#!/usr/bin/env bash
# The scenario with JavaScript's @azure/data-tables; see ../README.md.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
source ../common.sh js

install() {
    cp package.json package-lock.json "$CACHE" &&
        npm ci --prefix "$CACHE" --no-audit --no-fund --loglevel=error
}
install_once package.json package-lock.json

export NODE_PATH="$CACHE/node_modules" # Why the tests are CommonJS: import does not look there.
node --test --test-reporter=spec "$@" ./*.test.js 2>&1 | tee "$LOG"
status=${PIPESTATUS[0]}

# The summary has one line per kind, such as "ℹ pass 120".
count() { grep -aE "^ℹ $1 [0-9]+$" "$LOG" | tail -n 1 | grep -aoE "[0-9]+$"; }
failed=$(count fail) cancelled=$(count cancelled) skipped=$(count skipped) todo=$(count todo)
finish "$status" "$(count pass)" "$((${failed:-0} + ${cancelled:-0}))" "$((${skipped:-0} + ${todo:-0}))"
