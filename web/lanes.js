// One lane per stream: its tokens of the last 2 to 20 seconds as ticks, and under them what the
// time between two of them was spent on. A stream that ended stays until its tokens have left the
// lane. The list has one tab stop: up and down move between streams, left and right along the time.
import { causeIndex, causes, streamColour, surface, themeColour } from './charts.js';
import { explainOpen } from './explain.js';
import { amount, byId, count, h, seconds } from './ui.js';

const keptMs = 20000; // tokens are remembered for so long
const spans = [2, 5, 20]; // seconds that a lane can show
const lanesMax = 16;
const lanes = new Map(); // stream number -> lane
let spanMs = 20000;
let now = 0; // the server's clock
let active = 0; // streams that have not ended
let cursor = null; // {n, ago_ms}: the token that is read out
let pressed = null; // the lane under the pointer when it was pressed

export function lanesInit() {
    const list = byId('lanes');
    list.addEventListener('keydown', keys);
    // The list moves while a button is held down, and a browser then makes no click of it.
    list.addEventListener('pointerdown', (event) => {
        pressed = event.button ? null : event.target.closest('li');
    });
    list.addEventListener('pointerup', () => {
        explain(pressed);
        pressed = null;
    });
    list.addEventListener('pointercancel', () => (pressed = null)); // it scrolls
    list.addEventListener('click', (event) => {
        if (!event.detail) explain(event.target.closest('li')); // without a pointer
    });
    list.addEventListener('focusin', (event) => point(event.target.dataset.n, cursor?.ago_ms ?? 0));
    list.addEventListener('focusout', () => point(null));
    list.addEventListener('pointermove', (event) => {
        const canvas = event.target.closest('canvas');
        if (!canvas) return;
        const box = canvas.getBoundingClientRect();
        point(
            canvas.closest('li').dataset.n,
            spanMs * (1 - (event.clientX - box.left) / box.width),
        );
    });
    list.addEventListener('pointerleave', () => point(null));
    byId('spans').append(...spans.map(spanChoice));
    spanSet(spanMs);
    byId('gap-legend').append(
        h('li', {}, h('span', { class: 'swatch token' }), 'a token'),
        ...causes.map((cause) => {
            const swatch = h('span', { class: 'swatch gap' });
            swatch.style.background = cause.colour;
            swatch.style.height = `${cause.height}px`;
            return h('li', {}, swatch, cause.text);
        }),
    );
}

function spanChoice(span) {
    const input = h('input', {
        type: 'radio',
        name: 'span',
        checked: span * 1000 === spanMs,
        onchange: () => spanSet(span * 1000),
    });
    return h('label', {}, input, h('span', {}, `${span} s`));
}

function spanSet(ms) {
    spanMs = ms;
    const [from, middle] = byId('axis').children;
    from.textContent = `${ms / 1000} s ago`;
    middle.textContent = `${ms / 2000} s`;
    lanesDraw();
}

export function lanesReset() {
    for (const lane of lanes.values()) lane.node.remove();
    lanes.clear();
}

// A picture brings the tokens since the one before, so it is taken once; drawing may come more
// often.
export function lanesTake(live) {
    now = live.time_ms;
    active = live.streams.filter((stream) => stream.state !== 'done').length;
    for (const stream of live.streams) update(stream);
    const seen = new Set(live.streams.map((stream) => stream.n));
    for (const [n, lane] of lanes) {
        if (!seen.has(n)) lane.state = 'done';
        prune(lane);
        if (lane.state !== 'done' || lane.head < lane.times.length) continue;
        lane.node.remove();
        lanes.delete(n);
    }
}

export function lanesDraw() {
    const shown = choose();
    arrange(shown);
    const left = lanes.size - shown.length;
    const more = left ? `; ${count(left)} of the last 20 seconds are not shown` : '';
    byId('streams-sum').textContent = lanes.size
        ? `${amount(active, 'stream')} now${more}`
        : 'none in the last 20 seconds';
    byId('axis').hidden = !lanes.size;
    shown.forEach(paint);
    read();
}

function update(stream) {
    let lane = lanes.get(stream.n);
    if (!lane) {
        lane = create(stream.n);
        lanes.set(stream.n, lane);
    }
    lane.state = stream.state;
    for (const [time, cause] of stream.tokens) {
        lane.times.push(time);
        lane.causes.push(causeIndex(cause));
    }
    lane.request = stream.request;
    lane.pages = stream.pages;
    lane.drafts = stream.drafted
        ? `, ${count(stream.accepted)} of ${count(stream.drafted)} drafted tokens accepted`
        : '';
    lane.what.textContent = stream.state;
    lane.made.textContent =
        stream.state === 'prompt'
            ? `${count(stream.done)}/${count(stream.prompt)}`
            : amount(stream.output, 'token');
    // a stream of another key has no id
    lane.node.title =
        `${stream.id ? `${stream.id}, ` : ''}request ${stream.request}, choice ${stream.choice}: ` +
        `${amount(stream.prompt, 'prompt token')}, ${count(stream.cached)} of them cached` +
        lane.drafts;
    lane.node.classList.toggle('done', stream.state === 'done');
}

function create(n) {
    const chip = h('span', { class: 'chip' }, String(n));
    chip.style.background = streamColour(n);
    const what = h('span', { class: 'what' });
    const made = h('span', { class: 'made' });
    const canvas = h('canvas', { class: 'lane', 'aria-hidden': 'true' });
    return {
        n,
        node: h('li', { tabindex: '-1', 'data-n': String(n) }, chip, what, made, canvas),
        what,
        made,
        canvas,
        request: 0,
        pages: 0,
        drafts: '',
        times: [],
        causes: [],
        head: 0,
        state: 'waiting',
    };
}

