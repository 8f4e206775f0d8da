// The sheet of conversations: a list with one tab stop. Arrow keys move, Enter opens, F2 renames,
// Delete removes (after a second press), the buttons of the row do the same by pointer.
import { chatAbort, chatCurrent, chatIsWriting, chatOpen, chatTitleDraw } from './chat.js';
import { chatAdd, chatDelete, chatGet, chatList, chatRename } from './store.js';
import { asJson, asMarkdown, fileName, fromFile } from './transfer.js';
import { byId, download, h, iconButton } from './ui.js';

const dialog = () => byId('list');

export function listInit() {
    byId('list-open').addEventListener('click', () => {
        listDraw();
        importSay('');
        dialog().showModal();
        focusRow(chatCurrent().id);
    });
    byId('list-new').addEventListener('click', () => open(null));
    byId('list-import').addEventListener('click', () => byId('import-file').click());
    byId('import-file').addEventListener('change', importFiles);
    byId('rows').addEventListener('keydown', keys);
    document.addEventListener('runs', timesDraw);
}

function importSay(text) {
    byId('import-said').hidden = !text;
    byId('import-said').textContent = text;
}

// Each file becomes a conversation of its own; one file is opened at once.
async function importFiles() {
    const files = [...byId('import-file').files];
    const bad = [];
    let added = null;
    for (const file of files) {
        try {
            added = chatAdd(await fromFile(file));
        } catch (error) {
            bad.push(`${file.name} was not imported: ${error.message}.`);
        }
    }
    byId('import-file').value = ''; // the same file may come again
    if (files.length === 1 && added) return open(added.id);
    listDraw();
    importSay(bad.join(' '));
    return undefined;
}

// An answer begins or ends while the list is open. A row that asks is left alone.
function timesDraw() {
    const entries = new Map(chatList().map((entry) => [entry.id, entry]));
    for (const node of byId('rows').querySelectorAll('.row:not(.asks)')) {
        const entry = entries.get(node.dataset.id);
        const label = node.querySelector('.when');
        if (entry && label) label.textContent = whenText(entry);
    }
}

const whenText = (entry) => (chatIsWriting(entry.id) ? 'writing' : when(entry.updated));

export function listDraw() {
    const current = chatCurrent().id;
    const entries = chatList();
    byId('rows').replaceChildren(...entries.map((entry) => row(entry, entry.id === current)));
    if (!entries.length) byId('rows').append(h('li', { class: 'none' }, 'None yet.'));
}

function row(entry, current) {
    const label = h(
        'button',
        {
            type: 'button',
            class: 'open',
            tabindex: current ? '0' : '-1',
            'aria-current': current ? 'true' : null,
            onclick: () => open(entry.id),
        },
        h('span', { class: 'name' }, entry.title),
        h('span', { class: 'when' }, whenText(entry)),
    );
    const act = (glyph, text, action) => {
        const button = iconButton(glyph, `${text}: ${entry.title}`, action);
        button.title = text;
        button.tabIndex = -1;
        return button;
    };
    const node = h(
        'li',
        { class: 'row', 'data-id': entry.id },
        label,
        h(
            'div',
            { class: 'acts' },
            act('edit', 'Rename', () => rename(node)),
            exportButton(entry, 'json', asJson, 'application/json'),
            exportButton(entry, 'md', asMarkdown, 'text/markdown'),
            act('trash', 'Delete', () => remove(node)),
        ),
    );
    return node;
}

function exportButton(entry, extension, form, type) {
    return h(
        'button',
        {
            type: 'button',
            class: 'quiet',
            tabindex: '-1',
            title: `Export as ${extension}`,
            'aria-label': `Export as ${extension}: ${entry.title}`,
            onclick: () => {
                const chat = chatGet(entry.id);
                if (chat) download(fileName(chat, extension), type, form(chat));
            },
        },
        extension,
    );
}

function when(time) {
    const date = new Date(time);
    if (Number.isNaN(date.getTime())) return '';
    const today = date.toDateString() === new Date().toDateString();
    return today
        ? date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
        : date.toLocaleDateString();
}

function open(id) {
    dialog().close();
    chatOpen(id);
}

// --- keys ---

// Up and down between rows, left and right between a row's buttons.
function keys(event) {
    const node = event.target.closest('.row');
    if (!node || event.target.tagName === 'INPUT') return;
    const rows = [...byId('rows').querySelectorAll('.row')];
    const buttons = [...node.querySelectorAll('button')];
    const at = rows.indexOf(node);
    const actions = {
        ArrowDown: () => focusNode(rows[Math.min(at + 1, rows.length - 1)]),
        ArrowUp: () => focusNode(rows[Math.max(at - 1, 0)]),
        Home: () => focusNode(rows[0]),
        End: () => focusNode(rows.at(-1)),
        ArrowRight: () =>
            buttons[Math.min(buttons.indexOf(event.target) + 1, buttons.length - 1)].focus(),
        ArrowLeft: () => buttons[Math.max(buttons.indexOf(event.target) - 1, 0)].focus(),
        F2: () => rename(node),
        Delete: () => remove(node),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
}

function focusNode(node) {
    for (const button of byId('rows').querySelectorAll('.open')) button.tabIndex = -1;
    const button = node?.querySelector('.open');
    if (!button) return;
    button.tabIndex = 0;
    button.focus();
}

function focusRow(id) {
    const rows = [...byId('rows').querySelectorAll('.row')];
    focusNode(rows.find((node) => node.dataset.id === id) ?? rows[0]);
}

function rename(node) {
    const chat = chatGet(node.dataset.id);
    if (!chat || node.querySelector('input')) return;
    const input = h('input', { type: 'text', 'aria-label': 'New title', maxlength: '200' });
    input.value = chat.title;
    let ended = false; // leaving the page takes the focus away, which ends it once more
    const done = (keep) => {
        if (ended) return;
        ended = true;
        const title = input.value.trim();
        if (keep && title && title !== chat.title) chatRename(chat, title);
        listDraw();
        chatTitleDraw();
        focusRow(chat.id);
    };
    input.addEventListener('keydown', (event) => {
        if (event.key !== 'Enter' && event.key !== 'Escape') return;
        event.preventDefault();
        event.stopPropagation();
        done(event.key === 'Enter');
    });
    input.addEventListener('blur', () => done(true));
    node.querySelector('.open').replaceWith(input);
    input.select();
}

// The first time the row asks, the second time it goes.
function remove(node) {
    const { id } = node.dataset;
    if (!node.classList.contains('asks')) {
        node.classList.add('asks');
        node.querySelector('.when').textContent = 'Press Delete again to remove';
        return;
    }
    const next = node.nextElementSibling ?? node.previousElementSibling;
    const nextId = next?.dataset.id;
    chatAbort(id);
    chatDelete(id);
    if (id === chatCurrent().id) chatOpen(null);
    listDraw();
    if (nextId) focusRow(nextId);
    else byId('list-new').focus();
}
