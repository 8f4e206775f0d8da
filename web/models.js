// The models of the server: one, or several that are loaded when they are asked for. With several
// there is a choice, kept with each conversation; a new one has the model that was chosen last.
// Also what the page suggests to write, which depends on the model.
import { request } from './api.js';
import { settingsDefaults } from './settings.js';
import { modelRead, modelWrite } from './store.js';
import { byId, h } from './ui.js';

let models = []; // [{id, state, reason, n_ctx}] where there is a choice; else empty
const known = new Map(); // id, '' with one model -> {name, n_ctx, plain} of /props
let followed = null; // the model that the page follows, and its state

// --- what is there ---

const textOf = (value) => (typeof value === 'string' ? value : '');

// llama.cpp's form: {value, failed, message}.
function entryOf({ id, status, max_model_len, meta }) {
    const isObject = status !== null && typeof status === 'object';
    const value = textOf(isObject ? status.value : status);
    return {
        id,
        state: isObject && status.failed ? 'failed' : value,
        reason: isObject ? textOf(status.message) : '',
        n_ctx: Number(max_model_len ?? meta?.n_ctx) || 0,
    };
}

// Several names of one model have no state, and are no choice. Throws as request() does.
async function modelsRead() {
    const { data } = await (await request('/v1/models')).json();
    const found = (Array.isArray(data) ? data : [])
        .filter((entry) => typeof entry?.id === 'string')
        .map(entryOf)
        .filter(({ state }) => state);
    const before = JSON.stringify(models);
    models = found.length > 1 ? found : [];
    if (JSON.stringify(models) !== before) changed();
}

// A failure leaves things as they were.
export const modelsRefresh = () => modelsRead().catch(() => {});

const changed = () => document.dispatchEvent(new Event('models'));

// Settings show the defaults of this model. Throws as request() does.
async function propsRead({ id, state }) {
    if (state !== 'loaded') return;
    const props = await settingsDefaults(id);
    known.set(id ?? '', {
        name: textOf(props.model_alias) || textOf(props.model_path),
        n_ctx: Number(props.default_generation_settings?.n_ctx) || 0,
        plain: props.chat_template === '',
    });
    changed();
}

// The first look at the server. Throws as request() does.
export async function modelsBegin(chat) {
    await modelsRead();
    const model = modelOf(chat());
    followed = keyOf(model);
    announce(model);
    await propsRead(model);
}

const announce = (model) => document.dispatchEvent(new CustomEvent('model', { detail: model }));
const keyOf = ({ id, state }) => `${state} ${id}`;

// The conversation that is shown has this model: the settings and the engine follow it.
export function modelFollow(model) {
    if (followed === null || followed === keyOf(model)) return;
    followed = keyOf(model);
    announce(model);
    propsRead(model).catch(() => {}); // its defaults are not shown then
}

// The model of a conversation: {id, name, n_ctx, plain, state, reason}. id: what requests say, null
// with one model. n_ctx: 0 if it is not known. plain: without a chat template.
export function modelOf(chat) {
    if (!models.length) {
        const one = { id: null, name: '', n_ctx: 0, plain: false, state: 'loaded', reason: '' };
        return { ...one, ...known.get('') };
    }
    const wanted = chat.model ?? modelRead();
    const found =
        models.find(({ id }) => id === wanted) ??
        models.find(({ state }) => state === 'loaded') ??
        models[0];
    const props = known.get(found.id);
    return {
        ...found,
        name: found.id,
        plain: props?.plain ?? false,
        n_ctx: found.n_ctx || (props?.n_ctx ?? 0),
    };
}

// The server said that a model has no template.
export const modelIsPlain = ({ id, name, n_ctx }) =>
    known.set(id ?? '', { name, n_ctx, plain: true });

// --- the choice ---

export function modelsInit(onChoice) {
    const select = byId('model-choice');
    select.addEventListener('change', () => {
        modelWrite(select.value);
        onChoice(select.value);
    });
    for (const event of ['focus', 'pointerdown']) select.addEventListener(event, modelsRefresh);
}

const stateText = { unloaded: 'not loaded', sleeping: 'not loaded' };

export function modelsDraw(chat) {
    const model = modelOf(chat);
    const select = byId('model-choice');
    const state = stateText[model.state] ?? model.state;
    byId('model').title = model.reason || 'the model that is served';
    byId('model').textContent = models.length ? `${model.name} · ${state}` : model.name;
    select.hidden = !models.length;
    if (!models.length) return;
    const key = JSON.stringify(models);
    if (select.dataset.key !== key) {
        select.dataset.key = key;
        select.replaceChildren(
            ...models.map(({ id, state }) =>
                h('option', { value: id }, `${id} – ${stateText[state] ?? state}`),
            ),
        );
    }
    select.value = model.id;
}

// --- what could be written ---

const ideas = {
    story: [
        'Tell me a story about a fox and a lantern.',
        'Tell me a story about a robot who learns to swim.',
        'Tell me a story about two friends and a lost kite.',
    ],
    code: [
        'Write a function that merges two sorted lists, with tests.',
        'What does this regular expression match: ^(\\d{3})-\\1$',
        'Explain a race condition with a short example, and fix it.',
    ],
    chat: [
        'Explain how a bicycle stays upright.',
        'Plan a three-day trip by train, with one museum a day.',
        'Give me five names for a small bakery, and say why.',
    ],
    plain: [
        'Once upon a time, in a house by the sea,',
        'The three most important rules of gardening are:\n\n1.',
        'def fibonacci(n):\n',
    ],
};

// Models of stories and of code are known by their names.
export function ideasOf({ name, plain }) {
    const word = name.toLowerCase();
    if (/(^|[^a-z])(tale|tinystories|stories|story)/.test(word))
        return plain ? ideas.plain.slice(0, 1) : ideas.story;
    if (plain) return ideas.plain;
    return /code|coder|devstral|starcoder|codestral/.test(word) ? ideas.code : ideas.chat;
}
