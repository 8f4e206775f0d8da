// Two maps of the engine's memory: KV pages, and the states of recurrent layers. A cell is a page
// (or several, the scale), in the order of page ids. Held ones have their stream's colour, pages
// that several sequences hold are hatched, cached ones are dim. States are round, and a model
// without recurrent layers has no map of them.
import { streamColour, surface, themeColour } from './charts.js';
import { amount, byId, bytes, count, h } from './ui.js';

const free = 0;
const held = 1;

const pageMap = createMap('map', 'Page');
const stateMap = createMap('states', 'State');

export function pagesInit() {
    pageMap.init([
        ['held', 'held, one colour per stream'],
        ['shared', 'shared'],
        ['cached', 'cached for later'],
        ['free', 'free'],
    ]);
    stateMap.init([
        ['held round', 'held, one colour per stream'],
        ['cached round', 'cached for later'],
        ['free round', 'free'],
    ]);
}

export function pagesDraw(live) {
    const { kv } = live;
    const { states } = kv;
    // states take the memory of pages
    const stateShare = (states.bytes_held + states.bytes_cached) / (kv.bytes_total || 1);
    const room = Math.floor(kv.total * (1 - stateShare));
    const unused = Math.max(0, room - kv.held - kv.cached);
    byId('kv-sum').textContent =
        `${count(kv.held)} held, ${count(kv.shared)} shared, ${count(kv.cached)} cached, ` +
        `${count(unused)} free of ${amount(kv.total, 'page')} of ` +
        `${amount(kv.page_tokens, 'token')}; ${states.total ? 'with states ' : ''}` +
        `${bytes(kv.bytes_held)} of ${bytes(kv.bytes_total)}`;
    pageMap.draw(
        live.pages,
        live.page_scale,
        `Map of ${count(kv.total)} KV pages: ${count(kv.held)} held, ${count(kv.cached)} cached`,
    );
    byId('states-block').hidden = !states.total;
    if (!states.total) return;
    byId('states-sum').textContent =
        `${count(states.held)} held, ${bytes(states.bytes_held)}; ` +
        `${count(states.cached)} cached, ${bytes(states.bytes_cached)}. ` +
        `A sequence has ${bytes(states.bytes_sequence)}, whatever its length`;
    stateMap.draw(
        used(live.states),
        live.state_scale,
        `Map of states: ${count(states.held)} held, ${count(states.cached)} cached`,
    );
}

// Without the free ones at the end: their memory may become KV pages.
function used(runs) {
    let n = runs.length;
    while (n && runs[n - 1][0] === free) n -= 1;
    return runs.slice(0, n);
}

// Cells as large as fit a map that is no taller than about a quarter of its width.
function layout(width, cells) {
    const tallest = Math.min(150, width * 0.3);
    let cell = Math.max(
        3,
        Math.min(16, Math.floor(Math.sqrt((width * tallest) / Math.max(1, cells)))),
    );
    while (cell > 3 && Math.ceil(cells / Math.floor(width / cell)) * cell > tallest) cell -= 1;
    const columns = Math.max(1, Math.floor(width / cell));
    cell = width / columns; // no ragged edge
    return { cell, columns, height: Math.ceil(Math.max(1, Math.ceil(cells / columns)) * cell) };
}

