// OpenAI's own client library against the server: every kind of call that it has and the server
// serves, and the error class of every kind of refusal.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import test from 'node:test';
import OpenAI from 'openai';
import { ask, idle, metric, serve, sleep, slowly, until } from './server.mjs';

const server = await serve();
const connect = (to, options = {}) => new OpenAI({ baseURL: `${to.url}/v1`, apiKey: 'none', maxRetries: 0, ...options });
const client = connect(server);
const { data: [{ id: model }] } = await client.models.list();
const messages = [{ role: 'user', content: 'Tell me a story about a fox and a lantern.' }];
const story = { model, messages, max_completion_tokens: 40, seed: 7 };

async function refused(promise, kind, { status, param, code, message }) {
    const error = await promise.then(() => assert.fail('was not refused'), (reason) => reason);
    assert.ok(error instanceof kind, `${error.constructor.name}: ${error.message}`);
    assert.equal(error.status, status);
    if (param !== undefined) assert.equal(error.param, param);
    if (code !== undefined) assert.equal(error.code, code);
    if (message) assert.match(error.message, message);
    assert.ok(error.requestID);
    return error;
}
const chat = async (body) => client.chat.completions.create({ ...story, ...body });
const textOf = (answer, i = 0) => answer.choices[i].message.content;
// {text, chunks, usage, finish} of a stream of chunks
async function joined(stream) {
    const result = { text: '', chunks: [], usage: null, finish: null };
    for await (const chunk of stream) {
        result.chunks.push(chunk);
        result.text += chunk.choices[0]?.delta?.content ?? chunk.choices[0]?.text ?? '';
        result.finish ??= chunk.choices[0]?.finish_reason ?? null;
        if (chunk.usage) result.usage = chunk.usage;
    }
    return result;
}

test('the model is listed, and found by its name', async () => {
    const one = await client.models.retrieve(model);
    assert.equal(one.id, model);
    assert.equal(one.object, 'model');
    assert.ok(one.meta.n_embd > 0 && one.max_model_len === one.meta.n_ctx);
    await refused(client.models.retrieve('nobody'), OpenAI.NotFoundError, { status: 404, param: 'model', code: 'model_not_found' });
});

test('a chat has a text, and its usage adds up', async () => {
    const answer = await chat({});
    assert.equal(answer.object, 'chat.completion');
    assert.ok(textOf(answer).length > 20);
    assert.equal(answer.choices[0].message.role, 'assistant');
    const { prompt_tokens, completion_tokens, total_tokens } = answer.usage;
    assert.equal(prompt_tokens + completion_tokens, total_tokens);
    assert.equal(answer.timings.predicted_n, completion_tokens);
    const { tokens } = JSON.parse((await ask(server, '/tokenize', { content: textOf(answer) })).text);
    assert.equal(completion_tokens, tokens.length);
});

test('the pieces of a stream are the whole text, and usage comes when asked for', async () => {
    const whole = await chat({});
    const stream = await joined(await client.chat.completions.create({ ...story, stream: true, stream_options: { include_usage: true } }));
    assert.equal(stream.text, textOf(whole));
    assert.equal(stream.finish, whole.choices[0].finish_reason);
    assert.equal(stream.usage.prompt_tokens, whole.usage.prompt_tokens);
    assert.equal(stream.usage.completion_tokens, whole.usage.completion_tokens);
    assert.deepEqual(stream.chunks.at(-1).choices, []);
    assert.equal(new Set(stream.chunks.map((chunk) => chunk.id)).size, 1);
    const plain = await joined(await client.chat.completions.create({ ...story, stream: true }));
    assert.equal(plain.usage, null);
    const helper = await client.chat.completions.stream(story).finalChatCompletion();
    assert.equal(textOf(helper), textOf(whole));
});

test('the same seed gives the same text, another one another', async () => {
    const texts = [];
    for (const seed of [7, 7, 8, 9]) texts.push(textOf(await chat({ seed, temperature: 1 })));
    assert.equal(texts[0], texts[1]);
    assert.ok(new Set(texts).size > 1);
});

