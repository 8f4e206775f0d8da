// Markdown into nodes, for text that a stranger's model wrote. Nodes are made by createElement and
// text nodes, never from HTML, and raw HTML stays text. Links are http(s) only. Images become
// links, because the page asks no other server for anything. Time is about linear in the text, for
// any text.
//
// renderMarkdown(container, text) keeps the nodes of blocks that have not changed, so a text that
// grows costs its last block, and a selection in what is above survives.
import { highlight } from './code.js';
import { mathNode } from './math.js';
import { copyText, h, iconButton } from './ui.js';

const depthMax = 12;
const formulaMax = 2000; // characters in which a formula must end
const formulaLines = 60;
const sources = new WeakMap(); // a block's node -> the text that it shows

export function renderMarkdown(container, text) {
    const blocks = split(text);
    blocks.forEach((block, i) => {
        const old = container.children[i];
        if (old && sources.get(old) === block.source) return;
        const node = build(block, 0);
        sources.set(node, block.source);
        if (old) old.replaceWith(node);
        else container.append(node);
    });
    while (container.children.length > blocks.length) container.lastElementChild.remove();
}

// --- blocks ---

const fenceRe = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const headingRe = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const ruleRe = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const itemRe = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( {1,4})(?! )|( )|$)/;
const quoteRe = /^ {0,3}>/;
const dividerRe = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const formulaRe =
    /^ {0,3}(\\\[|\$\$|\\begin\{(?:align|gather|equation|cases|[bpv]?matrix)(?:ed|\*)?\})/;
const blank = (line) => line === undefined || /^[ \t]*$/.test(line);

function split(text) {
    const lines = text.replaceAll('\r\n', '\n').replaceAll('\t', '    ').split('\n');
    const blocks = [];
    for (let at = 0; at < lines.length;) {
        if (blank(lines[at])) {
            at += 1;
            continue;
        }
        const [kind, end] = extent(lines, at);
        const part = lines.slice(at, end);
        blocks.push({ kind, lines: part, source: `${kind}\n${part.join('\n')}` });
        at = end;
    }
    return blocks;
}

// The kind of the block that begins at a line, and the line after its last.
function extent(lines, at) {
    const line = lines[at];
    if (fenceRe.test(line)) return ['fence', fenceEnd(lines, at)];
    if (headingRe.test(line)) return ['heading', at + 1];
    if (ruleRe.test(line)) return ['rule', at + 1];
    if (formulaRe.test(line)) {
        const end = formulaEnd(lines, at);
        if (end) return ['formula', end];
    }
    if (quoteRe.test(line)) return ['quote', runEnd(lines, at, (next) => quoteRe.test(next))];
    if (itemRe.test(line)) return ['list', listEnd(lines, at)];
    if (tableAt(lines, at))
        return ['table', runEnd(lines, at + 2, (next) => !blank(next) && next.includes('|'))];
    return ['paragraph', paragraphEnd(lines, at)];
}

function runEnd(lines, at, goesOn) {
    while (at < lines.length && goesOn(lines[at])) at += 1;
    return at;
}

function fenceEnd(lines, at) {
    const mark = fenceRe.exec(lines[at])[1];
    for (let end = at + 1; end < lines.length; end++) {
        const close = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(lines[end])?.[1];
        if (close && close[0] === mark[0] && close.length >= mark.length) return end + 1;
    }
    return lines.length; // still being written
}

// The line after a displayed formula that has its lines for itself; 0: there is none. A formula
// that is still being written ends with the text.
function formulaEnd(lines, at) {
    const first = lines[at].trim();
    const open = formulaRe.exec(lines[at])[1];
    const close = closeOf(open);
    const most = Math.min(lines.length, at + formulaLines);
    for (let end = at; end < most; end++) {
        const line = end === at ? first.slice(open.length) : lines[end];
        const found = line.indexOf(close);
        if (found >= 0)
            return blank(line.slice(found + close.length).replace(/^[.,;]/, '')) ? end + 1 : 0;
        if (blank(lines[end])) return 0;
    }
    return most === lines.length && first.length === open.length ? most : 0;
}

// What ends a formula that begins with `open`.
const closeOf = (open) =>
    ({ '\\(': '\\)', '\\[': '\\]' })[open] ?? open.replace('\\begin', '\\end');

function listEnd(lines, at) {
    const ordered = /^ *\d/.test(lines[at]);
    let end = at + 1;
    while (end < lines.length) {
        const line = lines[end];
        if (blank(line)) {
            const next = runEnd(lines, end, blank);
            if (
                next < lines.length &&
                (/^ {2}/.test(lines[next]) || sameList(lines[next], ordered))
            )
                end = next;
            else return end;
        } else if (
            /^ {2}/.test(line) ||
            sameList(line, ordered) ||
            (!startsBlock(lines, end) && !blank(lines[end - 1]))
        ) {
            end += 1;
        } else {
            return end;
        }
    }
    return end;
}

const sameList = (line, ordered) =>
    itemRe.test(line) && !ruleRe.test(line) && /^ *\d/.test(line) === ordered;

function startsBlock(lines, at) {
    const line = lines[at];
    return (
        fenceRe.test(line) ||
        headingRe.test(line) ||
        ruleRe.test(line) ||
        quoteRe.test(line) ||
        itemRe.test(line) ||
        (formulaRe.test(line) && formulaEnd(lines, at) > 0) ||
        tableAt(lines, at)
    );
}

const tableAt = (lines, at) =>
    lines[at].includes('|') &&
    at + 1 < lines.length &&
    lines[at + 1].includes('-') &&
    dividerRe.test(lines[at + 1]) &&
    cells(lines[at]).length === cells(lines[at + 1]).length;

function paragraphEnd(lines, at) {
    let end = at + 1;
    while (end < lines.length && !blank(lines[end]) && !startsBlock(lines, end)) end += 1;
    return end;
}

const builders = {
    fence: buildFence,
    heading: ({ lines }) => {
        const [, marks, text] = headingRe.exec(lines[0]);
        return h(`h${Math.min(6, marks.length + 2)}`, {}, inline((text ?? '').trimEnd()));
    },
    rule: () => h('hr'),
    quote: ({ lines }, depth) =>
        h(
            'blockquote',
            {},
            children(
                lines.map((line) => line.replace(/^ {0,3}> ?/, '')),
                depth,
            ),
        ),
    list: buildList,
    table: buildTable,
    formula: buildFormula,
    paragraph: ({ lines }) => h('p', {}, inlineLines(lines)),
};

const build = (block, depth) => builders[depth < depthMax ? block.kind : 'paragraph'](block, depth);
const children = (lines, depth) => split(lines.join('\n')).map((block) => build(block, depth + 1));

function buildFence({ lines }) {
    const [, mark, info] = fenceRe.exec(lines[0]);
    const last =
        lines.length > 1 &&
        new RegExp(`^ {0,3}${mark[0]}{${mark.length},}[ ]*$`).test(lines.at(-1));
    const text = lines.slice(1, last ? -1 : undefined).join('\n');
    const copy = iconButton('copy', 'Copy the code', () => copyText(text, copy));
    const language = info.trim().split(/\s/)[0];
    return h(
        'figure',
        { class: 'code' },
        h('figcaption', {}, h('span', {}, language || 'text'), copy),
        h('pre', { tabindex: '0' }, h('code', {}, highlight(text, language))),
    );
}

// As written where it has parts that are not known, or has not ended yet.
function buildFormula({ lines }) {
    const source = lines.join('\n').trim();
    const open = formulaRe.exec(source)[1];
    const found = source.indexOf(closeOf(open), open.length);
    const end = found + closeOf(open).length;
    const [from, to] = open[1] === 'b' ? [0, end] : [open.length, found]; // environments are TeX
    const math = found < 0 ? null : mathNode(source.slice(from, to), true);
    const rest = source.slice(end);
    return math
        ? h('div', { class: 'formula', tabindex: '0' }, math, rest)
        : h('p', {}, asWritten(source));
}

const asWritten = (source) => h('code', { class: 'tex' }, source);

function buildList({ lines }, depth) {
    const ordered = /^ *\d/.test(lines[0]);
    const list = h(
        ordered ? 'ol' : 'ul',
        ordered ? { start: String(parseInt(lines[0].trim(), 10)) } : {},
    );
    let item = null;
    let indent = 0;
    const close = () => item && list.append(buildItem(item, depth));
    for (const line of lines) {
        const match = sameList(line, ordered) ? itemRe.exec(line) : null;
        if (match && (!item || match[1].length < indent)) {
            close();
            indent = match[0].length;
            item = [line.slice(indent)];
        } else {
            const lead = /^ */.exec(line)[0].length;
            item.push(line.slice(Math.min(lead, indent)));
        }
    }
    close();
    return list;
}

// A tight item's only paragraph needs no <p>. [ ] and [x] at its start are boxes.
function buildItem(lines, depth) {
    const task = /^\[([ xX])\] +(?=\S)/.exec(lines[0]);
    if (task) lines = [lines[0].slice(task[0].length), ...lines.slice(1)];
    const nodes = children(lines, depth);
    const first = nodes[0];
    const item = h('li', { class: task ? 'task' : null });
    if (task) item.append(taskBox(task[1] !== ' '));
    if (first?.tagName === 'P') item.append(...first.childNodes, ...nodes.slice(1));
    else item.append(...nodes);
    return item;
}

const taskBox = (checked) =>
    h('input', {
        type: 'checkbox',
        disabled: true,
        checked,
        'aria-label': checked ? 'done' : 'open',
    });

function cells(line) {
    const row = line
        .trim()
        .replace(/^\|/, '')
        .replace(/(^|[^\\])\|$/, '$1');
    return row.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));
}

