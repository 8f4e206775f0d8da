// Small drawings that the engine pane is made of, and their colours. Stream colours and gap colours
// are told apart by people who do not see all colours; every figure stands beside them as text too.
import { count, seconds, svg } from './ui.js';

const palette = [
    '#0072b2',
    '#e69f00',
    '#009e73',
    '#cc79a7',
    '#56b4e9',
    '#d55e00',
    '#8c6bb1',
    '#a6761d',
];

// Stable for a stream's number, so a stream has one colour in the map and on its lane.
export const streamColour = (n) => palette[(n - 1 + palette.length) % palette.length];

// The causes of gaps; the later wins where several fall on one pixel. Height: a second way to see
// it.
export const causes = [
    { name: 'weights', text: 'weights', colour: '#7fa8a8', height: 3 },
    { name: 'kv', text: 'its KV cache', colour: '#56b4e9', height: 3 },
    { name: 'streams', text: 'other streams', colour: '#0072b2', height: 3 },
    { name: 'choice', text: 'choosing', colour: '#009e73', height: 6 },
    { name: 'drafts', text: 'refused drafts', colour: '#a6761d', height: 6 },
    { name: 'own_prompt', text: 'its prompt', colour: '#f0c05a', height: 6 },
    { name: 'prompts', text: 'prompts of others', colour: '#e69f00', height: 6 },
    { name: 'host', text: 'the host', colour: '#8b8fd6', height: 6 },
    { name: 'slower', text: 'a slower machine', colour: '#8c6bb1', height: 6 },
    { name: 'queue', text: 'the queue', colour: '#999999', height: 9 },
    { name: 'store', text: 'stored pages', colour: '#44aa99', height: 9 },
    { name: 'pages', text: 'pages', colour: '#b04a2f', height: 9 },
    { name: 'reader', text: 'its reader', colour: '#cc79a7', height: 9 },
    { name: 'preempted', text: 'preempted', colour: '#d55e00', height: 9 },
];
export const causeIndex = (name) => causes.findIndex((cause) => cause.name === name);

let style = null;
document.addEventListener('theme', () => {
    style = null;
});
export function themeColour(name) {
    style ??= getComputedStyle(document.documentElement);
    return style.getPropertyValue(name).trim();
}

// A canvas at the screen's resolution, cleared: {ctx, width, height} in CSS pixels.
export function surface(canvas, height) {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const pixels = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== pixels[0] || canvas.height !== pixels[1]) {
        [canvas.width, canvas.height] = pixels;
        canvas.style.height = `${height}px`;
    }
    const ctx = canvas.getContext('2d');
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    return { ctx, width, height };
}

// --- the sparkline: values, the last one now; width and height of its view box ---

export function sparkDraw(node, values, slots) {
    const [, , width, height] = node.getAttribute('viewBox').split(' ').map(Number);
    const top = niceAbove(Math.max(1, ...values));
    const x = (i) => (width * (slots - values.length + i)) / (slots - 1);
    const y = (value) => height - 2 - (value / top) * (height - 4);
    const line = values
        .map((value, i) => `${i ? 'L' : 'M'}${x(i).toFixed(1)} ${y(value).toFixed(1)}`)
        .join('');
    node.querySelector('.line').setAttribute('d', line);
    node.querySelector('.area').setAttribute(
        'd',
        line ? `${line}L${width} ${height}L${x(0).toFixed(1)} ${height}Z` : '',
    );
    return top;
}

// 1, 2 or 5 times a power of ten.
function niceAbove(value) {
    const power = 10 ** Math.floor(Math.log10(value));
    return power * [1, 2, 5, 10].find((step) => step * power >= value * 0.999);
}

// --- the gauge ---

export function arcInit(node) {
    const d = 'M18 104A82 82 0 0 1 182 104';
    for (const name of ['track', 'value']) {
        node.querySelector(`.${name}`).setAttribute('d', d);
        node.querySelector(`.${name}`).setAttribute('pathLength', '100');
    }
    for (let i = 0; i <= 20; i++) {
        const angle = Math.PI * (1 - i / 20);
        const from = 91;
        const to = i % 5 ? 94 : 98;
        const at = (r) => [100 + r * Math.cos(angle), 104 - r * Math.sin(angle)];
        const [x1, y1] = at(from);
        const [x2, y2] = at(to);
        node.querySelector('.scale').append(svg('line', { x1, y1, x2, y2 }));
    }
    arcDraw(node, 0);
}

