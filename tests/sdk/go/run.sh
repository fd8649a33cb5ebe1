#!/usr/bin/env bash
# The scenario with Go's aztables; see ../README.md.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
source ../common.sh go

export GOMODCACHE="$CACHE/modules" GOCACHE="$CACHE/build" GOFLAGS="-mod=readonly -modcacherw"
install() { go mod download; }
install_once go.mod go.sum

go test -count=1 -v "$@" ./... 2>&1 | tee "$LOG"
status=${PIPESTATUS[0]}

# Only the leaves count: a test with subtests is no test of its own.
count() {
    grep -aoE "^ *--- (PASS|FAIL|SKIP): [^ ]+" "$LOG" | awk -v kind="$1:" '
        { result[$3] = $2; parent = $3; while (sub("/[^/]*$", "", parent)) is_parent[parent] = 1 }
        END { for (name in result) if (!(name in is_parent) && result[name] == kind) n++; print n + 0 }'
}
finish "$status" "$(count PASS)" "$(count FAIL)" "$(count SKIP)"
