// Starts `runnel serve` for a test and ends it. BIN is the program. Everything listens on loopback.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import http from 'node:http';
import { after } from 'node:test';

const running = new Set();
const end = () => { for (const child of running) child.kill('SIGKILL'); };
process.on('exit', end);
after(end); // a test that failed has not stopped its own

// options: further arguments. Resolves when the ready line came; rejects with what was printed.
export function serve(options = [], environment = {}) {
    const child = spawn(process.env.BIN, ['serve', '--port', '0', '-q', ...options], {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, ...environment },
    });
    const server = { child, pid: child.pid, stderr: '', stdout: '' };
    child.stdout.on('data', (data) => { server.stdout += data; });
    server.ended = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal })));
    const guard = setTimeout(() => child.kill('SIGKILL'), process.env.SAN ? 1500e3 : 240e3); // a test that hangs ends
    server.ended.then(() => clearTimeout(guard));
    running.add(child);
    server.ended.then(() => running.delete(child));
    server.stop = async (signal = 'SIGTERM') => {
        child.kill(signal);
        return server.ended;
    };
    return new Promise((resolve, reject) => {
        child.stderr.on('data', (data) => {
            server.stderr += data;
            const ready = server.stderr.match(/ready at (https?):\/\/([^:]+|\[.*\]):(\d+)/);
            if (!ready || server.port) return;
            server.port = Number(ready[3]);
            server.url = `${ready[1]}://${ready[2]}:${ready[3]}`;
            resolve(server);
        });
        server.ended.then(({ code }) => reject(new Error(`exit ${code}: ${server.stderr}`)));
    });
}

// One request, whole. Resolves to {status, headers, text, ms}.
export function ask(server, path, body, { headers = {}, method, agent } = {}) {
    const start = performance.now();
    return new Promise((resolve, reject) => {
        const data = body === undefined ? undefined : Buffer.isBuffer(body) || typeof body === 'string' ? body : JSON.stringify(body);
        const request = http.request({ host: '127.0.0.1', port: server.port, path, agent, method: method ?? (data === undefined ? 'GET' : 'POST'),
            headers: { 'content-type': 'application/json', ...headers, ...(data === undefined ? {} : { 'content-length': Buffer.byteLength(data) }) } });
        request.on('response', (response) => {
            let text = '';
            response.setEncoding('utf8');
            response.on('data', (piece) => { text += piece; });
            response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text, ms: performance.now() - start }));
            response.on('error', reject);
        });
        request.on('error', reject);
        request.end(data);
    });
}

// One request as a stream. on(text piece, request) is called for each piece; resolves when it is over:
// {status, text (joined), finish, usage, events, done, headers}.
export function stream(server, path, body, { on, headers = {} } = {}) {
    return new Promise((resolve, reject) => {
        const data = JSON.stringify({ ...body, stream: true });
        const request = http.request({ host: '127.0.0.1', port: server.port, path, method: 'POST', agent: false,
            headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(data), ...headers } });
        const result = { text: '', finish: null, events: 0, done: false, errors: [] };
        request.on('response', (response) => {
            result.status = response.statusCode;
            result.headers = response.headers;
            let rest = '';
            response.setEncoding('utf8');
            response.on('data', (piece) => {
                rest += piece;
                if (response.statusCode !== 200) return;
                const parts = rest.split('\n\n');
                rest = parts.pop();
                for (const part of parts) event(part);
            });
            response.on('end', () => { result.rest = rest; resolve(result); });
            response.on('error', reject);
        });
        function event(part) {
            if (!part.startsWith('data: ')) return;
            const payload = part.slice(6);
            if (payload === '[DONE]') { result.done = true; return; }
            const object = JSON.parse(payload);
            result.events++;
            if (object.error) result.errors.push(object.error);
            if (object.usage) result.usage = object.usage;
            if (object.timings) result.timings = object.timings;
            for (const choice of object.choices ?? []) {
                const piece = choice.delta?.content ?? choice.text ?? '';
                result.text += piece;
                if (choice.finish_reason) result.finish = choice.finish_reason;
                if (on && piece) on(piece, request, result);
            }
        }
        request.on('error', reject);
        request.end(data);
    });
}

// For a server whose streams are to be still running when a test gets to them; the text is the same.
// Its steps wait on the fake device, which takes no core. Sanitizers make it slow enough.
export const slowly = process.env.SAN ? []
    : ['-t', '1', '--speculate', 'off', '--backend', `${process.env.BUILD}/tests/runnel_fake.so`];
process.env.RUNNEL_FAKE ??= 'delay 8000';

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function until(what, condition, ms = 60e3) {
    const end = performance.now() + (process.env.SAN ? 3 : 1) * ms;
    while (!(await condition())) {
        assert.ok(performance.now() < end, `still not: ${what}`);
        await sleep(20);
    }
}

// The value of a metric; label: one that it must have, such as state="held". server.key: the API key.
export async function metric(server, name, label = '') {
    const headers = server.key ? { authorization: `Bearer ${server.key}` } : {};
    const { text } = await ask(server, '/metrics', undefined, { headers });
    const line = text.split('\n').find((at) => at.startsWith(name) && /[{ ]/.test(at[name.length]) && at.includes(label));
    return line ? Number(line.slice(line.lastIndexOf(' ') + 1)) : NaN;
}

// Nothing is held by anyone.
export const idle = (server) => until('all pages given back', async () =>
    (await metric(server, 'runnel:kv_pages', 'state="held"')) === 0 &&
    (await metric(server, 'vllm:num_requests_running')) === 0 &&
    (await metric(server, 'vllm:num_requests_waiting')) === 0);

// Small deterministic numbers for tests that try many things.
export function random(seed) {
    let state = seed >>> 0;
    return () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state / 4294967296;
    };
}
