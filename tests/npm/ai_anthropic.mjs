// The AI SDK with Anthropic's provider, which checks the schema of every answer: whole texts, streams, counts, errors.
import { createAnthropic } from '@ai-sdk/anthropic';
import { APICallError, generateText, streamText } from 'ai';
import assert from 'node:assert/strict';
import test from 'node:test';
import { ask, idle, serve } from './server.mjs';

const server = await serve(['--strict-model']);
const name = JSON.parse((await ask(server, '/v1/models')).text).data[0].id;
const provider = createAnthropic({ baseURL: `${server.url}/v1`, apiKey: 'none' });
const story = { model: provider(name), prompt: 'Tell me a story about a river and the moon.', temperature: 0, maxOutputTokens: 40, maxRetries: 0 };
const body = { model: name, messages: [{ role: 'user', content: story.prompt }], temperature: 0, max_tokens: 40 };

test('generateText gives the text that a plain request gets', async () => {
    const result = await generateText(story);
    const plain = JSON.parse((await ask(server, '/v1/messages', body)).text);
    assert.deepEqual(Object.keys(plain.content[0]).sort(), ['text', 'type']);
    assert.equal(result.text, plain.content[0].text);
    assert.ok(result.text.length > 20);
    assert.equal(result.finishReason, 'length');
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
    const plain = (await ask(server, '/v1/messages', { ...body, stream: true })).text;
    const start = plain.split('\n').find((line) => line.startsWith('data: {"type":"content_block_start"'));
    assert.deepEqual(JSON.parse(start.slice(6)).content_block, { type: 'text', text: '' });
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

test('errors are in the form that the provider reads, also where there is no such route', async () => {
    const wrong = await generateText({ ...story, model: provider('nobody') }).then(() => assert.fail('was not refused'), (error) => error);
    assert.ok(APICallError.isInstance(wrong), `${wrong.name}: ${wrong.message}`);
    assert.equal(wrong.statusCode, 404);
    assert.match(wrong.message, new RegExp(`nobody.*${name}.*--alias`));
    for (const path of ['/v1/messages/batches', '/v1/messages/batches/1']) {
        const answer = await ask(server, path, {});
        assert.equal(answer.status, 404);
        assert.deepEqual(JSON.parse(answer.text), { type: 'error', error: { type: 'not_found_error', message: `There is no ${path}: batches are not kept; send the requests to /v1/messages, all at a time` } });
    }
    const elsewhere = JSON.parse((await ask(server, '/v1/messagesx', {})).text);
    assert.equal(elsewhere.type, undefined);
    assert.equal(elsewhere.error.code, 'not_found');
});

test('the server ends well after all of it', async () => {
    await idle(server);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
});
