// A collector of OTLP/HTTP that takes JSON and is strict: every field has its name and its type of
// the protocol's definition (trace.proto, common.proto, with the deviations of its JSON form).
import assert from 'node:assert/strict';
import http from 'node:http';

const text = (value, at) => assert.equal(typeof value, 'string', at);
const whole = (value, at) => assert.ok(Number.isInteger(value) && value >= 0 && value < 2 ** 32, `${at}: ${value}`);
const oneOf = (most) => (value, at) => assert.ok(Number.isInteger(value) && value >= 0 && value <= most, `${at}: ${value}`);
const hex = (digits) => (value, at) => {
    assert.match(value, new RegExp(`^[0-9a-f]{${digits}}$`), at);
    assert.match(value, /[^0]/, at);
};
const uint64 = (value, at) => {
    assert.match(value, /^(0|[1-9]\d*)$/, at);
    assert.ok(BigInt(value) < 2n ** 64n, at);
};
const int64 = (value, at) => {
    assert.match(value, /^(0|-?[1-9]\d*)$/, at);
    assert.equal(BigInt.asIntN(64, BigInt(value)), BigInt(value), at);
};
const list = (item) => (value, at) => {
    assert.ok(Array.isArray(value), at);
    value.forEach((one, i) => item(one, `${at}[${i}]`));
};
// fields: {name: check}; a name with ! must be there. Unknown names are refused here, unlike in a real collector.
const message = (fields) => {
    const known = Object.fromEntries(Object.entries(fields).map(([name, check]) => [name.replace('!', ''), check]));
    return (value, at) => {
        assert.ok(value && typeof value === 'object' && !Array.isArray(value), at);
        for (const name of Object.keys(value)) assert.ok(known[name], `${at}.${name} is unknown`);
        for (const name of Object.keys(fields).filter((one) => one.endsWith('!'))) {
            assert.ok(name.slice(0, -1) in value, `${at} has no ${name.slice(0, -1)}`);
        }
        for (const [name, one] of Object.entries(value)) known[name](one, `${at}.${name}`);
    };
};
const anyValue = (value, at) => {
    assert.equal(Object.keys(value).length, 1, `${at}: one of the kinds`);
    message({
        stringValue: text,
        boolValue: (one, where) => assert.equal(typeof one, 'boolean', where),
        intValue: int64,
        doubleValue: (one, where) => assert.ok(Number.isFinite(one), where),
        arrayValue: message({ values: list(anyValue) }),
    })(value, at);
};
const attributes = (value, at) => {
    list(message({ 'key!': (key, where) => assert.ok(key && typeof key === 'string', where), 'value!': anyValue }))(value, at);
    const keys = value.map((one) => one.key);
    assert.equal(new Set(keys).size, keys.length, `${at}: a key comes twice`);
};
const span = message({
    'traceId!': hex(32), 'spanId!': hex(16), parentSpanId: hex(16), traceState: text, flags: whole,
    'name!': (value, at) => assert.ok(value && typeof value === 'string', at), 'kind!': oneOf(5),
    'startTimeUnixNano!': uint64, 'endTimeUnixNano!': uint64, attributes,
    events: list(message({ 'timeUnixNano!': uint64, 'name!': text, attributes })),
    status: message({ message: text, code: oneOf(2) }),
});
const request = message({
    'resourceSpans!': list(message({
        'resource!': message({ attributes }),
        'scopeSpans!': list(message({ 'scope!': message({ 'name!': text, version: text, attributes }), 'spans!': list(span), schemaUrl: text })),
        schemaUrl: text,
    })),
});

// Values of attributes as plain ones; 64-bit numbers fit here.
const plain = (value) => value.stringValue ?? value.boolValue ?? value.doubleValue
    ?? (value.intValue === undefined ? value.arrayValue.values.map(plain) : Number(value.intValue));
export const values = (list) => Object.fromEntries((list ?? []).map((one) => [one.key, plain(one.value)]));

// The rules between spans: times are in order, a child is inside its parent, and its parent is there.
export function check_trees(spans) {
    const known = new Map(spans.map((one) => [one.spanId, one]));
    assert.equal(known.size, spans.length, 'an id of a span comes twice');
    for (const one of spans) {
        const begin = BigInt(one.startTimeUnixNano), end = BigInt(one.endTimeUnixNano);
        assert.ok(begin <= end, `${one.name} ends before it starts`);
        const times = (one.events ?? []).map((event) => BigInt(event.timeUnixNano));
        times.forEach((time, i) => assert.ok(time >= (i ? times[i - 1] : begin) && time <= end, `an event of ${one.name}`));
        if (one.kind === 2) continue;
        const parent = known.get(one.parentSpanId);
        assert.ok(parent && parent.traceId === one.traceId && parent.kind === 2, `${one.name} has no parent`);
        assert.ok(begin >= BigInt(parent.startTimeUnixNano) && end <= BigInt(parent.endTimeUnixNano), `${one.name} is outside its parent`);
    }
}

// Resolves to {url, spans, requests, answer, stop}. answer(request) gives [status, headers, body], null: it never
// answers, or 'close': it closes the connection. A request that breaks a rule is in `broken`.
export async function collector() {
    const self = { spans: [], resources: [], requests: 0, broken: [], headers: null, answer: () => [200, {}, '{}'] };
    const sockets = new Set();
    const server = http.createServer((incoming, outgoing) => {
        let body = '';
        incoming.setEncoding('utf8');
        incoming.on('data', (piece) => { body += piece; });
        incoming.on('end', () => {
            self.requests++;
            self.headers = incoming.headers;
            let spans = [];
            try {
                assert.equal(`${incoming.method} ${incoming.url}`, `POST ${self.path ?? '/v1/traces'}`);
                assert.equal(incoming.headers['content-type'], 'application/json');
                const parsed = JSON.parse(body);
                request(parsed, 'request');
                self.resources.push(values(parsed.resourceSpans[0].resource.attributes));
                spans = parsed.resourceSpans.flatMap((one) => one.scopeSpans.flatMap((scope) => scope.spans));
            } catch (error) {
                self.broken.push(error.message);
            }
            const answer = self.answer(spans);
            if (!answer) return;
            if (answer === 'close') { incoming.socket.destroy(); return; }
            if (answer[0] === 200) self.spans.push(...spans);
            outgoing.writeHead(answer[0], { 'content-type': 'application/json', ...answer[1] });
            outgoing.end(answer[2] ?? '');
        });
    });
    server.on('connection', (socket) => { sockets.add(socket); socket.unref(); socket.on('close', () => sockets.delete(socket)); });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    server.unref(); // a test that failed has not stopped it
    self.url = `http://127.0.0.1:${server.address().port}`;
    self.connections = () => sockets.size;
    self.hang_up = () => { for (const socket of sockets) socket.destroy(); };
    self.stop = () => { server.close(); self.hang_up(); };
    return self;
}