test('the first of three choices is that of one, and the others are others', async () => {
    const three = await chat({ n: 3, temperature: 1 });
    assert.deepEqual(three.choices.map((choice) => choice.index), [0, 1, 2]);
    assert.equal(textOf(three), textOf(await chat({ temperature: 1 })));
    assert.equal(new Set(three.choices.map((choice) => choice.message.content)).size, 3);
    const texts = ['', '', ''];
    for await (const chunk of await client.chat.completions.create({ ...story, n: 3, temperature: 1, stream: true })) {
        for (const { index, delta } of chunk.choices) texts[index] += delta.content ?? '';
    }
    assert.deepEqual(texts, three.choices.map((choice) => choice.message.content));
});

test('logprobs: at most 0, best first, and at temperature 0 the best was chosen', async () => {
    const answer = await chat({ temperature: 0, logprobs: true, top_logprobs: 4 });
    const { content } = answer.choices[0].logprobs;
    assert.equal(content.length, answer.usage.completion_tokens);
    assert.equal(Buffer.from(content.flatMap((token) => token.bytes)).toString(), textOf(answer));
    for (const { token, logprob, top_logprobs: top } of content) {
        assert.equal(top.length, 4);
        assert.equal(top[0].token, token);
        assert.equal(top[0].logprob, logprob);
        assert.ok(top.every((at, i) => at.logprob <= 0 && (!i || at.logprob <= top[i - 1].logprob)));
        assert.ok(top.reduce((sum, at) => sum + Math.exp(at.logprob), 0) <= 1 + 1e-5);
    }
    const stream = await joined(await client.chat.completions.create({ ...story, temperature: 0, logprobs: true, top_logprobs: 4, stream: true }));
    assert.deepEqual(stream.chunks.flatMap((chunk) => chunk.choices[0]?.logprobs?.content ?? []), content);
    await refused(chat({ top_logprobs: 2 }), OpenAI.BadRequestError, { status: 400, param: 'top_logprobs' });
});

test('a stop string ends the text before itself, wherever tokens end', async () => {
    const whole = textOf(await chat({}));
    for (const [from, length] of [[10, 1], [17, 6], [31, 9]]) {
        const stop = whole.slice(from, from + length);
        const answer = await chat({ stop: ['never to be found', stop] });
        assert.equal(textOf(answer), whole.slice(0, whole.indexOf(stop)));
        assert.equal(answer.choices[0].finish_reason, 'stop');
        assert.equal(answer.choices[0].stop_reason, stop);
        const stream = await joined(await client.chat.completions.create({ ...story, stop, stream: true }));
        assert.equal(stream.text, textOf(answer));
        assert.equal(stream.chunks.at(-1).choices[0].stop_reason, stop);
    }
});

test('max_completion_tokens ends the text, and says so', async () => {
    const answer = await chat({ max_completion_tokens: 5 });
    assert.equal(answer.choices[0].finish_reason, 'length');
    assert.equal(answer.usage.completion_tokens, 5);
    const long = await chat({ max_completion_tokens: undefined, max_tokens: 9 });
    assert.equal(long.usage.completion_tokens, 9);
});

test('logit_bias and penalties reach the sampler', async () => {
    const whole = await chat({ temperature: 0 });
    const first = whole.choices[0].message.content.split(' ')[0];
    const { tokens } = JSON.parse((await ask(server, '/tokenize', { content: first })).text);
    const other = await chat({ temperature: 0, logit_bias: { [tokens[0]]: -100 } });
    assert.notEqual(textOf(other).split(' ')[0], first);
    assert.notEqual(textOf(await chat({ temperature: 0, frequency_penalty: 2, presence_penalty: 2 })), textOf(whole));
});

