#!/usr/bin/env bash
# The scenario with Java's azure-data-tables; see ../README.md.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
source ../common.sh java

maven() {
    mvn --batch-mode --no-transfer-progress \
        -Dmaven.repo.local="$CACHE/repository" -DbuildDirectory="$CACHE/target" "$@" 2>&1 |
        sed -u 's/\x1b\[[0-9;]*m//g' # Some distributions' mvn colours a log as well.
}
install() { maven --quiet test -DskipTests; }
install_once pom.xml

maven test "$@" | tee "$LOG"
status=${PIPESTATUS[0]}

# The summary is the last line such as "Tests run: 240, Failures: 1, Errors: 0, Skipped: 0"; run counts all of them.
count() {
    grep -aE "Tests run: [0-9]+, .*Skipped: [0-9]+$" "$LOG" | tail -n 1 | grep -aoE "$1: [0-9]+" | cut -d' ' -f"$2"
}
run=$(count "Tests run" 3) failures=$(count Failures 2) errors=$(count Errors 2) skipped=$(count Skipped 2)
failed=$((${failures:-0} + ${errors:-0}))
finish "$status" "$((${run:-0} - failed - ${skipped:-0}))" "$failed" "$skipped"