function buildTable({ lines }) {
    const align = cells(lines[1]).map((cell) =>
        cell.endsWith(':') ? (cell.startsWith(':') ? 'center' : 'right') : null,
    );
    const row = (line, tag) => {
        const texts = cells(line);
        return h(
            'tr',
            {},
            align.map((side, i) => h(tag, { class: side }, inline(texts[i] ?? ''))),
        );
    };
    return h(
        'div',
        { class: 'table', tabindex: '0' },
        h(
            'table',
            {},
            h('thead', {}, row(lines[0], 'th')),
            h(
                'tbody',
                {},
                lines.slice(2).map((line) => row(line, 'td')),
            ),
        ),
    );
}

// --- inside of a block ---

// Two blanks or a backslash at a line's end break it.
function inlineLines(lines) {
    const text = lines.map((line) => line.trimStart()).join('\n');
    return inline(text.trimEnd());
}

export function safeUrl(text) {
    if (!/^https?:\/\//i.test(text)) return null;
    try {
        const url = new URL(text);
        return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
    } catch {
        return null;
    }
}

const link = (url, nodes) =>
    h('a', { href: url, target: '_blank', rel: 'noopener noreferrer nofollow' }, nodes);

function inline(text, inLink = false) {
    return emphasize(tokens(text, inLink));
}

// Strings, finished nodes, and runs of emphasis marks {mark, count, opens, closes}.
function tokens(text, inLink) {
    const out = [];
    const ticks = tickRuns(text);
    let plain = '';
    const flush = () => {
        if (plain) out.push(plain);
        plain = '';
    };
    for (let at = 0; at < text.length;) {
        const found = special(text, at, ticks, inLink);
        if (!found) {
            plain += text[at];
            at += 1;
            continue;
        }
        if (typeof found.token === 'string') plain += found.token;
        else {
            flush();
            out.push(found.token);
        }
        at = found.end;
    }
    flush();
    return out;
}

function special(text, at, ticks, inLink) {
    switch (text[at]) {
        case '$':
            return formula(text, at);
        case '\\':
            return escape(text, at);
        case '`':
            return codeSpan(text, at, ticks);
        case '*':
        case '_':
        case '~':
            return markRun(text, at);
        case '!':
            return text[at + 1] === '[' && !inLink ? bracketLink(text, at + 1) : null;
        case '[':
            return inLink ? null : bracketLink(text, at);
        case '<':
            return inLink ? null : angleLink(text, at);
        case 'h':
        case 'H':
            return inLink ? null : bareLink(text, at);
        case ' ':
            return /^ {2,}\n/.test(text.slice(at, at + 40))
                ? { token: h('br'), end: text.indexOf('\n', at) + 1 }
                : null;
        default:
            return null;
    }
}

// \( ... \), \[ ... \], $$ ... $$ and $ ... $ hold formulas. A formula with parts that are not known
// stays as it was written: neither its backslashes nor its stars are markup. Brackets and dollars
// without the signs of a formula are text.
const formulaSigns = /[\\^_={}+<>]/;

function formula(text, at) {
    const open = text[at] === '$' && text[at + 1] !== '$' ? '$' : text.slice(at, at + 2);
    const close = closeOf(open);
    const start = at + open.length;
    const area = text.slice(start, start + formulaMax);
    const length = area.indexOf(close);
    const inside = area.slice(0, length);
    if (length <= 0) return null;
    const end = start + length + close.length;
    if (open === '$' ? !isDollars(inside, text[at - 1], text[end]) : !isFormula(open, inside))
        return null;
    const math = mathNode(inside, open === '\\[' || open === '$$');
    return { token: math ?? asWritten(text.slice(at, end)), end };
}

const isFormula = (open, inside) => open === '\\(' || formulaSigns.test(inside);

// A sum of money is no formula: the dollars stand close to what they enclose, which is one letter
// or number or has a formula's signs.
const isDollars = (inside, before, after) =>
    !/^\s|\s$|\n/.test(inside) &&
    !/[\p{L}\p{N}\\$]/u.test(before ?? ' ') &&
    !/[\p{L}\p{N}$]/u.test(after ?? ' ') &&
    (formulaSigns.test(inside) || /^\p{L}$/u.test(inside) || /^-?\d+(\.\d+)?$/.test(inside));

function escape(text, at) {
    const next = text[at + 1];
    const found = next === '(' || next === '[' ? formula(text, at) : null;
    if (found) return found;
    if (next === '\n') return { token: h('br'), end: at + 2 };
    return next && /[!-/:-@[-`{-~]/.test(next) ? { token: next, end: at + 2 } : null;
}

// Where runs of each length of backticks begin, so that a span's end is found without a search.
function tickRuns(text) {
    const runs = new Map();
    for (const match of text.matchAll(/`+/g)) {
        const length = match[0].length;
        if (!runs.has(length)) runs.set(length, { starts: [], next: 0 });
        runs.get(length).starts.push(match.index);
    }
    return runs;
}

function codeSpan(text, at, ticks) {
    let length = 1;
    while (text[at + length] === '`') length += 1;
    const run = ticks.get(length);
    if (!run) return { token: '`'.repeat(length), end: at + length };
    while (run.next < run.starts.length && run.starts[run.next] <= at) run.next += 1;
    const end = run.starts[run.next];
    if (end === undefined) return { token: '`'.repeat(length), end: at + length };
    let code = text.slice(at + length, end).replaceAll('\n', ' ');
    if (code.startsWith(' ') && code.endsWith(' ') && code.trim()) code = code.slice(1, -1);
    return { token: h('code', {}, code), end: end + length };
}

function markRun(text, at) {
    const mark = text[at];
    let count = 1;
    while (text[at + count] === mark) count += 1;
    const end = at + count;
    if (mark === '~' && count !== 2) return { token: mark.repeat(count), end };
    const before = text[at - 1] ?? ' ';
    const after = text[end] ?? ' ';
    const word = /[\p{L}\p{N}]/u;
    const space = /\s/;
    const punctuation = (c) => !word.test(c) && !space.test(c);
    const left = !space.test(after) && (!punctuation(after) || !word.test(before));
    const right = !space.test(before) && (!punctuation(before) || !word.test(after));
    const inside = mark === '_' && word.test(before) && word.test(after);
    return { token: { mark, count, opens: left && !inside, closes: right && !inside }, end };
}

// The index of the bracket that closes the one at `at`; looks no further than `most`.
function closing(text, at, open, close, most) {
    let depth = 0;
    const end = Math.min(text.length, at + most);
    for (let i = at; i < end; i++) {
        if (text[i] === '\\') i += 1;
        else if (text[i] === open) depth += 1;
        else if (text[i] === close && --depth === 0) return i;
    }
    return -1;
}

// [text](url "title"), and the same after an exclamation mark.
function bracketLink(text, at) {
    const close = closing(text, at, '[', ']', 1000);
    if (close < 0 || text[close + 1] !== '(') return null;
    const end = closing(text, close + 1, '(', ')', 2000);
    if (end < 0) return null;
    const target = text
        .slice(close + 2, end)
        .trim()
        .split(/\s/)[0]
        .replace(/^<|>$/g, '');
    const url = safeUrl(target);
    if (!url) return null;
    const label = text.slice(at + 1, close);
    return { token: link(url, label ? inline(label, true) : [url]), end: end + 1 };
}

function angleLink(text, at) {
    const match = /^<(https?:\/\/[^\s<>]{1,2000})>/i.exec(text.slice(at, at + 2010));
    const url = match && safeUrl(match[1]);
    return url ? { token: link(url, [match[1]]), end: at + match[0].length } : null;
}

function bareLink(text, at) {
    if (at > 0 && /[\p{L}\p{N}]/u.test(text[at - 1])) return null;
    if (!/^https?:\/\//i.test(text.slice(at, at + 8))) return null;
    const match = /^[^\s<>"`]+/.exec(text.slice(at, at + 2000));
    let shown = match[0];
    while (/[.,;:!?*_'~]/.test(shown.at(-1))) shown = shown.slice(0, -1);
    if (shown.endsWith(')') && !shown.includes('(')) shown = shown.slice(0, -1);
    const url = safeUrl(shown);
    return url ? { token: link(url, [shown]), end: at + shown.length } : null;
}

// Pairs the marks. A stack of open runs, each with what came after it; a mark that finds no partner
// is text. Runs between a pair that closes become text, so each is looked at once.
function emphasize(list) {
    const root = { nodes: [] };
    const stack = [root];
    const open = { '*': 0, _: 0, '~': 0 };
    const add = (node) => stack.at(-1).nodes.push(node);
    const unwind = () => {
        const frame = stack.pop();
        open[frame.mark] -= 1;
        const { nodes } = stack.at(-1);
        nodes.push(frame.mark.repeat(frame.count));
        for (const node of frame.nodes) nodes.push(node);
    };
    for (const token of list) {
        if (!token.mark) {
            add(token);
            continue;
        }
        let left = token.count;
        while (token.closes && left > 0 && open[token.mark] > 0) {
            while (stack.at(-1).mark !== token.mark) unwind();
            left = pair(stack, open, left);
        }
        if (left > 0 && token.opens && stack.length < 64) {
            stack.push({ mark: token.mark, count: left, nodes: [] });
            open[token.mark] += 1;
        } else if (left > 0) {
            add(token.mark.repeat(left));
        }
    }
    while (stack.length > 1) unwind();
    return root.nodes;
}

// Closes the topmost run with `left` marks; returns how many of them remain.
function pair(stack, open, left) {
    const frame = stack.at(-1);
    const used = left >= 2 && frame.count >= 2 ? 2 : 1;
    const tag = frame.mark === '~' ? 'del' : used === 2 ? 'strong' : 'em';
    const node = h(tag, {}, frame.nodes);
    frame.count -= used;
    if (frame.count > 0) {
        frame.nodes = [node];
    } else {
        stack.pop();
        open[frame.mark] -= 1;
        stack.at(-1).nodes.push(node);
    }
    return left - used;
}
