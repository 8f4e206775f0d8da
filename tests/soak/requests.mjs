// The fixed requests of the soak: all APIs, streamed and whole. Each has a seed, so its content is
// the same every time. content() takes an answer apart into what must not vary.
const chat = (text, more) => ({ messages: [{ role: 'user', content: text }], max_tokens: 24, ...more });
const story = (i) => `Tell me a story about a ${['fox', 'lantern', 'robot', 'river', 'owl', 'kite'][i]} and number ${i}.`;

// [name, api, path, body]; api null: not a text, and never streamed.
export const FIXED = [
    ...[0, 1, 2, 3].map((i) => [`chat ${i}`, 'openai', '/v1/chat/completions', chat(story(i), { seed: i, temperature: i % 2 ? 0.9 : 0 })]),
    ['chat, old path', 'openai', '/chat/completions', chat(story(4), { seed: 4, stop: ['and'] })],
    ['chat, n', 'openai', '/v1/chat/completions', chat(story(5), { seed: 5, n: 3, temperature: 1 })],
    ['chat, logprobs', 'openai', '/v1/chat/completions', chat(story(0), { seed: 6, logprobs: true, top_logprobs: 5 })],
    ['completion', 'openai', '/v1/completions', { prompt: 'Once upon a time', max_tokens: 40, seed: 7, ignore_eos: true }],
    ['completion, echo', 'openai', '/v1/completions', { prompt: 'The moon', max_tokens: 8, seed: 15, echo: true }],
    ['completions, list', 'openai', '/v1/completions', { prompt: ['A fox', 'An owl', 'The moon'], max_tokens: 12, seed: 8, n: 2 }],
    ['completion, logprobs', 'openai', '/v1/completions', { prompt: 'The end', max_tokens: 8, seed: 9, logprobs: 3 }],
    ['response', 'responses', '/v1/responses', { input: story(1), max_output_tokens: 24, seed: 10 }],
    ['message', 'messages', '/v1/messages', chat(story(2), { seed: 11 })],
    ['message, stop', 'messages', '/v1/messages', chat(story(3), { seed: 12, stop_sequences: [' a '] })],
    ['native', 'native', '/completion', { prompt: 'Long ago', n_predict: 24, seed: 13 }],
    ['native, old path', 'native', '/completions', { prompt: 'Far away', n_predict: 24, seed: 14, n_probs: 2 }],
    ['embedding', null, '/v1/embeddings', { input: 'A fox and an owl.' }],
    ['embeddings, base64', null, '/embeddings', { input: ['A fox', 'An owl'], encoding_format: 'base64' }],
    ['count', null, '/v1/messages/count_tokens', chat(story(0))],
    ['count of a chat', null, '/v1/chat/completions/input_tokens', chat(story(0))],
    ['derender', null, '/v1/chat/completions/derender', { generate_response: { choices: [{ token_ids: [70, 272, 275, 404, 297] }] }, chat_request: chat(story(0)) }],
    ['tokenize', null, '/tokenize', { content: 'A fox and an owl. '.repeat(200), with_pieces: true }],
    ['detokenize', null, '/detokenize', { tokens: [70, 272, 275, 404, 297] }],
    ['template', null, '/apply-template', chat(story(1))],
].map(([name, api, path, body]) => ({ name, api, path, body }));

// The events of a stream; throws where one is cut off.
function eventsOf(text) {
    const parts = text.split('\n\n');
    if (parts.pop() !== '') throw new Error('a stream ends within an event');
    return parts.map((part) => part.match(/^data: (.*)$/m)?.[1]).filter((data) => data !== undefined)
        .map((data) => (data === '[DONE]' ? data : JSON.parse(data)));
}

