#!/bin/bash
# Four replicas behind HAProxy with the configuration of deploy/: sessions find their replica's cache;
# a rolling restart under 32 streams loses none; a killed replica ends its own streams alone.
# REPLICAS_SECONDS=60 makes the restarts of a longer run, by hand.
# label: waits
. "$ROOT/tests/e2e/lib.sh"
PATH=$PATH:/usr/sbin
for tool in haproxy curl; do
    command -v $tool >/dev/null && continue
    echo "skipped: there is no $tool"
    exit 77
done
pids=()
# shellcheck disable=SC2154  # lib.sh sets it
trap 'kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$work"' EXIT
slowly 4000

# replica I: starts it on its port, or on a free one; sets ports[I] and replicas[I].
ports=()
replicas=()
replica() {
    "$BIN" serve -m "$TINY" -q "${slow[@]}" --port "${ports[$1]:-0}" --max-seqs 64 >/dev/null 2>"said$1" </dev/null &
    replicas[$1]=$!
    pids+=($!)
}
until_ready() {
    local i
    for ((i = 0; i < 600; i++)); do
        ports[$1]=$(sed -n 's/.* is ready at [^ ]*:\([0-9]*\)\b.*/\1/p' "said$1")
        [ "${ports[$1]}" ] && return
        sleep 0.02
    done
    fail "replica $1 is ready: $(cat "said$1")"
}
for i in 1 2 3 4; do replica $i; done
for i in 1 2 3 4; do until_ready $i; done

for ((try = 0; try < 20; try++)); do
    at=$((20000 + RANDOM % 30000))
    sed -e "s/bind :8080/bind 127.0.0.1:$at/; s/inter 1s/inter 50ms/; s/:8081/:${ports[1]}/; s/:8082/:${ports[2]}/" \
        -e "s/^global\$/global\n    stats socket 127.0.0.1:$((at + 1)) level user/" \
        -e "s/:8083/:${ports[3]}/; s/:8084/:${ports[4]}/" "$ROOT/deploy/haproxy/haproxy.cfg" >haproxy.cfg
    haproxy -db -f haproxy.cfg >haproxy.out 2>&1 &
    proxy=$!
    for ((i = 0; i < 50; i++)); do
        curl -s -m 5 -o answer "http://127.0.0.1:$at/health" && break 2
        kill -0 $proxy 2>/dev/null || break
        sleep 0.05
    done
done
pids+=("$proxy")
url=http://127.0.0.1:$at
equal "the proxy serves" 200 "$(curl -s -m 5 -o answer -w '%{http_code}' "$url/health")"

# all_up: the proxy sends requests to each replica.
all_up() {
    local n
    exec 3<>"/dev/tcp/127.0.0.1/$((at + 1))" || return 1
    echo "show stat" >&3
    n=$(awk -F, '$1 == "any" && $2 ~ /^r[1-4]$/ && $18 ~ /^UP/' <&3 | wc -l)
    exec 3>&-
    [ "$n" -eq 4 ]
}

# ---- affinity: the hit rate is that of one replica
# turn SESSION N: a prompt that holds the session's earlier turns
turn() {
    local ids=$((10 + $1)) i
    for ((i = 1; i < 36 * $2; i++)); do ids+=,$((20 + ($1 * 7 + i) % 400)); done
    printf '{"prompt":[%s],"max_tokens":1,"cache_salt":"%s"}' "$ids" "$3"
}
# cached URL SALT [HEADER]: tokens of three turns of six sessions that were found in a cache
cached() {
    local session n sum=0
    for n in 1 2 3; do
        for session in 1 2 3 4 5 6; do
            curl -s -m 30 "$1/v1/completions" ${3:+-H "$3: user-$session"} -d "$(turn $session $n "$2")" >answer
            sum=$((sum + $(json answer usage.prompt_tokens_details.cached_tokens)))
        done
    done
    echo $sum
}
alone=$(cached "http://127.0.0.1:${ports[1]}" alone)
expect "one replica finds earlier turns: $alone" [ "$alone" -ge 384 ]
equal "sessions on four replicas find as much" "$alone" "$(cached "$url" together x-session-id)"
used=0
for i in 1 2 3 4; do
    n=$(curl -s "http://127.0.0.1:${ports[$i]}/metrics" | sed -n 's/^vllm:prompt_tokens_total{[^}]*} //p')
    [ "${n%.*}" -gt 0 ] && used=$((used + 1))
done
expect "sessions are on several replicas: $used" [ $used -ge 2 ]
equal "the proxy's id comes back" 1 \
    "$(curl -s -m 30 -D - -o answer -H 'x-request-id: mine' "$url/v1/models" | grep -ci '^x-request-id: mine')"

# ---- a rolling restart under 32 streams
"$BIN" bench serve --url "$url" --endpoint completions --prompt-ids --concurrency 32 --requests 100000 \
    --duration "${REPLICAS_SECONDS:-2.5}" --input-tokens 20 --output-tokens 24 --ignore-eos --json load.json >load 2>&1 </dev/null &
load=$!
end=$((SECONDS + ${REPLICAS_SECONDS:-0}))
sleep 0.3
while :; do
    for i in 1 2 3 4; do
        kill -TERM "${replicas[$i]}"
        wait "${replicas[$i]}"
        equal "replica $i ends when its streams have" 0 $?
        replica $i
        until_ready $i
        until_true "the proxy sees replica $i" all_up
    done
    [ $SECONDS -ge $end ] && break
done
wait $load
equal "the load ends well: $(tail -n 3 load)" 0 $?
done_n=$(json load.json completed)
expect "streams were served: $done_n" [ "${done_n:-0}" -ge 100 ]
equal "no stream failed ($done_n complete): $(grep -i -A3 fail load | tail -n 4)" 0 "$(json load.json failed)"

# ---- one replica is killed
for i in 1 2 3 4 5 6 7 8; do
    { curl -sN -m 20 "$url/v1/completions" -d '{"prompt":[5,6,7],"max_tokens":90,"ignore_eos":true,"stream":true}' >"stream$i"; echo $? >"code$i"; } &
    pids+=($!)
    streams[$i]=$!
done
until_true "streams run" bash -c 'for i in 1 2 3 4 5 6 7 8; do [ "$(grep -c "^data" stream$i)" -ge 3 ] || exit 1; done'
ends=$(curl -s "http://127.0.0.1:${ports[2]}/metrics" | sed -n 's/^vllm:num_requests_running{[^}]*} //p')
kill -KILL "${replicas[2]}"
for i in 1 2 3 4 5 6 7 8; do wait "${streams[$i]}"; done
whole=$(grep -l '^data: \[DONE\]' stream? | wc -l)
broken=$(grep -Lx 0 code? | wc -l)
expect "the killed replica had streams: $ends" [ "${ends:-0}" -ge 1 ]
equal "its streams end with an error" "${ends:-0}" "$broken"
equal "the others continue" $((8 - ${ends:-0})) "$whole"
for i in 1 2 3 4 5 6; do
    equal "request $i after it" 200 "$(curl -s -m 20 -o answer -w '%{http_code}' "$url/v1/completions" -d '{"prompt":[5,6],"max_tokens":2}')"
done
finish
