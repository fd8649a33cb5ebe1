#!/usr/bin/env bash
# The scenario with Python's azure-data-tables, sync and async; see ../README.md.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
source ../common.sh python

install() {
    python3 -m venv --clear "$CACHE/venv" &&
        "$CACHE/venv/bin/pip" install --quiet --disable-pip-version-check --requirement requirements.txt
}
install_once requirements.txt

PYTHONDONTWRITEBYTECODE=1 "$CACHE/venv/bin/python" -m pytest -p no:cacheprovider --color=no -q "$@" 2>&1 | tee "$LOG"
status=${PIPESTATUS[0]}

# The summary is one line such as "3 failed, 120 passed, 1 skipped, 1 error in 4.20s".
count() { grep -aE " in [0-9.]+s" "$LOG" | tail -n 1 | grep -aoE "[0-9]+ $1" | cut -d' ' -f1; }
failed=$(count failed) errors=$(count error)
finish "$status" "$(count passed)" "$((${failed:-0} + ${errors:-0}))" "$(count skipped)"
