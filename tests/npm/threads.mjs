// Threads of Anthropic's client library: its tool runner, which uses them unless it is told not to, its thread helper, and
// the error class of every refusal. A continued thread has the prompt of the whole conversation.
import Anthropic from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
import assert from 'node:assert/strict';
import test from 'node:test';
import { z } from 'zod';
import { idle, serve } from './server.mjs';

const template = ['--chat-template', `${process.env.ROOT}/tests/data/templates/qwen3.jinja`];
const server = await serve(template);
const sent = []; // the bodies of messages that the client sent
const fetched = (url, init) => {
    if (String(url).includes('/v1/messages')) sent.push(JSON.parse(init.body));
    return fetch(url, init);
};
const connect = (to) => new Anthropic({ baseURL: to.url, apiKey: 'none', maxRetries: 0, fetch: fetched });
const client = connect(server);
const model = (await client.models.list()).data[0].id;
const common = { model, max_tokens: 100, seed: 3, thinking_budget_tokens: 0 };
const asked = { ...common, system: 'Be kind.', tool_choice: { type: 'any', disable_parallel_tool_use: true },
    messages: [{ role: 'user', content: 'How is the weather?' }] };
const said = (content) => ({ role: 'user', content });
const input = ({ usage }) => usage.input_tokens + usage.cache_read_input_tokens;

// The inputs of the calls and the lengths of the prompts of three turns with a tool.
async function run(from, { stream, ...more }) {
    const tool = betaZodTool({ name: 'weather', description: 'of a place', inputSchema: z.object({ n: z.number().int().min(1).max(999) }), run: ({ n }) => `sun ${n}` });
    const turns = [];
    sent.length = 0;
    for await (const turn of from.beta.messages.toolRunner({ ...asked, tools: [tool], max_iterations: 3, stream, ...more })) {
        const message = stream ? await turn.finalMessage() : turn;
        turns.push([message.content.map((block) => block.input ?? block.text), input(message)]);
    }
    return turns;
}

test('the tool runner gets the same turns with threads and without', async () => {
    const whole = await run(client, { stream: false, thread: false });
    assert.equal(whole.length, 3);
    assert.ok(whole.every(([[call]]) => call.n >= 1));
    assert.deepEqual(sent.map((body) => [body.thread, body.messages.length]), [[undefined, 1], [undefined, 3], [undefined, 5]]);
    for (const stream of [false, true]) {
        assert.deepEqual(await run(client, { stream }), whole);
        assert.deepEqual(sent.map((body) => [body.thread.type, body.messages.length, 'tools' in body, 'system' in body]),
            [['create', 1, true, true], ['continue', 1, false, false], ['continue', 1, false, false]]);
    }
    assert.deepEqual(await run(client, { stream: true, thread: false }), whole);
});

test('a thread keeps the conversation, whole and as a stream', async () => {
    const thread = client.beta.messages.thread({ ...common, system: 'Be brief.' });
    await thread.send(said('Tell me of a fox.'));
    await thread.stream(said('And then?')).finalMessage();
    const third = await thread.send(said('And at the end?'));
    const all = await client.messages.create({ ...common, system: 'Be brief.', messages: thread.messages.slice(0, -1) });
    assert.equal(input(third), input(all));
    assert.deepEqual(third.content, all.content);
    assert.equal(thread.previousMessageId, third.id);
});

test('refusals have the classes that the client knows', async () => {
    const first = await client.beta.messages.create({ ...common, messages: [said('a')], thread: { type: 'create' } });
    const next = (previous_message_id, more = {}) => client.beta.messages.create({ ...common, messages: [said('b')],
        thread: { type: 'continue', previous_message_id }, ...more });
    await assert.rejects(next(first.id, { temperature: -1 }), Anthropic.BadRequestError); // and it can be continued
    await assert.rejects(next(first.id, { system: 'other' }), (error) => error.errorCode === 'thread_fingerprint_mismatch');
    const second = await next(first.id);
    await assert.rejects(next(first.id), (error) => error.status === 400 && error.errorCode === 'thread_already_continued');
    await assert.rejects(next('msg_nothing'), (error) => error.status === 404 && error.errorCode === 'thread_not_found');
    await next(second.id);
    for (const field of ['container', 'fallbacks', 'compaction', 'context_management', 'speed'])
        await assert.rejects(client.beta.messages.create({ ...common, messages: [said('a')], [field]: 'x' }),
            (error) => error.status === 400 && error.message.includes(`${field}: `));
});

test('without a store the runner sends the whole conversation', async () => {
    const none = await serve([...template, '--keep-responses', '0']);
    const turns = await run(connect(none), { stream: false });
    assert.equal(turns.length, 3);
    assert.deepEqual(sent.map((body) => body.thread?.type), ['create', undefined, undefined, undefined]);
    assert.equal((await none.stop()).code, 0);
});

test('a lost thread is sent again by the client', async () => {
    const small = await serve([...template, '--keep-responses', '1']);
    const thread = connect(small).beta.messages.thread(common);
    await thread.send(said('a'));
    await connect(small).beta.messages.create({ ...common, messages: [said('x')], thread: { type: 'create' } });
    sent.length = 0;
    await thread.send(said('b'));
    assert.deepEqual(sent.map((body) => [body.thread.type, body.messages.length]), [['continue', 1], ['create', 3]]);
    assert.equal((await small.stop()).code, 0);
});

test('the server ends well after all of it', async () => {
    await idle(server);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
});
