// The explanation of one stream: the server's sentences, bars of the causes, and its time as a
// strip. The figures are the document of /requests/ID/trace, which `runnel explain` shows too.
import { request } from './api.js';
import { causeIndex, causes } from './charts.js';
import { byId, download, h, percent, seconds } from './ui.js';

const againMs = 1000; // a running request is asked for again
let shown = null; // {id, timer, text}

export function explainInit() {
    byId('why').addEventListener('close', () => {
        clearTimeout(shown?.timer);
        shown = null;
    });
    byId('why-save').addEventListener('click', () => {
        if (shown?.text) save(shown.id, 'json', shown.text);
    });
    byId('why-trace').addEventListener('click', async () => {
        const { id } = shown;
        try {
            const response = await request(`/requests/${id}/trace?format=perfetto`);
            save(id, 'trace.json', await response.text());
        } catch (error) {
            byId('why-hint').textContent = error.message;
        }
    });
}

const save = (id, ending, text) =>
    download(`request-${id}.${ending}`, 'application/json', text);

// id: the number of the engine's request, or the id of the response.
export function explainOpen(id) {
    clearTimeout(shown?.timer);
    shown = { id, timer: 0, text: '' };
    byId('why-title').textContent = 'Where its time went';
    byId('why-hint').textContent = '';
    byId('why-body').replaceChildren(h('p', { class: 'sum' }, 'Asking the engine.'));
    byId('why-save').disabled = byId('why-trace').disabled = true;
    if (!byId('why').open) byId('why').showModal();
    load(shown);
}

async function load(mine) {
    try {
        const response = await request(`/requests/${mine.id}/trace`);
        const text = await response.text();
        if (shown !== mine) return;
        const record = JSON.parse(text);
        mine.text = text;
        byId('why-save').disabled = byId('why-trace').disabled = false;
        byId('why-title').textContent = `Request ${record.request}: where its time went`;
        byId('why-hint').textContent =
            `In a terminal: runnel explain ${record.request} --url ${location.origin}`;
        draw(record);
        if (record.choices.some((choice) => choice.state === 'running'))
            mine.timer = setTimeout(() => load(mine), againMs);
    } catch (error) {
        if (shown !== mine) return;
        byId('why-body').replaceChildren(h('p', { class: 'sum', role: 'alert' }, error.message));
    }
}

function draw(record) {
    byId('why-body').replaceChildren(...record.choices.flatMap((choice) => parts(record, choice)));
}

function parts(record, choice) {
    const { account } = choice;
    return [
        record.n > 1 ? h('h3', {}, `Choice ${choice.index + 1} of ${record.n}`) : '',
        ...choice.text.map((line) => h('p', {}, line)),
        ...choice.advice.map((line) => h('p', { class: 'advice' }, line)),
        strip(account),
        bars('To first token', account.first),
        bars('Between tokens', account.decode),
    ];
}

const known = (name) => causes[causeIndex(name)] ?? { text: name, colour: 'var(--muted)' };

function bars(title, share) {
    const rows = Object.entries(share.causes_ns)
        .filter(([, ns]) => ns >= share.ns / 2000)
        .sort((a, b) => b[1] - a[1]);
    if (!rows.length) return '';
    return h(
        'section',
        {},
        h('h3', {}, `${title}, ${seconds(share.ns / 1e9)}`),
        h(
            'ul',
            { class: 'bars' },
            rows.map(([name, ns]) => {
                const bar = h('span', { class: 'bar-fill' });
                bar.style.width = `${Math.max(0.5, (100 * ns) / rows[0][1])}%`;
                bar.style.background = known(name).colour;
                return h(
                    'li',
                    {},
                    h('span', {}, known(name).text),
                    h('span', { class: 'amount' }, seconds(ns / 1e9)),
                    h('span', { class: 'amount' }, percent(ns / share.ns)),
                    h('span', { class: 'bar-track', 'aria-hidden': 'true' }, bar),
                );
            }),
        ),
    );
}

// The order in which a request meets them before its first token; other causes follow.
const met = ['queue', 'pages', 'preempted', 'prompts', 'own_prompt'];
const rank = (name) => (met.includes(name) ? met.indexOf(name) : met.length);

// Before the first token by cause, then the spans of tokens in their order.
function strip(account) {
    const pieces = Object.entries(account.first.causes_ns).sort(
        (a, b) => rank(a[0]) - rank(b[0]),
    );
    for (const [end, ns, , , cause] of account.spans) {
        const since = Math.min(ns, end - account.first_ns);
        if (since > 0) pieces.push([cause, since]);
    }
    const total = pieces.reduce((sum, [, ns]) => sum + ns, 0);
    if (!total) return '';
    return h(
        'div',
        { class: 'stack', role: 'img', 'aria-label': 'The time of the stream by cause' },
        pieces.map(([name, ns]) => segment(name, ns, `${known(name).text}, ${seconds(ns / 1e9)}`)),
    );
}

// A piece of a stacked bar, as wide as its part.
export function segment(name, part, title) {
    const node = h('span', { title });
    node.style.flexGrow = String(part);
    node.style.background = known(name).colour;
    return node;
}

// Where the last second of all streams went: a stacked bar, its legend, and the largest in words.
export function secondDraw(causesMs) {
    const rows = Object.entries(causesMs).sort((a, b) => b[1] - a[1]);
    const total = rows.reduce((sum, [, ms]) => sum + ms, 0);
    byId('second').replaceChildren(
        ...rows.map(([name, ms]) =>
            segment(name, ms, `${known(name).text}, ${percent(ms / total)}`),
        ),
    );
    byId('second-sum').textContent = total
        ? `${seconds(total / 1000)} of all streams, mostly ${known(rows[0][0]).text}`
        : 'no token in the last second';
    byId('second-legend').replaceChildren(
        ...rows
            .filter(([, ms]) => ms / total >= 0.005)
            .map(([name, ms]) => {
                const swatch = h('span', { class: 'swatch' });
                swatch.style.background = known(name).colour;
                return h('li', {}, swatch, `${known(name).text} ${percent(ms / total)}`);
            }),
    );
}
