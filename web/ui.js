// Building nodes, icons, and how numbers are written. Text reaches the page through text nodes
// only: nothing in these files parses HTML.

// h('p', {class: 'sum', onclick: f, 'aria-label': '...'}, 'text', node, [nodes])
export function h(tag, props, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props ?? {})) {
        if (value === undefined || value === null || value === false) continue;
        if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
        else if (value === true) node.setAttribute(name, '');
        else node.setAttribute(name, value);
    }
    for (const child of children) {
        if (Array.isArray(child)) for (const one of child) node.append(one);
        else if (child !== null && child !== undefined) node.append(child);
    }
    return node;
}

export const byId = (id) => document.getElementById(id);

const paths = {
    list: 'M4 6h16M4 12h16M4 18h10',
    plus: 'M12 5v14M5 12h14',
    sliders: 'M4 7h9M17 7h3M4 17h3M11 17h9M13 4.5v5M9 14.5v5',
    close: 'M6 6l12 12M18 6L6 18',
    send: 'M12 19V5M6 11l6-6 6 6',
    stop: 'M7 7h10v10H7z',
    copy: 'M9 9h10v11H9zM5 15V4h10',
    edit: 'M4 20l1-4L16 5l3 3L8 19zM14 7l3 3',
    redo: 'M19 12a7 7 0 1 1-2-5M19 4v4h-4',
    trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
    down: 'M12 4v11M7 11l5 5 5-5M5 20h14',
    check: 'M5 13l4 4L19 7',
    resume: 'M7 5l11 7-11 7z',
    clock: 'M12 4a8 8 0 1 0 0 16 8 8 0 1 0 0-16M12 8v4.5l3 2',
    auto: 'M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18',
    light:
        'M12 8a4 4 0 1 0 0 8 4 4 0 1 0 0-8M12 2v2M12 20v2M2 12h2M20 12h2' +
        'M5 5l1.4 1.4M17.6 17.6L19 19M5 19l1.4-1.4M17.6 6.4L19 5',
    dark: 'M20 14A8.5 8.5 0 1 1 10 4a7 7 0 0 0 10 10z',
};

export function svg(tag, attributes) {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
}

export function icon(name) {
    const node = svg('svg', {
        viewBox: '0 0 24 24',
        class: `glyph glyph-${name}`,
        'aria-hidden': 'true',
    });
    node.append(svg('path', { d: paths[name] }));
    return node;
}

export function iconButton(name, label, onclick) {
    return h(
        'button',
        { type: 'button', class: 'icon', 'aria-label': label, title: label, onclick },
        icon(name),
    );
}

export function setIcon(button, name, label) {
    button.replaceChildren(icon(name));
    button.setAttribute('aria-label', label);
    button.title = label;
}

// The line above the messages; '': none.
export function trouble(text) {
    byId('notice').hidden = !text;
    byId('notice').textContent = text;
}

// The clipboard is not there without TLS on another machine; then a selection is copied as of old.
export async function copyText(text, button) {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        const area = h('textarea', { class: 'hidden', 'aria-hidden': 'true' });
        area.value = text;
        (button.closest('dialog') ?? document.body).append(area);
        area.select();
        document.execCommand('copy');
        area.remove();
        button.focus();
    }
    flashDone(button);
}

function flashDone(button) {
    const label = button.getAttribute('aria-label');
    setIcon(button, 'check', 'Copied');
    setTimeout(() => setIcon(button, 'copy', label), 1200);
}

export function download(name, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const link = h('a', { href: url, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// --- numbers ---

// Three digits or so: 0.42, 4.2, 42, 420, 4,200.
export function number(value) {
    if (!Number.isFinite(value)) return '–';
    const size = Math.abs(value);
    const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
    return value.toLocaleString('en', {
        minimumFractionDigits: digits,
        maximumFractionDigits: digits,
    });
}

export const count = (value) => (Number.isFinite(value) ? value.toLocaleString('en') : '–');

export function bytes(value) {
    if (!Number.isFinite(value)) return '–';
    const units = ['B', 'kB', 'MB', 'GB', 'TB'];
    let unit = 0;
    while (value >= 1000 && unit < units.length - 1) {
        value /= 1000;
        unit += 1;
    }
    return `${number(unit === 0 ? Math.round(value) : value)} ${units[unit]}`;
}

export function seconds(value) {
    if (!Number.isFinite(value)) return '–';
    if (value < 1e-3) return `${number(value * 1e6)} µs`;
    return value < 1 ? `${number(value * 1e3)} ms` : `${number(value)} s`;
}

// "just now", "12 s ago", "3 min ago", "2 h ago"
export function ago(age) {
    if (age < 1) return 'just now';
    const [unit, size] = age < 60 ? ['s', 1] : age < 3600 ? ['min', 60] : ['h', 3600];
    return `${count(Math.floor(age / size))} ${unit} ago`;
}

export const percent = (share) =>
    Number.isFinite(share)
        ? `${share < 0.0995 ? number(share * 100) : Math.round(share * 100)}%`
        : '–';

// "12 tokens", "1 token"
export const amount = (n, noun) => `${count(n)} ${noun}${n === 1 ? '' : 's'}`;
