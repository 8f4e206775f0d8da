// Everything at once against two real servers, one plain and one with TLS; README.md says what is
// done and what must hold.
//   node soak.mjs RUNNEL [--json FILE]     environment: SOAK_MINUTES (30), SOAK_REQUESTS (no limit)
import fs from 'node:fs';
import os from 'node:os';
import { Worker } from 'node:worker_threads';
import { ACTORS, EACH, fixed, get, ledger, note, uncalled } from './actors.mjs';
import { descriptors, PATIENCE_MS, rss, samplesOf, sleep, start } from './client.mjs';

// Pages of the KV cache are taken as they are used: 235 MB of the model's and 50 of the draft's with default settings.
const KV_MB = 285;
const SAMPLE_S = 2, QUIET_S = 20, RSS_GROWTH_MB_MAX = KV_MB + 60;
const GAUGES = ['runnel:http_active', 'runnel:http_preparing', 'runnel:http_body_bytes',
    'runnel:http_answer_bytes', 'runnel:choices_submitted', 'runnel:kv_pages{state="held"}', 'vllm:num_requests_running', 'vllm:num_requests_waiting'];

const program = process.argv[2];
const json = process.argv.includes('--json') ? process.argv[process.argv.indexOf('--json') + 1] : null;
const minutes = Number(process.env.SOAK_MINUTES || 30), requestsMax = Number(process.env.SOAK_REQUESTS || Infinity);
if (!program || !(minutes > 0) || !(requestsMax > 0)) {
    console.error('usage: node soak.mjs RUNNEL [--json FILE]');
    process.exit(2);
}
const folder = fs.mkdtempSync(`${os.tmpdir()}/soak-`);
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));

// ---------------------------------------------------------------- what is noted

const failures = new Map(); // what: how often
const fail = (what) => failures.set(what, (failures.get(what) ?? 0) + 1);
const acted = new Map(ACTORS.map(({ name }) => [name, { done: 0, failed: 0 }]));
const checks = []; // {what, expected, got, ok}
function check(what, expected, got, ok = expected === got) {
    checks.push({ what, expected, got, ok });
    if (!ok) fail(`${what}: expected ${expected}, got ${got}`);
}

// ---------------------------------------------------------------- the two that stay connected

// A scraper and a balancer, each on one connection for the whole time.
function watch(server) {
    server.scraper = { agent: new server.module.Agent({ keepAlive: true, maxSockets: 1 }), ports: new Set() };
    server.balancer = { ports: new Set(), worker: new Worker(new URL('balancer.mjs', import.meta.url),
        { workerData: { port: server.port, secure: server.secure, patience: PATIENCE_MS } }) };
    server.health = [];
    server.series = [];
}
async function scrape(server) {
    try {
        const answer = await get(server, '/metrics', { agent: server.scraper.agent });
        server.scraper.ports.add(answer.port);
        return samplesOf(answer.text);
    } catch (error) {
        fail(`${server.name}, /metrics: ${error.message}`);
        return new Map();
    }
}
// Lets the balancer ask while the promise is not settled.
async function balanced(server, promise) {
    const { worker, ports } = server.balancer;
    worker.postMessage('go');
    await promise;
    const told = new Promise((resolve) => worker.once('message', resolve));
    worker.postMessage('stop');
    const seen = await told;
    for (const failure of seen.failures) fail(`${server.name}, /health: ${failure}`);
    for (const port of seen.ports) ports.add(port);
    for (const ms of seen.ms) {
        server.health.push(ms);
        note(server, 'GET', '/health', 200);
    }
}
async function sample(server, began) {
    const samples = await scrape(server);
    const at = { s: (performance.now() - began) / 1e3, descriptors: descriptors(server), rss: rss(server),
        connections: samples.get('runnel:http_connections'), active: samples.get('runnel:http_active') };
    server.series.push(at);
    return at;
}

// ---------------------------------------------------------------- phases

async function lane(server, actor, over) {
    while (!over()) {
        const count = acted.get(actor.name);
        try {
            await actor.act(server, over);
            count.done++;
        } catch (error) {
            count.failed++;
            fail(`${server.name}, ${actor.name}: ${error.message}`);
            await sleep(100);
        }
        if (actor.pause) await sleep(Math.random() * 2 * actor.pause);
    }
}

// Runs the actors until over; the watchers go on beside them.
async function run(servers, actors, over) {
    const lanes = servers.flatMap((server) => actors.filter((actor) => !(actor.plain && server.secure))
        .flatMap((actor) => Array.from({ length: server.secure ? Math.ceil(actor.lanes / 3) : actor.lanes }, () => lane(server, actor, over))));
    await Promise.all(servers.map((server) => balanced(server, Promise.all(lanes))));
}

