// /metrics against a client's own clock and counters: counts are exact, times are those that the
// client saw. Another program's load can come between the two clocks, so times have several tries.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import test from 'node:test';
import { ask, idle, serve, stream } from './server.mjs';

const log = fs.mkdtempSync('./log-') + '/access.log'; // the folder is the script's, and ends with it
const server = await serve(['--access-log', log, '--draft-min', '1']); // drafts, whether they pay or not

// Samples by name and labels: {name: [{labels, value}]}.
async function scrape() {
    const { text } = await ask(server, '/metrics');
    const samples = {};
    for (const line of text.split('\n')) {
        const found = line.match(/^([^ {#]+)(?:\{(.*)\})? (.+)$/);
        if (!found) continue;
        const labels = Object.fromEntries([...(found[2] ?? '').matchAll(/(\w+)="([^"]*)"/g)].map((at) => [at[1], at[2]]));
        (samples[found[1]] ??= []).push({ labels, value: Number(found[3]) });
    }
    return samples;
}
// The sum of a family's samples that have these labels.
const total = (samples, name, labels = {}) => (samples[name] ?? assert.fail(`there is no ${name}`))
    .filter((at) => Object.entries(labels).every(([key, value]) => at.labels[key] === value))
    .reduce((sum, at) => sum + at.value, 0);
const growth = (before, after) => (name, labels) => {
    const known = before[name] ? total(before, name, labels) : 0; // labels come with their first sample
    return total(after, name, labels) - known;
};

const TOKENS = 50;
const question = (i) => ({ messages: [{ role: 'user', content: `Tell me a story about number ${i}.` }],
    max_tokens: TOKENS, ignore_eos: true, seed: i, stream_options: { include_usage: true } });

// One stream and what its client sees of it; seconds.
async function watched(i) {
    const start = performance.now();
    const at = [];
    const answer = await stream(server, '/v1/chat/completions', question(i), { on: () => at.push(performance.now()) });
    assert.equal(answer.usage.completion_tokens, TOKENS);
    return { ttft: (at[0] - start) / 1e3, gaps: (at.at(-1) - at[0]) / 1e3, e2e: (performance.now() - start) / 1e3,
        pieces: at.length, prompt: answer.usage.prompt_tokens, cached: answer.usage.prompt_tokens_details.cached_tokens };
}

async function measured(lanes, each) {
    const before = await scrape();
    const seen = [];
    await Promise.all(Array.from({ length: lanes }, async (_, lane) => {
        for (let i = 0; i < each; i++) seen.push(await watched(100 * lane + i));
    }));
    await idle(server);
    return { seen, grown: growth(before, await scrape()) };
}
const sum = (seen, what) => seen.reduce((all, one) => all + one[what], 0);

test('requests, tokens and gaps are counted exactly', async () => {
    for (const [lanes, each] of [[1, 3], [6, 2]]) {
        const { seen, grown } = await measured(lanes, each);
        const n = lanes * each;
        assert.equal(sum(seen, 'pieces'), n * TOKENS); // one piece for each token
        assert.equal(grown('vllm:request_success_total'), n);
        assert.equal(grown('vllm:request_success_total', { finished_reason: 'length' }), n);
        assert.equal(grown('runnel:http_requests_total', { route: '/v1/chat/completions', status: '200', method: 'POST' }), n);
        assert.equal(grown('vllm:generation_tokens_total'), n * TOKENS);
        assert.equal(grown('vllm:prompt_tokens_total'), sum(seen, 'prompt'));
        assert.equal(grown('vllm:prefix_cache_hits_total'), sum(seen, 'cached'));
        const together = grown('vllm:spec_decode_num_accepted_tokens_total'); // with the token before
        assert.equal(grown('vllm:inter_token_latency_seconds_count'), n * (TOKENS - 1) - together);
        assert.equal(grown('runnel:gap_seconds_count'), n * (TOKENS - 1) - together); // of all causes
        for (const name of ['time_to_first_token', 'e2e_request_latency', 'request_time_per_output_token',
            'request_queue_time', 'request_prefill_time', 'request_decode_time', 'request_inference_time']) {
            assert.equal(grown(`vllm:${name}_seconds_count`), n, name);
        }
        assert.equal(grown('vllm:request_generation_tokens_sum'), n * TOKENS);
        assert.equal(grown('vllm:request_max_num_generation_tokens_sum'), n * TOKENS);
        assert.equal(grown('vllm:request_max_num_generation_tokens_count'), n);
        assert.equal(grown('vllm:iteration_tokens_total_count'), grown('runnel:steps_total'));
        assert.equal(grown('vllm:iteration_tokens_total_sum'), grown('runnel:computed_tokens_total'));
        for (const name of ['request_duration', 'time_to_first_token', 'time_per_output_token']) {
            assert.equal(grown(`gen_ai_server_${name}_seconds_count`, { gen_ai_operation_name: 'chat' }), n, name);
        }
        assert.equal(grown('vllm:request_prompt_tokens_sum'), sum(seen, 'prompt'));
        // the ledger's causes are the whole time between tokens
        const between = grown('runnel:stream_seconds_total'), gaps = grown('vllm:inter_token_latency_seconds_sum');
        assert.ok(Math.abs(between - gaps) < 1e-6, `${between} s of ${gaps} s have a cause`);
        assert.ok(grown('runnel:stream_seconds_total', { cause: 'weights' }) > 0);
        assert.ok(grown('runnel:first_token_seconds_total', { cause: 'own_prompt' }) > 0);
        const bytes = grown('runnel:op_bytes_total', { ops: 'weights' }), flops = grown('runnel:op_flops_total', { ops: 'weights' });
        assert.ok(bytes > 0 && flops > bytes && grown('runnel:op_seconds_total', { ops: 'weights' }) > 0);
    }
});

// Drafts are counted alike for all, by drafter, by position and in the answers of the requests.
test('drafts add up', async () => {
    const before = await scrape();
    const answers = [];
    for (let i = 0; i < 6; i++) {
        const body = { ...question(i % 3), stream: i % 2 === 1, ...(i > 3 ? { 'speculative.n_max': i === 4 ? 0 : 2 } : {}) };
        answers.push(i % 2 ? await stream(server, '/v1/chat/completions', body) : JSON.parse((await ask(server, '/v1/chat/completions', body)).text));
    }
    await idle(server);
    const after = await scrape(), grown = growth(before, after);
    const drafted = grown('vllm:spec_decode_num_draft_tokens_total'), accepted = grown('vllm:spec_decode_num_accepted_tokens_total');
    const said = (name) => answers.reduce((all, one) => all + one.timings[name], 0);
    assert.ok(accepted > 0 && drafted >= accepted, `${accepted} of ${drafted}`);
    assert.ok(grown('vllm:spec_decode_num_drafts_total') <= drafted);
    assert.equal(said('draft_n'), drafted);
    assert.equal(said('draft_n_accepted'), accepted);
    assert.equal(grown('runnel:draft_tokens_total'), drafted);
    assert.equal(grown('runnel:accepted_tokens_total'), accepted);
    assert.equal(grown('vllm:spec_decode_num_accepted_tokens_per_pos_total'), accepted);
    const places = after['vllm:spec_decode_num_accepted_tokens_per_pos_total'];
    assert.deepEqual(places.map((at) => at.labels.position), Array.from({ length: 15 }, (_, i) => `${i}`));
    assert.ok(places.every((at, i) => !i || at.value <= places[i - 1].value)); // a later one needs those before
    assert.ok(grown('runnel:draft_seconds_total') > 0);
    assert.ok(total(after, 'runnel:draft_speedup') > 0);
    assert.equal(answers[4].timings.draft_n, 0); // that one asked for none
    assert.equal(answers[4].timings.draft_speedup, null);
    assert.equal(answers[4].choices[0].message.content, answers[1].text); // the same question, with drafts
});

test('times are those that the client saw', async () => {
    const close = (ours, theirs, n) => Math.abs(ours - theirs) <= 0.2 * theirs + 0.004 * n;
    let differences;
    for (let tries = 0; tries < 20; tries++) {
        const { seen, grown } = await measured(tries % 2 ? 3 : 1, tries % 2 ? 2 : 4);
        differences = [];
        for (const [name, what] of [['vllm:time_to_first_token_seconds', 'ttft'], ['vllm:inter_token_latency_seconds', 'gaps'],
            ['runnel:gap_seconds', 'gaps'], ['vllm:request_decode_time_seconds', 'gaps'], ['vllm:e2e_request_latency_seconds', 'e2e']]) {
            const ours = grown(`${name}_sum`), theirs = sum(seen, what);
            if (!close(ours, theirs, seen.length)) differences.push(`${name}: ${ours.toFixed(4)} s, the client saw ${theirs.toFixed(4)} s`);
        }
        if (!differences.length) return;
    }
    assert.fail(differences.join('\n'));
});

test('refusals and hang-ups are counted, and are no requests of the engine', async () => {
    const before = await scrape();
    assert.equal((await ask(server, '/v1/chat/completions', { messages: [] })).status, 400);
    assert.equal((await ask(server, '/nothing')).status, 404);
    await stream(server, '/v1/chat/completions', { ...question(1), max_tokens: 900, ignore_eos: true, logprobs: true, top_logprobs: 20 }, { on: (_, request) => request.destroy() }).catch(() => null);
    await idle(server);
    const grown = growth(before, await scrape());
    assert.equal(grown('runnel:http_requests_total', { route: '/v1/chat/completions', status: '400' }), 1);
    assert.equal(grown('runnel:http_requests_total', { route: '', status: '404' }), 1);
    assert.equal(grown('runnel:requests_gone_total'), 1);
    assert.equal(grown('vllm:request_success_total'), 1);
    assert.equal(grown('vllm:request_success_total', { finished_reason: 'abort' }), 1);
});

test('histograms add up', async () => {
    const samples = await scrape();
    const names = Object.keys(samples).filter((name) => name.endsWith('_bucket'));
    assert.ok(names.length >= 10);
    for (const name of names) {
        const base = name.slice(0, -'_bucket'.length);
        const series = (at) => JSON.stringify({ ...at.labels, le: undefined });
        for (const one of new Set(samples[name].map(series))) {
            const rows = samples[name].filter((at) => series(at) === one);
            assert.ok(rows.every((at, i) => !i || (at.value >= rows[i - 1].value && Number(at.labels.le.replace('+Inf', 'Infinity')) > Number(rows[i - 1].labels.le))), name);
            assert.equal(rows.at(-1).labels.le, '+Inf');
            assert.equal(rows.at(-1).value, samples[`${base}_count`].find((at) => series(at) === one).value);
        }
    }
});

test('Prometheus\' own tool finds nothing but the colons', async (t) => {
    const { text, headers } = await ask(server, '/metrics');
    assert.match(headers['content-type'], /^text\/plain; version=0\.0\.4/);
    const check = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
    if (check.error) return t.skip('there is no promtool');
    const complaints = (check.stdout + check.stderr).split('\n').filter((line) => line &&
        !line.includes('should not contain \':\'') && !line.includes('vllm:iteration_tokens_total')); // vLLM's name of a histogram
    assert.deepEqual(complaints, []);
});

test('the access log has a line of JSON for each request, without texts', async () => {
    assert.equal((await server.stop()).code, 0);
    const lines = fs.readFileSync(log, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
    const chats = lines.filter((line) => line.route === '/v1/chat/completions');
    assert.equal(new Set(lines.map((line) => line.id)).size, lines.length);
    assert.ok(chats.filter((line) => line.status === 200 && !line.gone).every((line) => line.output_tokens === TOKENS && line.finish.length === 1));
    assert.equal(chats.filter((line) => line.gone).length, 1);
    assert.equal(chats.filter((line) => line.status === 400).length, 1);
    assert.equal(lines.filter((line) => line.route === null).length, 1);
    assert.ok(!fs.readFileSync(log, 'utf8').includes('story'));
});
