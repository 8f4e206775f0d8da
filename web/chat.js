// The chat pane: one conversation is shown, any number may be writing. Messages are drawn again
// only where they changed, and a growing one at most ten times a second: the browser often shares
// the machine with the engine.
import { answer } from './run.js';
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
import { explainOpen } from './explain.js';
import { askKey } from './key.js';
import { renderMarkdown } from './markdown.js';
import {
    amount,
    byId,
    copyText,
    count,
    h,
    iconButton,
    number,
    percent,
    seconds,
    setIcon,
} from './ui.js';

const ideas = [
    'Tell me a story about a fox and a lantern.',
    'Tell me a story about a robot who learns to swim.',
    'Tell me a story about two friends and a lost kite.',
];
const drawMs = 100;
const saveMs = 1000;

let chat = null; // the chat that is shown
const runs = new Map(); // chat id -> {abort, message}
const views = new Map(); // message -> its nodes, of the shown chat
let editing = null; // the message that is being edited
let pending = 0; // a draw is due

export const chatCurrent = () => chat;
export const chatIsWriting = (id) => runs.has(id);
export const chatAbort = (id) => runs.get(id)?.abort.abort();

export function chatInit() {
    setIcon(byId('new'), 'plus', 'New conversation');
    byId('new').addEventListener('click', () => chatOpen(null));
    byId('ideas').append(
        ...ideas.map((text) =>
            h(
                'li',
                {},
                h('button', { type: 'button', class: 'idea', onclick: () => send(text) }, text),
            ),
        ),
    );
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
        else if (input.value.trim()) send(input.value.trim());
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
    chatOpen(currentId());
    grow(input);
}

// Enter sends, but not while an input method composes a character.
function enterSends(event, action) {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    action();
}

function grow(area) {
    area.style.height = 'auto';
    area.style.height = `${Math.min(area.scrollHeight + 2, 240)}px`;
}

// --- which conversation ---

// null or unknown: a new one.
function chatShow(id) {
    chat = chatGet(id) ?? (chat && !chat.messages.length && !chat.gone ? chat : chatNew());
    currentSet(chat.id);
    editing = null;
    views.clear();
    byId('log').replaceChildren();
    draw();
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
    document.title = chat.messages.length ? `${chat.title} – runnel` : 'runnel';
}

// --- what the user does ---

function send(text) {
    if (runs.has(chat.id)) return;
    const input = byId('input');
    if (input.value.trim() === text) {
        input.value = '';
        draftWrite('');
        grow(input);
    }
    chat.messages.push({ role: 'user', content: text });
    start();
    input.focus({ preventScroll: true });
}

// Asks for an answer to the messages as they are.
function start() {
    const target = chat;
    const message = { role: 'assistant', content: '', state: 'waiting' };
    const before = target.messages.slice();
    const run = { abort: new AbortController(), message, chat: target, saved: performance.now() };
    target.messages.push(message);
    runs.set(target.id, run);
    chatSave(target);
    runsChanged();
    say('Writing');
    draw();
    toBottom();
    answer(before, message, run.abort.signal, () => {
        if (performance.now() - run.saved > saveMs) {
            run.saved = performance.now();
            chatSave(target);
        }
        drawSoon();
    }).finally(() => ended(target, message));
}

// For others who show which conversations are being written.
const runsChanged = () => document.dispatchEvent(new Event('runs'));

