// The settings of a request: a row is a field. An empty field is not sent, so the server's default
// holds; that default is shown in its place. Settings are stored as they are changed.
import { request } from './api.js';
import { settingsRead, settingsWrite } from './store.js';
import { byId, h } from './ui.js';

const intMax = 2147483647;
const stopsMax = 16;

// name, label, least, most, hint, and options: integer; names: where /props may have the default.
const number = (name, label, min, max, hint, options = {}) => ({
    name,
    label,
    min,
    max,
    hint,
    names: [name],
    ...options,
});
const whole = (name, label, min, max, hint, options = {}) =>
    number(name, label, min, max, hint, { integer: true, ...options });

const common = [
    number('temperature', 'Temperature', 0, 100, '0 always takes the likeliest token'),
    number('top_p', 'Top-p', 0, 1, 'keeps the likeliest tokens up to this probability'),
    whole('max_tokens', 'Maximum tokens', 1, intMax, 'of one answer; the context ends it too'),
    whole('seed', 'Seed', 0, Number.MAX_SAFE_INTEGER, 'the same seed gives the same text', {
        names: [],
    }),
];

const advanced = [
    whole('min_tokens', 'Minimum tokens', 0, intMax, 'of one answer', { names: [] }),
    whole(
        'thinking_budget_tokens',
        'Thinking tokens',
        -1,
        intMax,
        'of models that think; -1 is all',
        {
            names: [],
        },
    ),
    whole('top_k', 'Top-k', 0, intMax, 'keeps the k likeliest tokens; 0 keeps all'),
    number('min_p', 'Min-p', 0, 1, 'keeps tokens with this share of the best probability'),
    number('typical_p', 'Typical-p', 0, 1, 'keeps the most typical tokens; 1 keeps all'),
    number('top_n_sigma', 'Top-n-sigma', 0, 100, 'standard deviations below the best; 0 is off'),
    number('repetition_penalty', 'Repetition penalty', 0, 100, '1 is off'),
    whole(
        'repeat_last_n',
        'Repetition window',
        -1,
        intMax,
        'last tokens that are looked at; -1 is all',
    ),
    number('presence_penalty', 'Presence penalty', -2, 2, 'for tokens of the answer; 0 is off'),
    number('frequency_penalty', 'Frequency penalty', -2, 2, 'for each time a token was written'),
    number('dry_multiplier', 'DRY multiplier', 0, 100, 'against repeated phrases; 0 is off'),
    number('dry_base', 'DRY base', 0, 100, 'grows the penalty with the length'),
    whole('dry_allowed_length', 'DRY allowed length', 0, intMax, 'shorter repetitions are free'),
    whole(
        'dry_penalty_last_n',
        'DRY window',
        -1,
        intMax,
        'last tokens that are looked at; -1 is all',
    ),
    number('xtc_probability', 'XTC probability', 0, 1, 'how often the likeliest are dropped'),
    number('xtc_threshold', 'XTC threshold', 0, 1, 'the probability that XTC asks for'),
];
const rows = [...common, ...advanced];

// Fields of several lines.
const texts = {
    system: { label: 'System message', hint: 'sent before all other messages', rows: '4' },
    stop: {
        label: 'Stop strings',
        hint: 'one on each line; \\n is a line break. The answer ends before the first one',
        rows: '2',
    },
};

let values = {}; // only what was changed
let defaults = {};
const inputs = new Map();

// The fields of a request, and the system text.
export function settingsBody() {
    const body = {};
    for (const { name } of rows) if (typeof values[name] === 'number') body[name] = values[name];
    const stop = stopStrings(values.stop);
    if (stop.length) body.stop = stop;
    if (values.ignore_eos === true) body.ignore_eos = true;
    return body;
}
export const settingsSystem = () => (typeof values.system === 'string' ? values.system.trim() : '');

const escapes = { n: '\n', t: '\t', '\\': '\\' };
const stopStrings = (text) =>
    (typeof text === 'string' ? text : '')
        .split('\n')
        .filter(Boolean)
        .map((line) => line.replace(/\\([nt\\])/g, (all, c) => escapes[c]));

export function settingsInit() {
    values = settingsRead();
    byId('fields').append(
        textField('system'),
        ...common.map(field),
        h(
            'details',
            { class: 'more', open: moreIsSet() },
            h('summary', {}, 'Advanced'),
            h(
                'div',
                { class: 'fields inner' },
                textField('stop'),
                advanced.map(field),
                flagField(),
            ),
        ),
    );
    byId('fields').addEventListener('submit', (event) => event.preventDefault());
    byId('settings-reset').addEventListener('click', () => {
        values = {};
        settingsWrite(values);
        show();
        byId('fields').querySelector('textarea').focus();
    });
    show();
}

