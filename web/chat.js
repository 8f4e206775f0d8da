// The chat pane: one conversation is shown, any number may be writing. Messages are drawn again
// only where they changed, and a growing one at most ten times a second: the browser often shares
// the machine with the engine.
import { answer, inputOf, systemOf } from './run.js';
import { aloneCount, contextUpdate, cutText, roomMake, turnsToDrop, undrop } from './context.js';
import { askKey } from './key.js';
import { enterSends, grow, messageDraw, messageView, stats } from './messages.js';
import {
    ideasOf,
    modelFollow,
    modelIsPlain,
    modelOf,
    modelsDraw,
    modelsInit,
    modelsRefresh,
} from './models.js';
import {
    chatForget,
    chatGet,
    chatNew,
    chatSave,
    currentId,
    currentSet,
    draftRead,
    draftWrite,
} from './store.js';
import { byId, h, setIcon, trouble } from './ui.js';

const drawMs = 100;
const saveMs = 1000;
const pollMs = 1500; // while a model is loaded

let chat = null; // the chat that is shown
const runs = new Map(); // chat id -> {abort, message, chat, saved, poll}
const views = new Map(); // message -> its nodes, of the shown chat
let editing = null; // the message that is being edited
let pending = 0; // a draw is due

export const chatCurrent = () => chat;
export const chatIsWriting = (id) => runs.has(id);
export const chatAbort = (id) => runs.get(id)?.abort.abort();

export function chatInit() {
    setIcon(byId('new'), 'plus', 'New conversation');
    byId('new').addEventListener('click', () => chatOpen(null));
    const input = byId('input');
    input.value = draftRead();
    input.addEventListener('input', () => {
        draftWrite(input.value);
        grow(input);
        composerDraw();
    });
    input.addEventListener('keydown', (event) =>
        enterSends(event, () => byId('composer').requestSubmit()),
    );
    byId('composer').addEventListener('submit', (event) => {
        event.preventDefault();
        if (runs.has(chat.id)) stop();
        else send(input.value);
    });
    document.addEventListener('keydown', (event) => {
        if (
            event.key === 'Escape' &&
            !event.defaultPrevented &&
            !document.querySelector('dialog[open]')
        )
            stop();
    });
    window.addEventListener('pagehide', () => {
        for (const run of runs.values()) chatSave(run.chat);
    });
    byId('meter-drop').addEventListener('click', () => roomNow(chat));
    modelsInit((id) => {
        chat.model = id;
        chatSave(chat);
        modelChanged();
    });
    document.addEventListener('models', modelChanged);
    chatOpen(currentId());
    grow(input);
}

// The model of the conversation, or what is known of it, is another.
function modelChanged() {
    modelFollow(modelOf(chat));
    draw();
    contextUpdate(chat, modelOf(chat));
}

// --- which conversation ---

// null or unknown: a new one.
function chatShow(id) {
    chat = chatGet(id) ?? (chat && !chat.messages.length && !chat.gone ? chat : chatNew());
    currentSet(chat.id);
    editing = null;
    views.clear();
    byId('log').replaceChildren();
    modelChanged();
    toBottom();
}

export function chatOpen(id) {
    chatShow(id);
    byId('input').focus({ preventScroll: true });
}

// Another tab changed a conversation, or the list.
export function chatForeign(id) {
    if (id && runs.has(id)) return;
    if (id) chatForget(id);
    if (id !== chat.id) return;
    const fresh = chatGet(id);
    if (fresh) chatShow(id);
}

export function chatTitleDraw() {
    byId('title').textContent = chat.title;
    byId('list-open').setAttribute('aria-label', `Conversations: ${chat.title}`);
    document.title = chat.messages.length ? `${chat.title} – runnel` : 'runnel';
}

// --- what the user does ---

// Text that is to be continued is sent as it is, blanks included.
function send(given) {
    const text = modelOf(chat).plain ? given : given.trim();
    if (runs.has(chat.id) || !text.trim()) return;
    const input = byId('input');
    if (input.value === given) inputSet('');
    chat.messages.push({ role: 'user', content: text });
    start();
    input.focus({ preventScroll: true });
}

function inputSet(text) {
    byId('input').value = text;
    draftWrite(text);
    grow(byId('input'));
    composerDraw();
}