const joined = (list) => list.map((one) => one.text ?? '').join('');
const WHOLE = {
    openai: (answer) => ({ tokens: answer.usage.completion_tokens,
        texts: answer.choices.map((choice) => choice.text ?? choice.message.content),
        detail: answer.choices.map(({ index, finish_reason, logprobs }) => [index, finish_reason, logprobs]) }),
    responses: (answer) => ({ tokens: answer.usage.output_tokens, texts: [joined(answer.output.flatMap((item) => item.content))], detail: answer.status }),
    messages: (answer) => ({ tokens: answer.usage.output_tokens, texts: [joined(answer.content)], detail: answer.stop_reason }),
    native: (answer) => ({ tokens: answer.tokens_predicted, texts: [answer.content], detail: answer.completion_probabilities }),
};
// ended: the last event is the one that ends such a stream.
const STREAMED = {
    openai: (events) => {
        const texts = [], detail = [];
        for (const { index, text, delta, logprobs, finish_reason } of events.flatMap((event) => event.choices ?? [])) {
            detail[index] ??= { finish: null, logprobs: [] };
            texts[index] = (texts[index] ?? '') + (text ?? delta?.content ?? '');
            detail[index].finish ??= finish_reason;
            detail[index].logprobs.push(...(logprobs?.content ?? logprobs?.token_logprobs ?? []));
        }
        return { texts, detail, tokens: events.at(-2)?.usage?.completion_tokens, ended: events.at(-1) === '[DONE]' };
    },
    responses: (events) => ({ tokens: events.at(-1).response?.usage.output_tokens, detail: events.at(-1).type,
        texts: [joined(events.filter((event) => event.type === 'response.output_text.delta').map((event) => ({ text: event.delta })))],
        ended: /^response\.(completed|incomplete)$/.test(events.at(-1).type) }),
    messages: (events) => ({ tokens: events.at(-2)?.usage?.output_tokens, detail: events.at(-2)?.delta?.stop_reason,
        texts: [joined(events.filter((event) => event.type === 'content_block_delta').map((event) => event.delta))],
        ended: events.at(-1).type === 'message_stop' }),
    native: (events) => ({ tokens: events.at(-1).tokens_predicted, texts: [events.map((event) => event.content).join('')],
        detail: events.flatMap((event) => event.completion_probabilities ?? []), ended: events.at(-1).stop === true }),
};

// {texts, detail, tokens} of an answer; throws when a stream is not whole.
export function content(request, streamed, text) {
    if (!request.api) {
        const answer = JSON.parse(text);
        delete answer.timings;
        delete answer.usage;
        return { texts: [JSON.stringify(answer)], tokens: 0 };
    }
    if (!streamed) return WHOLE[request.api](JSON.parse(text));
    const events = eventsOf(text);
    if (events.some((event) => event.error)) throw new Error(`a stream has an error: ${text.slice(-300)}`);
    const got = STREAMED[request.api](events);
    if (!got.ended) throw new Error('a stream has no end');
    return got;
}

export const streamedBody = (request) => ({ ...request.body, stream: true,
    ...(request.api === 'openai' && { stream_options: { include_usage: true } }) });

// Whole requests that are wrong in themselves, and their statuses: [path, body, status].
export const WRONG = [
    ['/nothing', undefined, 404], ['/v1/models/nobody', undefined, 404], ['/v1/chat/completions', {}, 400],
    ['/v1/completions', { prompt: 'a', max_tokens: -5 }, 400], ['/v1/completions', { prompt: 'a', n: 1000 }, 400],
    ['/v1/completions', { prompt: 'a '.repeat(5000) }, 400], ['/v1/messages', { messages: 1 }, 400], ['/tokenize', [], 400],
    ['/v1/chat/completions', chat('a', { temperature: 'hot' }), 400], ['/health', {}, 405],
];

// Requests that are wrong on the wire: each gets one answer with 4xx or 505 in JSON, then the end.
const host = 'Host: localhost\r\n';
export const MALFORMED = [
    'GARBAGE\r\n\r\n', `GET /health HTTP/9.9\r\n${host}\r\n`, 'GET /health HTTP/1.1\r\n\r\n', `GET /health HTTP/1.1\r\n${host}No colon\r\n\r\n`,
    `GET /health HTTP/1.1\r\n${host}${host}\r\n`, `GET /health HTTP/1.1\r\n${host}X: ${'a'.repeat(20000)}\r\n\r\n`,
    `GET /health HTTP/1.1\r\n${host}X: a\0b\r\n\r\n`, `GET /health HTTP/1.1\r\n${host}: a\r\n\r\n`,
    `POST /tokenize HTTP/1.1\r\n${host}Content-Length: -1\r\n\r\n{}`, `POST /tokenize HTTP/1.1\r\n${host}Content-Length: 2, 2\r\n\r\n{}`,
    `POST /tokenize HTTP/1.1\r\n${host}Content-Length:\r\n 2\r\n\r\n{}`, `POST /tokenize HTTP/1.1\r\n${host}Content-Length: 18446744073709551615\r\n\r\n{}`,
    `POST /tokenize HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n`, `POST /tokenize HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`,
];
