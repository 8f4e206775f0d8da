// Who may call what, walked over the table of routes itself; and how requests that are wrong, too
// large, from elsewhere or too early are answered. Node's own modules only.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import test from 'node:test';
import { ask, idle, serve, sleep } from './server.mjs';

// {method, path, open} of app/server/routes.def
const table = [...fs.readFileSync(`${process.env.ROOT}/app/server/routes.def`, 'utf8')
    .matchAll(/^ROUTE_(AT_ONCE|PREPARE)\("(\w+)",\s*"([^"]+)",\s*(\w+)/gm)]
    .map(([, kind, method, path, access]) => ({ method, path, open: kind === 'AT_ONCE' && access === 'OPEN' }));
const folder = fs.mkdtempSync('./routes-'); // in the script's own folder, and ends with it
const log = `${folder}/access.log`;
const guarded = await serve(['--api-key', 'right', '--api-key', 'also', '--access-log', log, '--max-body', '64K']);
let asked = 0; // of guarded, but for /metrics, which others ask too
const bearer = (key) => ({ authorization: `Bearer ${key}` });

// A request as it is written; resolves to the answer's bytes when the connection ends, or `ms` passed.
function raw(server, text, ms = 30e3) {
    return new Promise((resolve, reject) => {
        const socket = net.connect(server.port, '127.0.0.1');
        let answer = '';
        const over = setTimeout(() => socket.destroy(), ms);
        socket.on('data', (data) => { answer += data; });
        socket.on('error', reject);
        socket.on('close', () => { clearTimeout(over); resolve(answer); });
        socket.write(text);
    });
}
const head = (lines) => `${lines.join('\r\n')}\r\n\r\n`;
const statusOf = (answer) => Number(answer.match(/^HTTP\/1\.1 (\d+) /)?.[1]);

// One call of a route: where a path is a family, one of it.
function call(server, { method, path }, headers) {
    if (path !== '/metrics') asked++;
    const at = path === '/v1/models/*' ? '/v1/models/nobody' : path === '/requests/*' ? '/requests/1/trace' : path === '/assets/*' ? '/assets/base.css' : path;
    return new Promise((resolve, reject) => { // /engine/live has no end: its head will do
        if (path !== '/engine/live') return ask(server, at, method === 'POST' ? {} : undefined, { headers, method }).then(resolve, reject);
        const socket = net.connect(server.port, '127.0.0.1');
        socket.on('error', reject);
        socket.once('data', (data) => {
            socket.destroy();
            resolve({ status: statusOf(`${data}`), text: `${data}`.split('\r\n\r\n')[1] });
        });
        socket.write(head([`GET ${at} HTTP/1.1`, 'Host: localhost', ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)]));
    });
}

test('the table of routes is read', () => {
    assert.ok(table.length >= 28);
    assert.deepEqual(table.filter((route) => route.open).map((route) => route.path).sort(),
        ['/', '/assets/*', '/favicon.ico', '/health', '/health/live', '/health/ready', '/ping', '/v1/health']);
});

test('without a right key only the open routes answer', async () => {
    const wrong = [{}, bearer('wrong'), bearer(''), bearer('righ'), bearer('rightt'), { authorization: 'right' },
        { authorization: 'Basic right' }, { 'x-api-key': 'wrong' }, { 'api-key': 'wrong' }];
    for (const route of table) {
        for (const headers of wrong) {
            const { status, text } = await call(guarded, route, headers);
            const what = `${route.method} ${route.path} with ${JSON.stringify(headers)}: ${status}`;
            if (route.open) {
                assert.ok(status === 200 || status === 404, what); // an icon need not be there
                continue;
            }
            assert.equal(status, 401, what);
            const { error, type } = JSON.parse(text);
            if (route.path.startsWith('/api/')) assert.match(error, /API key/, what); // Ollama's form
            else assert.equal(error.type, 'authentication_error', what);
            assert.equal(type, route.path.startsWith('/v1/messages') ? 'error' : undefined, what);
        }
    }
});

