// Ollama's own client library against the server, and the requests that Open WebUI sends: every call that the server serves,
// and the refusal of the others. The template is of a family that thinks and calls tools, so that all parts of an answer come.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Ollama } from 'ollama';
import { z } from 'zod';
import { ask, idle, serve, slowly, stream as openaiStream } from './server.mjs';

const server = await serve(['--chat-template', `${process.env.ROOT}/tests/data/templates/qwen35.jinja`, '--alias', 'tale', '--alias', 'other:small']);
const ollama = new Ollama({ host: server.url });
const model = 'tale';
const messages = [{ role: 'user', content: 'Tell me a story about a fox.' }];
const options = { num_predict: 24, seed: 7, temperature: 1 };
const story = { model, messages, options, think: false };

async function refused(promise, status, message) {
    const error = await promise.then(() => assert.fail('was not refused'), (reason) => reason);
    assert.equal(error.status_code, status, error.message);
    assert.match(error.message, message);
}
const all = async (stream) => { const parts = []; for await (const part of stream) parts.push(part); return parts; };
// The figures that the end of every answer has.
function ended(end, count) {
    assert.equal(end.done, true);
    for (const name of ['total_duration', 'load_duration', 'prompt_eval_count', 'prompt_eval_duration', 'eval_count', 'eval_duration'])
        assert.ok(Number.isInteger(end[name]) && end[name] >= 0, `${name}: ${end[name]}`);
    assert.ok(end.total_duration >= end.eval_duration && end.eval_duration > 0);
    assert.equal(end.eval_count, count);
}

test('the model is listed by all its names, runs, and is described', async () => {
    const { models } = await ollama.list();
    assert.deepEqual(models.map(({ name }) => name), ['tale:latest', 'other:small']);
    const [one] = models;
    assert.ok(one.model === one.name && one.size > 0 && /^[0-9a-f]{64}$/.test(one.digest) && one.details.family === 'llama');
    assert.ok(Date.parse(one.modified_at) > 0);
    const [running] = (await ollama.ps()).models;
    assert.equal(running.name, 'tale:latest');
    assert.ok(running.context_length > 0 && Date.parse(running.expires_at) > Date.now());
    for (const name of ['tale', 'tale:latest', 'other:small']) {
        const shown = await ollama.show({ model: name });
        assert.deepEqual(shown.capabilities, ['completion', 'tools', 'thinking']);
        assert.equal(shown.model_info['general.architecture'], 'llama');
        assert.ok(shown.model_info['llama.context_length'] > 0 && shown.template.includes('tools'));
        assert.match(shown.parameters, /^num_ctx +\d+\n/);
    }
    assert.equal(JSON.parse((await ask(server, '/api/show', { name: 'tale' })).text).details.format, 'gguf');
    assert.match((await ollama.version()).version, /^\d+\.\d+\.\d+$/);
});

test('a chat: the lines of a stream are the whole answer', async () => {
    const whole = await ollama.chat(story);
    assert.equal(whole.model, model);
    assert.equal(whole.message.role, 'assistant');
    assert.ok(whole.message.content.length > 20 && whole.message.thinking === undefined);
    assert.equal(whole.done_reason, 'length');
    ended(whole, 24);
    const parts = await all(await ollama.chat({ ...story, stream: true }));
    assert.equal(parts.map(({ message }) => message.content).join(''), whole.message.content);
    assert.ok(parts.length > 5 && parts.slice(0, -1).every(({ done }) => !done));
    assert.equal(parts.at(-1).done_reason, 'length');
    ended(parts.at(-1), 24);
    const { text, headers } = await ask(server, '/api/chat', { ...story, stream: undefined }); // a stream unless it says otherwise
    assert.equal(headers['content-type'], 'application/x-ndjson');
    assert.equal(text.trimEnd().split('\n').map((line) => JSON.parse(line).message.content).join(''), whole.message.content);
});

