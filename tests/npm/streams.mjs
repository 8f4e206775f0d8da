// Many clients at once: every text is that of its request alone; overload, hang-ups, readers that do
// not read and the end of the server cost nobody else anything. Node's own modules only.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import net from 'node:net';
import test from 'node:test';
import { ask, idle, metric, random, serve, sleep, slowly, stream, until } from './server.mjs';

const slow = process.env.SAN ? 0.25 : 0.4; // sanitizers: fewer of everything, and more time
const subjects = ['fox', 'lantern', 'robot', 'river', 'owl', 'kite', 'bear', 'moon'];
const question = (i) => ({
    messages: [{ role: 'user', content: `Tell me a story about a ${subjects[i % subjects.length]} and number ${i}.` }],
    max_tokens: 24 + (i * 7) % 40, seed: i, temperature: i % 3 ? 0.9 : 0, top_p: 0.95,
});
const rss = (server) => Number(fs.readFileSync(`/proc/${server.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024;

test('many streams at once each give the text that they give alone', async () => {
    const server = await serve(['--max-seqs', '16', '--max-waiting', '64']);
    const n = Math.round(64 * slow);
    const together = await Promise.all(Array.from({ length: n }, (_, i) => stream(server, '/v1/chat/completions', question(i))));
    for (const [i, answer] of together.entries()) {
        assert.equal(answer.status, 200, answer.rest);
        assert.ok(answer.done && answer.finish, `stream ${i} has no end`);
        const alone = JSON.parse((await ask(server, '/v1/chat/completions', question(i))).text);
        assert.equal(answer.text, alone.choices[0].message.content, `stream ${i}`);
        assert.equal(answer.finish, alone.choices[0].finish_reason);
    }
    await idle(server);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
});

test('ten times too many: what was accepted finishes, the rest is told at once to come back', async () => {
    const places = 8;
    const server = await serve(['--max-seqs', '4', '--max-waiting', String(places - 4), ...slowly]);
    const body = { ...question(1), max_tokens: process.env.SAN ? 200 : 60, ignore_eos: true };
    await stream(server, '/v1/chat/completions', { ...body, max_tokens: 1 });
    const before = rss(server);
    const answers = await Promise.all(Array.from({ length: places * 10 }, async () => {
        const start = performance.now();
        const answer = await stream(server, '/v1/chat/completions', body);
        return { ...answer, ms: performance.now() - start };
    }));
    const accepted = answers.filter((answer) => answer.status === 200);
    const refused = answers.filter((answer) => answer.status === 429);
    assert.equal(accepted.length + refused.length, answers.length);
    assert.ok(accepted.length >= 4 && refused.length >= places * 8, `${accepted.length} accepted`);
    for (const answer of accepted) assert.ok(answer.done && answer.finish === 'length' && !answer.errors.length);
    for (const answer of refused) {
        assert.ok(Number(answer.headers['retry-after']) >= 1);
        assert.equal(JSON.parse(answer.rest).error.type, 'rate_limit_error');
    }
    refused.sort((a, b) => a.ms - b.ms);
    console.log(`refused in ${refused[refused.length >> 1].ms.toFixed(1)} ms (median), ${refused.at(-1).ms.toFixed(1)} ms (last)`);
    assert.ok(rss(server) - before < 64, `memory grew from ${before} to ${rss(server)} MiB`);
    await idle(server);
    assert.equal((await server.stop()).code, 0);
});

test('hang-ups at random moments give all pages back and change nobody\'s text', async () => {
    const server = await serve(['--max-seqs', '8', '--max-waiting', '128']);
    const chance = random(7);
    const survivors = [0, 1, 2].map(question).map((body) => ({ ...body, max_tokens: 60 }));
    const alone = [];
    for (const body of survivors) alone.push((await stream(server, '/v1/chat/completions', body)).text);
    let left = Math.round(300 * slow), finished = 0;
    const hangUps = Array.from({ length: 24 }, async (_, lane) => {
        while (left-- > 0) {
            const body = JSON.stringify({ ...question(Math.floor(chance() * 1e6)), stream: true, max_tokens: 200 });
            const socket = net.connect(server.port, '127.0.0.1');
            socket.on('error', () => {});
            const moment = chance();
            const text = `POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
            // in the head, in the body, in the queue or the prompt, in the stream
            socket.write(moment < 0.1 ? text.slice(0, 30) : moment < 0.2 ? text.slice(0, -20) : text);
            await sleep(moment < 0.5 ? chance() * 5 : chance() * 150);
            if (lane % 2) socket.destroy(); else { socket.resetAndDestroy?.(); socket.destroy(); }
            finished++;
        }
    });
    let rounds = 0;
    const watched = survivors.map(async (body, i) => {
        for (let mine = 0; left > 0 || mine < 2;) {
            const answer = await stream(server, '/v1/chat/completions', body);
            if (answer.status === 429) { await sleep(20); continue; }
            assert.equal(answer.text, alone[i], `survivor ${i}`);
            rounds++;
            mine++;
        }
    });
    await Promise.all([...hangUps, ...watched]);
    console.log(`${finished} hang-ups, ${rounds} survivors`);
    await idle(server);
    assert.equal((await server.stop()).code, 0);
});

