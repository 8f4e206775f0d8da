// Anthropic's own client library against the server: messages whole and as streams, counting, the
// beginning of an answer given by the caller, and the error class of every kind of refusal.
import Anthropic from '@anthropic-ai/sdk';
import assert from 'node:assert/strict';
import test from 'node:test';
import { idle, metric, serve, slowly, until } from './server.mjs';

const server = await serve();
const connect = (to, options = {}) => new Anthropic({ baseURL: to.url, apiKey: 'none', maxRetries: 0, ...options });
const client = connect(server);
const model = (await client.models.list()).data[0].id;
const messages = [{ role: 'user', content: 'Tell me a story about an owl and a kite.' }];
const story = { model, messages, max_tokens: 40, temperature: 0 };
const ask = (body) => client.messages.create({ ...story, ...body });
const textOf = (message) => message.content.map((block) => block.text).join('');

async function refused(promise, kind, status, type, message) {
    const error = await promise.then(() => assert.fail('was not refused'), (reason) => reason);
    assert.ok(error instanceof kind, `${error.constructor.name}: ${error.message}`);
    assert.equal(error.status, status);
    assert.equal(error.error.type, 'error');
    assert.equal(error.error.error.type, type);
    if (message) assert.match(error.message, message);
    return error;
}

test('the model is listed with what the client reads, and found by its name', async () => {
    const page = await client.models.list();
    const [one] = page.data;
    assert.equal(one.type, 'model');
    assert.equal(one.display_name, model);
    assert.ok(Math.abs(Date.parse(one.created_at) / 1000 - one.created) < 1);
    assert.deepEqual([page.has_more, page.first_id, page.last_id], [false, model, model]);
    let n = 0;
    for await (const each of client.models.list()) n += each.id === model;
    assert.equal(n, 1);
    assert.equal((await client.models.retrieve(model)).display_name, model);
    await refused(client.models.retrieve('nobody'), Anthropic.NotFoundError, 404, 'not_found_error', /nobody/);
});

test('a message has a text, and says why it ended', async () => {
    const message = await ask({});
    assert.equal(message.type, 'message');
    assert.equal(message.role, 'assistant');
    assert.equal(message.content[0].type, 'text');
    assert.ok(textOf(message).length > 20);
    assert.equal(message.stop_reason, 'max_tokens');
    assert.equal(message.usage.output_tokens, 40);
    const ended = await ask({ max_tokens: 900 });
    assert.equal(ended.stop_reason, 'end_turn');
    assert.ok(textOf(ended).startsWith(textOf(message)));
});

test('a stream gives the same message, in events of the right order', async () => {
    const whole = await ask({});
    const stream = client.messages.stream(story);
    const types = [];
    let text = '';
    stream.on('streamEvent', (event) => types.push(event.type));
    stream.on('text', (piece) => { text += piece; });
    const message = await stream.finalMessage();
    assert.equal(text, textOf(whole));
    assert.equal(textOf(message), textOf(whole));
    assert.equal(message.stop_reason, whole.stop_reason);
    assert.equal(message.usage.output_tokens, whole.usage.output_tokens);
    const order = types.filter((type, i) => type !== 'ping' && type !== types[i - 1]);
    assert.deepEqual(order, ['message_start', 'content_block_start', 'content_block_delta', 'content_block_stop', 'message_delta', 'message_stop']);
});

test('a stop sequence ends the text before itself', async () => {
    const whole = textOf(await ask({}));
    const stop = whole.slice(25, 33);
    const message = await ask({ stop_sequences: ['never to be found', stop] });
    assert.equal(textOf(message), whole.slice(0, whole.indexOf(stop)));
    assert.equal(message.stop_reason, 'stop_sequence');
    assert.equal(message.stop_sequence, stop);
    const streamed = await client.messages.stream({ ...story, stop_sequences: [stop] }).finalMessage();
    assert.equal(textOf(streamed), textOf(message));
    assert.equal(streamed.stop_sequence, stop);
});

test('a system text counts, as a string and as blocks', async () => {
    const system = 'You write about the sea and nothing else.';
    const plain = await ask({}), string = await ask({ system });
    const blocks = await ask({ system: [{ type: 'text', text: system }] });
    const input = ({ usage }) => usage.input_tokens + usage.cache_read_input_tokens;
    assert.ok(input(string) > input(plain));
    assert.equal(input(blocks), input(string));
    assert.equal(textOf(blocks), textOf(string));
    const parts = await ask({ messages: [{ role: 'user', content: [{ type: 'text', text: messages[0].content }] }] });
    assert.equal(textOf(parts), textOf(plain));
});