test('completions: prompts as a list, as token ids, echoed, with logprobs', async () => {
    const prompts = ['Once upon a time', 'The little owl'];
    const complete = (body) => client.completions.create({ model, max_tokens: 12, seed: 3, ...body });
    const alone = [];
    for (const prompt of prompts) alone.push((await complete({ prompt })).choices[0].text);
    const both = await complete({ prompt: prompts, n: 2 });
    assert.deepEqual(both.choices.map((choice) => choice.index), [0, 1, 2, 3]);
    assert.deepEqual([both.choices[0].text, both.choices[2].text], alone);
    assert.equal((await complete({ prompt: prompts[0], echo: true })).choices[0].text, prompts[0] + alone[0]);
    const { tokens } = JSON.parse((await ask(server, '/tokenize', { content: prompts[0], add_special: true })).text);
    assert.equal((await complete({ prompt: tokens })).choices[0].text, alone[0]);
    assert.equal((await complete({ prompt: [tokens] })).choices[0].text, alone[0]);
    assert.equal((await joined(await complete({ prompt: prompts[0], stream: true }))).text, alone[0]);
    const { text, logprobs } = (await complete({ prompt: prompts[0], logprobs: 3 })).choices[0];
    assert.equal(logprobs.tokens.join(''), text);
    for (const [i, token] of logprobs.tokens.entries()) {
        assert.ok(text.slice(logprobs.text_offset[i]).startsWith(token));
        assert.equal(logprobs.top_logprobs[i][token], logprobs.token_logprobs[i]);
    }
});

test('completions: an echo with logprobs scores the prompt, as evaluation harnesses ask', async () => {
    const prompt = 'Once upon a time there was a fox.';
    const complete = (body) => client.completions.create({ model, temperature: 0, ...body });
    const [echo] = (await complete({ prompt, echo: true, logprobs: 2, max_tokens: 1 })).choices;
    const { tokens, token_logprobs: scores, top_logprobs: tops, text_offset: offsets } = echo.logprobs;
    assert.ok(echo.text.startsWith(prompt));
    assert.equal(scores[0], null);
    assert.equal(tops[0], null);
    for (const [i, token] of tokens.entries()) {
        if (i === 0) continue; // it starts the text, and is not part of it
        assert.ok(echo.text.slice(offsets[i]).startsWith(token));
        assert.equal(tops[i][token], scores[i]);
        assert.ok(scores[i] <= Math.max(...Object.values(tops[i])));
    }
    const [none] = (await complete({ prompt, echo: true, logprobs: 2, max_tokens: 0 })).choices;
    assert.deepEqual(none.logprobs.token_logprobs, scores.slice(0, -1));
    assert.equal(none.text, prompt);
    const [scored] = (await complete({ prompt, prompt_logprobs: 1, max_tokens: 1 })).choices;
    assert.equal(scored.prompt_logprobs.length, tokens.length - 1);
    const own = Object.values(scored.prompt_logprobs[2]).find((entry) => entry.decoded_token === tokens[2]);
    assert.equal(own.logprob, scores[2]);
});

test('vLLM\'s fields: ends, stop tokens, bad words', async () => {
    const complete = async (body) => (await client.completions.create({ model, prompt: 'Once upon a time', temperature: 0, max_tokens: 30, ...body })).choices[0];
    const plain = await complete({});
    const word = plain.text.match(/ ([a-z]+)/)[1];
    const { tokens } = JSON.parse((await ask(server, '/tokenize', { content: ` ${word}` })).text);
    const stopped = await complete({ stop_token_ids: [tokens[0]] });
    assert.equal(stopped.text, plain.text.slice(0, plain.text.indexOf(` ${word}`)));
    assert.equal(stopped.stop_reason, tokens[0]);
    assert.ok(!(await complete({ bad_words: [word] })).text.split(/\W/).includes(word));
    assert.ok((await complete({ stop: word, include_stop_str_in_output: true })).text.endsWith(word));
    assert.ok((await complete({ stop: word, min_tokens: 10 })).text.includes(word));
    await refused(complete({ min_tokens: 31 }), OpenAI.BadRequestError, { status: 400, param: 'min_tokens', message: /31/ });
    await refused(complete({ bad_words: [''] }), OpenAI.BadRequestError, { status: 400, param: 'bad_words[0]' });
});