export function arcDraw(node, share) {
    const part = Math.min(1, Math.max(0, share || 0)) * 100;
    node.querySelector('.value').setAttribute('stroke-dasharray', `${part.toFixed(2)} 200`);
    node.querySelector('.value').classList.toggle('none', part < 0.2);
}

// --- histograms: {le: [bounds in seconds], count: [one more than bounds]} ---

// The server's buckets are cumulative, as in Prometheus; the drawing shows each bucket alone.
export const eachAlone = ({ le, count }) => ({
    le,
    count: count.map((n, i) => n - (i ? count[i - 1] : 0)),
});

// Within a bucket values are taken as evenly spread; beyond the last bound the bound itself. NaN:
// none.
export function quantile({ le, count }, share) {
    const total = count.reduce((sum, n) => sum + n, 0);
    if (!total) return NaN;
    let below = 0;
    for (let i = 0; i < count.length; i++) {
        if (below + count[i] >= share * total && count[i] > 0) {
            if (i >= le.length) return le.at(-1);
            const from = i ? le[i - 1] : 0;
            return from + ((le[i] - from) * (share * total - below)) / count[i];
        }
        below += count[i];
    }
    return NaN;
}

export function histogramDraw(canvas, data) {
    const { ctx, width, height } = surface(canvas, 84);
    const base = height - 16;
    ctx.fillStyle = themeColour('--line');
    ctx.fillRect(0, base, width, 1);
    const used = data.count.map((n, i) => (n ? i : -1)).filter((i) => i >= 0);
    if (!used.length) return;
    const { first, last } = range(used[0], used.at(-1), data.count.length);
    const step = width / (last - first + 1);
    const most = Math.max(...data.count);
    ctx.fillStyle = themeColour('--accent');
    for (let i = first; i <= last; i++) {
        const tall = data.count[i] ? Math.max(1.5, (data.count[i] / most) * (base - 6)) : 0;
        ctx.fillRect((i - first) * step + 1, base - tall, Math.max(1, step - 2), tall);
    }
    marks(ctx, data, first, step, base);
    ends(ctx, data, first, last, width, height);
}

// At least eight buckets, so that one value is no wall.
function range(first, last, n) {
    first = Math.max(0, first - 1);
    last = Math.min(n - 1, last + 1);
    while (last - first < 7 && (first > 0 || last < n - 1)) {
        if (last < n - 1) last += 1;
        if (last - first < 7 && first > 0) first -= 1;
    }
    return { first, last };
}

function marks(ctx, data, first, step, base) {
    ctx.strokeStyle = themeColour('--ink');
    ctx.lineWidth = 1;
    for (const [share, dash] of [
        [0.5, []],
        [0.95, [3, 3]],
    ]) {
        const value = quantile(data, share);
        let i = data.le.findIndex((bound) => value <= bound);
        if (i < 0) i = data.le.length;
        const from = i ? data.le[i - 1] : 0;
        const part = i < data.le.length ? (value - from) / (data.le[i] - from) : 0;
        const x = Math.round((i - first + part) * step) + 0.5;
        ctx.setLineDash(dash);
        ctx.beginPath();
        ctx.moveTo(x, 0);
        ctx.lineTo(x, base);
        ctx.stroke();
    }
    ctx.setLineDash([]);
}

function ends(ctx, data, first, last, width, height) {
    ctx.fillStyle = themeColour('--muted');
    ctx.font = `11px ${themeColour('--sans')}`;
    ctx.textBaseline = 'bottom';
    ctx.textAlign = 'left';
    ctx.fillText(first ? seconds(data.le[first - 1]) : '0', 0, height);
    ctx.textAlign = 'right';
    ctx.fillText(
        last < data.le.length ? seconds(data.le[last]) : `over ${seconds(data.le.at(-1))}`,
        width,
        height,
    );
}

export function histogramText(data) {
    const total = data.count.reduce((sum, n) => sum + n, 0);
    if (!total) return 'none yet';
    const [middle, high] = [0.5, 0.95].map((share) => seconds(quantile(data, share)));
    return `p50 ${middle}, p95 ${high}, of ${count(total)}`;
}
