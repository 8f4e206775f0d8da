// Talking to the server that this page came from: requests with the key, server-sent events, and
// errors as the server's own sentences. EventSource cannot send a key, so streams are read by hand.

const keyName = 'runnel.key';

export class ApiError extends Error {
    constructor(message, status, details = {}) {
        super(message);
        this.status = status; // 0: no answer at all
        this.code = details.code ?? null;
        this.param = details.param ?? null;
        this.retryAfterS = details.retryAfterS ?? 0;
    }
}

export function keyGet() {
    try {
        return sessionStorage.getItem(keyName) ?? '';
    } catch {
        return '';
    }
}

export function keySet(key) {
    try {
        if (key) sessionStorage.setItem(keyName, key);
        else sessionStorage.removeItem(keyName);
    } catch {
        // without storage the key is asked for again
    }
}

async function errorOf(response) {
    let error = {};
    try {
        error = (await response.json()).error ?? {};
    } catch {
        // no JSON: the status says it
    }
    const message =
        typeof error.message === 'string'
            ? error.message
            : `the server answered with status ${response.status}`;
    const wait = Number(response.headers.get('Retry-After'));
    return new ApiError(message, response.status, {
        code: error.code,
        param: error.param,
        retryAfterS: wait > 0 ? wait : 0,
    });
}

// A response with status 2xx, or an ApiError. An abort by the signal is passed on as it is.
export async function request(path, { method = 'GET', body, signal } = {}) {
    const headers = {};
    const key = keyGet();
    if (key) headers.Authorization = `Bearer ${key}`;
    if (body !== undefined) headers['Content-Type'] = 'application/json';
    let response;
    try {
        response = await fetch(path, {
            method,
            headers,
            signal,
            body: body === undefined ? undefined : JSON.stringify(body),
            cache: 'no-store',
        });
    } catch (error) {
        if (signal?.aborted) throw error;
        throw new ApiError('The server cannot be reached.', 0);
    }
    if (!response.ok) throw await errorOf(response);
    return response;
}

// Text in, the data of complete events out. Lines end in LF, CR or CRLF, also across pieces.
export class EventParser {
    #rest = '';
    #data = [];
    #afterCr = false;

    push(text) {
        const events = [];
        if (this.#afterCr && text.startsWith('\n')) text = text.slice(1);
        if (text) this.#afterCr = text.endsWith('\r');
        const lines = (this.#rest + text).split(/\r\n|\n|\r/);
        this.#rest = lines.pop();
        for (const line of lines) this.#line(line, events);
        return events;
    }

    #line(line, events) {
        if (line === '') {
            if (this.#data.length) events.push(this.#data.join('\n'));
            this.#data = [];
        } else if (line.startsWith('data:')) {
            this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
        }
    }
}

// The data of a response's events, as they come.
export async function* events(response) {
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const parser = new EventParser();
    try {
        for (;;) {
            const { done, value } = await reader.read();
            if (done) return;
            yield* parser.push(decoder.decode(value, { stream: true }));
        }
    } finally {
        reader.cancel().catch(() => {});
    }
}

// Ends early with false when the signal is aborted.
export function sleep(ms, signal) {
    return new Promise((resolve) => {
        if (signal?.aborted) return resolve(false);
        const timer = setTimeout(() => {
            signal?.removeEventListener('abort', stop);
            resolve(true);
        }, ms);
        const stop = () => {
            clearTimeout(timer);
            resolve(false);
        };
        signal?.addEventListener('abort', stop, { once: true });
    });
}

// Until /health says that the model is there. False: the signal was aborted.
export async function ready(signal) {
    for (;;) {
        try {
            await request('/health', { signal });
            return true;
        } catch {
            if (!(await sleep(1000, signal))) return false;
        }
    }
}
