// The browser's storage: conversations (one entry each, and a list of them), settings, the model
// that was chosen last, the draft. A store that is full or forbidden is no reason to stop:
// everything continues in memory, and the reason is shown (onTrouble). Another tab's changes are
// taken over (onForeign).

const prefix = 'runnel.';
const chats = new Map(); // id -> chat, as far as they were read
let index = []; // [{id, title, updated}], the latest first
let onTrouble = () => {};

function read(name, fallback) {
    try {
        return JSON.parse(localStorage.getItem(prefix + name)) ?? fallback;
    } catch {
        return fallback;
    }
}

function write(name, value) {
    try {
        localStorage.setItem(prefix + name, JSON.stringify(value));
        onTrouble('');
        return true;
    } catch (error) {
        onTrouble(
            error.name === 'QuotaExceededError'
                ? 'The browser’s storage for this page is full: new messages are lost on reload. ' +
                      'Export or delete conversations.'
                : 'The browser stores nothing for this page: conversations are lost on reload.',
        );
        return false;
    }
}

function erase(name) {
    try {
        localStorage.removeItem(prefix + name);
    } catch {
        // nothing was stored either
    }
}

const isText = (value) => typeof value === 'string';
const messageOk = (message) =>
    message && isText(message.content) && (message.role === 'user' || message.role === 'assistant');

function indexRead() {
    const stored = read('chats', []);
    index = (Array.isArray(stored) ? stored : []).filter(
        (entry) => entry && isText(entry.id) && isText(entry.title),
    );
}

export function storeOpen({ trouble, foreign }) {
    onTrouble = trouble;
    indexRead();
    window.addEventListener('storage', (event) => {
        if (event.key !== null && !event.key.startsWith(prefix)) return;
        indexRead();
        const id = event.key?.startsWith(`${prefix}chat.`)
            ? event.key.slice(prefix.length + 5)
            : null;
        foreign(id);
    });
}

export const chatList = () => index;
export const currentId = () => read('current', null);
export const currentSet = (id) => write('current', id);

export function chatNew() {
    const chat = {
        id: crypto.getRandomValues(new Uint32Array(3)).join('-'),
        title: 'Untitled',
        named: false,
        created: Date.now(),
        messages: [],
    };
    chats.set(chat.id, chat);
    return chat; // stored with its first message
}

// A conversation of a file (transfer.js) beside the others.
export function chatAdd(given) {
    const chat = chatNew();
    for (const [name, value] of Object.entries(given)) if (value !== undefined) chat[name] = value;
    chatSave(chat);
    return chat;
}

export function chatGet(id) {
    if (!id) return null;
    if (chats.has(id)) return chats.get(id);
    const chat = read(`chat.${id}`, null);
    if (!chat || !Array.isArray(chat.messages)) return null;
    chat.id = id;
    chat.title = isText(chat.title) ? chat.title : 'Conversation';
    chat.messages = chat.messages.filter(messageOk);
    for (const message of chat.messages) {
        // the page was closed while it wrote
        if (message.state === 'waiting' || message.state === 'writing') message.state = 'stopped';
        delete message.note;
        if (message.error && !message.error.kind) message.error.kind = 'failed';
    }
    chats.set(id, chat);
    return chat;
}

export const chatForget = (id) => chats.delete(id); // reads it again next time

export function chatSave(chat) {
    if (chat.gone) return;
    if (!chat.named && chat.messages.length) chat.title = titleOf(chat.messages[0].content);
    if (!chat.messages.length && !index.some((entry) => entry.id === chat.id)) return;
    const stored = write(`chat.${chat.id}`, chat);
    indexRead(); // another tab may have added to it
    index = [
        { id: chat.id, title: chat.title, updated: Date.now() },
        ...index.filter((entry) => entry.id !== chat.id),
    ];
    if (stored) write('chats', index);
}

export function chatRename(chat, title) {
    chat.title = title;
    chat.named = true;
    chatSave(chat);
}

export function chatDelete(id) {
    const chat = chats.get(id);
    if (chat) chat.gone = true; // a stream that still runs does not bring it back
    chats.delete(id);
    erase(`chat.${id}`);
    indexRead();
    index = index.filter((entry) => entry.id !== id);
    write('chats', index);
}

function titleOf(text) {
    const line = text.trim().split('\n')[0].replace(/\s+/g, ' ');
    return line.length > 48 ? `${line.slice(0, 47).trimEnd()}…` : line || 'Conversation';
}

export const settingsRead = () => {
    const stored = read('settings', {});
    return stored && typeof stored === 'object' && !Array.isArray(stored) ? stored : {};
};
export const settingsWrite = (settings) => write('settings', settings);
export const modelRead = () => {
    const model = read('model', null);
    return isText(model) ? model : null;
};
export const modelWrite = (id) => write('model', id);
export const draftRead = () => {
    const draft = read('draft', '');
    return isText(draft) ? draft : '';
};
export const draftWrite = (text) => (text ? write('draft', text) : erase('draft'));

export function themeWrite(theme) {
    try {
        if (theme) localStorage.setItem(`${prefix}theme`, theme);
        else localStorage.removeItem(`${prefix}theme`);
    } catch {
        // for this page only, then
    }
}
