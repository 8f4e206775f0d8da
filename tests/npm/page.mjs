// The page, driven in Chromium as a person would: node page.mjs OPEN LOCKED BARE TIGHT, addresses
// of a server, of one with the key secret-of-the-test, of one without the page, and of a quick one
// with a context of 128 tokens. Prints what failed; exit 1 then.
// By hand: ONLY=live,small runs those parts one by one, TIMES=1 says what each took.
import { conversation, keyboard, keyed, lists, settings } from './page_chat.mjs';
import { live, small } from './page_engine.mjs';
import { markdown } from './page_text.mjs';
import { bare, browser, check, tally } from './page_visit.mjs';
import { errors, filled, models } from './page_ways.mjs';

async function withoutPage() {
    const response = await fetch(`${bare}/`, { headers: { accept: 'text/html' } });
    const body = await response.json();
    check(
        'without the page / is 404 as JSON',
        response.status === 404 && body.error.type === 'not_found_error',
        body,
    );
}

// Rows run side by side, for most of a part is waiting; the engine is watched alone.
const rows = [
    [
        { conversation, lists, keyboard, filled },
        { errors, settings, markdown, models, keyed, withoutPage },
    ],
    [{ small, live }],
];
const only = process.env.ONLY?.split(',');

async function run(parts) {
    for (const [name, part] of Object.entries(parts)) {
        if (only && !only.includes(name)) continue;
        const start = Date.now();
        await part().catch((error) => check(name, false, String(error).slice(0, 800)));
        if (process.env.TIMES) console.log(name, Date.now() - start, 'ms');
    }
}

for (const row of rows) {
    if (only) for (const parts of row) await run(parts);
    else await Promise.all(row.map(run));
}
await browser.close();
console.log(`${tally.checks} checks of the page, ${tally.failures} failed`);
process.exitCode = tally.failures ? 1 : 0;
