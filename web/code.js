// Colours for code: comments, strings, numbers and words of the language. A language is a row of
// the table; a language that is not in it has none. One expression walks over the text once.
import { h } from './ui.js';

const lengthMax = 60000; // longer code stays plain: it is drawn again with each new line

const curly = `abstract as async auto await bool boolean break byte case catch char class const
    constexpr continue default defer delete do double else enum export extends extern false final
    finally float fn for from func function go goto if impl implements import in inline int
    interface internal let long loop map match mod module move mut namespace new nil null nullptr
    of operator override package private protected pub public range readonly ref return self short
    signed sizeof static struct super switch template this throw trait true try type typedef typeof
    undefined union unsafe unsigned use using var virtual void volatile where while with yield`;
const script = `and as assert async await begin break case class continue def del do done echo elif
    else elsif end ensure esac except exit export extends False false fi finally for from function
    global if import in is lambda local module match next nil None nonlocal not null or pass raise
    require rescue return self set source then True true try unless until when while with yield`;
const query = `add all alter and as asc begin between by case cast check column commit constraint
    create cross default delete desc distinct drop else end except exists foreign from full group
    having if in index inner insert intersect into is join key left like limit not null offset on
    or order outer primary references right rollback select set table then union unique update
    using values view when where with`;

// A quote may be an apostrophe: it must have its end, and not far away.
const strings = /"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.){0,300}'/.source;
const kinds = {
    curly: {
        words: curly,
        comment: /\/\/.*|\/\*[^]*?(?:\*\/|$)/.source,
        text: `${/`(?:[^`\\]|\\[^])*`?/.source}|${strings}`,
    },
    rust: {
        words: curly,
        comment: /\/\/.*|\/\*[^]*?(?:\*\/|$)/.source,
        text: /"(?:[^"\\]|\\[^])*"?|'(?:[^'\\\n]|\\[^'\n]{1,8})'/.source, // 'a alone is a lifetime
    },
    script: {
        words: script,
        comment: /#.*/.source,
        text: `${/"""[^]*?(?:"""|$)/.source}|${strings}`,
    },
    query: {
        words: query,
        comment: /--.*|\/\*[^]*?(?:\*\/|$)/.source,
        text: strings,
        anyCase: true,
    },
    lua: { words: `${script} local repeat`, comment: /--.*/.source, text: strings },
    data: { words: 'true false null yes no', comment: /#.*/.source, text: strings },
    json: { words: 'true false null', comment: null, text: strings },
};
const languages = new Map(
    Object.entries({
        curly: `c h cc cpp c++ cxx hpp cuda cu cs csharp java js javascript jsx mjs ts typescript
            tsx go golang kotlin kt swift scala php dart zig glsl hlsl proto`,
        rust: 'rust rs',
        script: 'py python py3 sh bash zsh shell console rb ruby perl pl r julia jl make makefile',
        query: 'sql sqlite postgresql mysql',
        lua: 'lua haskell hs',
        data: 'yaml yml toml ini dockerfile cmake',
        json: 'json jsonc json5',
    }).flatMap(([kind, names]) => names.split(/\s+/).map((name) => [name, kind])),
);

function compile({ words, comment, text, anyCase }) {
    const parts = [
        ...(comment ? [`(?<c>${comment})`] : []),
        `(?<s>${text})`,
        /(?<n>\b(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\b)/.source,
        /(?<w>[\p{L}_$][\p{L}\p{N}_$]*)/u.source,
    ];
    return {
        pattern: new RegExp(parts.join('|'), 'gu'),
        words: new Set(words.split(/\s+/)),
        anyCase,
    };
}

const compiled = new Map();

// The text as strings and coloured spans.
export function highlight(text, language) {
    const kind = languages.get(language.toLowerCase());
    if (!kind || text.length > lengthMax) return [text];
    if (!compiled.has(kind)) compiled.set(kind, compile(kinds[kind]));
    const { pattern, words, anyCase } = compiled.get(kind);
    const out = [];
    let at = 0;
    for (const match of text.matchAll(pattern)) {
        const { c, s, n, w } = match.groups;
        const isWord = w && words.has(anyCase ? w.toLowerCase() : w);
        const name = c ? 'c' : s ? 's' : n ? 'n' : isWord ? 'k' : null;
        if (!name) continue;
        if (match.index > at) out.push(text.slice(at, match.index));
        out.push(h('span', { class: name }, match[0]));
        at = match.index + match[0].length;
    }
    if (at < text.length) out.push(text.slice(at));
    return out;
}