test('a reader that stops reading is paused alone, and cut off in the end', async () => {
    const server = await serve(['--max-seqs', '4', '--stall-timeout', '2']);
    const body = JSON.stringify({ prompt: 'Once upon a time', max_tokens: Math.round(1000 * slow), ignore_eos: true, stream: true, n: 3, logprobs: 5 });
    const socket = net.connect({ port: server.port, host: '127.0.0.1' });
    await new Promise((resolve) => socket.on('connect', resolve));
    socket.pause();
    let closed = false;
    socket.on('close', () => { closed = true; });
    socket.on('error', () => {});
    socket.write(`POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    await sleep(100);
    for (let i = 0; i < 4; i++) { // goes on for everyone else
        const answer = await stream(server, '/v1/chat/completions', question(i));
        assert.equal(answer.status, 200);
        assert.ok(answer.done);
    }
    await idle(server); // finished into its buffers, or cut off
    socket.resume();
    await until('the socket is closed or drained', async () => closed || socket.readyState !== 'opening', 5e3);
    socket.destroy();
    assert.equal((await server.stop()).code, 0);
});

test('SIGTERM during 16 streams: readiness flips, all finish, exit 0', async () => {
    const server = await serve(['--max-seqs', '16', ...slowly]);
    const bodies = Array.from({ length: 16 }, (_, i) => ({ ...question(i), max_tokens: 75, ignore_eos: true }));
    const alone = [];
    for (const body of bodies.slice(0, 2)) alone.push((await stream(server, '/v1/chat/completions', body)).text);
    let started = 0;
    let refusedNew = null, health = null;
    const begun = bodies.map((body) => {
        let first = true;
        return stream(server, '/v1/chat/completions', body, { on: () => { if (first) { first = false; started++; } } });
    });
    await until('16 streams', async () => started === 16);
    server.child.kill('SIGTERM');
    await until('draining', async () => (health = await ask(server, '/health')).status === 503);
    refusedNew = await ask(server, '/v1/chat/completions', question(1));
    const answers = await Promise.all(begun);
    for (const answer of answers) assert.ok(answer.done && answer.finish === 'length' && !answer.errors.length);
    for (const [i, text] of alone.entries()) assert.equal(answers[i].text, text);
    assert.equal(JSON.parse(health.text).error.type, 'unavailable_error');
    assert.equal(refusedNew.status, 503);
    assert.deepEqual(await server.ended, { code: 0, signal: null });
});

test('a second signal ends at once', async () => {
    const server = await serve([]);
    const begun = stream(server, '/v1/chat/completions', { ...question(1), max_tokens: 900, ignore_eos: true }).catch(() => null);
    await sleep(50);
    server.child.kill('SIGINT');
    await sleep(20);
    server.child.kill('SIGINT');
    assert.equal((await server.ended).code, 130);
    await begun;
});

test('salts keep prefixes apart, priorities decide who goes first, an end token can be ignored', async () => {
    const server = await serve(['--max-seqs', '1']);
    const long = { prompt: 'Once upon a time there was a fox. '.repeat(12), max_tokens: 2, temperature: 0 };
    const cached = async (salt) => JSON.parse((await ask(server, '/v1/completions', { ...long, cache_salt: salt })).text)
        .usage.prompt_tokens_details.cached_tokens;
    assert.equal(await cached('one'), 0);
    assert.ok(await cached('one') >= 32);
    assert.equal(await cached('two'), 0);

    const story = { ...question(3), max_tokens: 400, temperature: 0 };
    const ends = await stream(server, '/v1/chat/completions', story);
    assert.equal(ends.finish, 'stop');
    const goesOn = await stream(server, '/v1/chat/completions', { ...story, ignore_eos: true });
    assert.equal(goesOn.finish, 'length');
    assert.equal(goesOn.timings.predicted_n, 400);

    assert.equal((await server.stop()).code, 0);

    const narrow = await serve(['--max-seqs', '1', ...slowly]);
    let first;
    const gone = new Promise((resolve) => {
        stream(narrow, '/v1/chat/completions', { ...story, max_tokens: 900, ignore_eos: true }, { on: (_, request) => { first = request; } }).catch(resolve);
    });
    await until('the first runs', async () => first);
    const waiting = [0, -5, 10].map(async (priority) => {
        const answer = await stream(narrow, '/v1/chat/completions', { ...story, max_tokens: 20, priority });
        return { priority, waited: answer.timings.queue_ms };
    });
    await until('three wait', async () => (await metric(narrow, 'vllm:num_requests_waiting')) === 3);
    first.destroy();
    await gone;
    const order = (await Promise.all(waiting)).sort((a, b) => a.waited - b.waited).map((one) => one.priority);
    assert.deepEqual(order, [-5, 0, 10]);
    assert.equal((await narrow.stop()).code, 0);
});
