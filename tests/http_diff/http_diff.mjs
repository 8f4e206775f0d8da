// Compares how the server's reader and llhttp split streams of bytes into requests. README.md says
// what is compared, and which differences are allowed.
//   node http_diff.mjs [--reader PROGRAM] [--requests N] [--seed N] [--from STREAM] [--first] [--out FILE]
//   node http_diff.mjs [--reader PROGRAM] --files FOLDER
//   node http_diff.mjs [--reader PROGRAM] --examples
import { spawn } from 'node:child_process';
import { appendFileSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { allowed, closes } from './allowed.mjs';
import { Random, stream } from './generate.mjs';
import { split } from './llhttp.mjs';

const { values: options } = parseArgs({ options: {
    reader: { type: 'string', default: 'build/tests/http_diff/reader_split' },
    requests: { type: 'string', default: '10000000' },
    seed: { type: 'string', default: '1' },
    files: { type: 'string' },
    first: { type: 'boolean', default: false },
    from: { type: 'string', default: '0' },
    out: { type: 'string', default: 'http_diff.failures' },
    examples: { type: 'boolean', default: false },
} });
Error.stackTraceLimit = 0; // a refusal of llhttp's is an Error

const batchStreams = 4000;
const ends = ['more', 'refused', 'closed'];
// What a client could send next where llhttp has refused and the reader waits: none may be accepted.
const suffixes = ['\r\n\r\n', '\n\r\n\r\n', ' HTTP/1.1\r\nHost: a\r\n\r\n', '\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n', '\r\nxxxxxxxx\r\n0\r\n\r\n'];
const rows = new Map(allowed.map((row) => [`${row.status} ${row.code}: ${row.why}`, row]));

// ---------------------------------------------------------------- the reader, in a process of its own

const child = spawn(options.reader, [], { stdio: ['pipe', 'pipe', 'inherit'] });
child.on('error', (error) => { throw error; });
let replies = Buffer.alloc(1 << 20);
let wake = () => {};
child.stdout.on('readable', () => wake());
child.on('exit', () => wake());

// One reply for each of n streams; the reader sends them when an empty stream ends the batch.
async function readerSplit(batch, n) {
    child.stdin.write(batch);
    let filled = 0, counted = 0;
    const starts = [];
    while (starts.length <= n) {
        const chunk = child.stdout.read();
        if (!chunk) {
            if (child.exitCode !== null || child.signalCode !== null) throw new Error(`${options.reader} ended`);
            await new Promise((done) => { wake = done; });
            continue;
        }
        if (filled + chunk.length > replies.length) replies = Buffer.concat([replies], (filled + chunk.length) * 2);
        filled += chunk.copy(replies, filled);
        while (filled - counted >= 4 && filled - counted >= 4 + replies.readUInt32LE(counted)) {
            starts.push(counted);
            counted += 4 + replies.readUInt32LE(counted);
        }
    }
    return starts;
}

function replyRead(at) {
    const end = ends[replies[at + 4]];
    const status = replies.readUInt16LE(at + 6);
    const requests = [];
    const last = at + 4 + replies.readUInt32LE(at);
    let n = replies.readUInt32LE(at + 8);
    for (at += 12; n > 0; n--) {
        const flags = replies[at];
        const textEnd = at + 5 + replies.readUInt32LE(at + 1);
        const bodyEnd = textEnd + 4 + replies.readUInt32LE(textEnd);
        requests.push({ text: replies.latin1Slice(at + 5, textEnd), body: replies.latin1Slice(textEnd + 4, bodyEnd),
            complete: (flags & 1) !== 0, keep: (flags & 2) !== 0, minor: flags >> 2 });
        at = bodyEnd;
    }
    const reason = end === 'refused' ? `${status} ${replies.latin1Slice(at, last - 1).replace('\0', ': ')}` : '';
    return { requests, end, reason };
}

class Batch {
    constructor() {
        this.bytes = Buffer.allocUnsafe(1 << 22);
        this.clear();
    }
    clear() {
        this.used = 0;
        this.items = [];
    }
    // Returns the bytes of the stream, where they are in the batch.
    add(text, seed, item) {
        const needed = this.used + 16 + text.length;
        if (needed > this.bytes.length) this.bytes = Buffer.concat([this.bytes], needed * 2);
        this.bytes.writeUInt32LE(text.length, this.used);
        this.bytes.writeUInt32LE(seed, this.used + 4);
        const begin = this.used + 8;
        this.bytes.latin1Write(text, begin);
        this.used = begin + text.length;
        if (item) this.items.push(item);
        return this.bytes.subarray(begin, this.used);
    }
    // Calls judge(item, reply) for all that was added.
    async judge(judge) {
        this.add('', 0, null);
        const starts = await readerSplit(this.bytes.subarray(0, this.used), this.items.length);
        this.items.forEach((item, i) => judge(item, replyRead(starts[i])));
        this.clear();
    }
}

// ---------------------------------------------------------------- the comparison

const completed = (requests) => requests.length - (requests.length && !requests.at(-1).complete ? 1 : 0);

// What both have must be the same; of a request that one of them has not completed, the body so far.
function requestDifference(ours, theirs) {
    if (theirs.major !== 1 || theirs.minor !== ours.minor) return 'versions differ';
    if (theirs.text !== ours.text) return 'heads differ';
    if (ours.keep && !theirs.keep) return 'the reader keeps a connection that llhttp closes';
    if (ours.complete && theirs.complete ? ours.body !== theirs.body : !theirs.body.startsWith(ours.body)) return 'bodies differ';
    return '';
}

// Nothing is accepted by the reader that llhttp has not accepted.
function acceptedDifference(ours, theirs) {
    if (ours.requests.length > theirs.heads) return 'the reader accepts a head that llhttp does not';
    if (completed(ours.requests) > completed(theirs.requests)) return 'the reader completes a request that llhttp does not';
    for (let i = 0; i < ours.requests.length; i++) {
        const difference = requestDifference(ours.requests[i], theirs.requests[i]);
        if (difference) return difference;
    }
    return '';
}

// { failure }: not allowed; { row }: allowed by that row; { both }: nobody or both refuse.
function compare(ours, theirs) {
    const failure = acceptedDifference(ours, theirs);
    if (failure) return { failure };
    const n = completed(ours.requests);
    if (ours.end === 'refused' && theirs.end !== 'refused') {
        if (completed(theirs.requests) === n) return { both: 'waits' };
        const row = rows.get(ours.reason);
        return row ? { row } : { failure: 'the reader refuses a request that llhttp accepts, without a row in the table' };
    }
    if (ours.end === 'closed' && theirs.requests[n - 1].keep) {
        return closes.sign.test(ours.requests[n - 1].text) ? { row: closes } : { failure: 'the reader closes a connection that llhttp keeps' };
    }
    if (theirs.end === 'refused' || ours.end === 'refused') return { both: 'refused' };
    if (theirs.heads !== ours.requests.length || completed(theirs.requests) !== n) return { failure: 'llhttp accepts a request that the reader does not' };
    if (ours.requests.length > n && ours.requests[n].body !== theirs.requests[n].body) return { failure: 'bodies differ' };
    return { both: 'accepted' };
}

// ---------------------------------------------------------------- the run

const stats = { streams: 0, valid: 0, requests: 0, both: { accepted: 0, refused: 0, waits: 0 }, rows: new Map(), codes: new Map(), probes: 0, failures: 0, kinds: new Set(),
    mutated: { chunked: 0, trailers: 0, bodies: 0 } };
const count = (map, key) => map.set(key, (map.get(key) ?? 0) + 1);
const escaped = (text) => JSON.stringify(text).replace(/[\x7F-\xFF]/g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`);

// One stream of each kind of failure is shown, and written to the file with all that both made of it.
function fail(item, ours, why) {
    stats.failures++;
    const kind = `${item.suffix ? 'continued: ' : ''}${why}; reader: ${ours.reason || ours.end}; llhttp: ${item.theirs.code || item.theirs.end}`;
    if (stats.kinds.size >= 20 || stats.kinds.has(kind)) return;
    stats.kinds.add(kind);
    const text = `stream ${item.number}: ${kind}\n  ${escaped(item.text)}\n`;
    process.stdout.write(text);
    appendFileSync(options.out, `${text}  reader: ${escaped(ours)}\n  llhttp: ${escaped(item.theirs)}\n`);
}

// Where mutations were and the requests are still accepted or are refused only in their body.
function reachCount(item) {
    const { requests, trailed, end } = item.theirs;
    if (requests.some((request) => request.complete && /\0transfer-encoding\0/i.test(request.text))) stats.mutated.chunked++;
    if (trailed) stats.mutated.trailers++;
    if (end === 'refused' && requests.length > completed(requests)) stats.mutated.bodies++;
}

function judge(item, ours, probes) {
    if (item.suffix) {
        const failure = acceptedDifference(ours, item.theirs);
        if (failure) fail({ ...item, text: item.text + item.suffix }, ours, failure);
        return;
    }
    const result = compare(ours, item.theirs);
    if (result.failure) fail(item, ours, result.failure);
    else if (item.isValid && (ours.end === 'refused' || item.theirs.end === 'refused')) fail(item, ours, 'a valid stream is refused');
    if (result.row) count(stats.rows, result.row.id);
    if (result.both) stats.both[result.both]++;
    if (item.theirs.end === 'refused') count(stats.codes, item.theirs.code);
    stats.streams++;
    stats.requests += completed(ours.requests) + (ours.end === 'refused' || item.theirs.end === 'refused' ? 1 : 0);
    if (item.isValid) stats.valid++;
    else reachCount(item);
    if (item.theirs.end === 'refused' && ours.end === 'more') probes.push(item);
}

function pieces(seed) {
    const random = new Random(seed, 0);
    return (left) => (seed ? 1 + random.below(random.chance(50) ? 32 : 3) : left);
}

function streamAdd(batch, number, text, isValid, cut) {
    const item = { number, text, isValid, theirs: null };
    const bytes = batch.add(text, cut, item);
    item.theirs = split(bytes, pieces(cut));
}

function generate(batch, seed, number) {
    const random = new Random(seed, number);
    const { text, isValid } = stream(random);
    if (text) streamAdd(batch, number, text, isValid, random.chance(40) ? random.next() : 0);
}

// Where llhttp refused and the reader waits, the stream is continued.
function probesAdd(batch, probes) {
    for (const item of probes) {
        for (const suffix of suffixes) batch.add(item.text + suffix, 0, { ...item, suffix });
    }
    stats.probes += probes.length;
}

function report(seconds) {
    const share = (n) => `${n} (${(100 * n / stats.streams).toFixed(2)}%)`;
    console.log(`${stats.requests} requests in ${stats.streams} streams, ${Math.round(seconds)} s; ${stats.failures} unexplained differences`);
    console.log(`streams that both accept: ${share(stats.both.accepted)}; both refuse: ${share(stats.both.refused)}; the reader refuses, llhttp waits for more: ${share(stats.both.waits)}`);
    console.log(`without mutations: ${share(stats.valid)}; mutated, and accepted with chunks: ${share(stats.mutated.chunked)}, with trailers: ${share(stats.mutated.trailers)}, refused in the body: ${share(stats.mutated.bodies)}`);
    console.log(`continued with ${suffixes.length} suffixes after llhttp's refusal: ${stats.probes}`);
    console.log('allowed differences:');
    for (const row of [...allowed, closes]) console.log(`  ${row.id}: ${share(stats.rows.get(row.id) ?? 0)}`);
    console.log(`llhttp's refusals: ${[...stats.codes].sort((a, b) => b[1] - a[1]).map(([code, n]) => `${code} ${n}`).join(', ')}`);
}

async function compareMany() {
    const start = Date.now();
    const batch = new Batch();
    let number = Number(options.from), shown = start, probes = [];
    while (stats.requests < Number(options.requests) && stats.kinds.size < (options.first ? 1 : 20)) {
        probesAdd(batch, probes);
        probes = [];
        for (let i = 0; i < batchStreams; i++) generate(batch, Number(options.seed), number++);
        await batch.judge((item, ours) => judge(item, ours, probes));
        if (Date.now() - shown > 60000) {
            shown = Date.now();
            console.log(`${stats.requests} requests, the next stream is ${number}, ${stats.failures} unexplained differences`);
        }
    }
    report((Date.now() - start) / 1000);
    return stats.failures === 0;
}

// The streams in a folder's files, whole and cut in three ways.
async function compareFiles() {
    const batch = new Batch();
    const probes = [];
    for (const name of readdirSync(options.files)) {
        const text = readFileSync(join(options.files, name), 'latin1');
        for (let cut = 0; text && cut < 4; cut++) streamAdd(batch, name, text, false, cut);
    }
    await batch.judge((item, ours) => judge(item, ours, probes));
    probesAdd(batch, probes);
    await batch.judge((item, ours) => judge(item, ours, probes));
    console.log(`${stats.streams} streams of ${options.files}: ${stats.failures} unexplained differences`);
    return stats.streams > 0 && stats.failures === 0;
}

// Each row's examples: refused by the reader for the row's reason, accepted by llhttp.
async function compareExamples() {
    const batch = new Batch();
    let good = true, n = 0;
    for (const row of [...allowed, closes]) {
        for (const text of row.examples) {
            const item = { row, text, theirs: null };
            item.theirs = split(batch.add(text, 0, item), (left) => left);
        }
    }
    await batch.judge((item, ours) => {
        const result = compare(ours, item.theirs);
        n++;
        if (result.row === item.row) return;
        good = false;
        console.log(`${item.row.id}: ${escaped(item.text.slice(0, 300))} is no example: ${JSON.stringify({ ...result, ours, theirs: item.theirs }).slice(0, 1000)}`);
    });
    const readme = readFileSync(new URL('README.md', import.meta.url), 'utf8');
    for (const row of [...allowed, closes]) {
        if (row.examples.length && readme.includes(`| ${row.id} | ${row.rule} | ${row.status ? `${row.status} ${row.code} | ${row.why}` : '|'} |`)) continue;
        good = false;
        console.log(`${row.id}: no example, or no such row in README.md`);
    }
    console.log(`${n} examples of ${allowed.length + 1} allowed differences`);
    return good;
}

const good = await (options.examples ? compareExamples() : options.files ? compareFiles() : compareMany());
child.stdin.end();
process.exitCode = good ? 0 : 1;
