// The page, driven in Chromium as a person would: node page.mjs OPEN LOCKED BARE, addresses of a
// server, of one with the key secret-of-the-test, and of one without the page. Prints what failed;
// exit 1 then.
// By hand: ONLY=live,small runs those parts, TIMES=1 says what each took.
import { chromium } from 'playwright-core';

const [open, locked, bare] = process.argv.slice(2);
const key = 'secret-of-the-test';
const story = 'Tell me a story about a fox and a lantern.';
let checks = 0;
let failures = 0;

function check(what, ok, seen) {
    checks += 1;
    if (ok) return;
    failures += 1;
    console.log(`FAILED: ${what}${seen === undefined ? '' : `: ${JSON.stringify(seen)}`}`);
}

const browser = await chromium.launch({
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

// A page that notes what it should never do: errors, and requests to others. Its answers are short.
async function visit(origin, { tokens = 60, ...options } = {}) {
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
    await page.goto(`${origin}/`);
    return page;
}

async function leave(what, page, { errors = [] } = {}) {
    const wrong = page.noted.errors.filter((text) => !errors.some((known) => text.includes(known)));
    check(`${what}: no console error`, wrong.length === 0, wrong);
    check(
        `${what}: no request leaves the origin`,
        page.noted.foreign.length === 0,
        page.noted.foreign,
    );
    await page.context().close();
}

const answers = (page) => page.locator('.message.assistant');
const textOf = (page) =>
    page.locator('.message.assistant').last().locator(':scope > .body').innerText();
const writing = (page) => page.locator('.message.writing').count();
const done = (page) =>
    page.waitForFunction(
        () =>
            !document.querySelector('.message.writing') &&
            document.querySelector('.message.assistant .stats span'),
    );

async function send(page, text) {
    await page.fill('#input', text);
    await page.keyboard.press('Enter');
}

// Waits until the answer has some text; returns it.
async function begun(page, length = 1) {
    await page.waitForFunction(
        (n) =>
            [...document.querySelectorAll('.message.assistant > .body')].at(-1)?.innerText.length >=
            n,
        length,
    );
    return textOf(page);
}

async function conversation() {
    const page = await visit(open, { tokens: 200 });
    await page.waitForFunction(() => document.getElementById('model').textContent.includes('tale'));
    await send(page, story);
    const first = await begun(page);
    const longer = await begun(page, first.length + 20);
    check('text streams in', longer.length > first.length && longer.startsWith(first.slice(0, 8)), [
        first,
        longer,
    ]);
    check(
        'while it writes, the button stops',
        (await page.locator('#send').getAttribute('aria-label')) === 'Stop',
    );
    await page.keyboard.press('Escape');
    await done(page);
    const stopped = await textOf(page);
    check(
        'Esc stops it',
        (await page.locator('.message.assistant .stats').last().innerText()).includes('stopped'),
    );
    await page.waitForTimeout(400);
    check('a stopped answer does not grow', (await textOf(page)) === stopped);

    await page.getByRole('button', { name: 'Regenerate' }).click();
    await begun(page);
    await done(page);
    check(
        'regenerate replaces the answer',
        (await answers(page).count()) === 1,
        await answers(page).count(),
    );
    const stats = await page.locator('.message.assistant .stats').innerText();
    check(
        'an answer says what it cost',
        /tokens\/s.*first token.*\d+ tokens.*\d+ of \d+ drafted tokens accepted.*% of bandwidth/s.test(
            stats,
        ),
        stats,
    );

    const whole = await textOf(page);
    await page.reload();
    check('a reload keeps the conversation', (await textOf(page)) === whole);
    check(
        'a reload keeps what it cost',
        (await page.locator('.message.assistant .stats').innerText()) === stats,
    );
    await several(page, whole);
    await leave('conversation', page);
}

// A second conversation beside the first, edit, delete, a reload in the middle of an answer.
async function several(page, whole) {
    await page.getByRole('button', { name: 'New conversation' }).click();
    check('a new conversation is empty', (await page.locator('.message').count()) === 0);
    await send(page, 'Tell me a story about a robot.');
    await begun(page, 40);
    await page.reload();
    const partial = await textOf(page);
    check('a reload keeps a partial answer', partial.length >= 30, partial);
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel('Edit the message').fill('Tell me a story about a kite.');
    await page.keyboard.press('Enter');
    await begun(page);
    const asked = await page.locator('.message.user > .body').allInnerTexts();
    check(
        'an edited message takes the place of the old',
        asked.join('|') === 'Tell me a story about a kite.',
        asked,
    );
    await page.click('#list-open');
    check('both conversations are listed', (await page.locator('.row').count()) === 2);
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    check('the first is as it was', (await textOf(page)) === whole);
    check('the other goes on writing meanwhile', (await writing(page)) === 0);
    await page.click('#list-open');
    await page.locator('.row .open').first().click();
    await done(page);
    await page.locator('.message.user').hover();
    await page.locator('.message.user').getByRole('button', { name: 'Delete' }).click();
    check('a message goes with its answer', (await page.locator('.message').count()) === 0);
}

async function lists() {
    const page = await visit(open);
    await send(page, 'Say *one* word.');
    await begun(page);
    await page.keyboard.press('Escape');
    await done(page);
    await page.click('#list-open');
    await page.keyboard.press('F2');
    await page.keyboard.type('A better name');
    await page.keyboard.press('Enter');
    check('F2 renames', (await page.locator('#title').innerText()) === 'A better name');
    for (const [label, part] of [
        ['Export as json', '"role": "user"'],
        ['Export as md', '## You'],
    ]) {
        const [file] = await Promise.all([
            page.waitForEvent('download'),
            page.getByRole('button', { name: label }).click(),
        ]);
        const stream = await file.createReadStream();
        let text = '';
        for await (const piece of stream) text += piece;
        check(
            `${label} holds the conversation`,
            text.includes(part) && text.includes('Say *one* word.'),
            text.slice(0, 200),
        );
    }
    await page.locator('.row .open').focus();
    await page.keyboard.press('Delete');
    check('Delete asks first', (await page.locator('.row').count()) === 1);
    await page.keyboard.press('Delete');
    check('Delete removes', (await page.locator('.row').count()) === 0);
    await page.reload();
    check('it stays removed', (await page.locator('.message').count()) === 0);
    let release;
    const held = new Promise((resolve) => {
        release = resolve;
    });
    await page.route('**/v1/chat/completions', (route) => held.then(() => route.continue()), {
        times: 1,
    });
    await send(page, 'Say *two* words.');
    await page.click('#list-open');
    check('the list says who writes', (await page.locator('.when').innerText()) === 'writing');
    release();
    await page
        .waitForFunction(() => !document.querySelector('.when').textContent.includes('writing'))
        .catch(() => check('an answer that ends while the list is open is not written', false));
    await page.keyboard.press('Escape');
    await leave('lists', page);
}

async function settings() {
    const page = await visit(open, { tokens: 0 });
    await page.waitForFunction(
        () => document.getElementById('set-temperature').placeholder === '0.8',
    );
    check(
        'the server’s default is shown',
        (await page.locator('#set-top_p').getAttribute('placeholder')) === '0.95',
    );
    await page.click('#settings-open');
    await page.fill('#set-max_tokens', '3');
    await page.fill('#set-temperature', '0');
    await page.fill('#set-seed', '7');
    await page.fill('#set-top_p', '7');
    check(
        'a wrong value is marked',
        (await page.locator('#set-top_p').getAttribute('aria-invalid')) === 'true',
    );
    await page.keyboard.press('Escape');
    await page.reload();
    await page.click('#settings-open');
    check(
        'settings survive a reload',
        (await page.inputValue('#set-max_tokens')) === '3' &&
            (await page.inputValue('#set-temperature')) === '0',
    );
    check('a wrong value is not kept', (await page.inputValue('#set-top_p')) === '');
    await page.keyboard.press('Escape');
    const [request] = await Promise.all([
        page.waitForRequest('**/v1/chat/completions'),
        send(page, story),
    ]);
    const body = request.postDataJSON();
    check(
        'settings are sent, defaults are not',
        body.max_tokens === 3 && body.temperature === 0 && body.seed === 7 && !('top_p' in body),
        body,
    );
    await done(page);
    const stats = await page.locator('.message.assistant .stats').innerText();
    check(
        'the limit holds, and is said',
        stats.includes('3 tokens') && stats.includes('cut at the limit'),
        stats,
    );
    await page.click('#settings-open');
    await page.click('#settings-reset');
    check('reset brings the defaults back', (await page.inputValue('#set-max_tokens')) === '');
    await leave('settings', page);
}

// Hostile and ordinary markdown through the page's own renderer, and a hostile answer through the
// chat.
async function markdown() {
    const page = await visit(open);
    const render = (text) =>
        page.evaluate(async (source) => {
            const { renderMarkdown } = await import('/assets/markdown.js');
            const node = document.createElement('div');
            document.body.append(node);
            const start = performance.now();
            renderMarkdown(node, source);
            const html = node.innerHTML;
            node.remove();
            return { html, ms: performance.now() - start };
        }, text);
    const cases = [
        [
            '# A\n\ntext **b** *i* `c` ~~d~~',
            '<h3>A</h3><p>text <strong>b</strong> <em>i</em> <code>c</code> <del>d</del></p>',
        ],
        [
            '- a\n- b\n  - c\n\n1. x\n2. y',
            '<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul><ol start="1"><li>x</li><li>y</li></ol>',
        ],
        ['> q\n> r', '<blockquote><p>q\nr</p></blockquote>'],
        ['a_b_c __d__ 2*3*4 \\*e\\*', '<p>a_b_c <strong>d</strong> 2<em>3</em>4 *e*</p>'],
        [
            '\\(a^2 * b*c\\) \\[\nx_1 = <y_2>\n\\] \\[no link\\] \\(open *i*',
            '<p>\\(a^2 * b*c\\) \\[\nx_1 = &lt;y_2&gt;\n\\] [no link] (open <em>i</em></p>',
        ],
        ['***both*** **open', '<p><em><strong>both</strong></em> **open</p>'],
        [
            '[t](https://example.org/x) [u](javascript:alert(1)) [v](//example.org) [w](data:text/html,x)',
            '<p><a href="https://example.org/x" target="_blank" rel="noopener noreferrer nofollow">t</a> [u](javascript:alert(1)) [v](//example.org) [w](data:text/html,x)</p>',
        ],
        [
            '<img src=x onerror=alert(1)><script>alert(1)</script>',
            '<p>&lt;img src=x onerror=alert(1)&gt;&lt;script&gt;alert(1)&lt;/script&gt;</p>',
        ],
        [
            '![i](https://example.org/i.png)',
            '<p><a href="https://example.org/i.png" target="_blank" rel="noopener noreferrer nofollow">i</a></p>',
        ],
    ];
    for (const [source, want] of cases) {
        const { html } = await render(source);
        check(`markdown ${JSON.stringify(source)}`, html === want, html);
    }
    const { html } = await render(
        '| a | b |\n| --- | ---: |\n| 1 | `x|y` |\n\n```js\nlet a = "<b>";\n```',
    );
    check(
        'a table and a fence',
        /<td>1<\/td><td class="right">/.test(html) &&
            html.includes('<code>let a = "&lt;b&gt;";</code>'),
        html,
    );
    for (const piece of [
        '[',
        '![',
        '`',
        '``a',
        '**a',
        '*a_b',
        '> ',
        '- ',
        '1. ',
        '| ',
        '~~',
        '<http://',
        'https://a.',
        '\\',
        '\\(',
        '\\[',
        '# ',
        '\n- ',
        '\n> > ',
        '(',
        '[a](',
    ]) {
        const { ms } = await render(piece.repeat(20000));
        if (process.env.TIMES) console.log(JSON.stringify(piece), Math.round(ms));
    }
    await hostileAnswer(page);
    await leave('markdown', page);
}

async function hostileAnswer(page) {
    const text =
        '<img src=x onerror="window.pwned=1"> [a](javascript:window.pwned=1) <svg onload=window.pwned=1> ![b](https://elsewhere.example/b.png)\n\n<script>window.pwned=1</script>';
    const events = [
        { choices: [{ index: 0, delta: { content: text } }] },
        { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    ];
    await page.route('**/v1/chat/completions', (route) =>
        route.fulfill({
            contentType: 'text/event-stream',
            body: `${events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('')}data: [DONE]\n\n`,
        }),
    );
    await send(page, '<img src=x onerror="window.pwned=1">');
    await done(page).catch(() => {});
    await page.waitForFunction(() =>
        document.querySelector('.message.assistant > .body')?.innerText.includes('onerror'),
    );
    const seen = await page.evaluate(() => ({
        pwned: window.pwned ?? null,
        nodes: document.querySelectorAll('#log img, #log script, #log .body svg').length,
        links: [...document.querySelectorAll('#log a')].map((link) => link.href),
        shown: document
            .querySelector('.message.assistant > .body')
            .innerText.includes('<img src=x'),
    }));
    check('an injection stays text', seen.pwned === null && seen.nodes === 0 && seen.shown, seen);
    check(
        'its links are http only',
        seen.links.join() === 'https://elsewhere.example/b.png',
        seen.links,
    );
}

async function parser() {
    const page = await visit(open);
    const wrong = await page.evaluate(async () => {
        const { EventParser } = await import('/assets/api.js');
        const text =
            ': hello\r\ndata: a\r\n\r\ndata:b\r\ndata: c\r\n\r\n: ping\n\nevent: x\ndata: {"d":1}\r\rdata: ü\n\ndata: rest';
        const want = JSON.stringify(['a', 'b\nc', '{"d":1}', 'ü']);
        const seen = [];
        for (let size = 1; size < text.length; size++) {
            const one = new EventParser();
            const events = [];
            for (let at = 0; at < text.length; at += size)
                events.push(...one.push(text.slice(at, at + size)));
            if (JSON.stringify(events) !== want) seen.push([size, events]);
        }
        return seen;
    });
    check('events are the same however they are cut', wrong.length === 0, wrong);
    await leave('parser', page);
}

// Nothing but keys: to the message, an answer, stop, its buttons, settings, the list.
async function keyboard() {
    const page = await visit(open);
    const focused = () =>
        page.evaluate(
            () =>
                document.activeElement.id ||
                document.activeElement.getAttribute('aria-label') ||
                document.activeElement.textContent,
        );
    const tabTo = async (name, back = false) => {
        for (let i = 0; i < 60; i++) {
            await page.keyboard.press(back ? 'Shift+Tab' : 'Tab');
            if ((await focused()) === name) return true;
        }
        return false;
    };
    check('the message has the focus at first', (await focused()) === 'input');
    await page.keyboard.type('A line');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type(story);
    check('Shift+Enter breaks the line', (await page.inputValue('#input')) === `A line\n${story}`);
    await page.keyboard.press('Enter');
    await begun(page, 10);
    await page.keyboard.press('Escape');
    await done(page);
    check('Tab back reaches Regenerate', await tabTo('Regenerate', true));
    const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    check('what has the focus shows it', ring === 'solid', ring);
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.querySelector('.message.writing'));
    await page.keyboard.press('Escape');
    await done(page);
    check('Tab back reaches Settings', await tabTo('settings-open', true));
    await page.keyboard.press('Enter');
    check('Settings open', await page.locator('#settings').evaluate((node) => node.open));
    await page.keyboard.press('Escape');
    check('and close by Esc', !(await page.locator('#settings').evaluate((node) => node.open)));
    check('Tab reaches the page map', await tabTo('map'));
    await page.keyboard.press('ArrowRight');
    await page.waitForFunction(() =>
        document.getElementById('map-read').textContent.startsWith('Page'),
    );
    await leave('keyboard', page);
}

const pixels = (page, selector) =>
    page.evaluate((at) => {
        const canvas = document.querySelector(at);
        if (!canvas) return '';
        return [
            ...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data,
        ].join();
    }, selector);

// Whether a drawing becomes another one, within a while.
async function changes(page, selector, before) {
    for (let i = 0; i < 200; i++) {
        const now = await pixels(page, selector);
        if (now && now !== before) return true;
        await page.waitForTimeout(50);
    }
    return false;
}

async function live() {
    const page = await visit(open, { tokens: 150 });
    await page.waitForFunction(() => document.getElementById('link').dataset.state === 'live');
    const map = await pixels(page, '#map');
    await send(page, story);
    await page.waitForFunction(() =>
        document.getElementById('tile-running').textContent.startsWith('1 of'),
    );
    await page.waitForFunction(
        () => Number(document.getElementById('rate').textContent.replace(',', '')) > 0,
    );
    check('the page map moves', await changes(page, '#map', map));
    check(
        'a model without recurrent layers has no map of states',
        await page.locator('#states-block').isHidden(),
    );
    check(
        'a lane moves',
        await changes(page, '#lanes canvas', await pixels(page, '#lanes canvas')),
    );
    await page.getByText('2 s', { exact: true }).click();
    check('a lane can show less', (await page.locator('#axis').innerText()).startsWith('2 s ago'));
    await page
        .locator('#lanes canvas')
        .first()
        .hover({ position: { x: 100, y: 8 } });
    check(
        'a lane can be read',
        /^Stream \d+/.test(await page.locator('#lane-read').innerText()),
        await page.locator('#lane-read').innerText(),
    );
    await roofline(page);
    await explained(page);
    await done(page);
    const title = await page.locator('#lanes li').first().getAttribute('title');
    check('a stream says how its drafts fared', /\d+ of \d+ drafted tokens accepted$/.test(title), title);
    const facts = await page.locator('#facts').innerText();
    check('and so does the engine', /\d% of drafts accepted$/.test(facts), facts);
    await page.waitForFunction(() => /^p50 /.test(document.getElementById('itl-sum').textContent));
    check(
        'gaps are counted',
        /^p50 .*p95 .*of [1-9]/.test(await page.locator('#itl-sum').innerText()),
        await page.locator('#itl-sum').innerText(),
    );
    await answerExplained(page);
    await hidden(page);
    await leave('live', page, { errors: ['404'] });
}

// The roofs are the server's, the last step is on them, and the last second has its causes.
async function roofline(page) {
    await page.waitForFunction(() =>
        /FLOP\/byte.*% of the (memory|compute) roof$/.test(
            document.getElementById('roof-sum').textContent,
        ),
    );
    const drawn = await pixels(page, '#roof');
    check('the roofline is drawn', drawn.length > 1000, drawn.length);
    await page.waitForFunction(() =>
        / of all streams, mostly /.test(document.getElementById('second-sum').textContent),
    );
    const parts = await page.locator('#second span').count();
    const names = await page.locator('#second-legend').innerText();
    check('the last second has its causes', parts > 0 && /\d%/.test(names), [parts, names]);
}

// A click, or Enter, on a stream opens the server's own words about it.
async function explained(page) {
    await page.locator('#lanes li').first().click();
    await page.waitForFunction(() =>
        /to first token|No token/.test(document.getElementById('why-body').innerText),
    );
    const title = await page.locator('#why-title').innerText();
    const id = title.match(/^Request (\d+):/)?.[1];
    const words = await page.evaluate(async (number) => {
        const record = await (await fetch(`/requests/${number}/trace`)).json();
        return record.choices[0].text[0];
    }, id);
    const body = await page.locator('#why-body').innerText();
    check('a click explains a stream', body.includes(words), [words, body.slice(0, 400)]);
    check('with its bars', (await page.locator('#why-body .bars li').count()) > 0);
    check('the hint has the command', (await page.locator('#why-hint').innerText()).includes(`runnel explain ${id}`));
    await page.keyboard.press('Escape');
    check('Esc closes it', !(await page.locator('#why').isVisible()));
    // a list that moves while the button is held down
    await page.locator('#lanes li').first().hover();
    await page.mouse.down();
    await page.evaluate(() => {
        const list = document.getElementById('lanes');
        const copy = list.firstElementChild.cloneNode(true);
        copy.dataset.copy = 'yes';
        list.append(copy, list.firstElementChild);
    });
    await page.mouse.up();
    check('a list that moves can be clicked', await page.locator('#why').isVisible());
    await page.keyboard.press('Escape');
    // a page that drew its list again in between has no copy
    await page.evaluate(() => document.querySelector('#lanes li[data-copy]')?.remove());
    await page.locator('#lanes li[tabindex="0"]').focus();
    await page.keyboard.press('Enter');
    check('Enter explains it too', await page.locator('#why').isVisible());
    await page.keyboard.press('Escape');
}

// So does the button of an answer, and a request that the server forgot is said to be unknown.
async function answerExplained(page) {
    await page.locator('.message.assistant').last().hover();
    await page.getByRole('button', { name: 'Where the time went' }).last().click();
    await page.waitForFunction(() =>
        /^Request \d+:/.test(document.getElementById('why-title').textContent),
    );
    check(
        'an answer is explained',
        (await page.locator('#why-body').innerText()).includes('to first token'),
    );
    for (const [name, part] of [
        ['Save', '"schema":"runnel.request"'],
        ['Trace', '"traceEvents":['],
    ]) {
        const [file] = await Promise.all([
            page.waitForEvent('download'),
            page.getByRole('button', { name, exact: true }).click(),
        ]);
        let text = '';
        for await (const piece of await file.createReadStream()) text += piece;
        check(`${name} gives the file`, text.includes(part), text.slice(0, 100));
    }
    await page.keyboard.press('Escape');
    await page.evaluate(async () => {
        const { explainOpen } = await import('/assets/explain.js');
        explainOpen(987654);
    });
    await page.waitForFunction(() =>
        document.getElementById('why-body').innerText.includes("No request '987654'"),
    );
    await page.keyboard.press('Escape');
}

// A page that nobody sees follows nothing.
async function hidden(page) {
    const set = (value) =>
        page.evaluate((state) => {
            Object.defineProperty(document, 'hidden', { configurable: true, get: () => state });
            document.dispatchEvent(new Event('visibilitychange'));
            window.dispatchEvent(new Event('resize'));
        }, value);
    await set(true);
    const still = await page.locator('#facts').innerText();
    const follows = page.waitForRequest('**/engine/live', { timeout: 1500 }).then(
        () => true,
        () => false,
    );
    check(
        'hidden, the live view stays stopped',
        !(await follows) && still === (await page.locator('#facts').innerText()),
    );
    const [request] = await Promise.all([page.waitForRequest('**/engine/live'), set(false)]);
    check('shown again, it goes on', request.url().endsWith('/engine/live'));
}

// Small screens have tabs; the theme is kept.
async function small() {
    const page = await visit(open, { viewport: { width: 390, height: 844 }, colorScheme: 'dark' });
    check(
        'small: the chat is shown, the engine is not',
        (await page.locator('#chat').isVisible()) && !(await page.locator('#engine').isVisible()),
    );
    await page.click('#tab-engine');
    check('small: the tab shows the engine', await page.locator('#engine').isVisible());
    await page.waitForFunction(() => document.getElementById('link').dataset.state === 'live');
    const wide = await page.evaluate(
        () => document.documentElement.scrollWidth > document.documentElement.clientWidth,
    );
    check('small: nothing is wider than the screen', !wide);
    await page.locator('#spans input').last().focus();
    const moved = await page.evaluate(() => document.documentElement.scrollTop + document.body.scrollTop);
    check('small: a button below scrolls its pane, not the page', moved === 0, moved);
    const colour = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await colour();
    await page.click('#theme');
    const light = await colour();
    check('the theme can be changed', dark !== light, [dark, light]);
    await page.reload();
    check('and is kept', (await colour()) === light);
    await leave('small', page);
}

async function errors() {
    const page = await visit(open);
    let answersLeft = [
        [
            429,
            { 'Retry-After': '3' },
            { error: { message: 'the queue is full', type: 'rate_limit_error' } },
        ],
    ];
    await page.route('**/v1/chat/completions', (route) => {
        const next = answersLeft.shift();
        if (!next) return route.continue();
        return route.fulfill({
            status: next[0],
            headers: next[1],
            contentType: 'application/json',
            body: JSON.stringify(next[2]),
        });
    });
    await send(page, story);
    await page.waitForSelector('.state.error');
    const text = await page.locator('.state.error').innerText();
    check(
        '429 says why and how long',
        text.includes('the queue is full') && text.includes('3 s'),
        text,
    );
    answersLeft = [[503, {}, { error: { message: 'Loading model', code: 503 } }]];
    const health = page.waitForRequest('**/health');
    await page.getByRole('button', { name: 'Try again' }).click();
    await health;
    await begun(page);
    check('503 waits for /health and goes on', (await page.locator('.state.error').count()) === 0);
    await page.keyboard.press('Escape');
    await done(page);
    await page.route('**/v1/chat/completions', (route) =>
        route.fulfill({
            contentType: 'text/event-stream',
            body: 'data: {"choices":[{"index":0,"delta":{"content":"Half"}}]}\n\ndata: {"error":{"message":"the step failed"}}\n\n',
        }),
    );
    await page.getByRole('button', { name: 'Regenerate' }).click();
    await page.waitForSelector('.state.error');
    check(
        'an error in a stream keeps the text',
        (await textOf(page)) === 'Half' &&
            (await page.locator('.state.error').innerText()).includes('the step failed'),
    );
    await refusal(page);
    await full(page);
    await leave('errors', page, { errors: ['429', '503', '400'] });
}

// A message that the server refuses is not sent again with the next one.
async function refusal(page) {
    const sent = [];
    await page.route('**/v1/chat/completions', (route) => {
        const { messages } = route.request().postDataJSON();
        sent.push(messages.map(({ content }) => content));
        if (messages.at(-1).content.endsWith('Refuse me.'))
            return route.fulfill({
                status: 400,
                contentType: 'application/json',
                body: JSON.stringify({ error: { message: 'too long', param: 'messages' } }),
            });
        return route.fulfill({
            contentType: 'text/event-stream',
            body: 'data: {"choices":[{"index":0,"delta":{"content":"Taken"}}]}\n\ndata: [DONE]\n\n',
        });
    });
    await send(page, 'Refuse me.');
    await page.waitForFunction(() =>
        document.querySelector('.message:last-child .state.error')?.textContent.includes('too long'),
    );
    await send(page, 'Take me.');
    await page.waitForFunction(() =>
        document.querySelector('.message:last-child > .body').textContent.includes('Taken'),
    );
    check(
        'a refused message is left out',
        !JSON.stringify(sent.at(-1)).includes('Refuse me.') && sent.at(-1).at(-1) === 'Take me.',
        sent,
    );
}

// Storage that is full is said, and the conversation goes on.
async function full(page) {
    await page.evaluate(() => {
        Storage.prototype.setItem = () => {
            throw new DOMException('full', 'QuotaExceededError');
        };
    });
    await page.getByRole('button', { name: 'Regenerate' }).click();
    await page.waitForSelector('#notice:not([hidden])');
    check(
        'a full storage is said',
        (await page.locator('#notice').innerText()).includes('storage'),
    );
}

async function keyed() {
    const page = await visit(locked);
    await page.waitForSelector('#key[open]');
    await page.fill('#key-input', 'wrong');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() =>
        document.getElementById('key-why').textContent.includes('does not accept'),
    );
    await page.fill('#key-input', key);
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.getElementById('link').dataset.state === 'live');
    await send(page, story);
    await begun(page);
    check('with the key it answers', (await textOf(page)).length > 0);
    await page.keyboard.press('Escape');
    await done(page);
    const kept = await page.evaluate(
        (secret) => [
            JSON.stringify(localStorage).includes(secret),
            JSON.stringify(sessionStorage).includes(secret),
        ],
        key,
    );
    check('the key is kept for this tab only', !kept[0] && kept[1], kept);
    await leave('keyed', page, { errors: ['401'] });
}

async function withoutPage() {
    const response = await fetch(`${bare}/`);
    const body = await response.json();
    check(
        'without the page / is 404 as JSON',
        response.status === 404 && body.error.type === 'not_found_error',
        body,
    );
}

const parts = {
    conversation,
    lists,
    settings,
    markdown,
    parser,
    keyboard,
    live,
    small,
    errors,
    keyed,
    withoutPage,
};
const only = process.env.ONLY?.split(',');
for (const [name, part] of Object.entries(parts)) {
    if (only && !only.includes(name)) continue;
    const start = Date.now();
    await part().catch((error) => check(name, false, String(error).slice(0, 800)));
    if (process.env.TIMES) console.log(name, Date.now() - start, 'ms');
}
await browser.close();
console.log(`${checks} checks of the page, ${failures} failed`);
process.exitCode = failures ? 1 : 0;
