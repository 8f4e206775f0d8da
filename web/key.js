// Asking for the API key. Resolves to whether one was given; asks once, however many wait for it.
import { keyGet, keySet } from './api.js';
import { byId } from './ui.js';

let asking = null;

export function askKey() {
    asking ??= new Promise((resolve) => {
        const dialog = byId('key');
        const input = byId('key-input');
        byId('key-why').textContent = keyGet()
            ? 'This server does not accept that key.'
            : 'The key is kept until this tab is closed, and sent to this server only.';
        input.value = '';
        dialog.returnValue = '';
        dialog.addEventListener(
            'close',
            () => {
                asking = null;
                const key = input.value.trim();
                input.value = '';
                if (dialog.returnValue !== 'given' || !key) return resolve(false);
                keySet(key);
                resolve(true);
            },
            { once: true },
        );
        dialog.showModal();
        input.focus();
    });
    return asking;
}

export function keyInit() {
    byId('key-cancel').addEventListener('click', () => byId('key').close(''));
    byId('key-form').addEventListener('submit', (event) => {
        event.preventDefault();
        byId('key').close('given');
    });
}