function createMap(id, noun) {
    const isRound = noun === 'State';
    let picture = null; // {runs, cells, scale}
    let grid = null; // {cell, columns}
    let cursor = -1; // the cell that is read out; -1: none

    function init(kinds) {
        const map = byId(id);
        map.addEventListener('pointermove', (event) => point(cellAt(event)));
        map.addEventListener('pointerleave', () => point(-1));
        map.addEventListener('blur', () => point(-1));
        map.addEventListener('keydown', (event) => {
            const steps = {
                ArrowRight: 1,
                ArrowLeft: -1,
                ArrowDown: grid?.columns,
                ArrowUp: -grid?.columns,
            };
            if (!steps[event.key] || !picture) return;
            event.preventDefault();
            point(Math.min(picture.cells - 1, Math.max(0, cursor + steps[event.key])));
            byId('said').textContent = byId(`${id}-read`).textContent;
        });
        byId(`${id}-legend`).append(
            ...kinds.map(([kind, text]) => h('li', {}, h('span', { class: `swatch ${kind}` }), text)),
        );
    }

    function draw(runs, scale, label) {
        const cells = runs.reduce((sum, run) => sum + run[3], 0);
        picture = { runs, cells, scale: scale || 1 };
        byId(id).setAttribute('aria-label', label);
        paint();
        read();
    }

    function paint() {
        const map = byId(id);
        grid = layout(map.clientWidth, picture.cells);
        const { ctx } = surface(map, grid.height);
        const colours = {
            free: themeColour('--line'),
            none: themeColour('--muted'),
            light: themeColour('--panel'),
            ink: themeColour('--ink'),
        };
        let at = 0;
        for (const [state, owner, holders, n] of picture.runs) {
            for (const end = at + n; at < end; at++)
                paintCell(ctx, at, { state, owner, holders }, colours);
        }
        if (cursor >= 0) {
            const [x, y] = place(cursor);
            ctx.strokeStyle = colours.ink;
            ctx.lineWidth = 1.5;
            ctx.strokeRect(x - 0.5, y - 0.5, grid.cell, grid.cell);
        }
    }

    // On whole pixels, so that edges are sharp.
    const place = (i) => [
        Math.round((i % grid.columns) * grid.cell),
        Math.round(Math.floor(i / grid.columns) * grid.cell),
    ];

    function outline(ctx, x, y, size) {
        ctx.beginPath();
        if (isRound) ctx.arc(x + size / 2, y + size / 2, size / 2, 0, 2 * Math.PI);
        else ctx.rect(x, y, size, size);
    }

    function paintCell(ctx, i, page, colours) {
        const [x, y] = place(i);
        const size = Math.floor(grid.cell) - (grid.cell > 6 ? 2 : 1);
        if (page.state === free) {
            ctx.strokeStyle = colours.free;
            ctx.lineWidth = 1;
            outline(ctx, x + 0.5, y + 0.5, size - 1);
            ctx.stroke();
            return;
        }
        ctx.globalAlpha = page.state === held ? 1 : 0.34;
        ctx.fillStyle = page.owner ? streamColour(page.owner) : colours.none;
        outline(ctx, x, y, size);
        ctx.fill();
        ctx.globalAlpha = 1;
        if (page.state !== held || page.holders < 2) return;
        ctx.save();
        outline(ctx, x, y, size);
        ctx.clip();
        ctx.strokeStyle = colours.light;
        ctx.lineWidth = Math.max(1, size / 7);
        ctx.beginPath();
        for (const shift of size > 7 ? [-size / 2, size / 2] : [0]) {
            ctx.moveTo(x + shift, y + size);
            ctx.lineTo(x + shift + size, y);
        }
        ctx.stroke();
        ctx.restore();
    }

    // --- reading a cell ---

    function cellAt(event) {
        if (!grid || !picture) return -1;
        const box = byId(id).getBoundingClientRect();
        const column = Math.floor((event.clientX - box.left) / grid.cell);
        const i = Math.floor((event.clientY - box.top) / grid.cell) * grid.columns + column;
        return column >= 0 && column < grid.columns && i >= 0 && i < picture.cells ? i : -1;
    }

    function point(i) {
        if (i === cursor) return;
        cursor = i;
        if (!picture) return;
        paint();
        read();
    }

    function read() {
        let text = '';
        let at = 0;
        for (const [state, owner, holders, n] of picture.runs) {
            if (cursor >= at && cursor < at + n) text = describe(state, owner, holders);
            at += n;
        }
        byId(`${id}-read`).textContent = text;
    }

    function describe(state, owner, holders) {
        const first = cursor * picture.scale;
        const which =
            picture.scale > 1
                ? `${noun}s ${count(first)} to ${count(first + picture.scale - 1)}, the fullest`
                : `${noun} ${count(first)}`;
        if (state === free) return `${which}: free`;
        if (state === held) {
            const others = holders > 1 ? ` and ${amount(holders - 1, 'other')}` : '';
            return `${which}: held by ${owner ? `stream ${owner}` : 'a stream'}${others}`;
        }
        return `${which}: cached for later${owner ? `, last of stream ${owner}` : ''}`;
    }

    return { init, draw };
}
