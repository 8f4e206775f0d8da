// `runnel bench serve` against servers that a test controls: this program's own, with an independent
// client beside it, and small ones in this process that misbehave.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import test, { after } from 'node:test';
import { serve, slowly, stream } from './server.mjs';

// Runs the load generator; resolves to {code, out, err, json}.
let runs = 0;
function bench(url, options = [], { signal, when, env = {} } = {}) {
    const file = `./result-${++runs}.json`;
    const child = spawn(process.env.BIN, ['bench', 'serve', ...(url ? ['--url', url] : []), '--json', file, ...options],
        { env: { ...process.env, ...env } });
    const result = { out: '', err: '' };
    child.stdout.on('data', (data) => { result.out += data; });
    child.stderr.on('data', (data) => { result.err += data; });
    if (when) when.then(() => child.kill(signal));
    return new Promise((resolve) => child.on('close', (code) => {
        result.code = code;
        if (fs.existsSync(file)) result.json = JSON.parse(fs.readFileSync(file, 'utf8'));
        resolve(result);
    }));
}

// ---------------------------------------------------------------- servers that misbehave

const chunk = (text) => `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text }, finish_reason: null }] })}\n\n`;
const last = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'length' }] })}\n\n`;
const usage = (input, output) => `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: input, completion_tokens: output } })}\n\n`;

// A server whose answers to streamed requests come from `answers`, in turn. Requests that are not
// streamed calibrate: a word has two tokens, the template three.
async function misbehaving(answers) {
    const seen = { bodies: [], keys: new Set() };
    let turn = 0;
    const server = http.createServer((request, response) => {
        let body = '';
        request.on('data', (data) => { body += data; });
        request.on('end', () => {
            seen.keys.add(request.headers.authorization);
            if (request.url === '/v1/models') return response.end('{"data":[{"id":"fake\\u001b[2J"}]}');
            if (request.url !== '/v1/chat/completions') { response.statusCode = 404; return response.end('{}'); }
            const asked = JSON.parse(body);
            const words = asked.messages.at(-1).content.split(' ').length;
            if (!asked.stream) return response.end(JSON.stringify({ choices: [], usage: { prompt_tokens: 2 * words + 3 } }));
            seen.bodies.push(asked);
            answers[turn++ % answers.length](response, request.socket, words);
        });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    after(() => { server.closeAllConnections(); server.close(); });
    seen.url = `http://127.0.0.1:${server.address().port}/v1/`;
    return seen;
}

const events = (response) => response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
const good = (response, socket, words) => {
    events(response);
    response.write(chunk('a'));
    response.write(chunk('b'));
    response.end(last + usage(2 * words + 3, 5) + 'data: [DONE]\n\n');
};

test('errors are counted by their kind, and the good requests are measured', async () => {
    const seen = await misbehaving([
        good,
        (response) => { response.statusCode = 500; response.end('{"error":{"message":"out of luck"}}'); },
        (response, socket) => { events(response); response.write(chunk('a')); setTimeout(() => socket.destroy(), 5); },
        (response, socket) => socket.end('this is no HTTP\r\n\r\n'),
        (response) => { events(response); response.end('data: {"choices": [\n\n'); },
        (response) => { events(response); response.end(chunk('a') + 'data: {"error":{"message":"device lost"}}\n\n'); },
        (response) => { events(response); response.end(chunk('a')); },
        (response) => response.end('{"choices":[{"message":{"content":"whole"}}]}'),
        (response) => { events(response); response.end(last + 'data: [DONE]\n\n'); },
    ]);
    const run = await bench(seen.url, ['--requests', '18', '--concurrency', '1', '--input-tokens', '43', '--output-tokens', '5', '--api-key', 'k']);
    assert.equal(run.code, 0, run.err);
    assert.equal(run.json.completed, 2);
    assert.equal(run.json.failed, 16);
    assert.deepEqual(run.json.error_counts, {
        'status 500: out of luck': 2,
        'the connection was closed within the response': 2,
        'the status line is not one of HTTP/1.1': 2,
        'an event of the stream is not a JSON object': 2,
        'error event: device lost': 2,
        'the stream ended before [DONE]': 2,
        "the answer is not an event stream but ''": 2,
        'other errors': 2,
    });
    // calibrated by the usage: 20 words of two tokens and the template's three
    assert.equal(run.json.total_input_tokens, 2 * 43);
    assert.equal(run.json.total_output_tokens, 2 * 5);
    assert.equal(run.json.aiperf.inter_chunk_latency.avg, run.json.mean_itl_ms);
    assert.deepEqual([...seen.keys], ['Bearer k']);
    assert.doesNotMatch(run.out, /\x1b/);
    const asked = seen.bodies[0];
    assert.deepEqual(Object.keys(asked), ['model', 'messages', 'max_tokens', 'stream', 'stream_options']);
    assert.deepEqual(asked.stream_options, { include_usage: true });
    assert.equal(asked.max_tokens, 5);
    assert.equal(asked.messages[0].content.split(' ').length, 20);
});