test('with a right key every route answers, whatever header brings it', async () => {
    for (const route of table) {
        for (const headers of [bearer('right'), { authorization: 'bearer also' }, { 'x-api-key': 'right' }, { 'api-key': 'also' }]) {
            const { status, text } = await call(guarded, route, headers);
            const what = `${route.method} ${route.path} with ${JSON.stringify(headers)}: ${status} ${text.slice(0, 200)}`;
            if (/blobs|push|create|copy|delete|pull/.test(route.path)) {
                assert.equal(status, 501, what); // models are files here
            } else if (route.method !== 'POST') {
                assert.ok(status === 200 || (status === 404 && /\*|favicon/.test(route.path)), what);
            } else {
                assert.ok(status === 400 || status === 200 || (status === 404 && route.path.endsWith('*')), what); // {} lacks something nearly everywhere
            }
        }
    }
});

test('unknown paths are not told from known ones without a key', async () => {
    for (const [path, method] of [['/nothing', 'GET'], ['/v1/models', 'DELETE'], ['/../etc/passwd', 'GET']]) {
        asked++;
        const { status, headers } = await ask(guarded, path, undefined, { method });
        assert.equal(status, 401);
        assert.equal(headers.allow, undefined);
        assert.equal(headers['www-authenticate'], 'Bearer');
    }
});

test('wrong methods and paths are told with a key', async () => {
    const headers = bearer('right');
    for (const { method, path } of table) {
        asked++;
        const other = await ask(guarded, path.replace('*', 'x'), undefined, { headers, method: 'PUT' });
        assert.equal(other.status, 405, path);
        assert.ok(other.headers.allow.split(', ').includes(method));
        const { type, error } = JSON.parse(other.text);
        if (path.startsWith('/v1/messages')) assert.equal(type, 'error', path);
        else if (path.startsWith('/api/')) assert.match(error, /takes .*, not PUT/, path);
        else assert.equal(error.code, 'method_not_allowed', path);
    }
    for (const path of ['/nothing', '/v1', '/v1/', '/assets/', '/health/', '/v1/models/../metrics', '/%2e%2e/', '/v1/chat/completions/']) {
        asked++;
        const { status, text } = await ask(guarded, path, undefined, { headers });
        assert.equal(status, 404, path);
        assert.ok(['not_found', 'model_not_found'].includes(JSON.parse(text).error.code));
    }
    for (const [path, hint] of [['/v1/messages/', '; did you mean /v1/messages?'], ['/v1/messages/nothing', '']]) { // Anthropic's form
        asked++;
        const { status, text } = await ask(guarded, path, undefined, { headers });
        assert.equal(status, 404, path);
        assert.deepEqual(JSON.parse(text), { type: 'error', error: { type: 'not_found_error', message: `There is no ${path}${hint}` } });
    }
});

test('HEAD gives GET\'s head and no body', async () => {
    for (const { path } of table.filter((route) => route.method === 'GET' && !/\*|live|icon|metrics|engine/.test(route.path))) {
        asked += 2;
        const get = await ask(guarded, path, undefined, { headers: bearer('right') });
        const only = await ask(guarded, path, undefined, { headers: bearer('right'), method: 'HEAD' });
        assert.equal(only.status, get.status);
        assert.equal(only.text, '');
        assert.equal(only.headers['content-type'], get.headers['content-type']);
        if (path !== '/slots' && path !== '/props') assert.equal(only.headers['content-length'], get.headers['content-length'], path);
    }
});

