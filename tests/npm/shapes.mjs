// Answers in the shape that was asked for, by the helpers of client libraries: schemas of zod, tool calls whole and as
// streams, loops of calls and results. The model has never seen JSON: it writes it because nothing else is allowed.
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { zodOutputFormat } from '@anthropic-ai/sdk/helpers/zod';
import { generateObject, generateText, stepCountIs, streamObject, streamText, tool } from 'ai';
import assert from 'node:assert/strict';
import test from 'node:test';
import OpenAI from 'openai';
import { zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { ask, idle, serve } from './server.mjs';

const server = await serve(['--chat-template', `${process.env.ROOT}/tests/data/templates/qwen25.jinja`]);
const openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none', maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
const model = (await openai.models.list()).data[0].id;
const content = 'Tell me a story about a fox.';
const messages = [{ role: 'user', content }];
const wild = { model, temperature: 1.5, seed: 5 };

const Animal = z.object({
    name: z.string().max(20),
    kind: z.enum(['fox', 'owl', 'bear']),
    age: z.number().int().min(0).max(30),
    friends: z.array(z.object({ kind: z.enum(['fox', 'owl']), old: z.boolean() })).max(3),
    nick: z.string().max(8).nullable(),
});
const Weather = z.object({ place: z.string().max(12), days: z.number().int().min(1).max(9) });
// Anthropic's library leaves bounds out of schemas; this one has none and is finite.
const Unit = z.object({ unit: z.enum(['c', 'f']), warm: z.boolean(), side: z.enum(['left', 'right']).nullable() });

test('openai: chat.completions.parse gives an object of the schema', async () => {
    for (const seed of [1, 2, 3]) {
        const answer = await openai.chat.completions.parse({ ...wild, seed, messages, max_completion_tokens: 500,
            response_format: zodResponseFormat(Animal, 'animal') });
        assert.equal(answer.choices[0].finish_reason, 'stop');
        assert.deepEqual(answer.choices[0].message.parsed, Animal.parse(JSON.parse(answer.choices[0].message.content)));
    }
    const stream = openai.chat.completions.stream({ ...wild, messages, max_completion_tokens: 500,
        response_format: zodResponseFormat(Animal, 'animal') });
    const final = await stream.finalChatCompletion();
    assert.ok(Animal.safeParse(final.choices[0].message.parsed).success);
});

test('openai: responses.parse gives an object of the schema, and repeats the format', async () => {
    const format = zodTextFormat(Animal, 'animal');
    const answer = await openai.responses.parse({ ...wild, input: content, max_output_tokens: 500, text: { format } });
    assert.ok(Animal.safeParse(answer.output_parsed).success, answer.output_text);
    assert.equal(answer.text.format.type, 'json_schema');
    assert.equal(answer.text.format.name, 'animal');
});

test('openai: forced calls have parsed arguments, whole and as a stream', async () => {
    const tools = [zodFunction({ name: 'weather', parameters: Weather }), zodFunction({ name: 'clock', parameters: z.object({}) })];
    const body = { ...wild, messages, max_completion_tokens: 400, tools };
    const check = (message, name) => {
        assert.ok(message.tool_calls.length >= 1 && !message.content);
        for (const { function: { name: own, parsed_arguments } } of message.tool_calls) {
            if (name) assert.equal(own, name);
            assert.ok((own === 'clock' ? z.strictObject({}) : Weather).safeParse(parsed_arguments).success, JSON.stringify(message));
        }
    };
    for (const tool_choice of ['required', { type: 'function', function: { name: 'clock' } }, { type: 'function', function: { name: 'weather' } },
        { type: 'allowed_tools', allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'clock' } }] } }]) {
        const name = tool_choice.function?.name ?? (tool_choice === 'required' ? undefined : 'clock');
        const options = { ...body, tool_choice, parallel_tool_calls: false };
        const { choices: [{ message, finish_reason }] } = await openai.chat.completions.parse(options);
        assert.equal(finish_reason, 'tool_calls');
        assert.equal(message.tool_calls.length, 1);
        check(message, name);
        const stream = openai.chat.completions.stream(options);
        const pieces = [];
        stream.on('chunk', ({ choices }) => { for (const call of choices[0]?.delta?.tool_calls ?? []) pieces.push(call); });
        const final = (await stream.finalChatCompletion()).choices[0].message;
        check(final, name);
        assert.deepEqual(final.tool_calls[0].function.arguments, message.tool_calls[0].function.arguments);
        assert.equal(pieces[0].function.name, message.tool_calls[0].function.name); // the name comes first
        assert.ok(pieces.slice(1).every((piece) => piece.function.name === undefined));
    }
    const cut = await openai.chat.completions.create({ ...body, tool_choice: 'required', max_completion_tokens: 30 });
    assert.equal(cut.choices[0].finish_reason, 'length');
});

