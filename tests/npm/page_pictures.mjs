// The pictures of docs/page, by hand: `CHROMIUM=... node page_pictures.mjs http://127.0.0.1:8080 FOLDER`
// with `runnel serve` on that port. A story is in the chat while eight streams keep the engine busy.
import { browser, done, open, send, story, visit } from './page_visit.mjs';

const folder = process.argv[3] ?? '.';
const things = ['boat', 'cat', 'kite', 'drum', 'bear', 'garden', 'king', 'storm'];

// Streams of other users, until `busy` is false.
let busy = true;
async function others(thing) {
    for (let i = 0; busy; i += 1) {
        const content = `Tell me a story about a ${thing} and number ${i}.`;
        const answer = await fetch(`${open}/v1/chat/completions`, {
            method: 'POST',
            body: JSON.stringify({ messages: [{ role: 'user', content }], stream: true }),
        });
        await answer.text();
        await new Promise((resolve) => setTimeout(resolve, 200));
    }
}

async function picture(name, { width, height, scheme, engine = false }) {
    const page = await visit(open, {
        tokens: 0,
        viewport: { width, height },
        colorScheme: scheme,
    });
    await send(page, story);
    await done(page);
    if (engine) await page.getByRole('tab', { name: 'Engine' }).click();
    if (!engine && width > 1000) await page.getByText('2 s', { exact: true }).click();
    await page.waitForTimeout(4000); // the graphs fill
    await page.screenshot({ path: `${folder}/${name}.png` });
    await page.context().close();
}

const users = things.map(others);
await picture('wide-light', { width: 1360, height: 1240, scheme: 'light' });
await picture('wide-dark', { width: 1360, height: 1240, scheme: 'dark' });
await picture('small-light', { width: 390, height: 844, scheme: 'light' });
await picture('small-dark', { width: 390, height: 844, scheme: 'dark', engine: true });
busy = false;
await Promise.all(users);
await browser.close();