test('a server that is slow, or never ends, is timed out; one that always fails ends the run with 1', async () => {
    const silent = await misbehaving([(response) => { events(response); response.write(chunk('a')); }]);
    const late = await bench(silent.url, ['--requests', '2', '--concurrency', '2', '--request-timeout', '0.2']);
    assert.equal(late.code, 1);
    assert.deepEqual(late.json.error_counts, { 'no end within 0.2 s': 2 });
    assert.match(late.err, /every request failed/);
    const broken = await misbehaving([(response, socket) => socket.destroy()]);
    const failed = await bench(broken.url, ['--duration', '60', '--concurrency', '4']);
    assert.equal(failed.code, 1);
    assert.ok(failed.json.failed >= 200 && failed.json.failed < 300, `gave up after ${failed.json.failed}`);
});

test('a server that goes away ends the load at once', async () => {
    // four answers, then no server: kept connections are reset, and new ones are refused
    let answered = 0, server = null;
    server = http.createServer((request, response) => {
        let body = '';
        request.on('data', (data) => { body += data; });
        request.on('end', () => {
            if (request.url === '/v1/models') return response.end('{"data":[{"id":"fake"}]}');
            if (request.url !== '/v1/chat/completions') { response.statusCode = 404; return response.end('{}'); }
            if (!JSON.parse(body).stream) return response.end('{"choices":[],"usage":{"prompt_tokens":9}}');
            good(response, request.socket, 1);
            if (++answered === 4) response.on('finish', () => { server.close(); server.closeAllConnections(); });
        });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${server.address().port}`, begun = Date.now();
    const run = await bench(url, ['--requests', '5000', '--concurrency', '4', '--request-timeout', '60']);
    assert.ok(Date.now() - begun < 30e3, `after ${Date.now() - begun} ms: ${run.out}`); // no request waited for its timeout
    assert.ok(run.json.completed >= 1 && run.json.failed >= 200 && run.json.failed < 300, JSON.stringify(run.json.error_counts));
});

test('gaps are those between pieces, and an answer in one piece has none', async () => {
    const empty = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: '' }, finish_reason: null }] })}\n\n`;
    const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    const seen = await misbehaving([async (response, socket, words) => {
        events(response);
        for (const piece of ['a', null, 'b', null, 'c']) { response.write(piece ? chunk(piece) : empty); await later(40); }
        response.end(last + usage(2 * words + 3, 3) + 'data: [DONE]\n\n');
    }]);
    const run = await bench(seen.url, ['--requests', '2', '--concurrency', '1']);
    assert.ok(run.json.mean_itl_ms > 60, `${run.json.mean_itl_ms} ms: 80 are between two pieces`);
    const whole = await misbehaving([(response, socket, words) => {
        events(response);
        response.end(chunk('a b c') + last + usage(2 * words + 3, 3) + 'data: [DONE]\n\n');
    }]);
    const both = await bench(null, ['--compare', whole.url, seen.url, '--requests', '4', '--rounds', '2', '--concurrency', '1']);
    assert.equal(both.code, 0, both.err);
    assert.equal(both.json.mean_itl_ms.verdict, 'cannot tell');
    assert.equal(both.json.mean_itl_ms.a, null);
    assert.match(both.out, /ITL, ms +\| +- \|/);
    const plot = await bench(whole.url, ['--requests', '2', '--plot', './none.svg']);
    assert.equal(plot.code, 1);
    assert.match(plot.err, /--plot: no level has a speed of one user/);
});

test('a trace is replayed whole, and the own server does not write to it', async () => {
    const lines = Array.from({ length: 130 }, (_, i) => JSON.stringify({ timestamp: i, input_length: 20, output_length: 2, hash_ids: [i] }));
    const text = `${lines.join('\r\n')}\r\n\r\n`;
    fs.writeFileSync('./trace.jsonl', text);
    const run = await bench(null, ['-m', process.env.SMALL, '--speedup', '10'], { env: { RUNNEL_BENCH_TRACE: './trace.jsonl', RUNNEL_TRACE: './trace.jsonl' } });
    assert.equal(run.code, 0, run.err);
    assert.equal(run.json.completed, 130);
    assert.equal(run.json.num_prompts, 130);
    assert.equal(fs.readFileSync('./trace.jsonl', 'utf8'), text);
});

test('tokens are the pieces where there is no usage, and turns hold what was said', async () => {
    const seen = await misbehaving([(response) => { events(response); response.end(chunk('one') + chunk(' two') + last + 'data: [DONE]\n\n'); }]);
    const run = await bench(seen.url, ['--requests', '3', '--concurrency', '1', '--turns', '3', '--input-tokens', '13', '--extra', '{"top_k":1}']);
    assert.equal(run.code, 0, run.err);
    assert.equal(run.json.total_output_tokens, 6);
    assert.equal(run.json.tokens_from_usage, false);
    assert.match(run.out, /3 requests had no usage/);
    const third = seen.bodies[2];
    assert.deepEqual(third.messages.map((at) => at.role), ['user', 'assistant', 'user', 'assistant', 'user']);
    assert.equal(third.messages[1].content, 'one two');
    assert.equal(third.messages[0].content, seen.bodies[0].messages[0].content);
    assert.equal(third.top_k, 1);
});

test('requests without a time between tokens, and texts that are cut, are named', async () => {
    const end = (words, tokens) => last + usage(2 * words + 3, tokens) + 'data: [DONE]\n\n';
    const seen = await misbehaving([
        (response, socket, words) => { events(response); response.write(chunk('a')); setTimeout(() => response.end(chunk('b') + end(words, 2)), 5); },
        (response, socket, words) => { events(response); response.end(chunk('a') + end(words, 1)); },
        (response) => { response.statusCode = 500; response.end(`{"error":{"message":"${'long '.repeat(100)}"}}`); },
    ]);
    const run = await bench(seen.url, ['--requests', '3', '--concurrency', '1', '--input-tokens', '43']);
    assert.equal(run.json.completed, 2, run.err);
    assert.equal(run.json.per_user_left_out, 1);
    assert.match(run.out, /^per user: 1 of 2 requests are left out, with one token or all tokens at one time$/m);
    assert.ok(Math.abs(run.json.aiperf.output_token_throughput_per_user.avg - 1000 / run.json.mean_tpot_ms) < 0.01);
    const [fault] = Object.keys(run.json.error_counts);
    assert.match(fault, /^status 500: long .*\.\.\.$/);
    assert.match(run.out, /failed: status 500: long .*\.\.\.$/m);
});

test('--check fails where the server has no figures of its own', async () => {
    const seen = await misbehaving([good]);
    const run = await bench(seen.url, ['--requests', '2', '--check']);
    assert.equal(run.code, 1);
    assert.match(run.err, /--check: http:.* has no means of its own in \/metrics/);
    assert.equal(run.json.completed, 2);
});

test('equal hash ids of a trace give equal blocks, and arrivals come in time', async () => {
    const seen = await misbehaving([good]);
    fs.writeFileSync('./trace.jsonl', [[0, [5, 6]], [100, [5, 7]], [2000, [8]]].map(([timestamp, hash_ids]) =>
        JSON.stringify({ timestamp, input_length: hash_ids.length > 1 ? 600 : 100, output_length: 2, hash_ids })).join('\n'));
    const run = await bench(seen.url, ['--trace', './trace.jsonl', '--speedup', '10']);
    assert.equal(run.code, 0, run.err);
    assert.equal(run.json.completed, 3);
    assert.ok(run.json.duration >= 0.2, `${run.json.duration} s`);
    const [a, b, c] = seen.bodies.map((at) => at.messages[0].content.split(' '));
    assert.deepEqual(a.slice(0, 256), b.slice(0, 256)); // 512 tokens
    assert.notDeepEqual(a.slice(256), b.slice(256));
    assert.notDeepEqual(a.slice(0, 40), c.slice(0, 40));
});

test('a connection that the server closes between requests is replaced', async () => {
    let connections = 0;
    const server = net.createServer((socket) => {
        connections++;
        let text = '';
        socket.on('error', () => {});
        socket.on('data', (data) => {
            text += data;
            const length = Number(text.match(/content-length: (\d+)/i)?.[1] ?? 0);
            if (!text.includes('\r\n\r\n') || text.length < text.indexOf('\r\n\r\n') + 4 + length) return;
            const streamed = text.includes('"stream":true');
            text = '';
            const body = streamed ? chunk('a') + last + usage(9, 2) + 'data: [DONE]\n\n' : '{"data":[{"id":"m"}],"usage":{"prompt_tokens":9}}';
            socket.write(`HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
            if (streamed) setImmediate(() => socket.destroy()); // without saying so
        });
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    after(() => server.close());
    const run = await bench(`http://127.0.0.1:${server.address().port}`, ['--requests', '20', '--concurrency', '2']);
    assert.equal(run.code, 0, run.err);
    assert.equal(run.json.completed, 20, JSON.stringify(run.json.error_counts));
    assert.ok(connections >= 20);
});

test('Ctrl-C ends the wait for a server at once', async () => {
    let asked;
    const when = new Promise((resolve) => { asked = resolve; });
    const silent = net.createServer((socket) => { socket.on('error', () => {}); socket.on('data', asked); });
    await new Promise((resolve) => silent.listen(0, '127.0.0.1', resolve));
    after(() => silent.close());
    const run = await bench(`http://127.0.0.1:${silent.address().port}`, [], { signal: 'SIGINT', when });
    assert.equal(run.code, 130);
});

test('Ctrl-C shows what there is', async () => {
    let n = 0;
    let enough;
    const when = new Promise((resolve) => { enough = resolve; });
    const seen = await misbehaving([(response, socket, words) => {
        if (++n > 3) return enough(); // the fourth never ends
        good(response, socket, words);
    }]);
    const run = await bench(seen.url, ['--requests', '9', '--concurrency', '1'], { signal: 'SIGINT', when });
    assert.equal(run.code, 130, run.err);
    assert.equal(run.json.completed, 3);
    assert.equal(run.json.failed, 0);
    assert.equal(run.json.aiperf.was_cancelled, true);
    assert.match(run.out, /interrupted/);
});

test('HTTPS servers have to prove who they are', async (t) => {
    const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
        '-keyout', './tls.key', '-out', './tls.pem', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost']);
    if (made.error) return t.skip('there is no openssl');
    const secure = https.createServer({ key: fs.readFileSync('./tls.key'), cert: fs.readFileSync('./tls.pem') }, (request, response) => {
        let body = '';
        request.on('data', (data) => { body += data; });
        request.on('end', () => {
            if (body.includes('"stream":true')) return good(response, null, 8);
            response.end('{"data":[{"id":"m"}],"usage":{"prompt_tokens":9}}');
        });
    });
    await new Promise((resolve) => secure.listen(0, '127.0.0.1', resolve));
    after(() => { secure.closeAllConnections(); secure.close(); });
    const { port } = secure.address();
    const trusted = await bench(`https://localhost:${port}`, ['--requests', '6', '--concurrency', '3'], { env: { SSL_CERT_FILE: './tls.pem' } });
    assert.equal(trusted.code, 0, trusted.err);
    assert.equal(trusted.json.completed, 6);
    const unknown = await bench(`https://localhost:${port}`);
    assert.equal(unknown.code, 1);
    assert.match(unknown.err, /the server's certificate: self-signed certificate/);
    const other = await bench(`https://127.0.0.1:${port}`, [], { env: { SSL_CERT_FILE: './tls.pem' } });
    assert.equal(other.code, 1);
    assert.match(other.err, /the server's certificate: IP address mismatch/);
});

// ---------------------------------------------------------------- our own server

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

test('it agrees with the server and with another client', { skip: slowly.length === 0 }, async () => {
    const model = process.env.SMALL;
    const body = (i) => ({ messages: [{ role: 'user', content: `number ${i} `.repeat(8) }], max_tokens: 16, ignore_eos: true });
    let close = false;
    let said = '';
    for (let tries = 0; tries < 6 && !close; tries++) { // another program may have had the core: slower steps hide that
        process.env.RUNNEL_FAKE = `delay ${5000 << tries}`;
        const server = await serve(['-m', model, '--no-prefix-cache', ...slowly]);
        const ttft = [];
        const gap = [];
        for (let i = 0; i < 5; i++) {
            const start = performance.now();
            const at = [];
            await stream(server, '/v1/chat/completions', body(i), { on: () => at.push(performance.now()) });
            ttft.push(at[0] - start);
            gap.push((at.at(-1) - at[0]) / (at.length - 1));
        }
        const run = await bench(server.url, ['--requests', '4', '--concurrency', '1', '--input-tokens', '32', '--output-tokens', '16', '--ignore-eos']);
        assert.equal(run.code, 0, run.err);
        assert.equal(run.json.total_output_tokens, 64);
        assert.equal(run.json.total_input_tokens, 128);
        assert.match(run.out, /the server's own means \(\/metrics\): TTFT [\d.]+ ms \(here [\d.]+/);
        const near = (a, b) => Math.abs(a - b) <= 0.25 * b + 2;
        close = near(run.json.median_ttft_ms, median(ttft)) && near(run.json.median_itl_ms, median(gap)) && !run.out.includes('differs');
        said = `TTFT ${run.json.median_ttft_ms} and ${median(ttft)}, ITL ${run.json.median_itl_ms} and ${median(gap)}; ${run.out.split('\n').at(-2)}`;
        await server.stop();
    }
    assert.ok(close, said);
});

test('two settings of the own server are compared', { skip: slowly.length === 0 }, async () => {
    const options = ['-m', process.env.SMALL, '--server-args', slowly.join(' '), '--requests', '16', '--rounds', '4', '--concurrency', '4',
        '--input-tokens', '32', '--output-tokens', '6'];
    let run;
    for (let tries = 0; tries < 6; tries++) { // another program may have had the core: slower steps tell more
        process.env.RUNNEL_FAKE = `delay ${2000 << tries}`;
        run = await bench(null, [...options, '--compare', '--max-seqs 1', '']);
        assert.equal(run.code, 0, run.err);
        // B takes four at a time, and the device has the same time for them
        if ([run.json.output_throughput, run.json.mean_ttft_ms].every((at) => at.verdict === 'B is faster')) break;
    }
    assert.equal(run.json.rounds, 4);
    const { output_throughput: rate, mean_ttft_ms: ttft } = run.json;
    assert.equal(rate.verdict, 'B is faster');
    assert.equal(ttft.verdict, 'B is faster');
    assert.ok(rate.b - rate.a > rate.error && Math.abs(rate.b - rate.a - rate.difference) < 1e-6 * rate.b);
});
