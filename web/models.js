// The models of the server: one, or several that are loaded when they are asked for. With several
// there is a choice, kept with each conversation; a new one has the model that was chosen last.
// Also what the page suggests to write, which depends on the model.
import { request } from './api.js';
import { modelRead, modelWrite } from './store.js';
import { byId, h } from './ui.js';

let served = { name: '', template: null, n_ctx: 0 }; // of /props
let models = []; // [{id, state, n_ctx}] where there is a choice; else empty
const plainIds = new Set(); // models without a template, as the server said
let chosen = () => {};

// --- what is there ---

export function modelsServed(props) {
    served = {
        name: String(props.model_alias ?? props.model_path ?? ''),
        template: typeof props.chat_template === 'string' ? props.chat_template : null,
        n_ctx: Number(props.default_generation_settings?.n_ctx) || 0,
    };
}

const stateOf = ({ status }) =>
    String((status !== null && typeof status === 'object' ? status.value : status) ?? '');

// Several names of one model have no state, and are no choice. A failure leaves things as they were.
export async function modelsRefresh() {
    let list;
    try {
        list = (await (await request('/v1/models')).json()).data;
    } catch {
        return;
    }
    const found = (Array.isArray(list) ? list : [])
        .filter((entry) => typeof entry?.id === 'string' && stateOf(entry))
        .map((entry) => ({
            id: entry.id,
            state: stateOf(entry),
            n_ctx: Number(entry.max_model_len ?? entry.meta?.n_ctx) || 0,
        }));
    const before = JSON.stringify(models);
    models = found.length > 1 ? found : [];
    if (JSON.stringify(models) !== before) document.dispatchEvent(new Event('models'));
}

// The model of a conversation: {id, name, n_ctx, plain, state}. id: what requests say, null with
// one model. n_ctx: 0 if it is not known. plain: without a chat template.
export function modelOf(chat) {
    if (!models.length) {
        const { name, n_ctx } = served;
        return { id: null, name, n_ctx, plain: served.template === '', state: 'loaded' };
    }
    const wanted = chat.model ?? modelRead();
    const found =
        models.find(({ id }) => id === wanted) ??
        models.find(({ state }) => state === 'loaded') ??
        models[0];
    const isServed = found.id === served.name;
    return {
        ...found,
        name: found.id,
        plain: plainIds.has(found.id) || (isServed && served.template === ''),
        n_ctx: found.n_ctx || (isServed ? served.n_ctx : 0),
    };
}

// The server said that a model has no template.
export const modelIsPlain = (id) => {
    if (id) plainIds.add(id);
    else served.template = '';
};

// --- the choice ---

export function modelsInit(onChoice) {
    chosen = onChoice;
    const select = byId('model-choice');
    select.addEventListener('change', () => {
        modelWrite(select.value);
        chosen(select.value);
    });
    for (const event of ['focus', 'pointerdown']) select.addEventListener(event, modelsRefresh);
}

const stateText = { unloaded: 'not loaded', sleeping: 'not loaded' };

export function modelsDraw(chat) {
    const model = modelOf(chat);
    const select = byId('model-choice');
    const state = stateText[model.state] ?? model.state;
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