test('a text: with the template, raw, with the ids of the answer before it', async () => {
    const first = await ollama.generate({ model, prompt: messages[0].content, options, think: false });
    assert.equal(first.response, (await ollama.chat(story)).message.content);
    ended(first, 24);
    assert.equal(first.context.length, first.prompt_eval_count + 24);
    const parts = await all(await ollama.generate({ model, prompt: messages[0].content, options, think: false, stream: true }));
    assert.equal(parts.map(({ response }) => response).join(''), first.response);
    assert.deepEqual(parts.at(-1).context, first.context);
    const second = await ollama.generate({ model, prompt: 'And a cat?', context: first.context, options, think: false });
    assert.deepEqual(second.context.slice(0, first.context.length), first.context);
    assert.ok(second.timings.cache_n >= Math.floor(first.context.length / 32) * 32);
    const raw = await ollama.generate({ model, prompt: 'Once upon a time', raw: true, options: { ...options, stop: ['.'] } });
    assert.ok(raw.context === undefined && !raw.response.includes('.') && raw.prompt_eval_count < 8);
    const system = await ollama.generate({ model, prompt: messages[0].content, system: 'Be short.', options, think: false });
    assert.ok(system.prompt_eval_count > first.prompt_eval_count);
});

test('a request without a prompt loads the model', async () => {
    const load = await ollama.generate({ model, prompt: '', keep_alive: '5m' });
    assert.ok(load.done && load.done_reason === 'load' && load.response === '');
    const [only, ...rest] = await all(await ollama.chat({ model, messages: [], stream: true }));
    assert.ok(only.done && only.done_reason === 'load' && only.message.content === '' && rest.length === 0);
});

test('a model that thinks does so apart from its answer, as much as it may', async () => {
    const thought = { ...story, think: true, thinking_budget_tokens: 8, options: { ...options, num_predict: 32 } };
    const whole = await ollama.chat(thought);
    assert.ok(whole.message.thinking.length > 8 && whole.message.content.length > 8);
    const parts = await all(await ollama.chat({ ...thought, stream: true }));
    assert.equal(parts.map(({ message }) => message.thinking ?? '').join(''), whole.message.thinking);
    assert.equal(parts.map(({ message }) => message.content).join(''), whole.message.content);
    const again = await ollama.chat({ ...story, think: 'low', messages: [...messages, whole.message, { role: 'user', content: 'And a cat?' }] });
    assert.ok(again.message.thinking);
});

test('calls of tools come whole, their arguments as objects', async () => {
    const parameters = { type: 'object', required: ['city', 'days'], additionalProperties: false,
        properties: { city: { type: 'string', minLength: 3, maxLength: 12 }, days: { type: 'integer', minimum: 1, maximum: 9 } } };
    const body = { ...story, tool_choice: 'required', options: { ...options, num_predict: 300 },
        tools: [{ type: 'function', function: { name: 'weather', description: 'tells the weather', parameters } }] };
    const whole = await ollama.chat(body);
    assert.ok(whole.message.tool_calls.length >= 1 && whole.done_reason === 'stop');
    for (const { id, function: { name, arguments: given } } of whole.message.tool_calls) {
        assert.ok(id && name === 'weather' && given.city.length >= 3 && Number.isInteger(given.days), JSON.stringify(given));
    }
    const parts = await all(await ollama.chat({ ...body, stream: true }));
    const calls = parts.flatMap(({ message }) => message.tool_calls ?? []);
    assert.deepEqual(calls.map((call) => call.function), whole.message.tool_calls.map((call) => call.function));
    const result = { role: 'tool', tool_name: 'weather', content: '11 degrees' };
    const after = await ollama.chat({ ...body, tool_choice: 'none', messages: [...messages, whole.message, result] });
    assert.ok(after.message.content && !after.message.tool_calls);
    const cut = await ollama.chat({ ...body, options: { ...options, num_predict: 9 } }); // no half of a call
    assert.ok(cut.done_reason === 'length' && !cut.message.tool_calls);
});

