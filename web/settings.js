// The sampling settings: a row is a field. An empty field is not sent, so the server's default
// holds; that default is shown in its place. Settings are stored as they are changed.
import { request } from './api.js';
import { settingsRead, settingsWrite } from './store.js';
import { byId, h } from './ui.js';

// names: where /props may have the default
const rows = [
    {
        name: 'temperature',
        label: 'Temperature',
        min: 0,
        max: 100,
        step: 0.1,
        names: ['temperature'],
        hint: '0 always takes the likeliest token',
    },
    {
        name: 'top_p',
        label: 'Top-p',
        min: 0,
        max: 1,
        step: 0.05,
        names: ['top_p'],
        hint: 'keeps the likeliest tokens up to this probability',
    },
    {
        name: 'top_k',
        label: 'Top-k',
        min: 0,
        max: 2147483647,
        step: 1,
        integer: true,
        names: ['top_k'],
        hint: 'keeps the k likeliest tokens; 0 keeps all',
    },
    {
        name: 'min_p',
        label: 'Min-p',
        min: 0,
        max: 1,
        step: 0.01,
        names: ['min_p'],
        hint: 'keeps tokens with this share of the best probability',
    },
    {
        name: 'repetition_penalty',
        label: 'Repetition penalty',
        min: 0,
        max: 100,
        step: 0.05,
        names: ['repetition_penalty', 'repeat_penalty'],
        hint: '1 is off',
    },
    {
        name: 'max_tokens',
        label: 'Maximum tokens',
        min: 1,
        max: 2147483647,
        step: 1,
        integer: true,
        names: ['max_tokens', 'n_predict'],
        hint: 'of one answer',
    },
    {
        name: 'seed',
        label: 'Seed',
        min: 0,
        max: Number.MAX_SAFE_INTEGER,
        step: 1,
        integer: true,
        names: [],
        hint: 'the same seed gives the same text',
    },
];

let values = {}; // only what was changed
let defaults = {};
const inputs = new Map();

// The fields of a request, and the system text.
export function settingsBody() {
    const body = {};
    for (const { name } of rows) if (typeof values[name] === 'number') body[name] = values[name];
    return body;
}
export const settingsSystem = () => (typeof values.system === 'string' ? values.system.trim() : '');

export function settingsInit() {
    values = settingsRead();
    byId('fields').append(systemField(), ...rows.map(field));
    byId('fields').addEventListener('submit', (event) => event.preventDefault());
    byId('settings-reset').addEventListener('click', () => {
        values = {};
        settingsWrite(values);
        show();
        byId('fields').querySelector('textarea').focus();
    });
    show();
}

// Throws as request() does.
export async function settingsDefaults(signal) {
    const props = await (await request('/props', { signal })).json();
    const flat = props.default_generation_settings ?? {};
    defaults = { ...flat, ...flat.params };
    show();
    return props;
}

function systemField() {
    const area = h('textarea', {
        id: 'set-system',
        rows: '4',
        placeholder: 'none',
        'aria-describedby': 'hint-system',
    });
    area.addEventListener('input', () => change('system', area.value || undefined));
    inputs.set('system', area);
    return wrap('system', 'System message', 'sent before all other messages', area, 'wide');
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
    byId(`reset-${name}`).hidden = value === undefined;
}

function show() {
    for (const [name, input] of inputs) {
        input.value = values[name] ?? '';
        input.setAttribute('aria-invalid', 'false');
        byId(`reset-${name}`).hidden = values[name] === undefined;
    }
    for (const row of rows) {
        byId(`hint-${row.name}`).textContent = row.hint;
        inputs.get(row.name).placeholder = placeholder(row);
    }
}

function placeholder(row) {
    if (row.name === 'seed') return 'drawn anew';
    const found = row.names
        .map((name) => defaults[name])
        .find((value) => typeof value === 'number');
    if (row.name === 'max_tokens' && !(found > 0)) return 'up to the context';
    return found === undefined ? 'the server’s' : String(Number(found.toPrecision(6)));
}
