// The engine pane: follows /engine/live while it can be seen, and draws each picture once. It draws
// when a picture comes and never in between: the browser often shares the machine with the engine.
import { events, request, sleep } from './api.js';
import { arcDraw, arcInit, eachAlone, histogramDraw, histogramText, sparkDraw } from './charts.js';
import { explainInit, secondDraw } from './explain.js';
import { askKey } from './key.js';
import { lanesDraw, lanesInit, lanesReset, lanesTake } from './lanes.js';
import { pagesDraw, pagesInit } from './pages.js';
import { ratesAnswered, ratesReset, ratesTake } from './rates.js';
import { roofDraw } from './roofline.js';
import { ago, byId, bytes, count, h, number, percent, seconds } from './ui.js';

const silentMs = 10000; // a stream that says nothing for so long is taken for dead
const slots = 240; // a minute of pictures
const rates = [];
const tiles = new Map();
let following = null; // AbortController
let live = null; // the last picture
let now = null; // its rates
let listening = false;
let model = null; // which one is followed, where there are several: {id, state}

const tileRows = [
    ['running', 'Running', (x) => `${count(x.running)} of ${count(x.max_seqs)}`],
    ['waiting', 'Waiting', (x) => `${count(x.waiting)} of ${count(x.max_waiting)}`],
    ['paused', 'Paused', (x) => count(x.paused)],
    ['preemptions', 'Preemptions', (x) => count(x.preemptions)],
    ['prompts', 'Prompts, tokens/s', (x) => number(Math.round(x.prompt_tokens_per_s))],
    [
        'cached',
        'From cache',
        (x) => percent(x.prompt_tokens ? x.cached_tokens / x.prompt_tokens : 0),
    ],
    ['step', 'Step', (x) => seconds(x.step_ms / 1000)],
    ['busy', 'Busy', (x) => percent(x.busy)],
];

export function engineInit() {
    arcInit(byId('arc'));
    pagesInit();
    lanesInit();
    explainInit();
    for (const [id, label] of tileRows) {
        const value = h('dd', { id: `tile-${id}` }, '–');
        tiles.set(id, value);
        byId('counts').append(h('div', {}, h('dt', {}, label), value));
    }
    byId('link-key').addEventListener('click', () =>
        askKey().then((given) => given && engineRestart()),
    );
    document.addEventListener('visibilitychange', watch);
    document.addEventListener('view', watch);
    document.addEventListener('theme', redraw);
    document.addEventListener('model', (event) => modelFollow(event.detail));
    document.addEventListener('answered', (event) => ratesAnswered(event.detail));
    window.addEventListener('resize', () => {
        watch();
        redraw();
    });
    listening = true;
    watch();
}

// A model that is not loaded has no engine.
function modelFollow(next) {
    if (next.id === (model?.id ?? null) && next.state === (model?.state ?? 'loaded')) return;
    if (next.id !== model?.id) forget();
    model = next.id ? next : null;
    engineRestart();
    if (model && model.state !== 'loaded') linkShow('idle', `${model.id} is not loaded`);
}

export function engineRestart() {
    following?.abort();
    following = null;
    watch();
}

const seen = () => !document.hidden && byId('engine').getClientRects().length > 0;
const hasEngine = () => !model || model.state === 'loaded';

// Follows exactly while the pane can be seen.
function watch() {
    if (!listening) return;
    if (seen() && hasEngine() && !following) {
        following = new AbortController();
        follow(following.signal);
    } else if (!seen() && following) {
        following.abort();
        following = null;
    }
}

function linkShow(state, text) {
    byId('link').dataset.state = state;
    if (byId('link').textContent !== text) byId('link').textContent = text;
    byId('link-key').hidden = state !== 'key';
    byId('engine').classList.toggle('stale', state !== 'live');
}

async function follow(signal) {
    for (let waitMs = 500; !signal.aborted; waitMs = Math.min(waitMs * 2, 8000)) {
        try {
            await followOnce(signal, () => {
                waitMs = 500;
            });
            linkShow('lost', 'The live view ended; trying again.');
        } catch (error) {
            if (signal.aborted) return;
            if (error.status === 401) return linkShow('key', 'The live view needs the key.');
            linkShow(
                'lost',
                error.status
                    ? `${error.message}; trying again.`
                    : 'No connection to the server; trying again.',
            );
        }
        await sleep(waitMs, signal);
    }
}

async function followOnce(signal, onPicture) {
    const once = new AbortController();
    const stop = () => once.abort();
    signal.addEventListener('abort', stop);
    let timer = setTimeout(stop, silentMs);
    try {
        const query = model ? `?model=${encodeURIComponent(model.id)}` : '';
        const response = await request(`/engine/live${query}`, { signal: once.signal });
        for await (const data of events(response)) {
            clearTimeout(timer);
            timer = setTimeout(stop, silentMs);
            onPicture();
            take(JSON.parse(data));
            linkShow('live', live.phase === 'ready' ? 'Live' : `Live, ${live.phase}`);
        }
    } finally {
        clearTimeout(timer);
        signal.removeEventListener('abort', stop);
    }
}

// What was drawn is another engine's.
function forget() {
    live = null;
    rates.length = 0;
    ratesReset();
    lanesReset();
}

// A clock that goes back is another server.
function take(picture) {
    if (live && picture.time_ms < live.time_ms) forget();
    live = picture;
    lanesTake(picture);
    now = ratesTake(picture);
    rates.push(now.age_ms ? 0 : now.rate);
    if (rates.length > slots) rates.shift();
    redraw();
}

// While nothing is written, the last figures stay, dimmed and with their age.
function dialsDraw() {
    const { rate, share, age_ms } = now;
    const { measured } = live.bandwidth;
    const age = age_ms && Number.isFinite(rate) ? ago(age_ms / 1000) : '';
    byId('dials').classList.toggle('idle', age_ms > 0);
    byId('rate').textContent = number(rate < 10 ? rate : Math.round(rate));
    byId('rate-age').textContent = age;
    byId('spark-top').textContent = `scale ${number(sparkDraw(byId('spark'), rates, slots))}`;
    arcDraw(byId('arc'), share);
    byId('share').textContent = measured > 0 ? percent(share) : '–';
    byId('bandwidth').textContent =
        measured > 0
            ? `${Number.isFinite(share) ? `${bytes(share * measured)}/s of ` : ''}` +
              `${bytes(measured)}/s${age ? `, ${age}` : ' measured'}`
            : 'the machine’s was not measured';
}

function redraw() {
    if (!live || !seen()) return;
    byId('facts').textContent = [
        live.model,
        `context ${count(live.n_ctx)}`,
        `KV ${live.kv_type}`,
        `${count(live.output_tokens)} tokens written`,
        ...(live.draft_tokens
            ? [`${percent(live.accepted_tokens / live.draft_tokens)} of drafts accepted`]
            : []),
    ].join(' · ');
    dialsDraw();
    for (const [id, , text] of tileRows) tiles.get(id).textContent = text(live);
    roofDraw(live);
    secondDraw(live.causes_ms);
    pagesDraw(live);
    lanesDraw();
    for (const name of ['ttft', 'itl']) {
        const data = eachAlone(live[name]);
        const text = histogramText(data);
        byId(`${name}-sum`).textContent = text;
        byId(name).setAttribute('aria-label', text);
        histogramDraw(byId(name), data);
    }
}