test('a text has the format that is asked for', async () => {
    const schema = z.object({ name: z.string().min(1).max(12), age: z.int().min(1).max(99), tags: z.array(z.enum(['red', 'blue'])).max(3) });
    const body = { ...story, options: { ...options, num_predict: 200 } };
    const { $schema, ...format } = z.toJSONSchema(schema);
    schema.parse(JSON.parse((await ollama.chat({ ...body, format })).message.content));
    schema.parse(JSON.parse((await ollama.generate({ ...body, messages: undefined, prompt: 'A fox', format })).response));
    const any = await ollama.chat({ ...body, format: 'json', options: { ...options, num_predict: 150, temperature: 0.2 } });
    if (any.done_reason === 'stop') assert.equal(typeof JSON.parse(any.message.content), 'object');
    assert.match(any.message.content.trimStart(), /^\{/);
    await refused(ollama.chat({ ...body, format: 'xml' }), 400, /^format: expected "json" or a JSON schema, got "xml"/);
    await refused(ollama.chat({ ...body, format: { not: {} } }), 400, /^format: \/not/);
});

test('logprobs come with the lines of their tokens', async () => {
    const whole = await ollama.chat({ ...story, logprobs: true, top_logprobs: 2 });
    assert.equal(whole.logprobs.length, 24);
    assert.ok(whole.logprobs.every(({ token, logprob, top_logprobs }) => typeof token === 'string' && logprob <= 0 && top_logprobs.length === 2));
    const parts = await all(await ollama.chat({ ...story, logprobs: true, top_logprobs: 2, stream: true }));
    assert.deepEqual(parts.flatMap((part) => part.logprobs ?? []).map(({ token }) => token), whole.logprobs.map(({ token }) => token));
});

test('vectors: one for each text, of length 1; the older route gives one as it is', async () => {
    const { embeddings, prompt_eval_count } = await ollama.embed({ model, input: ['a fox', 'a cat', 'word '.repeat(3000)] }); // the last is cut
    assert.equal(embeddings.length, 3);
    for (const vector of embeddings) assert.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-3);
    assert.ok(prompt_eval_count > 100);
    const { embedding } = await ollama.embeddings({ model, prompt: 'a fox' });
    const length = Math.hypot(...embedding);
    embedding.forEach((value, i) => assert.ok(Math.abs(value / length - embeddings[0][i]) < 1e-3));
    assert.deepEqual((await ollama.embed({ model, input: [] })).embeddings, []);
    await refused(ollama.embed({ model, input: 'word '.repeat(3000), truncate: false }), 400, /maximum context length/);
});

test('refusals have the form and the words that clients know', async () => {
    assert.equal((await ollama.chat({ ...story, model: 'llama3' })).model, 'llama3'); // the only model answers to any name
    await refused(ollama.show({ model: 'llama3' }), 404, /^model 'llama3' not found$/);
    await refused(ollama.chat({ ...story, messages: [{ role: 'user', content: 'x', images: ['aGk='] }] }), 400, /^messages\[0\]\.images: .* is not supported: the model reads text alone/);
    await refused(ollama.generate({ model, prompt: 'x', images: ['aGk='] }), 400, /^images/);
    await refused(ollama.generate({ model, prompt: 'x', suffix: 'y' }), 400, /^suffix/);
    await refused(ollama.generate({ model, prompt: 'x', template: '{{ .Prompt }}' }), 400, /^template/);
    await refused(ollama.generate({ model, prompt: 'x', raw: true, system: 'y' }), 400, /raw mode does not support/);
    await refused(ollama.chat({ ...story, options: { mirostat: 1 } }), 400, /^options\.mirostat/);
    await refused(ollama.chat({ ...story, options: { temperature: 'hot' } }), 400, /^options\.temperature/);
    await refused(ollama.chat({ ...story, keep_alive: 'long' }), 400, /^keep_alive: expected seconds or a duration/);
    await refused(ollama.chat({ ...story, think: 'some' }), 400, /^think/);
    const error = await ollama.chat({ ...story, messages: [{ role: 'user', content: 'word '.repeat(3000) }], stream: true }).catch((reason) => reason);
    assert.ok(error.status_code === 400 && /maximum context length/.test(error.message));
    for (const change of [() => ollama.pull({ model: 'llama3' }), () => ollama.push({ model }), () => ollama.create({ model: 'x', from: model }),
        () => ollama.copy({ source: model, destination: 'x' }), () => ollama.delete({ model })]) await refused(change(), 501, /models are files here.*hf download/);
    assert.equal((await ask(server, '/api/nothing')).text, '{"error":"There is no /api/nothing"}');
    assert.equal((await ollama.pull({ model })).status, 'success'); // it is here
});

