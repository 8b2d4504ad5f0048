# Sourced by etc/run, etc/check and sip-scenarios/replay: long work without its many lines.

# quietly TITLE LOG COMMAND...: runs it with its output in LOG. A terminal sees one line that moves, anything else the title
# and how it ended. When it fails, what it said last is shown, and where all of it is.
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
    # Descriptor 9 is the lock of etc/run, which nothing that a build leaves behind may keep.
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
    # The lines that tell what is wrong may stand far above the end.
    { grep -E '(error:|^E: )' "$log" | head -20 || true; tail -5 "$log"; } | sed 's/^/    | /' >&2
    echo "    | all of it: $log" >&2
    return $status
}

# The line that moves, until it is killed or the script is gone. SwiftPM says how far it is as [12/470].
tick() {
    local start=$SECONDS step
    while kill -0 $$ 2>/dev/null; do
        step=$(tail -c 4096 "$2" 2>/dev/null | grep -o '^\[[0-9]*/[0-9]*\]' | tail -1)
        printf '\r%s %s%d s\033[K' "$1" "${step:+$step }" $((SECONDS - start))
        sleep 1
    done
}