// Asks for an answer to the messages as they are, or for the rest of the last one.
function start(resumed = null) {
    const target = chat;
    const message = resumed ?? { role: 'assistant', content: '' };
    for (const name of ['error', 'finish', 'timings', 'usage', 'first_ms']) delete message[name];
    message.state = 'waiting';
    target.model = modelOf(target).id ?? target.model;
    if (!resumed) target.messages.push(message);
    const run = { abort: new AbortController(), message, chat: target, saved: performance.now() };
    runs.set(target.id, run);
    chatSave(target);
    runsChanged();
    say('Writing');
    draw();
    toBottom();
    focusKeep();
    write(target, message, run.abort.signal, () => {
        if (message.state !== 'waiting') clearInterval(run.poll);
        if (performance.now() - run.saved > saveMs) {
            run.saved = performance.now();
            chatSave(target);
        }
        drawSoon();
    }).finally(() => {
        clearInterval(run.poll);
        ended(target, message);
    });
    if (modelOf(target).state !== 'loaded') run.poll = setInterval(modelsRefresh, pollMs);
}

// A button that was pressed may be gone; a touch screen would show its keyboard.
function focusKeep() {
    if (document.activeElement === document.body && matchMedia('(hover: hover)').matches)
        byId('input').focus({ preventScroll: true });
}

async function write(target, message, signal, changed) {
    const model = modelOf(target);
    if (model.state !== 'loaded') {
        message.note = `${model.name} is loaded first.`;
        changed();
    }
    if (target.trims && !model.plain)
        await roomMake(target, target.messages, model, signal).catch(() => {}); // the request says why
    if (model.plain) message.plain = true;
    await answer({ input: inputOf(target, target.messages, model), message }, signal, changed);
    if (message.error?.kind === 'full')
        await aloneCount(target, message, model, signal).catch(() => {}); // it stays "full"
    if (message.error?.code !== 'no_chat_template' || model.plain) return undefined;
    modelIsPlain(model);
    delete message.error;
    message.state = 'waiting';
    return write(target, message, signal, changed);
}

// For others who show which conversations are being written.
const runsChanged = () => document.dispatchEvent(new Event('runs'));

function ended(target, message) {
    runs.delete(target.id);
    chatSave(target);
    runsChanged();
    drawSoon(0);
    if (modelOf(target).id) modelsRefresh();
    if (message.timings)
        document.dispatchEvent(new CustomEvent('answered', { detail: message.timings }));
    if (target !== chat) return;
    contextUpdate(chat, modelOf(chat));
    const figures = stats(message).map(({ title, text }) => title ?? text);
    say(
        message.error
            ? message.error.text
            : message.state === 'stopped'
              ? 'Stopped'
              : `Done. ${figures.join(', ')}`,
    );
    if (message.error?.kind === 'key') acts.key(message);
}

function stop() {
    if (editing) return editEnd();
    runs.get(chat.id)?.abort.abort();
}

// A new answer in place of the last one.
function regenerate() {
    if (runs.has(chat.id)) return;
    while (chat.messages.at(-1)?.role === 'assistant') chat.messages.pop();
    if (chat.messages.length) start();
}

// The oldest turns go, now and whenever the context is full again.
async function roomNow(target) {
    target.trims = true;
    try {
        await roomMake(target, target.messages, modelOf(target));
    } catch (error) {
        return trouble(error.message);
    }
    chatSave(target);
    return modelChanged();
}

const isLast = (message) => chat.messages.at(-1) === message && !runs.has(chat.id);

// What the buttons of a message do.
const acts = {
    retry: (message) => isLast(message) && regenerate(),
    regenerate,
    resume: (message) => isLast(message) && start(message),
    trim: (message) => {
        chat.trims = true;
        if (message.content) acts.resume(message);
        else acts.retry(message);
    },
    undrop: () => {
        undrop(chat);
        chatSave(chat);
        modelChanged();
    },
    startOver: (message) => {
        const at = chat.messages.indexOf(message);
        const text = message.content ? '' : (chat.messages[at - 1]?.content ?? '');
        chatOpen(null);
        if (text && !byId('input').value) inputSet(text);
    },
    key: (message) => askKey().then((given) => given && acts.retry(message)),
    settings: () => byId('settings-open').click(),
    edit: editBegin,
    editLast: () => editBegin(lastUser()),
    editEnd,
    editSend,
    remove,
};

const lastUser = () => chat.messages.findLast((message) => message.role === 'user');

