// The AI SDK with OpenAI's provider, which talks to /v1/responses: reasoning that is shown, turns that name earlier items.
import { createOpenAI } from '@ai-sdk/openai';
import { generateText, streamText } from 'ai';
import assert from 'node:assert/strict';
import test from 'node:test';
import { ask, idle, serve } from './server.mjs';

const server = await serve(['--chat-template', `${process.env.ROOT}/tests/data/templates/qwen35.jinja`]); // starts in the reasoning
const name = JSON.parse((await ask(server, '/v1/models')).text).data[0].id;
const reasons = { openai: { reasoningSummary: 'auto', forceReasoning: true } };
const story = { model: createOpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none' }).responses(name), prompt: 'Tell me a story about a river.',
    maxOutputTokens: 40, maxRetries: 0, providerOptions: reasons };

test('generateText shows the reasoning, which is what the model wrote', async () => {
    const result = await generateText(story);
    assert.ok(result.reasoningText.length > 20);
    assert.equal(result.usage.outputTokenDetails.reasoningTokens, 40);
    const hidden = await generateText({ ...story, providerOptions: { openai: { forceReasoning: true } } });
    assert.equal(hidden.reasoningText, '');
});

test('the usage of chat says how much of it was reasoning', async () => {
    const body = { messages: [{ role: 'user', content: story.prompt }], max_tokens: 40 };
    const whole = JSON.parse((await ask(server, '/v1/chat/completions', body)).text);
    assert.deepEqual(whole.usage.completion_tokens_details, { reasoning_tokens: 40 });
    const events = (await ask(server, '/v1/chat/completions', { ...body, thinking_token_budget: 8, stream: true, stream_options: { include_usage: true } })).text.trim().split('\n\n');
    const { usage } = JSON.parse(events.at(-2).slice(6));
    const { reasoning_tokens } = usage.completion_tokens_details;
    assert.ok(reasoning_tokens >= 8 && reasoning_tokens < usage.completion_tokens, `${reasoning_tokens}`);
});

test('streamText shows it in pieces', async () => {
    const result = streamText(story);
    const pieces = [];
    for await (const part of result.fullStream) if (part.type === 'reasoning-delta') pieces.push(part.text);
    assert.ok(pieces.length > 10);
    assert.equal(pieces.join(''), await result.reasoningText);
});

test('a later turn names the items of the first, which the server has', async () => {
    const first = await generateText(story);
    const second = await generateText({ ...story, prompt: undefined,
        messages: [{ role: 'user', content: story.prompt }, ...first.response.messages, { role: 'user', content: 'And then?' }] });
    const { input } = second.request.body;
    assert.ok(input.some((item) => item.type === 'item_reference'));
    const whole = JSON.parse((await ask(server, '/v1/responses', { max_output_tokens: 1, input: [{ role: 'user', content: story.prompt },
        { type: 'reasoning', summary: [{ type: 'summary_text', text: first.reasoningText }] }, { role: 'user', content: 'And then?' }] })).text);
    assert.equal(second.usage.inputTokens, whole.usage.input_tokens);
});

test('the server ends well after all of it', async () => {
    await idle(server);
    assert.deepEqual(await server.stop(), { code: 0, signal: null });
});