// The fold is open where something in it is set.
const moreIsSet = () =>
    [...advanced.map(({ name }) => name), 'stop', 'ignore_eos'].some(
        (name) => values[name] !== undefined,
    );

// The defaults of a model; null: the only one. Gives /props back; throws as request() does.
export async function settingsDefaults(model) {
    const query = model ? `?model=${encodeURIComponent(model)}` : '';
    const props = await (await request(`/props${query}`)).json();
    const flat = props.default_generation_settings ?? {};
    defaults = { ...flat, ...flat.params };
    show();
    return props;
}

function textField(name) {
    const { label, hint, rows: tall } = texts[name];
    const area = h('textarea', {
        id: `set-${name}`,
        rows: tall,
        placeholder: 'none',
        'aria-describedby': `hint-${name}`,
    });
    area.addEventListener('input', () => {
        const wrong = name === 'stop' && stopStrings(area.value).length > stopsMax;
        area.setAttribute('aria-invalid', String(wrong));
        byId(`hint-${name}`).textContent = wrong ? `expected at most ${stopsMax} lines` : hint;
        if (!wrong) change(name, area.value || undefined);
    });
    inputs.set(name, area);
    return wrap(name, label, hint, area, 'wide');
}

// The only one that is on or off; a server's default of it is off.
function flagField() {
    const box = h('input', { id: 'set-ignore_eos', type: 'checkbox' });
    box.addEventListener('change', () => change('ignore_eos', box.checked || undefined));
    return h(
        'p',
        { class: 'wide flag' },
        box,
        h('label', { for: box.id }, 'Write on when the model wants to end'),
    );
}

function field(row) {
    const input = h('input', {
        id: `set-${row.name}`,
        type: 'number',
        inputmode: 'decimal',
        min: row.min,
        max: row.max,
        step: row.integer ? 1 : 'any',
        'aria-describedby': `hint-${row.name}`,
    });
    input.addEventListener('input', () => {
        const value = input.value === '' ? undefined : Number(input.value);
        const wrong =
            input.validity.badInput ||
            (value !== undefined &&
                (!(value >= row.min && value <= row.max) ||
                    (row.integer && !Number.isSafeInteger(value))));
        input.setAttribute('aria-invalid', String(wrong));
        byId(`hint-${row.name}`).textContent = wrong
            ? `expected ${row.integer ? 'a whole number' : 'a number'}, ${row.min} to ${row.max}`
            : row.hint;
        if (!wrong) change(row.name, value);
    });
    inputs.set(row.name, input);
    return wrap(row.name, row.label, row.hint, input, '');
}

function wrap(name, label, hint, input, kind) {
    const reset = h(
        'button',
        {
            type: 'button',
            class: 'quiet reset',
            id: `reset-${name}`,
            'aria-label': `Reset ${label}`,
            hidden: true,
            onclick: () => {
                change(name, undefined);
                show();
                input.focus();
            },
        },
        'reset',
    );
    return h(
        'div',
        { class: `field ${kind}` },
        h('label', { for: input.id }, label),
        input,
        reset,
        h('p', { class: 'hint', id: `hint-${name}` }, hint),
    );
}

function change(name, value) {
    if (value === undefined) delete values[name];
    else values[name] = value;
    settingsWrite(values);
    const reset = byId(`reset-${name}`);
    if (reset) reset.hidden = value === undefined;
}

function show() {
    for (const [name, input] of inputs) {
        input.value = values[name] ?? '';
        input.setAttribute('aria-invalid', 'false');
        byId(`reset-${name}`).hidden = values[name] === undefined;
    }
    byId('set-ignore_eos').checked = values.ignore_eos === true;
    for (const [name, { hint }] of Object.entries(texts)) byId(`hint-${name}`).textContent = hint;
    for (const row of rows) {
        byId(`hint-${row.name}`).textContent = row.hint;
        inputs.get(row.name).placeholder = placeholder(row);
    }
}

function placeholder(row) {
    if (row.name === 'seed') return 'random';
    if (row.name === 'min_tokens') return '0';
    if (row.name === 'thinking_budget_tokens') return 'all';
    const found = row.names
        .map((name) => defaults[name])
        .find((value) => typeof value === 'number');
    if (row.name === 'max_tokens' && !(found > 0)) return 'no limit';
    return found === undefined ? 'the server’s' : String(Number(found.toPrecision(6)));
}
