// Streams of requests for the comparison: valid ones from a grammar, pipelined, then mutated. A stream
// is a string of latin1 characters, one per byte, and depends on nothing but its seed and its number.

export class Random {
    constructor(seed, number) {
        this.state = Math.imul(seed ^ 0x9E3779B9, 0x85EBCA6B) ^ Math.imul(number, 0xC2B2AE35) ^ Math.floor(number / 2 ** 32);
        this.next();
        this.next();
    }
    // mulberry32
    next() {
        this.state = (this.state + 0x6D2B79F5) | 0;
        let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return (t ^ (t >>> 14)) >>> 0;
    }
    below(n) { return this.next() % n; }
    chance(percent) { return this.next() % 100 < percent; }
    of(list) { return list[this.next() % list.length]; }
}

const tokenChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";
const pathChars = "abcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/%?\"<>[]\\^`{|}";
let valueChars = '\t';
for (let c = 0x20; c < 0x100; c++) if (c !== 0x7F) valueChars += String.fromCharCode(c);
const methods = ['GET', 'HEAD', 'POST', 'POST', 'POST', 'PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE'];
const targets = ['/', '/', '/v1/models', '/v1/chat/completions', '/a?b=c%20d&e', '/?', '//', '/a//b/../c', 'http://a/', 'http://a:8080/x?y', 'https://[::1]:80', 'HTTP://a.b?c'];
const hosts = ['a', 'a.example:8080', '[::1]:80', '127.0.0.1', '', 'A-b_c'];
const names = ['Accept', 'User-Agent', 'Authorization', 'X-A', 'Content-Type', 'Cookie', 'TE', 'Trailer', 'Content-Lengt', 'Content-Length-', 'X-Transfer-Encoding', 'Transfer-Encodin', 'Date', 'A', 'Keep-Alive', 'Connectio', 'Proxy', 'Upgrad'];
const connections = ['keep-alive', 'keep-alive', 'Keep-Alive, TE', 'TE, keep-alive', 'x', 'TE,\tx', 'closed', 'keep-alive,keep-alive', 'TE,\tkeep-alive', 'x, keep-alive , y', ',keep-alive,', 'keep-alive\t,x', 'keep-alive x', 'x keep-alive', 'close', 'Close, x', ''];
const otherMethods = ['CONNECT', 'PROPFIND', 'SOURCE', 'M-SEARCH', 'QUERY', 'PRI', 'get', 'GETT', 'GE', 'BREW', ''];
const versions = ['HTTP/2.0', 'HTTP/0.9', 'HTTP/1.2', 'HTTP/1.10', 'HTTP/11', 'http/1.1', 'HTTP/1.0', 'RTSP/1.0', 'ICE/1.0', ''];
const blanks = ['', ' ', ' ', ' ', ' ', '\t', '  ', ' \t '];
const spaces = ['', ' ', '  ']; // no tab may follow a length, a coding or Connection
const texts = ['', 'a', 'hello', '{"a":1}', '0\r\n\r\n', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', '\r\n', '\n', '\0\xFF', '5\r\nhello\r\n0\r\n\r\n', 'x=1&y=2'];

function some(random, chars, most) {
    let text = '';
    for (let n = random.below(most + 1); n > 0; n--) text += chars[random.below(chars.length)];
    return text;
}

const token = (random) => random.of('abcxyzTE-') + some(random, tokenChars, 6);

function caseOf(random, text) {
    const way = random.below(6);
    return way === 0 ? text.toLowerCase() : way === 1 ? text.toUpperCase() : text;
}

const field = (random, name, value, after = blanks) => `${caseOf(random, name)}:${random.of(blanks)}${value}${random.chance(10) ? random.of(after) : ''}\r\n`;

function plainField(random) {
    const name = random.chance(70) ? random.of(names) : `X${token(random)}`;
    return field(random, name, random.chance(60) ? token(random) : some(random, valueChars, 12).replace(/^[ \t]+|[ \t]+$/g, ''));
}

function target(random, method) {
    if (method === 'OPTIONS' && random.chance(40)) return '*';
    return random.chance(70) ? random.of(targets) : `/${some(random, pathChars, 20)}`;
}

const body = (random) => (random.chance(60) ? random.of(texts) : some(random, valueChars, 40));

function extensions(random) {
    let text = '';
    for (let n = random.below(8) - 5; n > 0; n--) {
        text += `;${token(random)}`;
        if (random.chance(30)) text += `=${token(random)}`;
        else if (random.chance(40)) text += `="${some(random, valueChars, 8).replace(/["\\]/g, '')}${random.chance(30) ? '\\"' : ''}"`;
    }
    return text;
}

function chunked(random) {
    let text = '';
    for (let n = random.below(4); n > 0; n--) {
        const data = body(random) || 'x';
        const size = data.length.toString(16);
        text += `${'0'.repeat(random.chance(15) ? random.below(20) : 0)}${caseOf(random, size)}${extensions(random)}\r\n${data}\r\n`;
    }
    text += `${'0'.repeat(1 + (random.chance(10) ? random.below(4) : 0))}${extensions(random)}\r\n`;
    for (let n = random.below(5) - 2; n > 0; n--) text += plainField(random);
    return `${text}\r\n`;
}

function request(random, isLast) {
    const method = random.of(methods);
    const minor = random.chance(8) ? 0 : 1;
    const fields = [];
    if (minor || random.chance(50)) fields.push(field(random, 'Host', random.of(hosts)));
    for (let n = random.chance(2) ? 30 + random.below(40) : random.below(5); n > 0; n--) fields.push(plainField(random));
    if (random.chance(15) || (!minor && random.chance(80))) fields.push(field(random, 'Connection', random.of(isLast ? connections : connections.slice(0, -3)), spaces));
    if (!minor && !isLast && random.chance(80)) fields.push(field(random, 'Connection', 'keep-alive', spaces));
    if (random.chance(2)) fields.push(field(random, 'Connection', 'Upgrade', spaces), field(random, 'Upgrade', random.of(['h2c', 'websocket'])));
    if (random.chance(3)) fields.push(field(random, 'Expect', '100-continue'));
    let content = '';
    const kind = random.below(10);
    if (kind < 4) {
        content = body(random);
        fields.push(field(random, 'Content-Length', `${'0'.repeat(random.chance(5) ? random.below(5) : 0)}${content.length}`, spaces));
    } else if (kind < 7 && minor) {
        content = chunked(random);
        fields.push(field(random, 'Transfer-Encoding', caseOf(random, 'chunked'), spaces));
    }
    const at = random.below(fields.length + 1);
    const ordered = [...fields.slice(at), ...fields.slice(0, at)];
    return `${random.chance(4) ? '\r\n' : ''}${method} ${target(random, method)} HTTP/1.${minor}\r\n${ordered.join('')}\r\n${content}`;
}

export function valid(random) {
    let text = '';
    for (let n = 1 + random.below(4); n > 0; n--) text += request(random, n === 1);
    return text;
}

const pieces = ['\r', '\n', '\r\n', '\r\n\r\n', '\n\n', '\0', '\t', ' ', '\v', '\f', '\x7F', '\x80', '\xFF', '\xA0', ':', ',', ';', '=', '"', '\\', '#', '*', '/', '?', '%00', '-', '+', '0', '1', '9', 'a', 'f', 'x', '0x',
    'chunked', ', chunked', 'chunked, ', 'identity', 'gzip, ', 'Content-Length: 5', 'Content-Length: 5\r\n', '\r\nContent-Length: 0', 'Content-Length', 'Transfer-Encoding', 'Transfer-Encoding: chunked\r\n', '\r\nTransfer-Encoding: chunked',
    'Transfer-Encoding : chunked\r\n', 'Transfer-Encoding:\r\n chunked\r\n', 'Host: b\r\n', 'Connection: close\r\n', 'Connection: keep-alive\r\n', 'Connection: upgrade\r\nUpgrade: x\r\n', 'Proxy-Connection: close\r\n', 'Proxy-Connection: keep-alive\r\n', 'close', ', close', 'keep-alive', ' keep-alive', 'upgrade',
    'Expect: x\r\n', '\r\n ', '\r\n\t', '\n ', ' \r\n', '\t\r\n', '0\r\n\r\n', '\r\n0\r\n\r\n', '0\r\n', '5\r\nhello\r\n', ';a="', ';a=b', ';', ' ;', '="\\', '18446744073709551615', '18446744073709551616', '99999999999999999999', '00000000000000000005', 'ffffffffffffffff', '10000000000000000', '7fffffffffffffff', '4294967296',
    'GET ', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', ' HTTP/1.1', ' HTTP/1.1\r\n', 'HTTP/1.0', 'HTTP/2.0', 'HTTP/0.9', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'CONNECT', 'SOURCE', 'http://', 'http://a', 'a@', '://', 'PROPFIND ', 'get '];

// Half of the places are anywhere, the others near the end of a line or a colon.
function place(random, text) {
    const at = random.below(text.length + 1);
    if (random.chance(50)) return at;
    const near = text.indexOf(random.chance(70) ? '\n' : ':', at);
    return near < 0 ? at : Math.min(text.length, Math.max(0, near - 2 + random.below(5)));
}

function line(random, text) {
    const at = random.below(text.length + 1);
    const begin = text.lastIndexOf('\n', at) + 1;
    const end = text.indexOf('\n', at);
    return [begin, end < 0 ? text.length : end + 1];
}

const mutations = [
    (random, text) => {
        const at = place(random, text);
        return at < text.length ? text.slice(0, at) + String.fromCharCode(text.charCodeAt(at) ^ (1 << random.below(8))) + text.slice(at + 1) : text;
    },
    (random, text) => {
        const at = place(random, text);
        return text.slice(0, at) + String.fromCharCode(random.below(256)) + text.slice(at + random.below(2));
    },
    ...Array(4).fill((random, text) => {
        const at = place(random, text);
        return text.slice(0, at) + random.of(pieces) + text.slice(at + (random.chance(30) ? random.below(3) : 0));
    }),
    // an interesting line, where a line may be
    (random, text) => {
        const [begin] = line(random, text);
        return `${text.slice(0, begin)}${random.of(pieces)}\r\n${text.slice(begin)}`;
    },
    (random, text) => {
        const at = place(random, text);
        return text.slice(0, at) + text.slice(at + 1 + random.below(random.chance(70) ? 3 : 30));
    },
    // a line twice, there or elsewhere
    (random, text) => {
        const [begin, end] = line(random, text);
        const [to] = random.chance(50) ? [end] : line(random, text);
        return text.slice(0, to) + text.slice(begin, end) + text.slice(to);
    },
    (random, text) => {
        const [begin, end] = line(random, text);
        return text.slice(0, begin) + text.slice(end);
    },
    (random, text) => {
        const other = valid(random);
        return text.slice(0, place(random, text)) + other.slice(place(random, other));
    },
    (random, text) => text.slice(0, place(random, text)),
    // a blank or the like at the end of a line, or beside its colon
    (random, text) => {
        const [begin, end] = line(random, text);
        const colon = text.indexOf(':', begin);
        const at = random.chance(60) || colon < 0 || colon > end ? Math.max(begin, end - 2) : colon + random.below(2);
        return text.slice(0, at) + random.of([' ', '\t', '\t', ' \t', '\v', '\f', '\r', '\0', '\xA0', ',', ';']) + text.slice(at);
    },
    // another method or version, where a line of a request is
    (random, text) => {
        const at = text.indexOf(' HTTP/1.', random.below(text.length));
        if (at < 0) return text;
        if (random.chance(50)) return `${text.slice(0, at + 1)}${random.of(versions)}${text.slice(at + 9)}`;
        const begin = text.lastIndexOf('\n', at) + 1;
        return text.slice(0, begin) + random.of(otherMethods) + text.slice(text.indexOf(' ', begin));
    },
    // a field of the head among others or among trailers
    (random, text) => {
        const [begin] = line(random, text);
        const name = random.of(['Connection', 'Proxy-Connection', 'Content-Length', 'Transfer-Encoding', 'Upgrade', 'Host', 'Expect']);
        return text.slice(0, begin) + field(random, name, random.of([...connections, 'chunked', '5', '0', 'upgrade', 'upgrade, close', 'close x', 'x close', 'keep-alive x'])) + text.slice(begin);
    },
];

function mutate(random, text) {
    if (random.below(400) === 0) {
        const at = place(random, text);
        return text.slice(0, at) + random.of('a0;: ').repeat(random.of([200, 260, 300, 4000, 16000, 16400, 17000])) + text.slice(at);
    }
    return random.of(mutations)(random, text);
}

// How many mutations a stream gets: none at all for two in ten.
const counts = [0, 0, 1, 1, 1, 1, 2, 2, 3, 6];

export function stream(random) {
    let text = valid(random);
    const most = random.of(counts);
    for (let n = most; n > 0; n--) text = mutate(random, text);
    return { text, isValid: most === 0 };
}