// What Open WebUI sends, to each of the two kinds of server that it knows.
test('Open WebUI finds the server, its models, and chats, by either API', async () => {
    assert.equal((await ask(server, '/')).text, 'Ollama is running');
    assert.equal((await ask(server, '/', undefined, { method: 'HEAD' })).status, 200);
    assert.match((await ask(server, '/', undefined, { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } })).text, /^<!doctype html>/);
    assert.ok(JSON.parse((await ask(server, '/api/version')).text).version);
    const { models: [{ model: name }] } = JSON.parse((await ask(server, '/api/tags')).text);
    assert.equal(JSON.parse((await ask(server, '/api/ps')).text).models[0].model, name);
    assert.ok(JSON.parse((await ask(server, '/api/show', { model: name, name })).text).capabilities.includes('tools'));
    const { text } = await ask(server, '/api/chat', { model: name, messages: [{ role: 'system', content: 'Be kind.' }, ...messages], stream: true, keep_alive: '5m',
        options: { ...options, num_ctx: 2048, num_keep: 24, num_batch: 512, num_thread: 2, num_gpu: 1, use_mmap: true, repeat_last_n: 64, repeat_penalty: 1.1,
            tfs_z: 1, top_k: 40, top_p: 0.9, min_p: 0, mirostat: 0, mirostat_eta: 0.1, mirostat_tau: 5, stop: ['</s>'] } });
    const lines = text.trimEnd().split('\n').map((line) => JSON.parse(line));
    assert.ok(lines.at(-1).done && lines.every(({ model: own }) => own === name));
    const title = JSON.parse((await ask(server, '/api/generate', { model: name, prompt: 'A title', stream: false, options: { num_predict: 8 } })).text);
    assert.ok(title.done);
    const { data: [{ id }] } = JSON.parse((await ask(server, '/v1/models')).text);
    const answer = await openaiStream(server, '/v1/chat/completions', { model: id, messages, max_tokens: 8, stream_options: { include_usage: true } });
    assert.ok(answer.done && answer.usage.completion_tokens === 8);
});

test('an abort frees everything; a silent stream is kept alive by blanks that parsers skip', async () => {
    const slow = await serve([...slowly, '--keep-alive', '0.01', '--alias', model], { RUNNEL_FAKE: 'delay 30000' });
    const client = new Ollama({ host: slow.url });
    const body = { model, messages, options: { ...options, num_predict: 10 }, stream: true };
    const stream = await client.chat(body);
    await assert.rejects(async () => { for await (const part of stream) { assert.ok(!part.done); stream.abort(); } }, /abort/i);
    await idle(slow);
    const { text } = await ask(slow, '/api/chat', body);
    const lines = text.split('\n');
    assert.equal(lines.pop(), '');
    if (!process.env.SAN) assert.ok(lines.some((line) => line.startsWith(' ')), 'no blanks came');
    assert.ok(lines.every((line) => typeof JSON.parse(line) === 'object') && JSON.parse(lines.at(-1)).done);
    await slow.stop();
});
