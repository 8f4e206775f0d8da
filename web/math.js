// Formulas: a subset of TeX becomes MathML, which browsers draw by themselves. A formula with
// anything else in it is refused as a whole, and then stays as it was written. Nodes are made one
// by one, as in markdown.js: the text is a stranger's. Length and depth are bounded, and the time
// is linear in the text.
import {
    accents,
    alphabets,
    below,
    environments,
    fences,
    functions,
    ignored,
    integrals,
    letters,
    limits,
    operators,
    spaces,
    sums,
    texts,
} from './tex.js';

const lengthMax = 4000;
const depthMax = 40;

function m(tag, attributes, ...children) {
    const node = document.createElementNS('http://www.w3.org/1998/Math/MathML', tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
}

// The <math> of a formula without its delimiters; null: it has parts that are not known.
export function mathNode(source, display) {
    if (source.length > lengthMax || !source.trim()) return null;
    const state = { tokens: tokens(source), at: 0, depth: 0, display };
    if (!state.tokens) return null;
    try {
        const nodes = run(state, () => false);
        if (state.at < state.tokens.length) return null;
        const attributes = display ? { display: 'block' } : {};
        return m('math', { ...attributes, title: source.trim() }, m('mrow', {}, ...nodes));
    } catch (error) {
        if (error instanceof Refused) return null;
        throw error;
    }
}

class Refused extends Error {}
const refuse = (what) => {
    throw new Refused(what);
};

// Commands with their backslash, numbers, single signs; blanks only inside of texts matter, and
// those are read from the source. null: a sign that TeX gives a meaning that is not known here.
const tokenRe = /\\(?:[A-Za-z]+|[\s\S])|\d+(?:[.,]\d+)*|\s+|[^\\]/gu;

function tokens(source) {
    const list = source.replace(/(?<!\\)%.*/g, '').match(tokenRe);
    return list && !list.includes('#') && !list.includes('$') ? list : null;
}

const peek = (state) => {
    while (/^\s/.test(state.tokens[state.at] ?? '')) state.at += 1;
    return state.tokens[state.at];
};
const next = (state) => {
    const token = peek(state);
    state.at += 1;
    return token;
};
const nameOf = (token) => (/^\\[A-Za-z]/.test(token ?? '') ? token.slice(1) : null);

function expect(state, token) {
    if (next(state) !== token) refuse(token);
}

// --- rows, scripts ---

// Nodes up to the end or to a token that ends it, which stays.
function run(state, isEnd) {
    const nodes = [];
    state.depth += 1;
    if (state.depth > depthMax) refuse('depth');
    for (let token = peek(state); token !== undefined && !isEnd(token); token = peek(state)) {
        if (token === '}' || token === '&' || token === '\\\\' || token === '\\right') break;
        if (token === '\\end') break;
        const node = scripted(state);
        if (node) nodes.push(node);
    }
    state.depth -= 1;
    return nodes;
}

const row = (nodes) => (nodes.length === 1 ? nodes[0] : m('mrow', {}, ...nodes));

// {...}, or one atom.
function argument(state) {
    const token = peek(state);
    if (token === undefined) refuse('end');
    if (token !== '{') {
        digitSplit(state);
        return atom(state) ?? m('mrow', {});
    }
    state.at += 1;
    const nodes = run(state, () => false);
    expect(state, '}');
    return row(nodes);
}

// Without braces an argument is one digit.
function digitSplit(state) {
    const token = state.tokens[state.at];
    if (/^\d./.test(token)) state.tokens.splice(state.at, 1, token[0], token.slice(1));
}

// An atom with its ^ and _, in any order; null: nothing to be seen.
function scripted(state) {
    const token = peek(state);
    const name = nameOf(token);
    const base = token === '^' || token === '_' ? m('mrow', {}) : atom(state);
    let [sub, sup] = [null, null];
    for (let mark = peek(state); mark === '^' || mark === '_' || mark === "'"; mark = peek(state)) {
        if (mark === "'") sup = m('mrow', {}, ...(sup ? [sup] : []), primes(state));
        else {
            state.at += 1;
            const part = argument(state);
            if (mark === '_' && !sub) sub = part;
            else if (mark === '^') sup = sup ? m('mrow', {}, sup, part) : part;
            else refuse('two scripts');
        }
    }
    if (!sub && !sup) return base;
    const kept = base ?? m('mrow', {});
    const stacked = state.display && (name in sums || limits.has(name ?? ''));
    const braces = name === 'underbrace' || name === 'overbrace';
    const kind =
        stacked || braces ? ['munder', 'mover', 'munderover'] : ['msub', 'msup', 'msubsup'];
    if (sub && sup) return m(kind[2], {}, kept, sub, sup);
    return sub ? m(kind[0], {}, kept, sub) : m(kind[1], {}, kept, sup);
}

function primes(state) {
    let text = '';
    while (peek(state) === "'") {
        state.at += 1;
        text += '′';
    }
    return m('mo', {}, text);
}

// --- atoms ---

function atom(state) {
    const token = next(state);
    if (token === '{') {
        const nodes = run(state, () => false);
        expect(state, '}');
        return row(nodes);
    }
    if (token[0] === '\\') return command(state, token.slice(1));
    if (/^\d/.test(token)) return m('mn', {}, token);
    if (/^\p{L}/u.test(token)) return m('mi', {}, token);
    if (token === '~') return m('mspace', { width: '0.25em' });
    if (/^[-+*/=<>,.;:!?|()[\]'"@]$/.test(token) || /^[^\x00-\x7f]$/u.test(token))
        return m('mo', '()[]|'.includes(token) ? { stretchy: 'false' } : {}, sign(token));
    return refuse(token);
}

const sign = (token) => ({ '-': '−', '*': '∗' })[token] ?? token;

function command(state, name) {
    if (Object.hasOwn(letters, name)) return m('mi', {}, letters[name]);
    if (Object.hasOwn(operators, name)) return m('mo', {}, operators[name]);
    if (Object.hasOwn(sums, name)) return m('mo', { movablelimits: 'false' }, sums[name]);
    if (Object.hasOwn(integrals, name)) return m('mo', {}, integrals[name]);
    if (Object.hasOwn(fences, name)) return m('mo', { stretchy: 'false' }, fences[name]);
    if (functions.has(name) || limits.has(name)) return m('mi', { mathvariant: 'normal' }, name);
    if (Object.hasOwn(spaces, name)) return m('mspace', { width: `${spaces[name]}em` });
    if (/^[{}%$&#_|]$/.test(name)) return m('mo', { stretchy: 'false' }, name === '|' ? '‖' : name);
    if (ignored.has(name)) return null;
    if (texts.has(name)) return m('mtext', {}, rawText(state));
    if (name === 'operatorname') return operatorName(state);
    if (Object.hasOwn(alphabets, name)) return alphabet(state, alphabets[name]);
    if (Object.hasOwn(accents, name))
        return m('mover', { accent: 'true' }, argument(state), m('mo', {}, accents[name]));
    if (Object.hasOwn(below, name))
        return m('munder', {}, argument(state), m('mo', {}, below[name]));
    return (builders[name] ?? refuse)(state);
}

function operatorName(state) {
    if (peek(state) === '*') state.at += 1;
    return m('mi', { mathvariant: 'normal' }, rawText(state));
}

const frac = (state) => m('mfrac', {}, argument(state), argument(state));

function binomial(state) {
    const parts = m('mfrac', { linethickness: '0' }, argument(state), argument(state));
    return around('(', [parts], ')');
}

const builders = {
    frac,
    dfrac: frac,
    tfrac: frac,
    cfrac: frac,
    binom: binomial,
    dbinom: binomial,
    tbinom: binomial,
    sqrt: root,
    left: fenced,
    begin: environment,
    not: (state) => m('mo', {}, `${(atom(state) ?? refuse('not')).textContent}\u0338`),
    boxed: (state) => m('mrow', { class: 'boxed' }, argument(state)),
    bmod: () => m('mo', {}, 'mod'),
    pmod: (state) =>
        around('(', [m('mo', {}, 'mod'), m('mspace', { width: '0.3em' }), argument(state)], ')'),
    stackrel: (state) => {
        const over = argument(state);
        return m('mover', {}, argument(state), over);
    },
    overset: (state) => builders.stackrel(state),
    underset: (state) => {
        const under = argument(state);
        return m('munder', {}, argument(state), under);
    },
    tag: (state) => m('mtext', {}, ` (${rawText(state)})`),
};

function root(state) {
    if (peek(state) !== '[') return m('msqrt', {}, argument(state));
    state.at += 1;
    const degree = run(state, (token) => token === ']');
    expect(state, ']');
    return m('mroot', {}, argument(state), row(degree));
}

const textSpaces = { '\\,': ' ', '\\:': ' ', '\\;': ' ', '\\!': '' };

// Text in braces as it is, blanks included.
function rawText(state) {
    expect(state, '{');
    let [text, depth] = ['', 1];
    for (; state.at < state.tokens.length; state.at++) {
        const token = state.tokens[state.at];
        depth += token === '{' ? 1 : token === '}' ? -1 : 0;
        if (!depth) break;
        if (/^\\[A-Za-z]/.test(token)) refuse('a command in a text');
        if (token !== '{' && token !== '}') text += textSpaces[token] ?? token.replace(/^\\/, '');
    }
    expect(state, '}');
    return text.replace(/^ | $/g, '\u00a0');
}

// Letters of another alphabet: Unicode has them as signs of their own.
function alphabet(state, variant) {
    const node = argument(state);
    for (const part of [node, ...node.querySelectorAll('*')])
        if (part.localName === 'mi' || part.localName === 'mn')
            part.textContent = [...part.textContent].map((c) => styled(c, variant)).join('');
    return node;
}

const starts = {
    bold: [0x1d400, 0x1d41a, 0x1d7ce],
    italic: [0x1d434, 0x1d44e, 0],
    'double-struck': [0x1d538, 0x1d552, 0x1d7d8],
    script: [0x1d49c, 0x1d4b6, 0],
    fraktur: [0x1d504, 0x1d51e, 0],
};
// Letters that Unicode had before.
const older = {
    'double-struck': { C: 'ℂ', H: 'ℍ', N: 'ℕ', P: 'ℙ', Q: 'ℚ', R: 'ℝ', Z: 'ℤ' },
    script: {
        B: 'ℬ',
        E: 'ℰ',
        F: 'ℱ',
        H: 'ℋ',
        I: 'ℐ',
        L: 'ℒ',
        M: 'ℳ',
        R: 'ℛ',
        e: 'ℯ',
        g: 'ℊ',
        o: 'ℴ',
    },
    fraktur: { C: 'ℭ', H: 'ℌ', I: 'ℑ', R: 'ℜ', Z: 'ℨ' },
    italic: { h: 'ℎ' },
};

function styled(c, variant) {
    if (older[variant]?.[c]) return older[variant][c];
    const kind = /[A-Z]/.test(c) ? 0 : /[a-z]/.test(c) ? 1 : /[0-9]/.test(c) ? 2 : -1;
    const start = starts[variant][kind];
    return start ? String.fromCodePoint(start + c.charCodeAt(0) - 'Aa0'.charCodeAt(kind)) : c;
}

// --- fences and tables ---

function delimiter(state) {
    const token = next(state) ?? refuse('end');
    if (token === '.') return '';
    if (/^[()[\]|/<>]$/.test(token)) return { '<': '⟨', '>': '⟩' }[token] ?? token;
    if (/^\\[{}|]$/.test(token)) return token === '\\|' ? '‖' : token[1];
    return fences[nameOf(token)] ?? refuse(token);
}

const around = (left, nodes, right) =>
    m(
        'mrow',
        {},
        ...(left ? [m('mo', { fence: 'true' }, left)] : []),
        ...nodes,
        ...(right ? [m('mo', { fence: 'true' }, right)] : []),
    );

function fenced(state) {
    const left = delimiter(state);
    const nodes = run(state, () => false);
    expect(state, '\\right');
    return around(left, nodes, delimiter(state));
}

// [2pt] after the end of a row.
function rowSpaceSkip(state) {
    const ahead = state.tokens.slice(state.at, state.at + 6).join('');
    if (!/^\[-?\d*\.?\d+[a-z]{2}\]/.test(ahead)) return;
    while (next(state) !== ']');
}

function environment(state) {
    const name = rawText(state);
    const [left, right] = (Object.hasOwn(environments, name) && environments[name]) || refuse(name);
    if (name === 'array') rawText(state); // how its columns stand
    const rows = [[]];
    for (;;) {
        rows.at(-1).push(run(state, () => false));
        const token = next(state);
        if (token === '&') continue;
        if (token === '\\\\') {
            rowSpaceSkip(state);
            rows.push([]);
        } else if (token === '\\end') break;
        else refuse(token);
    }
    if (rawText(state) !== name) refuse('end');
    if (rows.length > 1 && rows.at(-1).length === 1 && !rows.at(-1)[0].length) rows.pop();
    const aligned = /align|split/.test(name);
    const side = (i) => (aligned ? (i % 2 ? 'left' : 'right') : name === 'cases' ? 'left' : null);
    const cell = (nodes, i) => m('mtd', side(i) ? { class: side(i) } : {}, ...nodes);
    const table = m('mtable', {}, ...rows.map((cells) => m('mtr', {}, ...cells.map(cell))));
    return around(left, [table], right);
}