test('a head that is too large is 431, a body 413, bad JSON 400 with its place', async () => {
    const headers = bearer('right');
    asked += 3;
    const long = await raw(guarded, head(['GET /v1/models HTTP/1.1', 'Host: localhost', 'Authorization: Bearer right',
        `X-Long: ${'a'.repeat(20 << 10)}`, 'Connection: close']));
    assert.equal(statusOf(long), 431);
    const large = await ask(guarded, '/v1/chat/completions', ' '.repeat((64 << 10) + 1), { headers });
    assert.equal(large.status, 413);
    assert.match(JSON.parse(large.text).error.message, /65537.*65536/);
    const bad = await ask(guarded, '/v1/chat/completions', '{"messages": [}', { headers });
    assert.equal(bad.status, 400);
    assert.match(JSON.parse(bad.text).error.message, /at byte 1[45]/);
    const chunk = `${(32 << 10).toString(16)}\r\n${' '.repeat(32 << 10)}\r\n`;
    asked++;
    const chunked = await raw(guarded, head(['POST /v1/chat/completions HTTP/1.1', 'Host: localhost', 'Authorization: Bearer right',
        'Transfer-Encoding: chunked', 'Connection: close']) + chunk.repeat(3) + '0\r\n\r\n');
    assert.equal(statusOf(chunked), 413);
});

test('the access log has one line of JSON for each request', async () => {
    await idle(Object.assign(guarded, { key: 'right' }));
    assert.equal((await guarded.stop()).code, 0);
    const lines = fs.readFileSync(log, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
    const counted = lines.filter((line) => line.route !== '/metrics' || line.status === 405);
    assert.equal(counted.length, asked);
    assert.equal(new Set(lines.map((line) => line.id)).size, lines.length);
    assert.ok(lines.every((line) => line.time && Number.isInteger(line.status) && line.total_ms >= 0));
    assert.ok(!fs.readFileSync(log, 'utf8').includes('right'));
});

test('requests whose end is in doubt are refused, and nothing behind them is read', async () => {
    const server = await serve();
    const inner = head(['GET /health HTTP/1.1', 'Host: localhost']);
    for (const [lines, body] of [
        [['Content-Length: 5', 'Transfer-Encoding: chunked'], '0\r\n\r\n'],
        [['Content-Length: 0', 'Content-Length: 5'], ''],
        [['Transfer-Encoding: chunked', 'Transfer-Encoding: identity'], '0\r\n\r\n'],
        [['Transfer-Encoding: gzip, chunked'], '0\r\n\r\n'],
        [['Transfer-Encoding : chunked'], '0\r\n\r\n'],
        [['Content-Length: -1'], ''],
        [['Content-Length: 0x10'], ''],
    ]) {
        const answer = await raw(server, head(['POST /tokenize HTTP/1.1', 'Host: localhost', ...lines]) + body + inner);
        assert.deepEqual(answer.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 400'], `${lines}: ${answer}`);
        assert.match(answer, /Connection: close/);
    }
    assert.equal((await server.stop()).code, 0);
});

test('a Host that is not ours is refused: pages cannot reach us by a name of their own', async () => {
    const server = await serve(['--allow-host', 'runnel.example']);
    const with_host = async (host) => (await ask(server, '/v1/models', undefined, { headers: { host } })).status;
    for (const host of ['localhost', `localhost:${server.port}`, '127.0.0.1', '[::1]:80', 'runnel.example', 'RUNNEL.example:443', 'a.localhost'])
        assert.equal(await with_host(host), 200, host);
    for (const host of ['evil.example', 'runnel.example.evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', 'xlocalhost'])
        assert.equal(await with_host(host), 403, host);
    assert.ok([400, 403].includes(statusOf(await raw(server, head(['GET /v1/models HTTP/1.1', 'Connection: close'])))));
    assert.equal((await server.stop()).code, 0);
});

test('pages of other origins are refused, but for those that were named', async () => {
    const server = await serve(['--cors-origin', 'https://chat.example', '--api-key', 'right']);
    const from = (origin, method, more = {}) => ask(server, '/v1/models', undefined, { method, headers: { origin, ...more } });
    const preflight = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type' };
    const allowed = await from('https://chat.example', 'OPTIONS', preflight); // browsers send no key with it
    assert.equal(allowed.status, 204);
    assert.equal(allowed.headers['access-control-allow-origin'], 'https://chat.example');
    assert.match(allowed.headers['access-control-allow-headers'], /authorization/i);
    assert.match(allowed.headers['access-control-allow-methods'], /POST/);
    const answer = await from('https://chat.example', 'GET', bearer('right'));
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['access-control-allow-origin'], 'https://chat.example');
    assert.equal(answer.headers['access-control-allow-credentials'], undefined);
    assert.match(answer.headers.vary, /Origin/);
    assert.equal((await from('https://chat.example', 'GET')).status, 401);
    for (const origin of ['https://evil.example', 'http://chat.example', 'https://chat.example.evil.example', 'null']) {
        for (const [method, more] of [['OPTIONS', preflight], ['GET', bearer('right')]]) {
            const refused = await from(origin, method, more);
            assert.equal(refused.status, 403, origin);
            assert.equal(refused.headers['access-control-allow-origin'], undefined);
        }
    }
    assert.equal((await from(`http://127.0.0.1:${server.port}`, 'GET', bearer('right'))).status, 200); // our own page
    assert.equal((await server.stop()).code, 0);
});

test('other addresses than loopback need a key', async () => {
    await assert.rejects(serve(['--host', '0.0.0.0']), /exit 2: .*--api-key/);
    await assert.rejects(serve(['--api-key', '']), /exit 2: /);
});

test('TLS: a certificate is shown, plain requests get nothing, wrong files are refused', async (t) => {
    const made = ['a', 'b'].map((name) => spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1',
        '-nodes', '-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1',
        '-keyout', `${folder}/${name}.key`, '-out', `${folder}/${name}.pem`]));
    if (made[0].error) return t.skip('there is no openssl');
    const server = await serve(['--tls-cert', `${folder}/a.pem`, '--tls-key', `${folder}/a.key`]);
    const get = (ca) => new Promise((resolve) => https.get(`${server.url}/health`, { ca, agent: false },
        (answer) => { answer.resume(); resolve(answer.statusCode); }).on('error', (error) => resolve(error.code)));
    assert.equal(await get(fs.readFileSync(`${folder}/a.pem`)), 200);
    assert.match(`${await get(fs.readFileSync(`${folder}/b.pem`))}`, /CERT|VERIFY/);
    assert.ok(!/200 OK/.test(await raw(server, head(['GET /health HTTP/1.1', 'Host: localhost']), 500).catch(() => '')));
    assert.equal((await server.stop()).code, 0);
    await assert.rejects(serve(['--tls-cert', `${folder}/a.pem`, '--tls-key', `${folder}/b.key`]), /exit 2: /);
    await assert.rejects(serve(['--tls-cert', `${folder}/a.pem`]), /exit 2: .*--tls-key/);
    await assert.rejects(serve(['--tls-cert', `${folder}/none.pem`, '--tls-key', `${folder}/a.key`]), /exit 2: .*none\.pem/);
});