test('openai: a loop of calls and results ends with a text', async () => {
    const asked = [];
    const runner = openai.chat.completions.runTools({ ...wild, messages, max_completion_tokens: 150,
        tool_choice: { type: 'function', function: { name: 'weather' } },
        tools: [{ type: 'function', function: { name: 'weather', strict: true, parse: (text) => Weather.parse(JSON.parse(text)),
            function: (given) => { asked.push(given); return 'sun'; }, parameters: z.toJSONSchema(Weather) } }] });
    await runner.done();
    assert.equal(asked.length, 1);
    assert.ok(asked[0].days >= 1 && asked[0].days <= 9);
});

test('openai: responses call tools, whole and as a stream, and take their results', async () => {
    const tools = [zodResponsesFunction({ name: 'weather', parameters: Weather })];
    const body = { ...wild, max_output_tokens: 200, tools, tool_choice: 'required', parallel_tool_calls: false, input: content };
    const answer = await openai.responses.parse(body);
    const [call] = answer.output;
    assert.equal(call.type, 'function_call');
    assert.ok(Weather.safeParse(call.parsed_arguments).success);
    let pieces = '';
    const kinds = [];
    for await (const event of await openai.responses.create({ ...body, stream: true })) {
        kinds.push(event.type);
        if (event.type === 'response.function_call_arguments.delta') pieces += event.delta;
    }
    assert.equal(pieces, call.arguments);
    assert.ok(kinds.includes('response.function_call_arguments.done') && kinds.at(-1) === 'response.completed');
    const text = await openai.responses.create({ ...body, tool_choice: 'none', max_output_tokens: 20,
        input: [{ role: 'user', content }, { type: 'function_call', call_id: call.call_id, name: call.name, arguments: call.arguments },
            { type: 'function_call_output', call_id: call.call_id, output: 'sun' }] });
    assert.ok(text.output_text.length > 0);
});

test('anthropic: parsed output, and tools that must be used', async () => {
    const body = { ...wild, messages, max_tokens: 300 };
    const parsed = await anthropic.messages.parse({ ...body, output_config: { format: zodOutputFormat(Unit) } });
    assert.ok(Unit.safeParse(parsed.parsed_output).success);
    const tools = [{ name: 'weather', strict: true, input_schema: z.toJSONSchema(Weather) }, { name: 'clock', input_schema: { type: 'object', properties: {} } }];
    for (const tool_choice of [{ type: 'any', disable_parallel_tool_use: true }, { type: 'tool', name: 'weather', disable_parallel_tool_use: true }]) {
        const answer = await anthropic.messages.create({ ...body, tools, tool_choice });
        assert.equal(answer.stop_reason, 'tool_use');
        const [use] = answer.content;
        assert.ok((use.name === 'clock' ? z.strictObject({}) : Weather).safeParse(use.input).success, JSON.stringify(use));
        const final = await anthropic.messages.stream({ ...body, tools, tool_choice }).finalMessage();
        assert.equal(final.content.length, 1);
        assert.equal(final.content[0].type, 'tool_use');
    }
    const [use] = (await anthropic.messages.create({ ...body, tools, tool_choice: { type: 'tool', name: 'weather', disable_parallel_tool_use: true } })).content;
    const more = await anthropic.messages.create({ ...body, max_tokens: 20, tools, tool_choice: { type: 'none' }, messages: [...messages,
        { role: 'assistant', content: [use] }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'sun' }] }] });
    assert.equal(more.content[0].type, 'text');
});

const providers = {
    'openai-compatible': createOpenAICompatible({ name: 'runnel', baseURL: `${server.url}/v1`, supportsStructuredOutputs: true })(model),
    anthropic: createAnthropic({ baseURL: `${server.url}/v1`, apiKey: 'none' })(model),
};
for (const [name, provider] of Object.entries(providers)) {
    const story = { model: provider, prompt: content, temperature: 1, maxOutputTokens: 300, maxRetries: 0,
        providerOptions: { runnel: { parallel_tool_calls: false }, anthropic: { disableParallelToolUse: true } } };

    test(`ai, ${name}: generateObject and streamObject`, async () => {
        const { object } = await generateObject({ ...story, schema: Unit });
        assert.ok(Unit.safeParse(object).success);
        const stream = streamObject({ ...story, schema: Unit });
        let last;
        for await (const part of stream.partialObjectStream) last = part;
        assert.deepEqual(last, await stream.object);
        assert.ok(Unit.safeParse(last).success);
    });

    test(`ai, ${name}: a loop of tools`, async () => {
        const asked = [];
        const options = { ...story, maxOutputTokens: 200, stopWhen: stepCountIs(2),
            tools: { weather: tool({ inputSchema: Unit, execute: async (input) => { asked.push(input); return 'sun'; } }) },
            prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber ? 'none' : 'required' }) };
        const result = await generateText(options);
        assert.equal(result.steps.length, 2);
        assert.ok(asked.length >= 1 && asked.every((input) => Unit.safeParse(input).success));
        assert.ok(result.text.length > 0);
        const streamed = streamText({ ...options, stopWhen: stepCountIs(1) });
        const parts = [];
        for await (const part of streamed.fullStream) parts.push(part.type);
        assert.ok(parts.includes('tool-call') && parts.includes('tool-result'), parts.join());
    });
}

