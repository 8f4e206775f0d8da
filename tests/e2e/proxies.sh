#!/bin/bash
# The server behind HAProxy and nginx, as people put it there, and as curl sees it: connections that
# are kept, expectations, HTTP/1.0, HEAD and pipelines.
# label: long waits
. "$ROOT/tests/e2e/lib.sh"
for tool in haproxy nginx curl; do
    PATH=$PATH:/usr/sbin command -v $tool >/dev/null && continue
    echo "skipped: there is no $tool"
    exit 77
done
PATH=$PATH:/usr/sbin
pids=()
# shellcheck disable=SC2154  # lib.sh sets it
trap 'kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$work"' EXIT

chat='{"messages":[{"role":"user","content":"Tell me a story about a fox."}],"max_tokens":24,"seed":3}'
streamed='{"messages":[{"role":"user","content":"Tell me a story about a fox."}],"max_tokens":24,"seed":3,"stream":true,"stream_options":{"include_usage":true}}'
endless='{"prompt":"a","max_tokens":900,"ignore_eos":true,"stream":true}'

# Slow enough that a stream takes its time; the text is the same.
slowly 20000
"$BIN" serve --port 0 -q "${slow[@]}" --idle-timeout 600 >served 2>said </dev/null &
server=$!
pids+=("$server")
port=
for ((i = 0; i < 600 && ${#port} == 0; i++)); do
    port=$(sed -n 's/.* is ready at [^ ]*:\([0-9]*\)\b.*/\1/p' said)
    [ "$port" ] || sleep 0.05
done
expect "the server is ready: $(cat said)" [ "$port" ]
direct=http://127.0.0.1:$port
exec {kept}<>"/dev/tcp/127.0.0.1/$port" # older than all others, and there to the end
printf 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n' >&"$kept"

# metric NAME: its value, asked for on a connection of its own.
metric() { curl -s -m 30 "$direct/metrics" | sed -n "s/^$1{[^}]*} \(.*\)/\1/p" | head -n 1; }

# falls NAME MOST: it must come down to MOST in 20 s.
falls() {
    local value
    for ((i = 0; i < 200; i++)); do
        value=$(metric "$1")
        [ "${value:-9999}" -le "$2" ] && break
        sleep 0.1
    done
    expect "$3: $1 falls to $2: $value" [ "${value:-9999}" -le "$2" ]
}

# free_port: a port without a listener.
free_port() {
    local try
    for ((i = 0; i < 100; i++)); do
        try=$((20000 + RANDOM % 30000))
        (: <>"/dev/tcp/127.0.0.1/$try") 2>/dev/null || break
    done
    echo "$try"
}

# proxy NAME COMMAND...: starts it; leaves its port in `at`. The command has its port from write_NAME.
proxy() {
    local name=$1
    shift
    for ((try = 0; try < 5; try++)); do
        at=$(free_port)
        "write_$name" "$at" >"$name.conf"
        "$@" >"$name.out" 2>&1 &
        pids+=($!)
        for ((i = 0; i < 100; i++)); do
            [ "$(curl -s -m 5 -o answer -w '%{http_code}' "http://127.0.0.1:$at/health")" = 200 ] && return
            kill -0 "${pids[-1]}" 2>/dev/null || break
            sleep 0.05
        done
        kill "${pids[-1]}" 2>/dev/null
    done
    fail "$name does not serve: $(tail -n 3 "$name.out")"
}

write_haproxy() {
    cat <<END
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    option http-keep-alive
frontend all
    bind 127.0.0.1:$1
    default_backend runnel
backend runnel
    option httpchk GET /health
    http-reuse always
    server one 127.0.0.1:$port check inter 100ms
END
}

write_nginx() {
    [ "$(id -u)" -ne 0 ] || echo "user root;"
    cat <<END
daemon off;
worker_processes 1;
pid $work/nginx.pid;
error_log $work/nginx.log warn;
events { worker_connections 256; }
http {
    access_log off;
    client_max_body_size 0;
    client_body_temp_path $work/nginx-body;
    proxy_temp_path $work/nginx-proxy;
    fastcgi_temp_path $work/nginx-fastcgi;
    uwsgi_temp_path $work/nginx-uwsgi;
    scgi_temp_path $work/nginx-scgi;
    upstream runnel { server 127.0.0.1:$port; keepalive 8; }
    server {
        listen 127.0.0.1:$1;
        location / {
            proxy_pass http://runnel;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host \$host;
        }
    }
}
END
}

# text FILE: the text of a chat's stream.
text() { sed -n 's/^data: .*"delta":{[^}]*"content":"\(\([^"\\]\|\\.\)*\)".*/\1/p' "$1" | tr -d '\n'; }

# behind NAME: everything that clients do, through the proxy at `at`.
behind() {
    local name=$1 url=http://127.0.0.1:$at first last line
    curl -s -m 60 "$url/v1/chat/completions" -d "$chat" >answer
    equal "$name: a whole answer" "$(json whole choices.0.message.content)" "$(json answer choices.0.message.content)"
    # A piece is passed on when it comes: the time from the first to the last is about what the server took.
    : >stream
    first=
    while IFS= read -r line; do
        echo "$line" >>stream
        [[ $line == data:*'"content":"'?* && ! $first ]] && first=$EPOCHREALTIME
        [[ $line == "data: [DONE]"* ]] && last=$EPOCHREALTIME
    done < <(curl -sN -m 60 "$url/v1/chat/completions" -d "$streamed")
    equal "$name: a stream has its end" 1 "$(grep -c '^data: \[DONE\]' stream)"
    equal "$name: a stream says the same" "$(json whole choices.0.message.content)" "$(printf '%b' "$(text stream)")"
    took=$(sed -n 's/.*"predicted_ms":\([0-9]*\)\..*/\1/p' stream)
    expect "$name: pieces come as they are written ($first to $last, $took ms)" \
        [ $(((${last/./} - ${first/./}) / 1000)) -ge $((took / 2)) ]

    head -c 17000000 /dev/zero | tr '\0' ' ' >large
    equal "$name: too large a body" 413 \
        "$(curl -s -m 60 -o answer -w '%{http_code}' -H 'Expect:' "$url/tokenize" --data-binary @large)"
    equal "$name: is told in JSON" body_too_large "$(json answer error.code)"

    local urls=() statuses
    for ((i = 0; i < 20; i++)); do urls+=(-o answer "$url/v1/models"); done
    statuses=$(curl -s -m 60 -w '%{http_code} %{num_connects}\n' "${urls[@]}" | sort | uniq -c | tr -s ' \n' ' ')
    equal "$name: 20 requests on one connection" " 19 200 0 1 200 1 " "$statuses"
    for ((i = 0; i < 20; i++)); do
        equal "$name: request $i" 200 "$(curl -s -m 60 -o answer -w '%{http_code}' "$url/tokenize" -d '{"content":"a"}')"
    done
    equal "$name: HEAD, then GET on its connection" "200 1 200 0 " \
        "$(curl -s -m 30 -I -o answer -w '%{http_code} %{num_connects} ' "$url/engine" \
            --next -s -m 30 -o answer -w '%{http_code} %{num_connects} ' "$url/health")"

    # A client that hangs up has its stream ended at the server, and leaves no connection behind.
    local before
    before=$(metric runnel:http_connections)
    for ((i = 0; i < 30; i++)); do
        curl -sN -m 30 "$url/v1/completions" -d "$endless" 2>/dev/null | head -c 300 >piece
        expect "$name: stream $i began" grep -q 'data:' piece
    done
    falls runnel:http_active 0 "$name: after 30 hang-ups"
    falls runnel:http_connections $((before + 8)) "$name: after 30 hang-ups"
}

curl -s -m 60 "$direct/v1/chat/completions" -d "$chat" >whole
proxy haproxy haproxy -db -f haproxy.conf
checks_before=$(curl -s "$direct/metrics" | sed -n 's/^runnel:http_requests_total{[^}]*route="\/health"[^}]*} //p' | head -n 1)
sleep 1
checks_after=$(curl -s "$direct/metrics" | sed -n 's/^runnel:http_requests_total{[^}]*route="\/health"[^}]*} //p' | head -n 1)
expect "HAProxy checks the server's health: $checks_before, then $checks_after" [ "$checks_after" -gt "$checks_before" ]
behind haproxy
proxy nginx nginx -p "$work" -c "$work/nginx.conf"
behind nginx

# curl and the server alone.
equal "a connection is kept" "1 0 " \
    "$(curl -s -w '%{num_connects} ' -o answer "$direct/health" -o answer "$direct/v1/models")"
{ printf '{"content":"'; yes 'A fox and an owl.' | head -c 1500000 | tr '\n' ' '; printf '"}'; } >body
curl -sv -m 60 -o answer -H 'Expect: 100-continue' "$direct/tokenize" --data-binary @body 2>trace
expect "a client that waits is told to send" grep -q '^< HTTP/1.1 100 Continue' trace
expect "and answered" grep -q '^< HTTP/1.1 200 ' trace
equal "too large a body is not asked for" "413 0" \
    "$(curl -s -m 60 -o answer -w '%{http_code} %{size_upload}' -H 'Expect: 100-continue' --expect100-timeout 20 "$direct/tokenize" --data-binary @large)"
equal "HTTP/1.0" "200 1" "$(curl -s -0 -m 30 -o answer -w '%{http_code} %{num_connects}' "$direct/health")"
curl -s -0 -m 60 -D head -o stream "$direct/v1/chat/completions" -d "$streamed"
equal "HTTP/1.0: a stream has its end" 1 "$(grep -c '^data: \[DONE\]' stream)"
expect "HTTP/1.0: and no chunks" bash -c '! grep -qi "^transfer-encoding" head'
for path in $(sed -n 's/^ROUTE_AT_ONCE("GET", *"\([^"]*\)".*/\1/p' "$ROOT/app/server/routes.def"); do
    path=${path/assets\/\*/assets/base.css}
    path=${path/models\/\*/models/nobody}
    second=$(curl -s -m 10 -I -o answer "$direct$path" --next -s -m 10 -o answer -w '%{http_code} %{num_connects}' "$direct/health")
    equal "HEAD $path, then GET on its connection" "200 0" "$second"
done
exec {fd}<>"/dev/tcp/127.0.0.1/$port"
for ((i = 0; i < 9; i++)); do printf 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n' >&"$fd"; done
printf 'GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&"$fd"
cat <&"$fd" >answers
exec {fd}>&-
equal "a pipeline has all its answers" 10 "$(grep -c 'HTTP/1.1 200 ' answers)"
equal "in their order" list "$(tail -n 1 answers | sed 's/.*"object":"\(list\)".*/\1/')"

kill -TERM "$server"
wait "$server"
equal "the server's end" 0 $?
finish