test('embeddings: numbers and base64 agree, each of the model\'s size and of length 1', async () => {
    const { meta: { n_embd } } = await client.models.retrieve(model);
    const input = ['a red fox', 'a small fox that is red', 'seven hundred boats'];
    const coded = await client.embeddings.create({ model, input }); // the library asks for base64
    const plain = await client.embeddings.create({ model, input, encoding_format: 'float' });
    const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
    for (const [i, { embedding, index }] of plain.data.entries()) {
        assert.equal(index, i);
        assert.equal(embedding.length, n_embd);
        assert.equal(coded.data[i].embedding.length, n_embd);
        assert.ok(embedding.every((value, j) => Math.abs(value - coded.data[i].embedding[j]) < 1e-8));
        assert.ok(Math.abs(dot(embedding, embedding) - 1) < 1e-5);
    }
    const [a, b, c] = plain.data.map((at) => at.embedding);
    assert.ok(dot(a, b) > dot(a, c), `${dot(a, b)} and ${dot(a, c)}`);
    const one = await client.embeddings.create({ model, input: input[1], encoding_format: 'float' });
    assert.deepEqual(one.data[0].embedding, b);
    await refused(client.embeddings.create({ model, input, dimensions: 7 }), OpenAI.BadRequestError, { status: 400, param: 'dimensions' });
});

test('responses: the text of the chat, whole and as a stream', async () => {
    const body = { model, input: messages[0].content, max_output_tokens: 40, seed: 7 };
    const answer = await client.responses.create(body);
    assert.equal(answer.output_text, textOf(await chat({})));
    assert.equal(answer.usage.input_tokens + answer.usage.output_tokens, answer.usage.total_tokens);
    assert.equal(answer.status, 'incomplete');
    assert.equal(answer.incomplete_details.reason, 'max_output_tokens');
    let text = '';
    const events = [];
    for await (const event of await client.responses.create({ ...body, stream: true })) {
        events.push(event);
        if (event.type === 'response.output_text.delta') text += event.delta;
    }
    assert.equal(text, answer.output_text);
    assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
    assert.equal(events[0].type, 'response.created');
    assert.equal(events.at(-1).type, 'response.incomplete');
    const helper = await client.responses.stream({ ...body, instructions: 'Be brief.' }).finalResponse();
    assert.equal(helper.output_text, (await client.responses.create({ ...body, instructions: 'Be brief.' })).output_text);
    const turns = [...messages, { role: 'assistant', content: answer.output_text }, { role: 'user', content: 'And then?' }];
    const more = await client.responses.create({ ...body, input: turns });
    assert.equal(more.output_text, textOf(await chat({ messages: turns })));
});