test('a document of text is read as text', async () => {
    const source = { type: 'text', media_type: 'text/plain', data: 'The owl is called Ada.' };
    const asked = { type: 'text', text: messages[0].content };
    const document = await ask({ messages: [{ role: 'user', content: [{ type: 'document', source, title: 'Owls' }, asked] }] });
    const text = await ask({ messages: [{ role: 'user', content: `Owls\n${source.data}\n${asked.text}` }] });
    assert.equal(textOf(document), textOf(text));
});

test('count_tokens says what the message will use', async () => {
    for (const body of [{ messages }, { messages, system: 'Be kind.' },
        { messages: [...messages, { role: 'assistant', content: 'There was' }] }]) {
        const counted = await client.messages.countTokens({ model, ...body });
        const { usage } = await ask({ ...body, max_tokens: 1 });
        assert.equal(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
    }
});

test('an answer goes on from the beginning that the caller gives it', async () => {
    const whole = textOf(await ask({}));
    const begin = whole.slice(0, whole.indexOf(' ', 20));
    const rest = await ask({ messages: [...messages, { role: 'assistant', content: begin }] });
    assert.ok((begin + textOf(rest)).startsWith(whole), `${begin}|${textOf(rest)} is not ${whole}`);
});

test('several turns, and tools that the template does not know', async () => {
    const first = await ask({});
    const more = await ask({ messages: [...messages, { role: 'assistant', content: first.content }, { role: 'user', content: 'And then?' }] });
    assert.ok(textOf(more));
    const tools = [{ name: 'weather', description: 'of a place', input_schema: { type: 'object', properties: { place: { type: 'string' } } } }];
    await refused(ask({ tools }), Anthropic.BadRequestError, 400, 'invalid_request_error', /tools: .* knows no tools/);
    assert.equal(textOf(await ask({ tools, tool_choice: { type: 'none' } })), textOf(first));
    await refused(ask({ tool_choice: { type: 'any' } }), Anthropic.BadRequestError, 400, 'invalid_request_error', /tool_choice/);
});

test('what cannot be done is refused by name', async () => {
    const bad = [Anthropic.BadRequestError, 400, 'invalid_request_error'];
    await refused(ask({ max_tokens: 0 }), ...bad, /max_tokens/);
    await refused(ask({ max_tokens: undefined }), ...bad, /max_tokens/);
    await refused(ask({ messages: [] }), ...bad, /messages/);
    await refused(ask({ messages: [{ role: 'wizard', content: 'hi' }] }), ...bad, /wizard/);
    await refused(ask({ temperature: -0.5 }), ...bad, /temperature.*-0\.5/);
    await refused(ask({ messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: '' } }] }] }), ...bad, /messages\[0\]\.content\[0\]\.type: .*image.* is not supported: the model reads text alone/);
    await refused(ask({ messages: [{ role: 'user', content: 'owl '.repeat(2000) }] }), ...bad, /maximum context length is 1024 tokens/);
    assert.equal((await ask({ model: 'nobody' })).model, (await ask({})).model); // the only model answers to any name
});

test('an abort ends the work, and what was held is given back', async () => {
    const slow = await serve(slowly);
    const stream = connect(slow).messages.stream({ ...story, max_tokens: 900, ignore_eos: true });
    let pieces = 0;
    stream.on('text', () => { if (++pieces === 3) stream.abort(); });
    await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
    await until('it was aborted', async () => (await metric(slow, 'vllm:request_success_total', 'finished_reason="abort"')) === 1);
    await idle(slow);
    assert.equal((await slow.stop()).code, 0);
});

test('a wrong key, and more work than there are places', async () => {
    const small = await serve(['--api-key', 'right', '--max-seqs', '1', '--max-waiting', '1', ...slowly]);
    small.key = 'right';
    const right = connect(small, { apiKey: 'right' }); // as x-api-key
    await refused(connect(small).messages.create(story), Anthropic.AuthenticationError, 401, 'authentication_error');
    await refused(connect(small, { apiKey: null, authToken: 'wrong' }).messages.create(story), Anthropic.AuthenticationError, 401, 'authentication_error');
    const begun = [];
    for (const state of ['running', 'waiting']) {
        begun.push(right.messages.stream({ ...story, max_tokens: 900, ignore_eos: true }).on('error', () => {}).on('abort', () => {}));
        await until(`one is ${state}`, async () => (await metric(small, `vllm:num_requests_${state}`)) === 1);
    }
    const error = await refused(right.messages.create(story), Anthropic.RateLimitError, 429, 'rate_limit_error');
    assert.ok(Number(error.headers.get('retry-after')) >= 1);
    for (const stream of begun) stream.abort();
    await idle(small);
    const bearer = connect(small, { apiKey: null, authToken: 'right' });
    assert.equal(textOf(await bearer.messages.create(story)), textOf(await ask({})));
    assert.equal((await small.stop()).code, 0);
});

test('the server ends well after all of it', async () => {
    await idle(server);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
});