// What the server counted between two scrapes against what the client did. exact: nothing else was done.
function compare(server, before, after, seen, exact) {
    const grown = (name) => (after.get(name) ?? 0) - (before.get(name) ?? 0);
    const judge = (what, ours, theirs) => check(`${server.name}: ${what}`, `${exact ? '' : '>= '}${ours}`, theirs, exact ? ours === theirs : theirs >= ours);
    let wrong = 0, whole = 0;
    for (const [key, count] of seen.exchanges) {
        const [method, route, status] = key.split(' ');
        if (route === '/metrics') continue; // the scrapes themselves
        const theirs = grown(`runnel:http_requests_total{route="${route}",method="${method}",status="${status}"}`);
        whole += count;
        if (exact ? theirs === count : theirs >= count) continue;
        wrong++;
        fail(`${server.name}: ${key}: the server counted ${theirs}, the client ${count}`);
    }
    check(`${server.name}: counters of ${whole} exchanges that differ${exact ? ', calm' : ''}`, 0, wrong);
    judge(`tokens${exact ? ', calm' : ''}`, seen.tokens, grown('vllm:generation_tokens_total'));
}

// After it nothing is under way. The last counters of a request may come after its last byte.
async function phase(servers, exact, act) {
    const before = [];
    for (const server of servers) {
        before.push(await scrape(server));
        server.ledger = ledger();
    }
    await act();
    for (const server of servers) server.agent.destroy();
    await sleep(1000);
    for (const [i, server] of servers.entries()) compare(server, before[i], await scrape(server), server.ledger, exact);
}

async function quiet(server, baseline) {
    let samples, fds, connections;
    const zero = () => GAUGES.filter((name) => samples.get(name) !== 0);
    for (const end = performance.now() + QUIET_S * 1e3; ;) {
        samples = await scrape(server);
        fds = descriptors(server);
        connections = samples.get('runnel:http_connections');
        if ((fds <= baseline && connections <= 2 && !zero().length) || performance.now() > end) break;
        await sleep(100);
    }
    check(`${server.name}: descriptors`, `<= ${baseline}`, fds, fds <= baseline);
    check(`${server.name}: connections`, 2, connections);
    for (const name of GAUGES) check(`${server.name}: ${name}`, 0, samples.get(name));
}

// Streams that were accepted finish whole after SIGTERM, and the server ends with 0.
async function drain(server) {
    let begun = 0;
    const request = { name: 'last streams', api: 'openai', path: '/v1/completions', body: { prompt: 'Once', max_tokens: 400, seed: 5, ignore_eos: true } };
    const streams = Array.from({ length: 8 }, () => fixed(server, request, true, { agent: false, on: (response) => response.once('data', () => begun++) }));
    const done = Promise.allSettled(streams);
    for (let i = 0; i < 2000 && begun < streams.length; i++) await sleep(5);
    server.child.kill('SIGTERM');
    const whole = (await done).filter((one) => one.status === 'fulfilled' || fail(`${server.name}, last stream: ${one.reason.message}`)).length;
    check(`${server.name}: streams that end whole after SIGTERM`, streams.length, whole);
    const code = await Promise.race([server.ended, sleep(30e3).then(() => 'still running')]);
    check(`${server.name}: exit status`, 0, code);
}

function accessLog(server) {
    const ids = new Set();
    let lines = 0, broken = 0;
    for (const line of fs.readFileSync(server.log, 'utf8').split('\n')) {
        if (!line) continue;
        lines++;
        try { ids.add(JSON.parse(line).id); } catch { broken++; }
    }
    check(`${server.name}: lines of the access log that are wrong, of ${lines}`, 0, broken + lines - broken - ids.size);
}

// ---------------------------------------------------------------- what is told

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? NaN;
function slope(series) { // of memory, MB/min
    const n = series.length, mean = (of) => series.reduce((sum, at) => sum + of(at), 0) / n;
    const t = mean((at) => at.s), m = mean((at) => at.rss);
    return 60 * series.reduce((sum, at) => sum + (at.s - t) * (at.rss - m), 0) / series.reduce((sum, at) => sum + (at.s - t) ** 2, 0);
}