// Tokens older than the span are skipped (head), and dropped in large pieces.
function prune(lane) {
    while (lane.head < lane.times.length && lane.times[lane.head] < now - keptMs) lane.head += 1;
    if (lane.head < 4096) return;
    lane.times.splice(0, lane.head);
    lane.causes.splice(0, lane.head);
    lane.head = 0;
}

// The latest on top; where there are too many, ended streams are left out first.
function choose() {
    const all = [...lanes.values()];
    if (all.length > lanesMax) {
        all.sort((a, b) => (a.state === 'done') - (b.state === 'done') || b.n - a.n);
        all.length = lanesMax;
    }
    return all.sort((a, b) => b.n - a.n);
}

function arrange(shown) {
    const list = byId('lanes');
    const keep = new Set(shown.map((lane) => lane.node));
    for (const node of [...list.children]) if (!keep.has(node)) node.remove();
    shown.forEach((lane, i) => {
        if (list.children[i] !== lane.node) list.insertBefore(lane.node, list.children[i] ?? null);
    });
    if (!list.querySelector('[tabindex="0"]') && shown.length) shown[0].node.tabIndex = 0;
}

// --- drawing: per column of pixels the tokens in it and the worst cause of a gap ---

function paint(lane) {
    const { ctx, width, height } = surface(lane.canvas, 22);
    const columns = Math.max(1, Math.floor(width));
    const tokens = new Uint16Array(columns);
    const worst = new Int8Array(columns).fill(-1);
    const column = (time) =>
        Math.min(columns - 1, Math.max(0, Math.floor(columns * (1 - (now - time) / spanMs))));
    for (let i = firstSince(lane, now - spanMs); i < lane.times.length; i++) {
        if (lane.times[i] > now) break; // came while the picture was taken: the next one's
        const x = column(lane.times[i]);
        tokens[x] += 1;
        if (lane.causes[i] < 0 || i === 0) continue; // the first has no gap before it
        for (let at = column(lane.times[i - 1]); at <= x; at++)
            worst[at] = Math.max(worst[at], lane.causes[i]);
    }
    ctx.fillStyle = themeColour('--line');
    ctx.fillRect(0, height - 1, width, 1);
    for (let x = 0; x < columns; x++) {
        if (worst[x] < 0) continue;
        ctx.fillStyle = causes[worst[x]].colour;
        ctx.fillRect(x, height - 1 - causes[worst[x]].height, 1, causes[worst[x]].height);
    }
    paintTicks(ctx, lane, tokens);
    if (cursor?.n === lane.n) {
        ctx.fillStyle = themeColour('--ink');
        ctx.fillRect(Math.round(columns * (1 - cursor.ago_ms / spanMs)) - 0.5, 0, 1, height);
    }
}

// The first token that is not before a time.
function firstSince(lane, time) {
    let [low, high] = [lane.head, lane.times.length];
    while (low < high) {
        const middle = (low + high) >> 1;
        if (lane.times[middle] < time) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Ticks that fall on one pixel make it taller, so a dense row shows its rate.
function paintTicks(ctx, lane, tokens) {
    const most = Math.max(4, ...tokens);
    ctx.fillStyle = streamColour(lane.n);
    for (let x = 0; x < tokens.length; x++) {
        if (!tokens[x]) continue;
        const tall = 4 + 7 * ((tokens[x] - 1) / (most - 1));
        ctx.fillRect(x, 11 - tall, 1, tall);
    }
}

// --- reading ---

function explain(node) {
    const lane = lanes.get(Number(node?.dataset.n));
    if (lane) explainOpen(lane.request);
}

function keys(event) {
    const node = event.target.closest('li');
    if (!node) return;
    const next = { ArrowDown: node.nextElementSibling, ArrowUp: node.previousElementSibling }[
        event.key
    ];
    const step = { ArrowLeft: spanMs / 200, ArrowRight: -spanMs / 200 }[event.key];
    if (step) {
        point(
            node.dataset.n,
            Math.min(spanMs, Math.max(0, (cursor?.ago_ms ?? 0) + step * (event.shiftKey ? 10 : 1))),
        );
        byId('said').textContent = byId('lane-read').textContent;
    } else if (event.key === 'Enter' || event.key === ' ') {
        explain(node);
    } else if (next) {
        node.tabIndex = -1;
        next.tabIndex = 0;
        next.focus();
    } else {
        return;
    }
    event.preventDefault();
}

function point(n, ago_ms) {
    const before = cursor?.n;
    cursor = n ? { n: Number(n), ago_ms } : null;
    for (const lane of lanes.values())
        if (lane.n === before || lane.n === cursor?.n) if (lane.node.isConnected) paint(lane);
    read();
}

function read() {
    const lane = lanes.get(cursor?.n);
    byId('lane-read').textContent = lane ? describe(lane, now - cursor.ago_ms) : '';
}

// The token nearest to a time, and the gap before it.
function describe(lane, time) {
    let best = -1;
    for (let i = lane.head; i < lane.times.length; i++) {
        if (best < 0 || Math.abs(lane.times[i] - time) < Math.abs(lane.times[best] - time))
            best = i;
    }
    if (best < 0) return `Stream ${lane.n}: no token in the last 20 seconds`;
    const ago = seconds(Math.max(0, now - lane.times[best]) / 1000);
    const cause = causes[lane.causes[best]];
    if (!cause || best === 0) return `Stream ${lane.n}, ${ago} ago: its first token`;
    const gap = seconds((lane.times[best] - lane.times[best - 1]) / 1000);
    const what = `${gap} since the token before, ${cause.text}`;
    return `Stream ${lane.n}, ${ago} ago: ${what}; ${amount(lane.pages, 'page')}${lane.drafts}`;
}
