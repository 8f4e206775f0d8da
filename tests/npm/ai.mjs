// The AI SDK with its provider for servers like this one: texts, streams, embeddings, aborts, errors.
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { APICallError, embed, embedMany, generateText, streamText } from 'ai';
import assert from 'node:assert/strict';
import test from 'node:test';
import { ask, idle, metric, serve, slowly, until } from './server.mjs';

const server = await serve(['--strict-model']);
const name = JSON.parse((await ask(server, '/v1/models')).text).data[0].id;
const connect = (to, options = {}) => createOpenAICompatible({ name: 'runnel', baseURL: `${to.url}/v1`, includeUsage: true, ...options });
const provider = connect(server);
const story = { model: provider(name), prompt: 'Tell me a story about a river and the moon.', seed: 4, maxOutputTokens: 40, maxRetries: 0 };

async function refused(promise, status, message) {
    const error = await promise.then(() => assert.fail('was not refused'), (reason) => reason);
    assert.ok(APICallError.isInstance(error), `${error.name}: ${error.message}`);
    assert.equal(error.statusCode, status);
    assert.match(error.message, message);
    return error;
}

test('generateText gives the text that a plain request gets', async () => {
    const result = await generateText(story);
    const plain = JSON.parse((await ask(server, '/v1/chat/completions',
        { messages: [{ role: 'user', content: story.prompt }], seed: 4, max_tokens: 40 })).text);
    assert.equal(result.text, plain.choices[0].message.content);
    assert.equal(result.finishReason, 'length');
    assert.equal(result.usage.inputTokens, plain.usage.prompt_tokens);
    assert.equal(result.usage.outputTokens, 40);
    assert.equal(result.response.modelId, name);
});

test('streamText gives the same in pieces, with usage at its end', async () => {
    const result = streamText(story);
    const pieces = [];
    for await (const piece of result.textStream) pieces.push(piece);
    assert.ok(pieces.length > 10);
    assert.equal(pieces.join(''), (await generateText(story)).text);
    assert.equal(await result.finishReason, 'length');
    assert.equal((await result.usage).outputTokens, 40);
});

test('a system text, turns and stop sequences', async () => {
    const whole = await generateText({ ...story, prompt: undefined, system: 'Be brief.',
        messages: [{ role: 'user', content: 'Who are you?' }, { role: 'assistant', content: 'A river.' }, { role: 'user', content: story.prompt }] });
    assert.ok(whole.text.length > 20);
    const first = (await generateText(story)).text;
    const stop = first.slice(15, 22);
    const stopped = await generateText({ ...story, stopSequences: [stop] });
    assert.equal(stopped.text, first.slice(0, first.indexOf(stop)));
    assert.equal(stopped.finishReason, 'stop');
});

test('embed and embedMany agree', async () => {
    const model = provider.textEmbeddingModel(name);
    const one = await embed({ model, value: 'a river at night' });
    const many = await embedMany({ model, values: ['the moon', 'a river at night'] });
    assert.deepEqual(many.embeddings[1], one.embedding);
    assert.notDeepEqual(many.embeddings[0], one.embedding);
    assert.ok(one.usage.tokens > 0);
});

test('an abort ends the work, and what was held is given back', async () => {
    const controller = new AbortController();
    const slow = await serve(slowly);
    const result = streamText({ ...story, model: connect(slow)(name), maxOutputTokens: 900, abortSignal: controller.signal, onError: () => {},
        providerOptions: { runnel: { ignore_eos: true } } });
    let pieces = 0, aborted = false;
    for await (const part of result.fullStream) {
        if (part.type === 'text-delta' && ++pieces === 3) controller.abort();
        if (part.type === 'abort') aborted = true;
    }
    assert.ok(aborted);
    await until('it was aborted', async () => (await metric(slow, 'vllm:request_success_total', 'finished_reason="abort"')) === 1);
    await idle(slow);
    assert.equal((await slow.stop()).code, 0);
});

test('errors are API errors with their status; those that pass may be tried again', async () => {
    const wrong = await refused(generateText({ ...story, temperature: -1 }), 400, /temperature.*-1/);
    assert.equal(wrong.isRetryable, false);
    assert.equal(JSON.parse(wrong.responseBody).error.param, 'temperature');
    await refused(generateText({ ...story, model: provider('nobody') }), 404, /nobody/);
    await refused(generateText({ ...story, prompt: 'moon '.repeat(2000) }), 400, /maximum context length is 1024 tokens/);
    const small = await serve(['--api-key', 'right', '--max-seqs', '1', '--max-waiting', '1', ...slowly]);
    small.key = 'right';
    await refused(generateText({ ...story, model: connect(small, { apiKey: 'wrong' })(name) }), 401, /API key/);
    const controller = new AbortController();
    const model = connect(small, { apiKey: 'right' })(name);
    const begun = [];
    for (const state of ['running', 'waiting']) {
        begun.push(streamText({ ...story, model, maxOutputTokens: 900, abortSignal: controller.signal, onError: () => {},
            providerOptions: { runnel: { ignore_eos: true } } }).consumeStream());
        await until(`one is ${state}`, async () => (await metric(small, `vllm:num_requests_${state}`)) === 1);
    }
    const full = await refused(generateText({ ...story, model }), 429, /busy/);
    assert.equal(full.isRetryable, true);
    controller.abort();
    await Promise.all(begun);
    await idle(small);
    assert.equal((await generateText({ ...story, model })).text, (await generateText(story)).text);
    await small.stop();
    const gone = await refused(generateText({ ...story, model }), undefined, /connect/i);
    assert.equal(gone.isRetryable, true);
});

test('the server ends well after all of it', async () => {
    await idle(server);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
});
