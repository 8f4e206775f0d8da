// What the parts of the page's test share: a browser, checks, and a person's small steps.
import { chromium } from 'playwright-core';

export const [open, locked, bare, tight] = process.argv.slice(2);
export const key = 'secret-of-the-test';
export const story = 'Tell me a story about a fox and a lantern.';
export const tally = { checks: 0, failures: 0 };

export function check(what, ok, seen) {
    tally.checks += 1;
    if (ok) return;
    tally.failures += 1;
    console.log(`FAILED: ${what}${seen === undefined ? '' : `: ${JSON.stringify(seen)}`}`);
}

export const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
    ],
});

// The engine's pane is not shown, and does not draw: a part that needs only the chat is quicker.
export const narrow = { viewport: { width: 880, height: 900 } };

// A page that notes what it should never do: errors, and requests to others. Its answers are short.
// script: done with the page before it is opened.
export async function visit(origin, { tokens = 60, script, ...options } = {}) {
    const context = await browser.newContext({
        viewport: { width: 1280, height: 900 },
        ...options,
    });
    const page = await context.newPage();
    page.setDefaultTimeout(30000);
    page.noted = { errors: [], foreign: [] };
    page.on(
        'console',
        (message) => message.type() === 'error' && page.noted.errors.push(message.text()),
    );
    page.on('pageerror', (error) => page.noted.errors.push(String(error)));
    context.on('request', (request) => {
        if (!request.url().startsWith(`${origin}/`) && !request.url().startsWith(`blob:${origin}/`))
            page.noted.foreign.push(request.url());
    });
    await page.addInitScript(
        (settings) => {
            if (!sessionStorage.getItem('test')) localStorage.setItem('runnel.settings', settings);
            sessionStorage.setItem('test', 'begun'); // a reload keeps what the page stored
        },
        JSON.stringify(tokens ? { max_tokens: tokens } : {}),
    );
    await script?.(page);
    await page.goto(`${origin}/`);
    return page;
}

export async function leave(what, page, { errors = [] } = {}) {
    const wrong = page.noted.errors.filter((text) => !errors.some((known) => text.includes(known)));
    check(`${what}: no console error`, wrong.length === 0, wrong);
    check(
        `${what}: no request leaves the origin`,
        page.noted.foreign.length === 0,
        page.noted.foreign,
    );
    await page.context().close();
}

export const answers = (page) => page.locator('.message.assistant');
export const textOf = (page) =>
    page.locator('.message.assistant').last().locator(':scope > .body').innerText();
export const writing = (page) => page.locator('.message.writing').count();
export const done = (page) =>
    page.waitForFunction(
        () =>
            !document.querySelector('.message.writing') &&
            document.querySelector('.message.assistant .stats span'),
    );

export async function send(page, text) {
    await page.fill('#input', text);
    await page.keyboard.press('Enter');
}

// Waits until the answer has some text; returns it.
export async function begun(page, length = 1) {
    await page.waitForFunction(
        (n) =>
            [...document.querySelectorAll('.message.assistant > .body')].at(-1)?.innerText.length >=
            n,
        length,
    );
    return textOf(page);
}

// An answer of the server in the place of its own. events: chunks, then the end unless it is cut.
export const stream = (events, { cut = false } = {}) => ({
    contentType: 'text/event-stream',
    body:
        events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('') +
        (cut ? '' : 'data: [DONE]\n\n'),
});
export const piece = (content) => ({ choices: [{ index: 0, delta: { content } }] });

// The text of a download.
export async function downloaded(page, action) {
    const [file] = await Promise.all([page.waitForEvent('download'), action()]);
    let text = '';
    for await (const part of await file.createReadStream()) text += part;
    return text;
}
