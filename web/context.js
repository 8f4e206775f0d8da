// The context of the conversation that is shown: how much of it is used, and room for the next
// answer. The server counts tokens (/tokenize), exactly as a request would. A model that is not
// loaded is not asked: that would load it.
//
// Turns are dropped as `runnel run` does it: where less than an eighth of the context is free, the
// oldest go until a quarter is. They stay in the conversation, marked, and are no longer sent.
import { request } from './api.js';
import { inputOf, systemOf } from './run.js';
import { settingsBody } from './settings.js';
import { amount, byId, count } from './ui.js';

const waitMs = 150;
let timer = 0;
let shown = null; // {abort}: the count under way

// Tokens of a conversation, and the context's size as the server says it.
async function tokensOf(chat, messages, model, signal) {
    const body = inputOf(chat, messages, model);
    const response = await request('/tokenize', { method: 'POST', body, signal });
    const { count: tokens, max_model_len: n_ctx } = await response.json();
    return { tokens, n_ctx };
}

// --- room ---

// A turn is a user's message with its answers; the last user's message is never dropped.
function turnStarts(messages) {
    const kept = messages.map((message, i) => (message.dropped ? -1 : i)).filter((i) => i >= 0);
    return kept.filter((i, at) => at === 0 || messages[i].role === 'user');
}

// The answer ended where the context did.
export const fillsContext = ({ finish, usage }, n_ctx) =>
    finish === 'length' && n_ctx > 0 && usage?.prompt_tokens + usage?.completion_tokens >= n_ctx;

export const turnsToDrop = (messages) => Math.max(0, turnStarts(messages).length - 1);

function drop(chat, until) {
    for (let i = 0; i < until; i++) chat.messages[i].dropped = true;
}

export function undrop(chat) {
    for (const message of chat.messages) delete message.dropped;
    delete chat.cut;
    delete chat.trims;
}

const roomWanted = (n_ctx) => {
    const most = settingsBody().max_tokens ?? n_ctx;
    return Math.max(1, Math.min(most, Math.floor(n_ctx / 8)));
};

// Drops turns where there is too little room. messages: the ones to be sent, a start of the
// conversation's. The last of the turns whose dropping makes room is found by halving.
export async function roomMake(chat, messages, model, signal) {
    const starts = turnStarts(messages);
    const { tokens, n_ctx } = await tokensOf(chat, messages, model, signal);
    if (!(n_ctx > 0) || tokens + roomWanted(n_ctx) <= n_ctx || starts.length < 2) return;
    const most = n_ctx - Math.floor(n_ctx / 4);
    let [low, high] = [1, starts.length - 1];
    let left = null; // tokens after dropping `high` turns
    while (low < high) {
        const middle = (low + high) >> 1;
        const found = await tokensOf(chat, messages.slice(starts[middle]), model, signal);
        if (found.tokens <= most) [high, left] = [middle, found.tokens];
        else low = middle + 1;
    }
    left ??= (await tokensOf(chat, messages.slice(starts[high]), model, signal)).tokens;
    if (left >= n_ctx) return; // the last message is too long by itself
    const before = chat.messages.some(({ dropped }) => dropped) ? (chat.cut?.tokens ?? 0) : 0;
    drop(chat, starts[high]);
    chat.cut = { tokens: before + tokens - left, n_ctx };
}

// Whether a message that was refused is too long by itself, so that neither dropping turns nor a new
// conversation helps. Leaves the count in the answer's error.
export async function aloneCount(chat, answer, model, signal) {
    const before = chat.messages.slice(0, chat.messages.indexOf(answer));
    const start = before.findLastIndex(({ role }) => role === 'user');
    const { tokens, n_ctx } = await tokensOf(chat, before.slice(start), model, signal);
    if (tokens < n_ctx) return;
    const what = systemOf(chat) ? 'This message and the system message have' : 'This message has';
    answer.error.alone = tokens;
    answer.error.text =
        `${what} ${amount(tokens, 'token')}, and the whole context holds ${count(n_ctx)}. ` +
        'The message was not sent.';
}

// "" while all messages are sent.
export function cutText(chat) {
    const turns = chat.messages.filter(({ dropped, role }) => dropped && role === 'user').length;
    if (!turns) return '';
    const tokens = chat.cut?.tokens > 0 ? `, ${amount(chat.cut.tokens, 'token')},` : '';
    return (
        `The oldest ${turns === 1 ? 'turn' : `${count(turns)} turns`}${tokens} ` +
        `${turns === 1 ? 'is' : 'are'} no longer sent` +
        (chat.cut?.n_ctx > 0 ? `: the context holds ${count(chat.cut.n_ctx)} tokens.` : '.')
    );
}

// --- the meter ---

// Counts again, soon: called at any change.
export function contextUpdate(chat, model) {
    clearTimeout(timer);
    shown?.abort.abort();
    const mine = { abort: new AbortController() };
    shown = mine;
    if (!chat.messages.length || model.state !== 'loaded') return meterHide();
    timer = setTimeout(async () => {
        try {
            const { signal } = mine.abort;
            const { tokens, n_ctx } = await tokensOf(chat, chat.messages, model, signal);
            if (shown === mine) meterDraw(tokens, n_ctx, canOffer(chat, n_ctx));
        } catch {
            if (shown === mine) meterHide(); // the answer's own request says what is wrong
        }
    }, waitMs);
    return undefined;
}

// The last message may say itself that the context is full, and offer the ways on.
function canOffer({ messages }, n_ctx) {
    const last = messages.at(-1);
    const says = last.error?.kind === 'full' || fillsContext(last, n_ctx);
    return !says && turnsToDrop(messages) > 0;
}

function meterHide() {
    byId('meter').hidden = true;
    byId('meter-drop').hidden = true;
}

function meterDraw(tokens, n_ctx, offer) {
    if (!(n_ctx > 0)) return meterHide();
    const meter = byId('meter');
    const state = tokens >= n_ctx ? 'full' : tokens + roomWanted(n_ctx) > n_ctx ? 'near' : '';
    // the text of an answer that filled the context may have more tokens when it is read again
    const used = Math.min(tokens, n_ctx);
    const text = `${count(used)} of ${amount(n_ctx, 'token')}`;
    const end = { full: ', full', near: ', nearly full' }[state] ?? '';
    meter.hidden = false;
    meter.dataset.state = state;
    meter.setAttribute('aria-valuemax', String(n_ctx));
    meter.setAttribute('aria-valuenow', String(used));
    meter.setAttribute('aria-valuetext', text + end);
    byId('meter-text').textContent = text + end;
    byId('meter-fill').style.width = `${(100 * used) / n_ctx}%`;
    byId('meter-drop').hidden = !state || !offer;
    return undefined;
}
