// Traces of requests against a strict collector: what is in them, and that a collector that is down, hangs or refuses
// costs nothing but spans.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { check_trees, collector, values } from './otlp_collector.mjs';
import { ask, idle, metric, serve, slowly, stream, until } from './server.mjs';

const small = ['-m', process.env.SMALL, '--alias', 'tale', '--alias', 'story'];
const chat = { messages: [{ role: 'user', content: 'a secret fox' }], max_tokens: 12, ignore_eos: true, seed: 7, temperature: 0.5 };
const TRACE = '0af7651916cd43dd8448eb211c80319c', PARENT = 'b7ad6b7169203331';
const parent = (trace, flags = '01') => ({ traceparent: `00-${trace}-${PARENT}-${flags}` });

test('every request is a span with its phases', async () => {
    const log = fs.mkdtempSync('./otlp-') + '/access.log';
    const taker = await collector();
    // nothing is due before the end, so all of it is flushed there
    const server = await serve([...small, '--access-log', log, '--otlp-endpoint', taker.url], {
        OTEL_BSP_SCHEDULE_DELAY: '600000', OTEL_SERVICE_NAME: 'my fox', OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20b, y=2',
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test,service.name=other' });
    const before = Date.now();
    const streamed = await stream(server, '/v1/chat/completions', { ...chat, model: 'story', stream_options: { include_usage: true } },
        { headers: { ...parent(TRACE), tracestate: 'a=1 , b=2' } });
    assert.equal(streamed.status, 200);
    await ask(server, '/v1/chat/completions', chat, { headers: parent('1'.repeat(32), '00') }); // not sampled
    await ask(server, '/v1/chat/completions', chat, { headers: { traceparent: `00-${'2'.repeat(32)}-${PARENT}-1` } }); // invalid
    const two = JSON.parse((await ask(server, '/v1/completions', { prompt: 'fox', max_tokens: 3, n: 2 }, { headers: parent('3'.repeat(32)) })).text);
    assert.equal((await ask(server, '/v1/embeddings', { input: 'fox' }, { headers: parent('4'.repeat(32)) })).status, 200);
    assert.equal((await ask(server, '/v1/chat/completions', { messages: [] }, { headers: parent('5'.repeat(32)) })).status, 400);
    assert.equal((await ask(server, '/v1/chat/completions', { ...chat, max_tokens: 900, timeout_ms: 1 }, { headers: parent('6'.repeat(32)) })).status, 504);
    await stream(server, '/v1/chat/completions', { ...chat, max_tokens: 900, logprobs: true, top_logprobs: 20 },
        { headers: parent('7'.repeat(32)), on: (_, request) => request.destroy() }).catch(() => null);
    await ask(server, '/tokenize', { content: 'fox' }, { headers: parent('8'.repeat(32)) });
    await ask(server, '/health', undefined, { headers: parent('9'.repeat(32)) }); // has none
    await idle(server);
    assert.equal(taker.requests, 0);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    taker.stop();

    assert.deepEqual(taker.broken, []);
    check_trees(taker.spans);
    assert.equal(taker.headers['x-key'], 'a b');
    assert.equal(taker.headers.y, '2');
    assert.equal(taker.resources[0]['service.name'], 'my fox');
    assert.equal(taker.resources[0]['deployment.environment.name'], 'test');
    const of = (trace) => taker.spans.filter((one) => one.traceId === trace);
    const root = (trace) => { const found = of(trace).filter((one) => one.kind === 2); assert.equal(found.length, 1, trace); return found[0]; };

    // the stream, against what its client saw
    const main = root(TRACE), about = values(main.attributes);
    assert.equal(main.parentSpanId, PARENT);
    assert.equal(main.traceState, 'a=1,b=2');
    assert.equal(main.flags, 0x301);
    assert.equal(main.name, 'chat story');
    assert.deepEqual(main.status, {});
    const expected = { 'gen_ai.operation.name': 'chat', 'gen_ai.provider.name': 'runnel', 'gen_ai.request.model': 'story',
        'gen_ai.response.model': 'tale', 'gen_ai.request.max_tokens': 12, 'gen_ai.request.temperature': 0.5, 'gen_ai.request.seed': 7,
        'gen_ai.request.stream': true, 'gen_ai.usage.input_tokens': streamed.usage.prompt_tokens, 'gen_ai.usage.output_tokens': 12,
        'gen_ai.usage.completion_tokens': 12, 'gen_ai.response.id': `chatcmpl-${streamed.headers['x-request-id']}`,
        'http.request.method': 'POST', 'http.route': '/v1/chat/completions', 'http.response.status_code': 200,
        'server.address': '127.0.0.1', 'server.port': server.port };
    for (const [key, value] of Object.entries(expected)) assert.deepEqual(about[key], value, key);
    assert.deepEqual(about['gen_ai.response.finish_reasons'], ['length']);
    const seconds = (one) => Number(BigInt(one.endTimeUnixNano) - BigInt(one.startTimeUnixNano)) / 1e9;
    const latency = (name) => about[`gen_ai.latency.${name}`];
    assert.ok(Math.abs(latency('e2e') - seconds(main)) < 1e-6);
    assert.ok(latency('time_in_queue') >= 0 && latency('time_to_first_token') > latency('time_in_model_prefill'));
    assert.ok(Math.abs(latency('time_in_model_inference') - latency('time_in_model_prefill') - latency('time_in_model_decode')) < 1e-6);
    assert.ok(latency('e2e') >= latency('time_to_first_token') + latency('time_in_model_decode'));
    assert.ok(Number(main.startTimeUnixNano) / 1e6 > before - 60e3 && Number(main.endTimeUnixNano) / 1e6 < Date.now() + 60e3);

    // its phases follow each other
    const phases = of(TRACE).filter((one) => one.kind === 1);
    assert.deepEqual(phases.map((one) => one.name), ['prepare', 'queue', 'prompt', 'decode']);
    phases.forEach((one, i) => assert.ok(!i || BigInt(one.startTimeUnixNano) >= BigInt(phases[i - 1].endTimeUnixNano), one.name));
    const decode = values(phases[3].attributes);
    assert.equal(decode['runnel.decode.tokens'], 12);
    assert.ok(Math.abs(seconds(phases[3]) - latency('time_in_model_decode')) < 1e-6);
    const events = phases[3].events.map((one) => ({ name: one.name, ...values(one.attributes) }));
    assert.ok(events.length >= 1 && events.length <= 8);
    assert.ok(events.every((one) => one.name === 'runnel.gap' && one['runnel.gap.cause'] && one['runnel.gap.duration'] > 0 && one['runnel.gap.token'] > 0));
    // causes add up: of each gap, of all gaps, of the time to the first token
    const sum = (of, prefix) => Object.entries(of).filter(([key]) => key.startsWith(prefix)).reduce((all, [, value]) => all + value, 0);
    for (const one of events) assert.ok(Math.abs(sum(one, 'runnel.gap.part.') - one['runnel.gap.duration']) < 1e-7, JSON.stringify(one));
    assert.ok(Math.abs(sum(decode, 'runnel.gap.') - latency('time_in_model_decode')) < 1e-6);
    const first = sum(values(phases[2].attributes), 'runnel.first_token.');
    assert.ok(Math.abs(first - latency('time_in_queue') - latency('time_in_model_prefill')) < 1e-6, `${first}`);

    assert.equal(of('1'.repeat(32)).length, 0);
    assert.equal(of('2'.repeat(32)).length, 0);
    assert.equal(of('9'.repeat(32)).length, 0);
    const fresh = taker.spans.filter((one) => one.kind === 2 && !one.parentSpanId);
    assert.equal(fresh.length, 1); // of the invalid traceparent
    assert.equal(fresh[0].flags, 0x101);

    const pair = values(root('3'.repeat(32)).attributes);
    assert.equal(pair['gen_ai.operation.name'], 'text_completion');
    assert.equal(pair['gen_ai.request.choice.count'], 2);
    assert.deepEqual(pair['gen_ai.response.finish_reasons'], two.choices.map((one) => one.finish_reason));
    assert.equal(of('3'.repeat(32)).filter((one) => one.name === 'decode').length, 2);
    assert.equal(root('4'.repeat(32)).name, 'embeddings tale');
    const refused = root('5'.repeat(32)), late = root('6'.repeat(32)), gone = root('7'.repeat(32));
    assert.equal(values(refused.attributes)['http.response.status_code'], 400);
    assert.equal(values(refused.attributes)['error.type'], undefined);
    assert.deepEqual(refused.status, {});
    assert.equal(values(late.attributes)['error.type'], 'timeout');
    assert.deepEqual(late.status, { code: 2 });
    assert.equal(values(gone.attributes)['error.type'], 'client_disconnected');
    assert.deepEqual(gone.status, {});
    assert.ok(of('7'.repeat(32)).some((one) => one.name === 'decode'));
    assert.equal(root('8'.repeat(32)).name, 'POST /tokenize');
    assert.ok(!JSON.stringify(taker.spans).includes('secret')); // no text of anyone

    const lines = fs.readFileSync(log, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
    assert.equal(lines[0].trace_id, TRACE);
    assert.equal(lines[0].span_id, main.spanId);
    assert.equal(lines[1].trace_id, '1'.repeat(32)); // known, though it has no span
});

// Eight streams, four at a time; resolves to the seconds that they took.
async function load(server) {
    const start = performance.now();
    await Promise.all(Array.from({ length: 4 }, async () => {
        for (let i = 0; i < 2; i++) {
            const answer = await stream(server, '/v1/chat/completions', { ...chat, max_tokens: 15 });
            assert.ok(answer.done, answer.rest);
        }
    }));
    return (performance.now() - start) / 1e3;
}

test('a collector that is down, hangs or refuses delays nobody', async () => {
    const plain = await serve([...small, ...slowly]);
    const usual = Math.max(await load(plain), await load(plain));
    await plain.stop();

    const taker = await collector();
    taker.path = '/mine';
    const server = await serve([...small, ...slowly], {
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${taker.url}/mine`, OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
        OTEL_BSP_SCHEDULE_DELAY: '10', OTEL_BSP_MAX_QUEUE_SIZE: '16', OTEL_EXPORTER_OTLP_TIMEOUT: '5000' });
    const dropped = (reason) => metric(server, 'runnel:otlp_spans_dropped_total', `reason="${reason}"`);
    const exported = () => metric(server, 'runnel:otlp_spans_exported_total');
    const held = () => metric(server, 'runnel:otlp_spans_held');
    const check = async (what) => {
        const took = await load(server);
        assert.ok(took < 2 * usual + 0.5, `${what}: ${took.toFixed(2)} s, without an exporter ${usual.toFixed(2)} s`);
    };

    await check('it works');
    await until('each of the five spans of a request is exported or dropped', async () =>
        (await exported()) + (await dropped('queue_full')) === 8 * 5);
    assert.ok((await exported()) >= 15);
    assert.equal(await exported(), taker.spans.length);
    assert.ok(taker.connections() <= 1); // one is kept

    taker.answer = (spans) => [200, {}, JSON.stringify({ partialSuccess: { rejectedSpans: `${spans.length}`, errorMessage: 'no' } })];
    taker.spans.length = 0;
    await stream(server, '/v1/chat/completions', chat);
    await until('they are rejected', async () => (await dropped('rejected')) === 5);

    taker.answer = () => [500, {}];
    await check('it fails');
    await until('it has refused some', async () => (await dropped('rejected')) >= 5 + 15 && (await held()) === 0);
    const refused = taker.requests;

    taker.answer = () => null;
    const full = await dropped('queue_full');
    await check('it hangs');
    assert.ok((await dropped('queue_full')) > full);

    let busy = 0;
    taker.answer = () => { busy++; return [503, { 'retry-after': '0' }]; };
    taker.hang_up();
    await check('it is busy');
    await until('it was asked again', () => busy >= 2);
    assert.ok(taker.requests > refused);

    taker.stop();
    await check('it is down');
    assert.deepEqual(taker.broken, []);
    const start = performance.now();
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
    assert.ok(performance.now() - start < (process.env.SAN ? 60e3 : 15e3)); // two seconds for the rest of the spans
});

test('bad settings are named, and end the program with 2', () => {
    const refuse = (options, environment, pattern) => {
        const ended = spawnSync(process.env.BIN, ['serve', ...small, '--port', '0', ...options], { encoding: 'utf8', env: { ...process.env, ...environment } });
        assert.equal(ended.status, 2, ended.stderr);
        assert.match(ended.stderr, pattern);
        assert.equal(ended.stderr.trim().split('\n').length, 1, ended.stderr);
    };
    const flag = (value, pattern) => refuse([`--otlp-endpoint=${value}`], {}, pattern);
    flag('ftp://x', /^runnel: --otlp-endpoint: 'ftp:\/\/x'/);
    flag('', /^runnel: --otlp-endpoint: ''/);
    flag('http://', /'http:\/\/'/);
    flag('http://x:70000', /'http:\/\/x:70000'.*port/);
    flag('http://x:port', /'http:\/\/x:port'.*port/);
    refuse([], { RUNNEL_OTLP_ENDPOINT: 'x' }, /^runnel: RUNNEL_OTLP_ENDPOINT: 'x'/);
    refuse([], { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' }, /^runnel: OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318'/);
    const given = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' };
    refuse([], { ...given, OTEL_EXPORTER_OTLP_HEADERS: 'secret' }, /^runnel: OTEL_EXPORTER_OTLP_HEADERS: expected (?!.*secret)/);
    refuse([], { ...given, OTEL_EXPORTER_OTLP_HEADERS: 'a=b%0ac' }, /^runnel: OTEL_EXPORTER_OTLP_HEADERS: header 1/);
    refuse([], { ...given, OTEL_BSP_SCHEDULE_DELAY: '5s' }, /^runnel: OTEL_BSP_SCHEDULE_DELAY: '5s'/);
    refuse([], { ...given, OTEL_BSP_MAX_QUEUE_SIZE: '0' }, /^runnel: OTEL_BSP_MAX_QUEUE_SIZE: '0'/);
    refuse([], { ...given, OTEL_BSP_MAX_QUEUE_SIZE: '4', OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '5' }, /^runnel: OTEL_BSP_MAX_EXPORT_BATCH_SIZE: 5/);
    refuse([], { ...given, OTEL_RESOURCE_ATTRIBUTES: 'x' }, /^runnel: OTEL_RESOURCE_ATTRIBUTES: 'x'/);
});

test('a collector that closes without an answer gets the same spans again', async () => {
    const taker = await collector();
    taker.answer = () => (taker.requests < 2 ? 'close' : [200, {}, '{}']);
    const server = await serve([...small, '--otlp-endpoint', taker.url], { OTEL_BSP_SCHEDULE_DELAY: '10' });
    assert.equal((await ask(server, '/v1/chat/completions', chat)).status, 200);
    await until('the spans are exported', async () => (await metric(server, 'runnel:otlp_spans_held')) === 0 && (await metric(server, 'runnel:otlp_spans_exported_total')) === 5);
    assert.equal(taker.requests, 2);
    assert.equal(taker.spans.length, 5);
    assert.deepEqual(taker.broken, []);
    await server.stop();
    taker.stop();
});
