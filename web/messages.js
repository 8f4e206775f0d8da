// Draws the messages of a conversation: text, state with the ways on, figures, buttons. A part is
// drawn again only when it changed. What the buttons do is the caller's (acts).
//
// place: where and how the message stands.
//   writing, edited: it is being written, edited; busy: an answer of the conversation is written
//   last, lastUser: it is the last message, the user's last message
//   cut: the sentence below it about dropped turns
//   n_ctx: the context's size
//   several: more than one turn is sent; droppable: the oldest can be dropped
//   system: the settings have a system message, which is sent
import { fillsContext } from './context.js';
import { explainOpen } from './explain.js';
import { renderMarkdown } from './markdown.js';
import { amount, copyText, count, h, iconButton, number, percent, seconds } from './ui.js';

export function messageView(message) {
    const user = message.role === 'user';
    const view = {
        body: h('div', { class: 'body' }),
        think: h('details', { class: 'think', hidden: true }, h('summary', {}, 'Reasoning')),
        thought: h('div', { class: 'body' }),
        state: h('div', { class: 'state', hidden: true }),
        foot: h('footer', { class: 'foot' }),
        cut: h('div', { class: 'cut', hidden: true }),
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
        view.cut,
    );
    return view;
}

export function messageDraw(view, message, place, acts) {
    const plain = message.role === 'user' || message.plain === true;
    if (!place.edited && (view.text !== message.content || view.plain !== plain)) {
        view.text = message.content;
        if (view.plain !== plain) view.body.replaceChildren();
        view.plain = plain;
        view.body.classList.toggle('plain', plain);
        if (plain) view.body.textContent = message.content;
        else renderMarkdown(view.body, message.content);
    }
    if (view.reasoning !== message.reasoning) {
        view.reasoning = message.reasoning;
        view.think.hidden = !message.reasoning;
        renderMarkdown(view.thought, message.reasoning ?? '');
    }
    view.node.classList.toggle('writing', place.writing);
    view.node.classList.toggle('dropped', message.dropped === true);
    const { state, note, timings, error, finish } = message;
    const key = JSON.stringify([place, state, note, timings, error, finish]);
    if (view.key === key) return;
    view.key = key;
    if (place.edited) return editDraw(view, message, acts);
    if (view.edit) {
        view.edit.replaceWith(view.body);
        view.edit = null;
    }
    stateDraw(view, message, place, acts);
    const figures = stats(message);
    view.foot.replaceChildren(
        h(
            'p',
            { class: 'stats', title: figures.map(({ title, text }) => title ?? text).join('\n') },
            figures.map(({ text, extra }) => h('span', { class: extra ? 'extra' : null }, text)),
        ),
        h('div', { class: 'acts' }, buttons(message, place, acts)),
    );
    cutDraw(view, place.cut, acts);
}

// --- the state, and the ways on ---

const way = (kind, text, onclick) => h('button', { type: 'button', class: kind, onclick }, text);

const canResume = (message, place) =>
    message.role === 'assistant' &&
    place.last &&
    !place.busy &&
    Boolean(message.content) &&
    (message.finish === 'length' || message.state === 'stopped' || message.state === 'failed') &&
    !fillsContext(message, place.n_ctx);

// It ended while the model was still reasoning: there is no answer to be read.
const endsInReasoning = ({ content, reasoning, state }) =>
    Boolean(reasoning) && !content && state !== 'waiting' && state !== 'writing';

// The sentence about the message, or undefined.
function stateText(message, place, cut) {
    if (message.note) return message.note;
    if (place.writing && message.state === 'waiting') return 'Waiting for the first token';
    if (message.error) return message.error.text;
    if (cut) return `The context of ${amount(place.n_ctx, 'token')} is full.`;
    if (place.writing || !endsInReasoning(message)) return undefined;
    return message.finish === 'length'
        ? 'The limit of tokens was reached within the reasoning, so there is no answer.'
        : 'It ended within the reasoning, so there is no answer.';
}

function waysNow(message, place, cut, acts) {
    if (place.writing || !place.last) return [];
    if (message.error) return waysOf(message, place, acts);
    if (cut) return waysWhenFull(message, place, acts);
    return endsInReasoning(message) && message.finish === 'length'
        ? [way('quiet', 'Open the settings', acts.settings)]
        : [];
}

function stateDraw(view, message, place, acts) {
    const { error } = message;
    const cut = !error && place.last && fillsContext(message, place.n_ctx);
    const text = stateText(message, place, cut);
    const ways = waysNow(message, place, cut, acts);
    const bad = Boolean(error || cut) && !place.writing;
    if (endsInReasoning(message) && !place.writing) view.think.open = true;
    view.state.hidden = !text;
    view.state.classList.toggle('error', bad);
    view.state.setAttribute('role', error ? 'alert' : 'status');
    view.state.replaceChildren(
        h('p', {}, text ?? ''),
        ...(ways.length ? [h('p', { class: 'ways' }, ways)] : []),
    );
}