test('while the model is loaded health says so, and becomes well', async () => {
    for (let tries = 0; tries < 10; tries++) {
        const port = await new Promise((resolve) => {
            const probe = net.createServer().listen(0, '127.0.0.1', () => { const { port: free } = probe.address(); probe.close(() => resolve(free)); });
        });
        let ready = false;
        const begun = serve(['--port', `${port}`]).finally(() => { ready = true; });
        const early = [];
        while (!ready) {
            const paths = ['/health', '/health/live', '/v1/models'];
            const [health, live, models] = await Promise.all(paths.map((path) => ask({ port }, path).catch(() => null)));
            if (health?.status === 503 && live && models) early.push({ health, live, models });
            await sleep(1);
        }
        const server = await begun;
        const well = await ask(server, '/health');
        assert.deepEqual([well.status, JSON.parse(well.text)], [200, { status: 'ok' }]);
        assert.equal((await server.stop()).code, 0);
        if (!early.length) continue; // it was quicker than we were
        const { health, live, models } = early[0];
        const { code, message, type } = JSON.parse(health.text).error;
        assert.deepEqual({ code, message, type }, { code: 503, message: 'Loading model', type: 'unavailable_error' });
        assert.ok(Number(health.headers['retry-after']) >= 1);
        assert.equal(live.status, 200);
        assert.ok([200, 503].includes(models.status)); // it may have ended in between
        return;
    }
    assert.fail('never seen while it was loading');
});
