// Conversations as files. The JSON form comes back whole: what the page shows of a conversation is
// in it. A list of messages, as `runnel run` saves it, is read as well. A file is a stranger's: it
// is bounded, each value is checked, and a bad file changes nothing.

const fileBytesMax = 16 << 20;
const messagesMax = 10000;
const titleMax = 200;

export const fileName = (chat, extension) =>
    `${
        chat.title
            .replace(/[^\p{L}\p{N}]+/gu, '-')
            .replace(/^-|-$/g, '')
            .slice(0, 40) || 'conversation'
    }.${extension}`;

export function asJson(chat) {
    const messages = chat.messages.map((message) => ({
        role: message.role,
        content: message.content,
        reasoning_content: message.reasoning || undefined,
        state: message.state,
        finish_reason: message.finish,
        error: message.error,
        dropped: message.dropped,
        plain: message.plain,
        request: message.request,
        first_ms: message.first_ms,
        usage: message.usage,
        timings: message.timings,
    }));
    if (chat.system !== undefined) messages.unshift({ role: 'system', content: chat.system });
    const { title, named, model, trims, cut } = chat;
    const created = new Date(chat.created).toISOString();
    return `${JSON.stringify({ title, named, created, model, trims, cut, messages }, null, 2)}\n`;
}

export function asMarkdown(chat) {
    const parts = chat.messages.map(
        ({ role, content }) => `## ${role === 'user' ? 'You' : 'Answer'}\n\n${content.trim()}\n`,
    );
    return `# ${chat.title}\n\n${parts.join('\n')}`;
}

// --- reading ---

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);
const isText = (value) => typeof value === 'string';
const states = ['done', 'stopped', 'failed'];
const kinds = ['full', 'refused', 'key', 'busy', 'lost', 'failed'];
const shown = (value) => (JSON.stringify(value) ?? 'nothing').slice(0, 40);

// Only numbers, by their names: figures are drawn as text, and nothing else is done with them.
const numbersOf = (value) =>
    isObject(value)
        ? Object.fromEntries(
              Object.entries(value)
                  .filter(([, n]) => Number.isFinite(n))
                  .slice(0, 64),
          )
        : undefined;

function errorOf(value) {
    if (!isObject(value) || !isText(value.text)) return undefined;
    const kind = kinds.includes(value.kind) ? value.kind : 'failed';
    return {
        kind,
        status: Number(value.status) || 0,
        text: value.text.slice(0, 2000),
        code: isText(value.code) ? value.code.slice(0, 100) : undefined,
    };
}

function messageOf(value, i) {
    const which = `message ${i + 1}`;
    if (!isObject(value)) throw new Error(`${which} is ${shown(value)}, not an object`);
    const { role, content } = value;
    if (role !== 'user' && role !== 'assistant' && !(role === 'system' && i === 0))
        throw new Error(`${which} has the role ${shown(role)}, not "user" or "assistant"`);
    if (!isText(content)) throw new Error(`${which} has the content ${shown(content)}, not a text`);
    const out = { role, content };
    if (value.dropped === true) out.dropped = true;
    if (value.plain === true) out.plain = true;
    if (role !== 'assistant') return out;
    if (isText(value.reasoning_content)) out.reasoning = value.reasoning_content;
    if (isText(value.finish_reason)) out.finish = value.finish_reason.slice(0, 40);
    if (isText(value.request)) out.request = value.request.slice(0, 100);
    if (Number.isFinite(value.first_ms)) out.first_ms = value.first_ms;
    out.state = states.includes(value.state) ? value.state : 'done';
    out.timings = numbersOf(value.timings);
    out.usage = numbersOf(value.usage);
    out.error = errorOf(value.error);
    return out;
}

// A conversation without its id, or an Error with a sentence.
export function fromJson(text) {
    let data;
    try {
        data = JSON.parse(text);
    } catch {
        throw new Error('it is no JSON');
    }
    const list = Array.isArray(data) ? data : data?.messages;
    if (!Array.isArray(list)) throw new Error('it has no list of messages');
    if (!list.length) throw new Error('its list of messages is empty');
    if (list.length > messagesMax)
        throw new Error(`it has ${list.length} messages, more than ${messagesMax}`);
    const messages = list.map(messageOf);
    const system = messages[0].role === 'system' ? messages.shift().content : undefined;
    if (!messages.length) throw new Error('it has a system message and no other');
    return { ...headOf(Array.isArray(data) ? {} : data), system, messages };
}

function headOf(data) {
    const created = Date.parse(data.created);
    return {
        title: isText(data.title) ? data.title.slice(0, titleMax) : undefined,
        named: data.named === undefined ? isText(data.title) : data.named === true,
        created: Number.isFinite(created) ? created : undefined,
        model: isText(data.model) ? data.model.slice(0, titleMax) : undefined,
        trims: data.trims === true ? true : undefined,
        cut: numbersOf(data.cut),
    };
}

// Throws as fromJson does.
export async function fromFile(file) {
    if (file.size > fileBytesMax)
        throw new Error(`it has ${file.size} bytes, more than ${fileBytesMax}`);
    return fromJson(await file.text());
}