test('vLLM\'s and llama.cpp\'s fields', async () => {
    const complete = async (body) => JSON.parse((await ask(server, '/v1/completions', { prompt: 'The fox', max_tokens: 60, seed: 1, temperature: 1.5, ...body })).text).choices[0];
    assert.match((await complete({ structured_outputs: { regex: '[a-f]{3}-[0-9]{2}' } })).text, /^[a-f]{3}-[0-9]{2}$/);
    assert.ok(['red', 'green'].includes((await complete({ structured_outputs: { choice: ['red', 'green'] } })).text));
    assert.match((await complete({ guided_grammar: 'root ::= "a" [0-9]{2} "z"' })).text, /^a[0-9]{2}z$/);
    assert.match((await complete({ structured_outputs: { grammar: 'start: "a" /[0-9]/~2 [B]\nB: "z"' } })).text, /^a[0-9]{2}z?$/);
    assert.match((await complete({ structured_outputs: { structural_tag: { type: 'structural_tag', format: { type: 'tag', begin: '<n>',
        content: { type: 'regex', pattern: '[0-9]{1,3}' }, end: '</n>' } } } })).text, /^<n>[0-9]{1,3}<\/n>$/);
    const native = JSON.parse((await ask(server, '/completion', { prompt: 'The fox', n_predict: 60, json_schema: { enum: [1, 'two'] } })).text);
    assert.ok([1, 'two'].includes(JSON.parse(native.content)));
    const grammar = 'root ::= "a" | "b"';
    const { generation_settings } = JSON.parse((await ask(server, '/completion', { prompt: 'The fox', n_predict: 2, grammar })).text);
    assert.equal(generation_settings.grammar, grammar);
    const refused = await ask(server, '/v1/completions', { prompt: 'x', guided_regex: '(a)\\1' });
    assert.equal(refused.status, 400);
    assert.match(JSON.parse(refused.text).error.message, /guided_regex: offset 3/);
    const twice = await ask(server, '/completion', { prompt: 'x', grammar: 'root ::= "a"', json_schema: {} });
    assert.equal(JSON.parse(twice.text).error.param, 'grammar');
});

test('a grammar that becomes too ambiguous is an error of the request, whole and as a stream', async () => {
    const x = '[a-z ,.]* y [a-z ,.]*\ny ::= [a-z ,.]* z? [a-z ,.]*\nz ::= "q"';
    const body = { prompt: 'The fox', max_tokens: 400, temperature: 0, grammar: `root ::= x x x x x x x x\nx ::= ${x}` };
    const whole = await ask(server, '/v1/completions', body);
    const { error } = JSON.parse(whole.text);
    assert.deepEqual([whole.status, error.type, error.code, error.param], [400, 'invalid_request_error', 'shape_too_ambiguous', 'grammar']);
    const stream = await ask(server, '/v1/completions', { ...body, stream: true });
    const last = JSON.parse(stream.text.trim().split('\n\n').at(-1).slice('data: '.length));
    assert.deepEqual([stream.status, last.error], [200, error]);
});

test('a shape starts behind the reasoning, and the reasoning is free', async () => {
    const { ROOT } = process.env;
    for (const [template, thinks] of [['qwen35', true], ['qwen3', false]]) {
        const thinking = await serve(['--chat-template', `${ROOT}/tests/data/templates/${template}.jinja`]);
        const body = { messages, temperature: 1.5, max_tokens: 200, thinking_token_budget: 10 };
        for (const seed of [1, 2, 3]) {
            const { choices: [{ message, finish_reason }] } = JSON.parse((await ask(thinking, '/v1/chat/completions',
                { ...body, seed, structured_outputs: { choice: ['red', 'green'] } })).text);
            assert.ok(['red', 'green'].includes(message.content), JSON.stringify(message));
            assert.equal(finish_reason, 'stop');
            if (thinks) assert.ok(message.reasoning_content.length > 0);
        }
        const { choices: [{ message }] } = JSON.parse((await ask(thinking, '/v1/chat/completions', { ...body, seed: 4, tool_choice: 'required',
            parallel_tool_calls: false, tools: [{ type: 'function', function: { name: 'unit', parameters: z.toJSONSchema(Unit) } }] })).text);
        assert.ok(Unit.safeParse(JSON.parse(message.tool_calls[0].function.arguments)).success, JSON.stringify(message));
        await thinking.stop();
    }
});

test('nothing is left behind', async () => {
    await idle(server);
    await server.stop();
});
