// What clients of the soak do, one action a call. A whole exchange is noted in the ledger of its
// server; an action that saw something wrong throws.
import fs from 'node:fs';
import { answersOf, connect, exchange, received, sleep } from './client.mjs';
import { content, FIXED, MALFORMED, streamedBody, WRONG } from './requests.mjs';

const root = new URL('../../', import.meta.url).pathname;
// {method, path} of the table of routes, and the page's files
const ROUTES = [...fs.readFileSync(`${root}app/server/routes.def`, 'utf8').matchAll(/^ROUTE_\w+\("(\w+)",\s*"([^"]+)"/gm)]
    .map(([, method, path]) => ({ method, path }));
const ASSETS = fs.readdirSync(`${root}web`).filter((file) => file !== 'index.html').map((file) => `/assets/${file}`);
const GETS = ROUTES.filter(({ method, path }) => method === 'GET' && !['/engine/live', '/metrics', '/assets/*'].includes(path))
    .map(({ path }) => (path === '/v1/models/*' ? '/v1/models/tale-20m-q8_0' : path));
export const uncalled = () => ROUTES.filter(({ method, path }) => method === 'POST' && !FIXED.some((one) => one.path === path)).map(({ path }) => path);

export const pick = (list) => list[Math.floor(Math.random() * list.length)];
const need = (condition, what) => { if (!condition) throw new Error(what); };
const routeOf = (path) => {
    const bare = path.split('?')[0];
    return ROUTES.find((route) => route.path === bare || (route.path.endsWith('*') && bare.startsWith(route.path.slice(0, -1))))?.path ?? '';
};

// What the client of one server has seen: whole exchanges by method, route and status; tokens.
export const ledger = () => ({ exchanges: new Map(), tokens: 0, whole: 0, streams: 0 });
// As the server counts: HEAD is GET, and a request without a route has neither route nor method.
function note(server, method, path, status) {
    const route = status === 405 ? '' : routeOf(path);
    const key = `${!route ? '' : method === 'HEAD' ? 'GET' : method} ${route} ${status}`;
    server.ledger.exchanges.set(key, (server.ledger.exchanges.get(key) ?? 0) + 1);
    server.ledger.whole++;
}

async function get(server, path, options = {}) {
    const answer = await exchange(server, path, undefined, options);
    note(server, options.method ?? 'GET', path, answer.status);
    return answer;
}

// ---------------------------------------------------------------- whole exchanges

const known = new Map(); // of each fixed request: its texts, and its detail by form
function same(key, value) {
    const text = JSON.stringify(value);
    if (!known.has(key)) known.set(key, text);
    need(known.get(key) === text, `${key}: another content: ${text.slice(0, 200)} before: ${known.get(key).slice(0, 200)}`);
}

function judge(server, request, streamed, answer) {
    note(server, 'POST', request.path, answer.status);
    need(answer.status === 200, `${request.name}: ${answer.status} ${answer.text.slice(0, 200)}`);
    const got = content(request, streamed, answer.text);
    server.ledger.tokens += got.tokens;
    server.ledger.streams += streamed;
    same(request.name, got.texts);
    same(`${request.name}, ${streamed ? 'streamed' : 'whole'}`, got.detail ?? null);
}

async function fixed(server, request = pick(FIXED), streamed = request.api !== null && Math.random() < 0.6, options = {}) {
    judge(server, request, streamed, await exchange(server, request.path, streamed ? streamedBody(request) : request.body, options));
}

async function page(server) {
    const agent = new server.module.Agent({ keepAlive: true, maxSockets: 6 });
    try {
        need((await get(server, '/', { agent })).text.includes('<html'), 'no page');
        const files = await Promise.all(ASSETS.map((path) => get(server, path, { agent })));
        need(files.every((file) => file.status === 200 && file.text.length), 'a file of the page is missing');
    } finally {
        agent.destroy();
    }
}

async function gets(server) {
    for (const path of GETS) {
        const { status } = await get(server, path);
        need(status === 200 || (path === '/favicon.ico' && status === 404), `GET ${path}: ${status}`);
    }
}

async function wrong(server) {
    const [path, body, status] = pick(WRONG);
    const answer = await exchange(server, path, body);
    note(server, body === undefined ? 'GET' : 'POST', path, answer.status);
    need(answer.status === status && JSON.parse(answer.text).error.message, `${path}: ${answer.status} ${answer.text.slice(0, 200)}`);
}

// Sends all at once and reads until the server ends the connection, as the last request asks.
async function pipelined(server, requests) {
    const link = await connect(server);
    try {
        link.socket.write(requests.map(({ method = 'GET', path, body = '' }, i) => `${method} ${path} HTTP/1.1\r\nHost: localhost\r\n` +
            `${i === requests.length - 1 ? 'Connection: close\r\n' : ''}${body && `Content-Length: ${Buffer.byteLength(body)}\r\n`}\r\n${body}`).join(''));
        need(await received(link, () => link.ended === 'end'), `no end of a pipeline: ${link.ended}`);
        const answers = answersOf(link.received, requests.map(({ method }) => method === 'HEAD'));
        need(answers.length === requests.length, `${answers.length} answers to ${requests.length} requests`);
        answers.forEach(({ status }, i) => note(server, requests[i].method ?? 'GET', requests[i].path, status));
        return answers;
    } finally {
        link.tcp.destroy();
    }
}

async function pipeline(server) {
    const requests = Array.from({ length: 2 + Math.floor(Math.random() * 30) }, (_, i) => (i % 3 ? { path: '/health' }
        : { method: 'POST', path: '/detokenize', body: `{"tokens":[${70 + i}]}` }));
    const answers = await pipelined(server, requests);
    for (const [i, { status, text }] of answers.entries()) {
        need(status === 200 && text.includes(i % 3 ? '"ok"' : '"content"'), `answer ${i} of a pipeline: ${status} ${text.slice(0, 100)}`);
    }
}

async function head(server) {
    const path = pick([...GETS, '/engine/live', '/metrics', '/nothing']);
    const [, second] = await pipelined(server, [{ method: 'HEAD', path }, { path: '/health' }]);
    need(second.status === 200 && second.text.includes('"ok"'), `after HEAD ${path}: ${second.status}`);
}

const sender = (server) => fixed(server, pick(FIXED), false, { wait: 100 + Math.random() * 200 });

// Takes nothing of its stream for seconds, and then all.
async function reader(server) {
    const body = { prompt: 'Once', max_tokens: 150, n: 8, seed: 3, logprobs: 5, ignore_eos: true, stream: true, stream_options: { include_usage: true } };
    const agent = new server.module.Agent({ keepAlive: false });
    const answer = await exchange(server, '/v1/completions', body, { agent, on: (response) => {
        response.pause();
        setTimeout(() => response.resume(), 2000 + Math.random() * 2000);
    } });
    judge(server, { name: 'slow reader', api: 'openai', path: '/v1/completions' }, true, answer);
}

// ---------------------------------------------------------------- clients that hang up, or half do

const postOf = (path, body) => {
    const text = JSON.stringify(body);
    return `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
};
const endless = () => postOf('/v1/completions', { prompt: 'a', max_tokens: 900, ignore_eos: true, stream: true });

const STAGES = {
    connected: async () => {},
    'in the head': async (link) => link.socket.write(endless().slice(0, 40)),
    'in the body': async (link) => link.socket.write(endless().slice(0, -20)),
    'after the request': async (link) => link.socket.write(endless()),
    'a whole answer': async (link) => link.socket.write(postOf('/v1/completions', { prompt: 'a', max_tokens: 300, ignore_eos: true })),
    'at the first bytes': async (link) => {
        link.socket.write(endless());
        need(await received(link, (bytes) => bytes.length > 0), 'a stream did not start');
    },
    'in the middle': async (link) => {
        link.socket.write(endless());
        const enough = 4000 + Math.random() * 20000;
        need(await received(link, (bytes) => bytes.length > enough), 'a stream did not go on');
    },
    'watching the engine': async (link) => {
        link.socket.write('GET /engine/live HTTP/1.1\r\nHost: localhost\r\n\r\n');
        need(await received(link, (bytes) => bytes.length > 1000), 'no picture of the engine');
    },
    'in the page': async (link) => {
        link.socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /assets/chat.js HTTP/1.1\r\nHost: localhost\r\n\r\n');
        need(await received(link, (bytes) => bytes.length > 0), 'no page');
    },
};
const WAYS = {
    close: (link) => link.tcp.destroy(),
    reset: (link) => link.tcp.resetAndDestroy(),
    'half-close': async (link) => {
        link.socket.end();
        await sleep(Math.random() * 50);
        link.tcp.destroy();
    },
};

async function hangup(server) {
    const link = await connect(server);
    try {
        await pick(Object.values(STAGES))(link);
        await pick(Object.values(WAYS))(link);
    } finally {
        link.tcp.destroy();
    }
}

// Sends no more, and reads on: its answer must be whole.
async function halfClosed(server) {
    const request = pick(FIXED), streamed = request.api !== null && Math.random() < 0.5;
    const link = await connect(server);
    try {
        link.socket.end(postOf(request.path, streamed ? streamedBody(request) : request.body));
        await received(link, () => link.ended);
        const [answer, second] = answersOf(link.received);
        need(answer && !second && link.ended === 'end', `a half-closed client got ${answer?.status ?? 'nothing'} and ${link.ended}`);
        judge(server, request, streamed, answer);
    } finally {
        link.tcp.destroy();
    }
}

async function malformed(server) {
    const text = pick(MALFORMED), shown = JSON.stringify(text.slice(0, 90));
    const link = await connect(server);
    try {
        link.socket.write(text);
        need(await received(link, () => link.ended, 5e3), `${shown}: the connection stayed open`);
        const answers = answersOf(link.received);
        need(answers.length === 1, `${shown}: ${answers.length} answers`);
        need((answers[0].status >= 400 && answers[0].status < 500) || answers[0].status === 505, `${shown}: ${answers[0].status}`);
        need(JSON.parse(answers[0].text).error.message, `${shown}: no message`);
    } finally {
        link.tcp.destroy();
    }
}

// A connection that asks once and then waits; opened again where the server ended it.
async function idle(server, over) {
    const link = await connect(server);
    try {
        link.socket.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n');
        need(await received(link, (bytes) => bytes.includes('"ok"')), 'no answer before idling');
        note(server, 'GET', '/health', 200);
        while (!link.ended && !over()) await sleep(250);
    } finally {
        link.tcp.destroy();
    }
}

// Actors, the lanes of each on a server, and whether all that it does are whole exchanges.
export const ACTORS = [
    { name: 'fixed requests', act: (server) => fixed(server), lanes: 6, calm: true },
    { name: 'page reloads', act: page, lanes: 1, calm: true, pause: 200 },
    { name: 'all GET routes', act: gets, lanes: 1, calm: true, pause: 100 },
    { name: 'wrong requests', act: wrong, lanes: 1, calm: true, pause: 20 },
    { name: 'pipelines', act: pipeline, lanes: 1, calm: true, pause: 50 },
    { name: 'HEAD, then GET', act: head, lanes: 1, calm: true, pause: 50 },
    { name: 'slow senders', act: sender, lanes: 4, calm: true },
    { name: 'slow readers', act: reader, lanes: 2, calm: true },
    { name: 'hang-ups', act: hangup, lanes: 6 },
    { name: 'half-closed clients', act: halfClosed, lanes: 1, plain: true, pause: 50 },
    { name: 'malformed requests', act: malformed, lanes: 2, pause: 20 },
    { name: 'idle connections', act: idle, lanes: 50 },
];
// Each fixed request in each form, once.
export const EACH = FIXED.flatMap((request) => [[request, false], ...(request.api ? [[request, true]] : [])]);
export { fixed, get, note };