test('responses: a conversation continues from a response that the server keeps', async () => {
    const body = { model, max_output_tokens: 40, seed: 7, instructions: 'Be brief.' };
    const first = await client.responses.create({ ...body, input: messages[0].content });
    const second = await client.responses.create({ ...body, input: 'And then?', previous_response_id: first.id });
    const turns = [...messages, ...first.output, { role: 'user', content: 'And then?' }];
    const whole = await client.responses.create({ ...body, input: turns, store: false });
    assert.equal(second.output_text, whole.output_text);
    assert.equal(second.usage.input_tokens, whole.usage.input_tokens);
    assert.ok(second.usage.input_tokens_details.cached_tokens >= Math.floor((first.usage.total_tokens - 1) / 32) * 32);
    const bare = await client.responses.create({ ...body, instructions: null, input: 'And then?', previous_response_id: first.id });
    assert.ok(bare.usage.input_tokens < second.usage.input_tokens); // instructions are not carried over
    let last;
    for await (const event of await client.responses.create({ ...body, input: 'The end?', previous_response_id: second.id, stream: true })) last = event.response;
    assert.equal(last.previous_response_id, second.id);
    assert.deepEqual((await client.responses.retrieve(last.id)).output, last.output);
    const items = [];
    for await (const item of client.responses.inputItems.list(last.id, { order: 'asc', limit: 2 })) items.push(item);
    assert.deepEqual(items.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant', 'user']);
    assert.equal(items[1].content[0].text, first.output_text);
    await client.responses.delete(first.id);
    await refused(client.responses.retrieve(first.id), OpenAI.NotFoundError, { status: 404, code: 'response_not_found' });
    await refused(client.responses.retrieve(whole.id), OpenAI.NotFoundError, { status: 404 });
    await refused(client.responses.create({ ...body, input: 'x', previous_response_id: first.id }), OpenAI.NotFoundError,
        { status: 404, param: 'previous_response_id', code: 'previous_response_not_found', message: /Previous response with id 'resp_.*' not found/ });
    await refused(client.responses.create({ ...body, input: 'x', conversation: 'conv_1' }), OpenAI.BadRequestError, { status: 400, param: 'conversation' });
});

test('responses: tokens of an input are counted, and what is not built says what to do', async () => {
    const first = await client.responses.create({ model, input: 'Tell me a story.', max_output_tokens: 5 });
    const count = await client.responses.inputTokens.count({ model, input: 'Tell me a story.' });
    assert.deepEqual(count, { object: 'response.input_tokens', input_tokens: first.usage.input_tokens });
    const second = { model, input: 'And then?', previous_response_id: first.id };
    const next = await client.responses.create({ ...second, max_output_tokens: 1 });
    assert.equal((await client.responses.inputTokens.count(second)).input_tokens, next.usage.input_tokens);
    await refused(client.responses.cancel(first.id), OpenAI.BadRequestError, { status: 400, message: /Cannot cancel a synchronous response/ });
    await refused(client.responses.cancel('resp_nothing'), OpenAI.NotFoundError, { status: 404, code: 'response_not_found' });
    await refused(client.responses.compact({ model, input: 'x' }), OpenAI.NotFoundError, { status: 404, message: /not compacted/ });
    await refused(client.conversations.create({}), OpenAI.NotFoundError, { status: 404, message: /previous_response_id/ });
    await refused(client.beta.threads.create({}), OpenAI.NotFoundError, { status: 404, message: /previous_response_id/ });
});

test('tools are refused where the template knows none', async () => {
    const tools = [{ type: 'function', function: { name: 'weather', description: 'of a place',
        parameters: { type: 'object', properties: { place: { type: 'string' } }, required: ['place'] } } }];
    for (const tool_choice of ['auto', 'required', { type: 'function', function: { name: 'weather' } }])
        await refused(chat({ tools, tool_choice }), OpenAI.BadRequestError, { status: 400, param: 'tools', message: /knows no tools/ });
    assert.equal(textOf(await chat({ tools, tool_choice: 'none' })), textOf(await chat({})));
    await refused(chat({ tool_choice: 'required' }), OpenAI.BadRequestError, { status: 400, param: 'tool_choice' });
    await refused(chat({ tools: [{ type: 'function', function: {} }] }), OpenAI.BadRequestError, { status: 400 });
});

test('the only model answers to any name, by its own', async () => {
    const answer = await chat({ model: 'gpt-3.5-turbo' });
    assert.equal(answer.model, model);
    assert.equal(textOf(answer), textOf(await chat({})));
});

test('what cannot be done is refused by name', async () => {
    const bad = OpenAI.BadRequestError;
    await refused(chat({ response_format: { type: 'xml' } }), bad, { status: 400, param: 'response_format.type', message: /xml/ });
    await refused(chat({ response_format: { type: 'json_schema', json_schema: { name: 'a', schema: { properties: { b: { not: {} } } } } } }), bad,
        { status: 400, param: 'response_format.json_schema.schema', message: /\/properties\/b\/not: / });
    await refused(chat({ temperature: -1 }), bad, { status: 400, param: 'temperature', message: /-1/ });
    await refused(chat({ top_p: 'all' }), bad, { status: 400, param: 'top_p', message: /all/ });
    await refused(chat({ n: 0 }), bad, { status: 400, param: 'n' });
    await refused(chat({ seed: 1.5 }), bad, { status: 400, param: 'seed' });
    await refused(chat({ messages: [] }), bad, { status: 400, param: 'messages' });
    await refused(chat({ messages: [{ role: 'wizard', content: 'hi' }] }), bad, { status: 400, message: /wizard/ });
    await refused(chat({ logit_bias: { 99999999: 1 } }), bad, { status: 400 });
    await refused(client.post('/nothing', { body: {} }), OpenAI.NotFoundError, { status: 404 });
    const sentence = /This model's maximum context length is 1024 tokens\. However, your messages resulted in \d+ tokens\. Please reduce the length of the messages\./;
    for (const stream of [false, true]) {
        await refused(chat({ stream, messages: [{ role: 'user', content: 'fox '.repeat(2000) }] }), bad,
            { status: 400, code: 'context_length_exceeded', message: sentence });
    }
});

test('an abort ends the work, and what was held is given back', async () => {
    const slow = await serve(slowly);
    let aborts = 0;
    for (const body of [{ stream: true }, {}]) {
        const controller = new AbortController();
        const asked = connect(slow).chat.completions.create({ ...story, ...body, max_completion_tokens: 900, ignore_eos: true }, { signal: controller.signal });
        let chunks = 0;
        if (body.stream) {
            for await (const _ of await asked) if (++chunks === 3) controller.abort();
            assert.ok(chunks < 900);
        } else {
            const ended = assert.rejects(asked, OpenAI.APIUserAbortError);
            await until('it runs', async () => (await metric(slow, 'vllm:num_requests_running')) === 1);
            controller.abort();
            await ended;
        }
        aborts++;
        await until('it was aborted', async () => (await metric(slow, 'vllm:request_success_total', 'finished_reason="abort"')) === aborts);
        await idle(slow);
    }
    assert.equal(await metric(slow, 'runnel:requests_gone_total'), 2);
    assert.equal((await slow.stop()).code, 0);
});

test('a wrong key, and more work than there are places', async () => {
    const small = await serve(['--api-key', 'right', '--strict-model', '--alias', `${model},two`, '--max-seqs', '1', '--max-waiting', '1', ...slowly]);
    small.key = 'right';
    const right = connect(small, { apiKey: 'right' });
    await refused(client.withOptions({ baseURL: `${small.url}/v1` }).models.list(), OpenAI.AuthenticationError, { status: 401, code: 'invalid_api_key' });
    await refused(connect(small, { apiKey: 'wrong' }).chat.completions.create(story), OpenAI.AuthenticationError, { status: 401 });
    assert.deepEqual((await right.models.list()).data.map(({ id }) => id), [model, 'two']);
    await refused(right.chat.completions.create({ ...story, model: 'nobody' }), OpenAI.NotFoundError, { status: 404, param: 'model', code: 'model_not_found' });
    const controller = new AbortController();
    const long = { ...story, max_completion_tokens: 950, ignore_eos: true, stream: true };
    const running = await right.chat.completions.create(long, { signal: controller.signal });
    await until('one runs', async () => (await metric(small, 'vllm:num_requests_running')) === 1);
    const waiting = right.chat.completions.create(long, { signal: controller.signal }).then(joined).catch(() => null);
    await until('one waits', async () => (await metric(small, 'vllm:num_requests_waiting')) === 1);
    const error = await refused(right.chat.completions.create(story), OpenAI.RateLimitError, { status: 429, code: 'queue_full' });
    assert.ok(Number(error.headers.get('retry-after')) >= 1);
    const patient = right.withOptions({ maxRetries: 5 }).chat.completions.create(story); // comes back by itself
    await sleep(20);
    controller.abort();
    await joined(running).catch(() => null);
    await waiting;
    assert.equal(textOf(await patient), textOf(await chat({})));
    await idle(small);
    assert.equal((await small.stop()).code, 0);
});

test('the same over TLS', async (t) => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'runnel-'));
    try {
        const [cert, key] = ['cert.pem', 'key.pem'].map((name) => path.join(folder, name));
        const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=localhost',
            '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert]);
        if (made.error) return t.skip('there is no openssl');
        const secure = await serve(['--tls-cert', cert, '--tls-key', key]);
        assert.match(secure.url, /^https:/);
        await assert.rejects(connect(secure).models.list(), OpenAI.APIConnectionError); // nobody vouches for it
        const script = `import OpenAI from ${JSON.stringify(import.meta.resolve('openai'))};
            const client = new OpenAI({ baseURL: '${secure.url}/v1', apiKey: 'none' });
            for await (const chunk of await client.chat.completions.create({ ...${JSON.stringify(story)}, stream: true }))
                process.stdout.write(chunk.choices[0].delta.content ?? '');`;
        const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script],
            { encoding: 'utf8', env: { ...process.env, NODE_EXTRA_CA_CERTS: cert } });
        assert.equal(stdout, textOf(await chat({})), stderr);
        assert.equal((await secure.stop()).code, 0);
    } finally {
        fs.rmSync(folder, { recursive: true });
    }
});

test('the server ends well after all of it', async () => {
    await idle(server);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
});
