# Sourced by etc/package-test and etc/package-systemd, for their counts, phones and callers. The sourcing script must set the
# variables "folder" (the folder of its files), "root" (the Debian root) and "binaries" (the programs of the release build), and
# must have a function "inside", which runs a line in the root.
passed=0
failed=0

skip() { echo "skipped: $*" && exit 0; }

# expect WHAT COMMAND...: runs the command, and counts whether it succeeds.
expect() {
    local what=$1
    shift
    if "$@" >"$folder/last.out" 2>&1; then
        passed=$((passed + 1))
        echo "ok   $what"
    else
        failed=$((failed + 1))
        echo "FAIL $what"
        tail -15 "$folder/last.out" | sed 's/^/     /'
    fi
}

refuse() { ! "$@"; }

owned() { [ "$(inside "stat -c '%U:%G %a' $1")" = "$2" ]; }

# await SECONDS COMMAND...: waits until the command succeeds.
await() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.1
    done
}

# commands PAGE HEADING: prints the blocks of code under this heading of a page in docs/, without comments at the ends of lines.
commands() { sed -n "/^##* $2\$/,/^##* /p" "docs/$1.md" | sed -n '/^```sh/,/^```$/p' | grep -v '^```' | sed 's/  *# .*//'; }

phone() {
    sipp 127.0.0.1:5060 -i 127.0.0.1 -p 5070 -m 1 -timeout 20s -sf "sip-scenarios/digest-then-wake/$1.xml" -auth_uri example.net -cid_str call \
        -key domain example.net -key user bob -key provider fcm -key param proj -key token "${2:-bob-token}" -key expires 3600 -nostdin
}

caller() {
    sipp 127.0.0.1:5060 -i 127.0.0.1 -p 5090 -m 1 -timeout 25s -sf sip-scenarios/common/call.xml -cid_str call -key domain example.net \
        -key user bob -key caller 103 -nostdin
}

pushes() { grep -c '"token" *: *"bob-token"' "$folder/pushes.jsonl"; }

# The test of the package: a caller calls, a push wakes the phone, and the phone answers the call.
call_wakes() {
    local before call
    before=$(pushes)
    caller >"$folder/caller.out" 2>&1 &
    call=$!
    await 10 eval "[ \$(pushes) -gt $before ]" || { echo "no push" && tail -20 "$folder/caller.out" && return 1; }
    phone register-and-answer >"$folder/phone.out" 2>&1 || { tail -30 "$folder/phone.out" && return 1; }
    wait $call || { tail -30 "$folder/caller.out" && return 1; }
}

start_sandbox() {
    "$binaries/push-sandbox" --listen-plain 127.0.0.1:8080 --state "$folder" --record "$folder/pushes.jsonl" >"$folder/sandbox.out" 2>&1 &
    await 10 grep -q '^listening ' "$folder/sandbox.out" && touch "$folder/pushes.jsonl"
}

# give_devices ROOT: gives each root the devices that a machine or a container runtime would provide.
give_devices() {
    local device
    for device in null zero urandom; do
        rm -f "$1/dev/$device"
        touch "$1/dev/$device" && mount --bind /dev/$device "$1/dev/$device"
    done
    mount -t proc proc "$1/proc"
}