function ended(target, message) {
    runs.delete(target.id);
    chatSave(target);
    runsChanged();
    drawSoon(0);
    if (target !== chat) return;
    say(
        message.error
            ? message.error.text
            : message.state === 'stopped'
              ? 'Stopped'
              : `Done. ${stats(message).join(', ')}`,
    );
    if (message.error?.status === 401) askKey().then((given) => given && retry(message));
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

function retry(message) {
    if (chat.messages.at(-1) === message) regenerate();
}

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
    draw();
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
    chat.messages.length = chat.messages.indexOf(editing);
    editing = null;
    chat.messages.push({ role: 'user', content: text.trim() });
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
    const lastUser = chat.messages.findLast((message) => message.role === 'user');
    chat.messages.forEach((message, i) => {
        if (!views.has(message)) views.set(message, messageView(message));
        const view = views.get(message);
        if (log.children[i] !== view.node) log.insertBefore(view.node, log.children[i] ?? null);
        messageDraw(view, message, {
            last: i === chat.messages.length - 1,
            lastUser: message === lastUser,
        });
    });
    log.setAttribute('aria-busy', String(runs.has(chat.id)));
    byId('empty').hidden = chat.messages.length > 0;
    chatTitleDraw();
    composerDraw();
    if (stick) toBottom();
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

function messageView(message) {
    const user = message.role === 'user';
    const view = {
        body: h('div', { class: 'body' }),
        think: h('details', { class: 'think', hidden: true }, h('summary', {}, 'Reasoning')),
        thought: h('div', { class: 'body' }),
        state: h('p', { class: 'state', hidden: true }),
        foot: h('footer', { class: 'foot' }),
        key: '',
    };
    view.think.append(view.thought);
    view.node = h(
        'article',
        { class: `message ${message.role}`, 'aria-label': user ? 'You' : 'Answer' },
        h('h3', { class: 'who' }, user ? 'You' : 'Answer'),
        view.think,
        view.body,
        view.state,
        view.foot,
    );
    return view;
}

// Parts are drawn when what they show has changed.
function messageDraw(view, message, place) {
    const run = runs.get(chat.id);
    const writing = run?.message === message;
    const edited = editing === message;
    if (!edited && view.text !== message.content) {
        view.text = message.content;
        if (message.role === 'user') view.body.textContent = message.content;
        else renderMarkdown(view.body, message.content);
    }
    if (view.reasoning !== message.reasoning) {
        view.reasoning = message.reasoning;
        view.think.hidden = !message.reasoning;
        renderMarkdown(view.thought, message.reasoning ?? '');
    }
    view.node.classList.toggle('writing', writing);
    const key = JSON.stringify([
        writing,
        Boolean(run),
        edited,
        place,
        message.state,
        message.note,
        message.timings,
        message.error,
    ]);
    if (view.key === key) return;
    view.key = key;
    if (edited) return editDraw(view, message);
    if (view.edit) {
        view.edit.replaceWith(view.body);
        view.edit = null;
    }
    stateDraw(view, message, writing, place);
    view.foot.replaceChildren(
        h(
            'p',
            { class: 'stats' },
            stats(message).map((text) => h('span', {}, text)),
        ),
        h('div', { class: 'acts' }, actions(message, place, Boolean(run))),
    );
}

function stateDraw(view, message, writing, place) {
    const parts = [];
    if (message.note) parts.push(message.note);
    else if (writing && message.state === 'waiting') parts.push('Waiting for the first token');
    else if (message.error) parts.push(message.error.text);
    if (message.error && place.last && !writing) {
        parts.push(
            h(
                'button',
                { type: 'button', class: 'strong', onclick: () => retry(message) },
                'Try again',
            ),
        );
    }
    if (message.error?.status === 401 && place.last) {
        parts.push(
            h(
                'button',
                {
                    type: 'button',
                    class: 'quiet',
                    onclick: () => askKey().then((given) => given && retry(message)),
                },
                'Enter the key',
            ),
        );
    }
    view.state.hidden = parts.length === 0;
    view.state.classList.toggle('error', Boolean(message.error) && !writing);
    view.state.setAttribute('role', message.error ? 'alert' : 'status');
    view.state.replaceChildren(...parts);
}

function actions(message, place, busy) {
    const copy = iconButton('copy', 'Copy', () => copyText(message.content, copy));
    const list = [copy];
    if (message.request)
        list.push(
            iconButton('clock', 'Where the time went', () => explainOpen(message.request)),
        );
    if (place.lastUser && !busy) list.push(iconButton('edit', 'Edit', () => editBegin(message)));
    if (place.last && message.role === 'assistant' && !busy)
        list.push(iconButton('redo', 'Regenerate', regenerate));
    if (place.last && message.role === 'user' && !busy)
        list.push(iconButton('redo', 'Answer', regenerate));
    list.push(iconButton('trash', 'Delete', () => remove(message)));
    return list;
}

function editDraw(view, message) {
    const area = h('textarea', { 'aria-label': 'Edit the message', rows: '2' });
    area.value = message.content;
    area.addEventListener('input', () => grow(area));
    area.addEventListener('keydown', (event) => {
        enterSends(event, () => editSend(area.value));
        if (event.key === 'Escape') {
            event.preventDefault();
            editEnd();
        }
    });
    view.edit = h('div', { class: 'edit' }, area);
    view.body.replaceWith(view.edit);
    view.foot.replaceChildren(
        h('p', { class: 'stats' }),
        h(
            'div',
            { class: 'acts open' },
            h('button', { type: 'button', class: 'quiet', onclick: editEnd }, 'Cancel'),
            h(
                'button',
                { type: 'button', class: 'strong', onclick: () => editSend(area.value) },
                'Send',
            ),
        ),
    );
    grow(area);
    area.focus();
}

const drafts = (t) => `${count(t.draft_n_accepted)} of ${count(t.draft_n)} drafted tokens accepted`;

// The figures of an answer, from the server's timings.
function stats(message) {
    if (message.role === 'user' || message.state === 'waiting' || message.state === 'writing')
        return [];
    const t = message.timings;
    const out = [];
    if (t) {
        if (t.predicted_n > 1) out.push(`${number(t.predicted_per_second)} tokens/s`);
        if (t.ttft_ms > 0) out.push(`first token ${seconds(t.ttft_ms / 1000)}`);
        out.push(amount(t.predicted_n, 'token'));
        if (t.cache_n > 0) out.push(`${amount(t.cache_n, 'prompt token')} cached`);
        if (t.draft_n > 0) out.push(drafts(t));
        if (t.bandwidth_share > 0) out.push(`${percent(t.bandwidth_share)} of bandwidth`);
    } else if (message.first_ms !== undefined) {
        out.push(`first text ${seconds(message.first_ms / 1000)}`);
    }
    if (message.state === 'stopped') out.push('stopped');
    if (message.finish === 'length') out.push('cut at the limit');
    return out;
}
