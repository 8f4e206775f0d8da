// One answer, from the request to its last token. Fills a message of a conversation as text comes,
// and calls back at every change; knows nothing of the page.
//
// message: {role: 'assistant', content, reasoning, state, error?, timings?, usage?, finish?,
// request?, first_ms?, plain?}
//   state: 'waiting' (nothing came yet) -> 'writing' -> 'done' | 'stopped' | 'failed'
//   error: {kind, status, text, alone?}; alone: tokens of a message that is too long by itself
//     kind is one of
//     'full'     the context does not hold the conversation
//     'refused'  the server would refuse it again
//     'key'      a key is needed
//     'busy'     the server may take it later
//     'lost'     the connection broke
//     'failed'   the server could not finish it
//   plain: the text continues the text before it, without a chat template
import { ApiError, events, ready, request } from './api.js';
import { settingsBody, settingsSystem } from './settings.js';
import { amount, count } from './ui.js';

// The server would not take the message before this answer.
const wasRefused = ({ error, content }) =>
    !content && (error?.kind === 'full' || error?.kind === 'refused');

// Messages that are sent: a refused message would be refused with each that follows, and the oldest
// ones may have been dropped.
function taken(messages) {
    const out = [];
    for (const message of messages) {
        if (message.dropped) continue;
        if (!wasRefused(message)) out.push(message);
        else if (out.at(-1)?.role === 'user') out.pop();
    }
    return out;
}

export const systemOf = (chat) => chat.system ?? settingsSystem();

// The messages of a request: the system text, and messages of one role in a row as one, because
// templates expect them to alternate.
function wireMessages(chat, messages) {
    const out = [];
    const system = systemOf(chat);
    if (system) out.push({ role: 'system', content: system });
    for (const { role, content } of taken(messages)) {
        if (!content) continue;
        if (out.at(-1)?.role === role) out.at(-1).content += `\n\n${content}`;
        else out.push({ role, content });
    }
    return out;
}

// What is sent of a conversation: its messages, or its whole text where the model has no template.
export function inputOf(chat, messages, model) {
    const input = model.plain
        ? {
              prompt: taken(messages)
                  .map(({ content }) => content)
                  .join(''),
          }
        : { messages: wireMessages(chat, messages) };
    if (model.id) input.model = model.id;
    return input;
}

// job: {input, message}. The text is added to the message's.
export async function answer({ input, message }, signal, changed) {
    const path = 'prompt' in input ? '/v1/completions' : '/v1/chat/completions';
    const body = {
        ...input,
        stream: true,
        stream_options: { include_usage: true },
        ...settingsBody(),
    };
    try {
        await read(await open(path, body, message, signal, changed), message, changed);
        message.state = 'done';
    } catch (error) {
        if (signal.aborted) {
            message.state = 'stopped';
        } else {
            message.state = 'failed';
            message.error = describe(error);
        }
    }
    delete message.note;
    changed();
}

// While the server is loading its model, the answer waits. A healthy server that refuses twice is
// not asked a third time; the rest is the caller's.
async function open(path, body, message, signal, changed) {
    for (let healthy = 0; ;) {
        const start = performance.now();
        try {
            const response = await request(path, { method: 'POST', body, signal });
            message.start = start;
            return response;
        } catch (error) {
            if (error.status !== 503 || healthy > 1) throw error;
            message.note = `${error.message}. Waiting for the server.`;
            changed();
            const asked = performance.now();
            if (!(await ready(signal))) throw error;
            if (performance.now() - asked < 500) healthy += 1;
            delete message.note;
            changed();
        }
    }
}

const lost = () => new ApiError('The connection to the server was lost.', 0);

async function* eventsOrLost(response) {
    try {
        yield* events(response);
    } catch {
        throw lost();
    }
}

async function read(response, message, changed) {
    const start = message.start;
    delete message.start;
    for await (const data of eventsOrLost(response)) {
        if (data === '[DONE]') return;
        take(JSON.parse(data), message, start);
        changed();
    }
    throw lost();
}

function take(chunk, message, start) {
    if (chunk.error)
        throw new ApiError(
            chunk.error.message ?? 'The server could not finish this answer.',
            chunk.error.status ?? 500,
            chunk.error,
        );
    const choice = chunk.choices?.[0];
    const text = choice?.delta?.content ?? choice?.text;
    const thought = choice?.delta?.reasoning_content;
    if (text) message.content += text;
    if (thought) message.reasoning = (message.reasoning ?? '') + thought;
    if ((text || thought) && message.first_ms === undefined) {
        message.first_ms = performance.now() - start;
        message.state = 'writing';
        delete message.note;
    }
    if (choice?.finish_reason) message.finish = choice.finish_reason;
    if (chunk.timings) message.timings = chunk.timings;
    if (typeof chunk.id === 'string') message.request = chunk.id;
    if (chunk.usage)
        message.usage = {
            prompt_tokens: chunk.usage.prompt_tokens,
            completion_tokens: chunk.usage.completion_tokens,
        };
}

// The numbers are in the sentence that all clients match.
function fullText(message) {
    const [, holds, has] = /length is (\d+) tokens.* resulted in (\d+) tokens/.exec(message) ?? [];
    return holds
        ? `The context is full: with this message the conversation has ${amount(Number(has), 'token')}, ` +
              `and the context holds ${count(Number(holds))}. The message was not sent.`
        : 'The context is full: it does not hold this conversation. The message was not sent.';
}

function describe(error) {
    if (!(error instanceof ApiError))
        return { kind: 'failed', status: 0, text: 'The server sent data that is no answer.' };
    const { status, message } = error;
    const kind = kindOf(error);
    if (kind === 'full') return { kind, status, text: fullText(message) };
    if (kind === 'key') return { kind, status, text: 'The server needs a key.' };
    if (kind === 'busy') {
        const wait = error.retryAfterS ? ` It asks to wait ${error.retryAfterS} s.` : '';
        return { kind, status, text: `The server is busy: ${message}.${wait}`.replace('..', '.') };
    }
    return { kind, status, text: message, code: error.code ?? undefined };
}

function kindOf({ status, code }) {
    if (code === 'context_length_exceeded') return 'full';
    if (status === 0) return 'lost';
    if (status === 401) return 'key';
    if (status === 429) return 'busy';
    return [400, 413, 422].includes(status) ? 'refused' : 'failed';
}
