# Sourced by etc/run, etc/check and sip-scenarios/replay: runs long commands without printing all of their output.

# quietly TITLE LOG COMMAND...: runs the command with its output in LOG. On a terminal, the function shows one line that changes;
# without a terminal, it prints the title and the result. If the command fails, the function prints the end of the output and the
# path of LOG.
quietly() {
    local title=$1 log=$2 start=$SECONDS status=0 ticker=
    shift 2
    mkdir -p "$(dirname "$log")"
    : >"$log"
    if [ -t 1 ]; then
        tick "$title" "$log" &
        ticker=$!
    else
        echo "$title ..."
    fi
    # Descriptor 9 is the lock of etc/run. The function closes descriptor 9, because processes that a build leaves behind must not
    # keep the lock.
    "$@" >"$log" 2>&1 9>&- || status=$?
    if [ -n "$ticker" ]; then
        kill "$ticker" 2>/dev/null || true
        wait "$ticker" 2>/dev/null || true
        printf '\r\033[K'
    fi
    if [ $status = 0 ]; then
        echo "$title: done in $((SECONDS - start)) s"
        return 0
    fi
    echo "$title: FAILED after $((SECONDS - start)) s" >&2
    # The lines with the errors may be far before the end of the log.
    { grep -E '(error:|^E: )' "$log" | head -20 || true; tail -5 "$log"; } | sed 's/^/    | /' >&2
    echo "    | all of it: $log" >&2
    return $status
}

# Shows the progress line, until the function is killed or the script has ended. SwiftPM prints its progress as [12/470].
tick() {
    local start=$SECONDS step
    while kill -0 $$ 2>/dev/null; do
        step=$(tail -c 4096 "$2" 2>/dev/null | grep -o '^\[[0-9]*/[0-9]*\]' | tail -1)
        printf '\r%s %s%d s\033[K' "$1" "${step:+$step }" $((SECONDS - start))
        sleep 1
    done
}
