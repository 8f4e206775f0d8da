// Starts the page: theme, tabs, dialogs, then the two panes.
import { chatCurrent, chatForeign, chatInit } from './chat.js';
import { engineInit, engineRestart } from './engine.js';
import { askKey, keyInit } from './key.js';
import { listDraw, listInit } from './list.js';
import { modelsBegin } from './models.js';
import { ready, sleep } from './api.js';
import { settingsInit } from './settings.js';
import { storeOpen, themeWrite } from './store.js';
import { byId, icon, setIcon, trouble } from './ui.js';

const themes = {
    '': ['auto', 'Theme: the system’s'],
    light: ['light', 'Theme: light'],
    dark: ['dark', 'Theme: dark'],
};

function themeInit() {
    const { dataset } = document.documentElement;
    const show = () => setIcon(byId('theme'), ...themes[dataset.choice]);
    byId('theme').addEventListener('click', () => {
        const order = Object.keys(themes);
        dataset.choice = order[(order.indexOf(dataset.choice) + 1) % order.length];
        themeWrite(dataset.choice);
        show();
        document.dispatchEvent(new Event('choice'));
    });
    show();
}

// On small screens one pane at a time.
function tabsInit() {
    const names = ['chat', 'engine'];
    const select = (name, focus) => {
        byId('panes').dataset.view = name;
        for (const other of names) {
            const tab = byId(`tab-${other}`);
            tab.setAttribute('aria-selected', String(other === name));
            tab.tabIndex = other === name ? 0 : -1;
            if (focus && other === name) tab.focus();
        }
        document.dispatchEvent(new Event('view'));
    };
    for (const name of names) {
        byId(`tab-${name}`).addEventListener('click', () => select(name, false));
        byId(`tab-${name}`).addEventListener('keydown', (event) => {
            if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
            event.preventDefault();
            select(names[1 - names.indexOf(name)], true);
        });
    }
}

function dialogsInit() {
    for (const dialog of document.querySelectorAll('dialog')) {
        const close = dialog.querySelector('[data-close]');
        if (close) {
            setIcon(close, 'close', 'Close');
            close.addEventListener('click', () => dialog.close());
        }
        dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());
    }
    byId('settings-open').addEventListener('click', () => byId('settings').showModal());
    setIcon(byId('settings-open'), 'sliders', 'Settings');
    byId('list-open').prepend(icon('list'));
}

// The server's models and defaults; waits while the model is loading, and asks for the key where
// there must be one.
async function serverInit() {
    try {
        await modelsBegin(chatCurrent);
    } catch (error) {
        if (error.status === 503 || error.status === 0) {
            if ((await sleep(200)) && (await ready())) return serverInit();
        } else if (error.status === 401 && (await askKey())) {
            engineRestart();
            return serverInit();
        }
    }
    return undefined;
}

storeOpen({
    trouble,
    foreign: (id) => {
        chatForeign(id);
        if (byId('list').open) listDraw();
    },
});
themeInit();
tabsInit();
dialogsInit();
keyInit();
settingsInit();
chatInit();
listInit();
engineInit();
serverInit();
