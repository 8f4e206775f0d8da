// Tool calls as streams, by client libraries: the name first, then the arguments in pieces, which joined are those of the
// whole answer. Families write their calls in different ways, so each has a server. Calls are forced: the model writes them
// because nothing else is allowed. Answers that are cut anywhere end well.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { jsonSchema, parsePartialJson, streamText, tool } from 'ai';
import assert from 'node:assert/strict';
import test from 'node:test';
import OpenAI from 'openai';
import { idle, serve } from './server.mjs';

const content = 'Tell me a story about a fox.';
const messages = [{ role: 'user', content }];
const schema = {
    type: 'object', additionalProperties: false, required: ['text', 'tags', 'n'],
    properties: { text: { type: 'string', minLength: 20, maxLength: 40 }, n: { type: 'integer', minimum: 10, maximum: 99 },
        tags: { type: 'array', minItems: 1, maxItems: 2, items: { type: 'string', minLength: 4, maxLength: 8 } } },
};
const tools = [{ type: 'function', function: { name: 'note', description: 'keeps a note', parameters: schema } }];
const flat = [{ type: 'function', name: 'note', description: 'keeps a note', parameters: schema }];

// Calls as JSON, between tags, as Python, as pairs.
for (const family of ['qwen25', 'qwen35', 'lfm2', 'gemma4']) {
    const server = await serve(['--chat-template', `${process.env.ROOT}/tests/data/templates/${family}.jinja`]);
    const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
    const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
    const model = (await openai.models.list()).data[0].id;
    const common = { model, seed: 3, temperature: 1, thinking_budget_tokens: 0 };
    const body = { ...common, messages, max_completion_tokens: 500, tools, tool_choice: 'required', parallel_tool_calls: false };
    const message = { ...common, messages, max_tokens: 500, tools: [{ name: 'note', input_schema: schema }],
        tool_choice: { type: 'any', disable_parallel_tool_use: true } };
    const response = { ...common, input: content, max_output_tokens: 500, tools: flat, tool_choice: 'required', parallel_tool_calls: false };

    test(`${family}: chat tells a call in pieces that the whole answer has`, async () => {
        const whole = (await openai.chat.completions.create(body)).choices[0];
        assert.equal(whole.finish_reason, 'tool_calls');
        const [call] = whole.message.tool_calls;
        const stream = openai.chat.completions.stream(body);
        const pieces = [];
        let seen = '';
        stream.on('chunk', ({ choices }) => pieces.push(...(choices[0]?.delta?.tool_calls ?? [])));
        stream.on('tool_calls.function.arguments.delta', ({ arguments_delta }) => { seen += arguments_delta; });
        const final = (await stream.finalChatCompletion()).choices[0];
        assert.deepEqual(final.message.tool_calls.map((at) => at.function.arguments), [call.function.arguments]);
        assert.equal(seen, call.function.arguments);
        assert.equal(final.finish_reason, 'tool_calls');
        assert.deepEqual(pieces.map(({ index }) => index), pieces.map(() => 0));
        assert.equal(pieces[0].function.name, 'note');
        assert.ok(pieces[0].id && pieces[0].type === 'function');
        assert.ok(pieces.slice(1).every(({ id, function: { name } }) => id === undefined && name === undefined));
        assert.ok(pieces.length > 8, `${pieces.length} pieces`);
        let joined = '';
        for (const piece of pieces.slice(1)) { // a client can complete them at any time
            joined += piece.function.arguments;
            assert.notEqual((await parsePartialJson(joined)).state, 'failed-parse', joined);
        }
        const given = JSON.parse(joined);
        assert.ok(given.text.length >= 20 && given.tags.length && given.n >= 10);
    });

    test(`${family}: answers that are cut anywhere end well in every client`, async () => {
        const whole = (await openai.chat.completions.create(body)).choices[0].message.tool_calls[0].function.arguments;
        for (let most = 1; most <= 46; most += 5) {
            const options = { ...body, max_completion_tokens: most };
            const final = (await openai.chat.completions.stream(options).finalChatCompletion()).choices[0];
            const plain = (await openai.chat.completions.create(options)).choices[0];
            const [call] = final.message.tool_calls ?? [];
            assert.equal(call?.function.arguments, plain.message.tool_calls?.[0].function.arguments);
            assert.equal(final.message.content ?? '', plain.message.content ?? '');
            assert.equal(final.finish_reason, plain.finish_reason);
            if (call) assert.ok(whole.startsWith(call.function.arguments), call.function.arguments);
        }
        for (const most of [8, 25, 40]) {
            const use = await anthropic.messages.stream({ ...message, max_tokens: most }).finalMessage();
            assert.equal(use.stop_reason, 'max_tokens');
            const { status, output } = await openai.responses.stream({ ...response, max_output_tokens: most }).finalResponse();
            assert.equal(status, 'incomplete');
            for (const item of output) if (item.type === 'function_call') assert.equal(item.status, 'incomplete');
        }
    });

    test(`${family}: several calls have their own ids and indexes`, async () => {
        const options = { ...body, parallel_tool_calls: true, max_completion_tokens: 120, tools: [{ type: 'function', function: { name: 'clock',
            description: 'tells the time', parameters: { type: 'object', properties: { utc: { type: 'boolean' } }, required: ['utc'], additionalProperties: false } } }] };
        const whole = (await openai.chat.completions.create(options)).choices[0].message.tool_calls;
        const stream = openai.chat.completions.stream(options);
        const opened = [];
        stream.on('chunk', ({ choices }) => { for (const call of choices[0]?.delta?.tool_calls ?? []) if (call.id) opened.push(call); });
        const calls = (await stream.finalChatCompletion()).choices[0].message.tool_calls;
        assert.deepEqual(calls.map((at) => [at.function.name, at.function.arguments]), whole.map((at) => [at.function.name, at.function.arguments]));
        assert.deepEqual(opened.map(({ index }) => index), calls.map((_, i) => i));
        assert.equal(new Set(opened.map(({ id }) => id)).size, calls.length);
    });

    test(`${family}: Responses and Messages tell the same arguments`, async () => {
        const kinds = [];
        let pieces = '';
        for await (const event of await openai.responses.create({ ...response, stream: true })) {
            kinds.push(event.type);
            if (event.type === 'response.function_call_arguments.delta') pieces += event.delta;
            if (event.type === 'response.function_call_arguments.done') assert.equal(event.arguments, pieces);
            if (event.type === 'response.completed') assert.equal(event.response.output.at(-1).arguments, pieces);
        }
        assert.ok(kinds.filter((kind) => kind === 'response.function_call_arguments.delta').length > 6);
        assert.equal(kinds.at(-1), 'response.completed');
        const stream = anthropic.messages.stream(message);
        let text = '', snapshots = 0;
        stream.on('inputJson', (piece, snapshot) => { text += piece; snapshots += typeof snapshot === 'object'; });
        const [use] = (await stream.finalMessage()).content.filter(({ type }) => type === 'tool_use');
        assert.deepEqual(use.input, JSON.parse(text));
        assert.ok(snapshots > 6);
    });

    test(`${family}: custom tools take a text of their grammar`, async () => {
        const form = /^[A-Z][a-z]{3,9}: "[0-9]{2}"\n[a-f\\]{4}$/;
        const grammar = { syntax: 'regex', definition: form.source.slice(1, -1) };
        const options = { ...body, tools: [{ type: 'custom', custom: { name: 'patch', description: 'takes a line', format: { type: 'grammar', grammar } } }] };
        const [call] = (await openai.chat.completions.create(options)).choices[0].message.tool_calls;
        assert.equal(call.type, 'custom');
        assert.match(call.custom.input, form);
        let told = '', pieces = 0;
        for await (const { choices } of await openai.chat.completions.create({ ...options, stream: true })) {
            for (const { custom } of choices[0]?.delta?.tool_calls ?? []) { told += custom.input; pieces++; }
        }
        assert.equal(told, call.custom.input);
        assert.ok(pieces > 3);
        const stream = openai.responses.stream({ ...response, tools: [{ type: 'custom', name: 'patch', description: 'takes a line', format: { type: 'grammar', ...grammar } }],
            tool_choice: { type: 'custom', name: 'patch' } });
        told = '';
        stream.on('response.custom_tool_call_input.delta', ({ delta }) => { told += delta; });
        const { output } = await stream.finalResponse();
        const item = output.find(({ type }) => type === 'custom_tool_call');
        assert.match(item.input, form);
        assert.equal(item.input, told);
        const more = await openai.responses.create({ ...response, tool_choice: 'none', max_output_tokens: 10, tools: [{ type: 'custom', name: 'patch', description: 'takes a line' }],
            input: [{ role: 'user', content }, item, { type: 'custom_tool_call_output', call_id: item.call_id, output: 'done' }] });
        assert.ok(more.output_text.length > 0);
    });

    test(`${family}: custom tools take a text of a grammar in Lark`, async () => {
        const definition = 'start: sum "\\n"\n?sum: NUM | sum OP NUM -> more | "(" sum ")"\nOP: "+" | "*"\nNUM: /[1-9][0-9]?/\n%ignore " "';
        const format = { type: 'grammar', grammar: { syntax: 'lark', definition } };
        const options = { ...body, temperature: 0, tools: [{ type: 'custom', custom: { name: 'count', description: 'counts', format } }] };
        const { finish_reason, message } = (await openai.chat.completions.create(options)).choices[0];
        const [call] = message.tool_calls;
        const start = /^ *([ (]*[1-9][0-9]?[ )]*([+*][ (]*[1-9][0-9]?[ )]*)*)?/;
        if (finish_reason === 'length') assert.match(call.custom.input, start);
        else assert.match(call.custom.input, new RegExp(`${start.source}\n$`));
    });

    if (['qwen25', 'gemma4'].includes(family)) test(`${family}: the AI SDK sees the input grow`, async () => {
        const providers = [createOpenAICompatible({ name: 'runnel', baseURL: `${server.url}/v1` })(model),
            createAnthropic({ baseURL: `${server.url}/v1`, apiKey: 'none' })(model)];
        for (const provider of providers) {
            const asked = [];
            const result = streamText({ model: provider, prompt: content, seed: 3, maxOutputTokens: 400, maxRetries: 0, toolChoice: 'required',
                providerOptions: { runnel: { parallel_tool_calls: false }, anthropic: { disableParallelToolUse: true } },
                tools: { note: tool({ inputSchema: jsonSchema(schema), execute: async (input) => { asked.push(input); return 'kept'; } }) } });
            const parts = [];
            let text = '';
            for await (const part of result.fullStream) {
                parts.push(part.type);
                if (part.type === 'tool-input-delta') text += part.delta;
                assert.notEqual(part.type, 'error', String(part.error));
            }
            assert.ok(parts.filter((type) => type === 'tool-input-delta').length > 6);
            assert.ok(parts.indexOf('tool-input-start') < parts.indexOf('tool-input-delta'));
            assert.deepEqual(asked, [JSON.parse(text)]);
        }
    });

    test(`${family}: nothing is left behind`, async () => {
        await idle(server);
        await server.stop();
    });
}