function report(servers, took) {
    const out = [`${'clients'.padEnd(24)} ${'done'.padStart(9)} ${'failed'.padStart(7)}`];
    for (const [name, { done, failed }] of acted) out.push(`${name.padEnd(24)} ${String(done).padStart(9)} ${String(failed).padStart(7)}`);
    out.push('', 'server     /health p50      p99      max ms   RSS start      max      end MB   slope MB/min  descriptors max');
    const servings = servers.map((server) => {
        const ms = server.health.sort((a, b) => a - b), of = server.series;
        const told = { name: server.name, health_ms: { n: ms.length, p50: quantile(ms, 0.5), p99: quantile(ms, 0.99), max: ms.at(-1) },
            rss_mb: { start: of[0].rss, max: Math.max(...of.map((at) => at.rss)), end: of.at(-1).rss, slope_per_min: slope(of.slice(of.length >> 1)) },
            descriptors_max: Math.max(...of.map((at) => at.descriptors)), series: of };
        const pad = (x, n = 9) => x.toFixed(1).padStart(n);
        out.push(`${server.name.padEnd(10)} ${pad(told.health_ms.p50, 11)}${pad(told.health_ms.p99)}${pad(told.health_ms.max)}   ${pad(told.rss_mb.start)}` +
            `${pad(told.rss_mb.max)}${pad(told.rss_mb.end)}   ${told.rss_mb.slope_per_min.toFixed(2).padStart(15)}  ${String(told.descriptors_max).padStart(15)}`);
        return told;
    });
    out.push('', `${'what must hold'.padEnd(62)} ${'expected'.padStart(12)} ${'got'.padStart(12)}`);
    for (const { what, expected, got, ok } of checks) out.push(`${what.padEnd(62)} ${String(expected).padStart(12)} ${String(got).padStart(12)}${ok ? '' : '  WRONG'}`);
    const kinds = [...failures].sort((a, b) => b[1] - a[1]);
    if (kinds.length) out.push('', `failures (${kinds.length} kinds${kinds.length > 25 ? ', the first 25' : ''}):`, ...kinds.slice(0, 25).map(([what, n]) => `${String(n).padStart(7)} x ${what.slice(0, 300)}`));
    out.push('', `${kinds.length ? 'FAILED' : 'ok'} after ${(took / 60).toFixed(1)} min`);
    console.log(out.join('\n'));
    if (json) fs.writeFileSync(json, JSON.stringify({ took_s: took, clients: Object.fromEntries(acted), servers: servings, checks, failures: Object.fromEntries(kinds) }, null, 1));
}

// ---------------------------------------------------------------- the whole

const began = performance.now();
const elapsed = () => (performance.now() - began) / 1e3;
const servers = [await start(program, folder, 'plain', false), await start(program, folder, 'tls', true)];
check('routes that no request of ours calls', '', uncalled().join(' '));
for (const server of servers) watch(server);
const tell = (text) => { if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`); };

// Baselines are those after each request was made once.
for (const server of servers) {
    server.ledger = ledger();
    for (const [request, streamed] of EACH) await fixed(server, request, streamed).catch((error) => fail(`${server.name}, first: ${error.message}`));
    await balanced(server, sleep(500));
    server.agent.destroy();
    await sleep(300);
    await scrape(server);
    server.baseline = descriptors(server);
}

const calmS = Math.min(30, minutes * 60 * 0.15), stormS = minutes * 60 - 2 * calmS;
const done = () => [...acted.values()].reduce((sum, { done: n }) => sum + n, 0);
const sampling = setInterval(async () => {
    for (const server of servers) {
        const at = await sample(server, began);
        tell(`${elapsed().toFixed(0)} s of ${(minutes * 60).toFixed(0)}: ${done()} actions, ${failures.size} kinds of failures; ${server.name}: ${at.descriptors} descriptors, ${at.connections} connections, ${at.rss.toFixed(0)} MB`);
    }
}, SAMPLE_S * 1e3);

const calm = ACTORS.filter((actor) => actor.calm);
const until = (s) => { const end = elapsed() + s; return () => elapsed() > end || done() >= requestsMax; };
await phase(servers, true, () => run(servers, calm, until(calmS)));
await phase(servers, false, () => run(servers, ACTORS, until(stormS)));
for (const server of servers) await quiet(server, server.baseline);
await phase(servers, true, () => run(servers, calm, until(calmS)));
for (const server of servers) {
    for (const [request, streamed] of EACH) await fixed(server, request, streamed).catch((error) => fail(`${server.name}, last: ${error.message}`));
    server.agent.destroy();
    await quiet(server, server.baseline);
    await sample(server, began);
}
clearInterval(sampling);
for (const server of servers) {
    const { start: from, end } = { start: server.series[0].rss, end: server.series.at(-1).rss };
    check(`${server.name}: growth of memory, MB`, `<= ${RSS_GROWTH_MB_MAX}`, (end - from).toFixed(1), end - from <= RSS_GROWTH_MB_MAX);
    check(`${server.name}: connections of the scraper`, 1, server.scraper.ports.size);
    check(`${server.name}: connections of the balancer`, 1, server.balancer.ports.size);
    await drain(server);
    accessLog(server);
}
tell('');
report(servers, elapsed());
process.exit(failures.size ? 1 : 0);