// A user's message goes with its answers.
function remove(message) {
    const at = chat.messages.indexOf(message);
    if (at < 0) return;
    if (runs.get(chat.id)?.message === message || (runs.has(chat.id) && message.role === 'user'))
        stop();
    let end = at + 1;
    while (message.role === 'user' && chat.messages[end]?.role === 'assistant') end += 1;
    chat.messages.splice(at, end - at);
    chatSave(chat);
    modelChanged();
    byId('input').focus({ preventScroll: true });
}

function editBegin(message) {
    editing = message;
    draw();
}

function editEnd() {
    editing = null;
    draw();
    byId('input').focus({ preventScroll: true });
}

function editSend(text) {
    if (!text.trim() || runs.has(chat.id)) return;
    const content = modelOf(chat).plain ? text : text.trim();
    chat.messages.length = chat.messages.indexOf(editing);
    editing = null;
    chat.messages.push({ role: 'user', content });
    start();
    byId('input').focus({ preventScroll: true });
}

// --- drawing ---

function drawSoon(ms = drawMs) {
    if (pending && ms) return;
    clearTimeout(pending);
    pending = setTimeout(() => {
        pending = 0;
        draw();
    }, ms);
}

function draw() {
    const log = byId('log');
    const stick = nearBottom();
    const shown = new Set(chat.messages);
    for (const [message, view] of views) {
        if (shown.has(message)) continue;
        view.node.remove();
        views.delete(message);
    }
    const run = runs.get(chat.id);
    const cut = cutText(chat);
    const cutAt = cut ? chat.messages.findLastIndex((message) => message.dropped) : -1;
    const several = turnsToDrop(chat.messages) > 0;
    const common = {
        busy: Boolean(run),
        n_ctx: modelOf(chat).n_ctx,
        several,
        droppable: several && !modelOf(chat).plain,
        system: chat.system === undefined && Boolean(systemOf(chat)),
    };
    chat.messages.forEach((message, i) => {
        if (!views.has(message)) views.set(message, messageView(message));
        const view = views.get(message);
        if (log.children[i] !== view.node) log.insertBefore(view.node, log.children[i] ?? null);
        const place = {
            ...common,
            writing: run?.message === message,
            edited: editing === message,
            last: i === chat.messages.length - 1,
            lastUser: message === lastUser(),
            cut: i === cutAt ? cut : '',
        };
        messageDraw(view, message, place, acts);
    });
    log.setAttribute('aria-busy', String(runs.has(chat.id)));
    emptyDraw();
    modelsDraw(chat);
    chatTitleDraw();
    composerDraw();
    if (stick) toBottom();
}

// What a new conversation shows: the model decides what it is good for.
function emptyDraw() {
    const model = modelOf(chat);
    byId('empty').hidden = chat.messages.length > 0 || chat.system !== undefined;
    byId('chat-system').hidden = chat.system === undefined;
    byId('chat-system-text').textContent = chat.system ?? '';
    const key = `${model.name} ${model.plain}`;
    if (byId('empty').dataset.key === key) return;
    byId('empty').dataset.key = key;
    byId('hello').textContent = model.plain
        ? 'Which text should it continue?'
        : 'What should it write?';
    byId('plain-note').hidden = !model.plain;
    byId('input').placeholder = model.plain ? 'Text to continue' : 'Message';
    byId('input-label').textContent = model.plain ? 'Text to continue' : 'Message';
    const idea = (text) =>
        h(
            'li',
            {},
            h('button', { type: 'button', class: 'idea', onclick: () => send(text) }, text),
        );
    byId('ideas').replaceChildren(...(model.name ? ideasOf(model).map(idea) : []));
}

function composerDraw() {
    const writing = runs.has(chat.id);
    const button = byId('send');
    if (button.dataset.writing !== String(writing)) {
        button.dataset.writing = String(writing);
        setIcon(button, writing ? 'stop' : 'send', writing ? 'Stop' : 'Send');
    }
    button.disabled = !writing && !byId('input').value.trim();
}

const nearBottom = () => {
    const box = byId('scroll');
    return box.scrollHeight - box.scrollTop - box.clientHeight < 60;
};
const toBottom = () => {
    byId('scroll').scrollTop = byId('scroll').scrollHeight;
};
const say = (text) => {
    byId('said').textContent = text;
};
