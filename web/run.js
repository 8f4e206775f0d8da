// One answer, from the request to its last token. Fills a message of a conversation as text comes,
// and calls back at every change; knows nothing of the page.
//
// message: {role: 'assistant', content, reasoning, state, error?, timings?, finish?,
// request?, first_ms?}
//   state: 'waiting' (nothing came yet) -> 'writing' -> 'done' | 'stopped' | 'failed'
import { ApiError, events, ready, request } from './api.js';
import { settingsBody, settingsSystem } from './settings.js';

// Whether the server would not take the message before this answer. A message for which it was only
// too busy, or wanted a key, may be tried again.
const wasRefused = ({ error, content }) => !content && [400, 413, 422].includes(error?.status);

// Messages that the server has taken: a refused message would be refused with each that follows.
function taken(messages) {
    const out = [];
    for (const message of messages) {
        if (!wasRefused(message)) out.push(message);
        else if (out.at(-1)?.role === 'user') out.pop();
    }
    return out;
}

// The messages of a request: the system text, and messages of one role in a row as one, because
// templates expect them to alternate.
export function wireMessages(messages) {
    const out = [];
    const system = settingsSystem();
    if (system) out.push({ role: 'system', content: system });
    for (const { role, content } of taken(messages)) {
        if (!content) continue;
        if (out.at(-1)?.role === role) out.at(-1).content += `\n\n${content}`;
        else out.push({ role, content });
    }
    return out;
}

export async function answer(messages, message, signal, changed) {
    const body = {
        messages: wireMessages(messages),
        stream: true,
        stream_options: { include_usage: true },
        ...settingsBody(),
    };
    try {
        await read(await open(body, message, signal, changed), message, changed);
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

// While the model is loading it waits for it; the rest is the caller's.
async function open(body, message, signal, changed) {
    for (;;) {
        const start = performance.now();
        try {
            const response = await request('/v1/chat/completions', {
                method: 'POST',
                body,
                signal,
            });
            message.start = start;
            return response;
        } catch (error) {
            if (error.status !== 503) throw error;
            message.note = `${error.message}. Waiting for the server.`;
            changed();
            if (!(await ready(signal))) throw error;
            delete message.note;
            changed();
        }
    }
}

async function read(response, message, changed) {
    const start = message.start;
    delete message.start;
    let complete = false;
    for await (const data of events(response)) {
        if (data === '[DONE]') {
            complete = true;
            break;
        }
        take(JSON.parse(data), message, start);
        changed();
    }
    if (!complete) throw new ApiError('The connection ended before the answer was complete.', 0);
}

function take(chunk, message, start) {
    if (chunk.error)
        throw new ApiError(
            chunk.error.message ?? 'The server could not finish this answer.',
            chunk.error.status ?? 500,
            chunk.error,
        );
    const choice = chunk.choices?.[0];
    const text = choice?.delta?.content;
    const thought = choice?.delta?.reasoning_content;
    if (text) message.content += text;
    if (thought) message.reasoning = (message.reasoning ?? '') + thought;
    if ((text || thought) && message.first_ms === undefined) {
        message.first_ms = performance.now() - start;
        message.state = 'writing';
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

function describe(error) {
    const status = error.status ?? 0;
    if (!(error instanceof ApiError))
        return { status, text: 'The server’s answer could not be read.' };
    if (status === 401) return { status, text: 'The server needs a key.' };
    if (status === 429) {
        const wait = error.retryAfterS ? ` It asks to wait ${error.retryAfterS} s.` : '';
        return {
            status,
            text: `The server is busy: ${error.message}.${wait}`.replace('..', '.'),
            retryAfterS: error.retryAfterS,
        };
    }
    return { status, text: error.param ? `${error.message} (${error.param})` : error.message };
}