// A way on is offered only where it may help: a message that is too long by itself, or that filled
// the context as the only one, would do so again in a new conversation.
function waysWhenFull(message, place, acts) {
    if (message.error?.alone)
        return [
            way('strong', 'Edit the message', () => acts.editLast()),
            ...(place.system ? [way('quiet', 'Open the settings', acts.settings)] : []),
        ];
    const drop = message.content ? 'Drop the oldest turns and continue' : 'Drop the oldest turns';
    return [
        ...(place.droppable ? [way('strong', drop, () => acts.trim(message))] : []),
        ...(message.content ? [] : [way('quiet', 'Edit the message', () => acts.editLast())]),
        ...(message.content
            ? [way('quiet', 'Start a new conversation', () => acts.startOver(message))]
            : place.several
              ? [way('quiet', 'Ask in a new conversation', () => acts.startOver(message))]
              : []),
    ];
}

// Trying again is offered only where it may help.
function waysOf(message, place, acts) {
    const { kind } = message.error;
    if (kind === 'full') return waysWhenFull(message, place, acts);
    if (kind === 'refused')
        return [
            way('quiet', 'Edit the message', () => acts.editLast()),
            way('quiet', 'Open the settings', acts.settings),
        ];
    const ways = [];
    if (kind === 'key') ways.push(way('strong', 'Enter the key', () => acts.key(message)));
    if (canResume(message, place)) ways.push(way('strong', 'Continue', () => acts.resume(message)));
    ways.push(way(ways.length ? 'quiet' : 'strong', 'Try again', () => acts.retry(message)));
    return ways;
}

function cutDraw(view, text, acts) {
    view.cut.hidden = !text;
    view.cut.replaceChildren(
        ...(text ? [h('span', {}, text), way('quiet', 'Send all again', acts.undrop)] : []),
    );
}

// --- buttons, and the edit ---

function buttons(message, place, acts) {
    const copy = iconButton('copy', 'Copy', () => copyText(message.content, copy));
    const list = [copy];
    if (message.request)
        list.push(iconButton('clock', 'Where the time went', () => explainOpen(message.request)));
    if (place.lastUser && !place.busy)
        list.push(iconButton('edit', 'Edit', () => acts.edit(message)));
    if (canResume(message, place) && !message.error)
        list.push(iconButton('resume', 'Continue', () => acts.resume(message)));
    if (place.last && !place.busy)
        list.push(
            iconButton(
                'redo',
                message.role === 'assistant' ? 'Regenerate' : 'Answer',
                acts.regenerate,
            ),
        );
    list.push(iconButton('trash', 'Delete', () => acts.remove(message)));
    return list;
}

function editDraw(view, message, acts) {
    const area = h('textarea', { 'aria-label': 'Edit the message', rows: '2' });
    area.value = message.content;
    area.addEventListener('input', () => grow(area));
    area.addEventListener('keydown', (event) => {
        enterSends(event, () => acts.editSend(area.value));
        if (event.key === 'Escape') {
            event.preventDefault();
            acts.editEnd();
        }
    });
    view.edit = h('div', { class: 'edit' }, area);
    view.body.replaceWith(view.edit);
    view.state.hidden = true;
    view.foot.replaceChildren(
        h('p', { class: 'stats' }),
        h(
            'div',
            { class: 'acts open' },
            way('quiet', 'Cancel', acts.editEnd),
            way('strong', 'Send', () => acts.editSend(area.value)),
        ),
    );
    grow(area);
    area.focus();
}

// Enter sends, but not while an input method composes a character.
export function enterSends(event, action) {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    action();
}

export function grow(area) {
    area.style.height = 'auto';
    area.style.height = `${Math.min(area.scrollHeight + 2, 240)}px`;
}

// --- figures ---

// The figures of an answer, from the server's timings: [{text, title?, extra?}]. A small screen
// leaves the extra ones out.
export function stats(message) {
    if (message.role === 'user' || message.state === 'waiting' || message.state === 'writing')
        return [];
    const t = message.timings;
    const out = t ? figuresOf(t) : [];
    if (!t && message.first_ms !== undefined)
        out.push({ text: `first text ${seconds(message.first_ms / 1000)}` });
    if (message.state === 'stopped') out.push({ text: 'stopped' });
    if (message.finish === 'length') out.push({ text: 'cut at the limit' });
    return out;
}

function figuresOf(t) {
    const out = [];
    if (t.predicted_n > 1) out.push({ text: `${number(t.predicted_per_second)} tokens/s` });
    if (t.ttft_ms > 0) out.push({ text: `first token ${seconds(t.ttft_ms / 1000)}` });
    out.push({ text: amount(t.predicted_n, 'token') });
    if (t.cache_n > 0)
        out.push({
            text: `${count(t.cache_n)} cached`,
            title: `${amount(t.cache_n, 'prompt token')} came from the cache`,
            extra: true,
        });
    if (t.draft_n > 0)
        out.push({
            text: `${percent(t.draft_n_accepted / t.draft_n)} of drafts`,
            title: `${count(t.draft_n_accepted)} of ${count(t.draft_n)} drafted tokens accepted`,
        });
    if (t.bandwidth_share > 0)
        out.push({ text: `${percent(t.bandwidth_share)} of bandwidth`, extra: true });
    return out;
}
