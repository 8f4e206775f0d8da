#!/bin/bash
# The files of deploy/: manifests, rules, dashboard and unit, checked against published structures and
# against the series of a server; HAProxy takes its configuration.
# label: waits
. "$ROOT/tests/e2e/lib.sh"
PATH=$PATH:/usr/sbin
if ! python3 -c 'import yaml' 2>/dev/null; then
    echo "skipped: there is no python3-yaml"
    exit 77
fi
"$BIN" serve -m "$TINY" --port 0 -q --kv-events-endpoint "ipc://$work/pub" --kv-events-replay-endpoint "ipc://$work/replay" \
    >served 2>said </dev/null &
pid=$!
ready "with events"
curl -s -m 30 "http://127.0.0.1:$port/v1/completions" -d '{"prompt":[5,6,7],"max_tokens":4}' >answer
expect "it answers" grep -q '"finish_reason"' answer
curl -s -m 30 "http://127.0.0.1:$port/metrics" >scrape
kill -TERM "$pid"
wait "$pid"
"$BIN" serve --help >help 2>&1
expect "deploy/ is sound" python3 "$ROOT/tests/e2e/deploy_check.py" "$ROOT" scrape help
refused 2 'needs --kv-events-endpoint' serve --kv-events-replay-endpoint "ipc://$work/x"
refused 2 'leaves no blocks' serve --kv-events-endpoint "ipc://$work/x" --no-prefix-cache
refused 2 "'urgent' is not NAME=N" serve --objective urgent
refused 2 'use --kv-events-endpoint' serve --kv-events-config '{}'
# The check fails where a file is wrong.
mkdir -p broken
cp -r "$ROOT/deploy" "$ROOT/packaging" broken/
sed -i 's/num_requests_waiting/num_requests_wating/' broken/deploy/prometheus/rules.yaml
sed -i 's/  targetPorts:/  targetPort:/' broken/deploy/kubernetes/runnel.yaml
python3 "$ROOT/tests/e2e/deploy_check.py" "$PWD/broken" scrape help >found
expect "a wrong series is found" grep -q 'there is no vllm:num_requests_wating' found
expect "a wrong member is found" grep -q 'InferencePool.spec: targetPort is not known' found
if command -v haproxy >/dev/null; then
    expect "HAProxy takes its configuration" haproxy -c -q -f "$ROOT/deploy/haproxy/haproxy.cfg"
fi
if command -v systemd-analyze >/dev/null; then
    sed "s|/usr/bin/[a-z]*|$BIN|g; /^Documentation=/d" "$ROOT/deploy/systemd/runnel@.service" >runnel@.service
    systemd-analyze verify ./runnel@.service >out 2>&1
    equal "systemd takes the template" "" "$(grep -F runnel@ out)"
fi
finish
