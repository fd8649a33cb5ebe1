#!/usr/bin/env bash
# The scenario with Java's azure-data-tables; see ../README.md.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
source ../common.sh java

maven() {
    mvn --batch-mode --no-transfer-progress -Dstyle.color=never \
        -Dmaven.repo.local="$CACHE/repository" -DbuildDirectory="$CACHE/target" "$@"
}
install() { maven --quiet test -DskipTests || { finish 1; exit 1; }; }
install_once pom.xml

maven test "$@" 2>&1 | sed -u "s/\x1b\[[0-9;]*m//g" | tee "$LOG" # Some distributions' mvn colours regardless.
status=${PIPESTATUS[0]}

# The summary is the last line such as "Tests run: 240, Failures: 1, Errors: 0, Skipped: 0"; run counts all of them.
count() { grep -E "Tests run: [0-9]+, .*Skipped: [0-9]+$" "$LOG" | tail -n 1 | grep -oE "$1: [0-9]+" | cut -d' ' -f"$2"; }
run=$(count "Tests run" 3) failures=$(count Failures 2) errors=$(count Errors 2) skipped=$(count Skipped 2)
failed=$((${failures:-0} + ${errors:-0}))
finish "$status" "$((${run:-0} - failed - ${skipped:-0}))" "$failed" "$skipped"
