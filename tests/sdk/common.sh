# What the four run.sh share. Sourced with the name of the language; the current folder is that language's.
#
# Reads  TAVOLA_ENDPOINT, TAVOLA_ACCOUNT, TAVOLA_KEY, TAVOLA_CACHE (default ~/.cache/tavola). The tests read more: see
#        README.md. With TAVOLA_INSTALL_ONLY set the packages are installed and nothing is tested.
# Gives  CACHE (the folder for this language's packages), TAVOLA_PREFIX (starts every table name of this run),
#        TAVOLA_SCENARIO (the cases all languages share), install_once and finish.

CACHE="${TAVOLA_CACHE:-$HOME/.cache/tavola}/sdk/$1"
mkdir -p "$CACHE"
LOG="$(mktemp)" # What the runner prints, to find its summary.
trap 'rm -f "$LOG"' EXIT

if [ -z "${TAVOLA_INSTALL_ONLY:-}" ]; then
    : "${TAVOLA_ENDPOINT:?set it to the endpoint of the account, such as http://127.0.0.1:10002/devstoreaccount1}"
    : "${TAVOLA_ACCOUNT:?set it to the name of the account}"
    : "${TAVOLA_KEY:?set it to the key of the account}"
    export TAVOLA_ENDPOINT="${TAVOLA_ENDPOINT%/}" TAVOLA_ACCOUNT TAVOLA_KEY
    export TAVOLA_PREFIX="$1$(date +%s)x$$"
    export TAVOLA_SCENARIO="$PWD/../scenario.json"

    # A server that is not there would be noticed by each test on its own, after its own timeout.
    address="${TAVOLA_ENDPOINT#*://}"
    address="${address%%/*}"
    if [[ "$address" == *:* ]] && ! (exec 3<>"/dev/tcp/${address%:*}/${address##*:}") 2>/dev/null; then
        echo "nothing listens at $TAVOLA_ENDPOINT"
        echo "0 passed, 1 failed"
        exit 1
    fi
fi

# install_once FILE...: calls `install` unless it already succeeded for exactly these files. The lock is for runs at the
# same time; it is free again when the subshell ends.
install_once() {
    (
        flock 9
        stamp="$(cat "$@" | sha256sum | cut -d' ' -f1)"
        if [ "$(cat "$CACHE/stamp" 2>/dev/null)" != "$stamp" ]; then
            echo "installing the packages of $(basename "$PWD") into $CACHE"
            install && echo "$stamp" >"$CACHE/stamp"
        fi
    ) 9>"$CACHE/lock" || { finish 1; exit 1; }
    [ -z "${TAVOLA_INSTALL_ONLY:-}" ] || exit 0
}

# finish STATUS PASSED FAILED SKIPPED: the last line, and the exit code. A runner that failed without a failing
# test (it did not compile, it crashed), and one that ran no test at all, count as one failure.
finish() {
    local status="$1" passed="${2:-0}" failed="${3:-0}" skipped="${4:-0}"
    if [ "$failed" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$passed" -eq 0 ]; }; then
        failed=1
    fi
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ]
}
