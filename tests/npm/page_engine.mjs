// The engine's pane: its drawings, what a stream says, and small screens.
import {
    check,
    done,
    downloaded,
    leave,
    open,
    piece,
    send,
    story,
    stream,
    visit,
} from './page_visit.mjs';

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

export async function live() {
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
    check(
        'a stream says how its drafts fared',
        /\d+ of \d+ drafted tokens accepted$/.test(title),
        title,
    );
    const facts = await page.locator('#facts').innerText();
    check('and so does the engine', /\d% of drafts accepted$/.test(facts), facts);
    await page.waitForFunction(() => /^p50 /.test(document.getElementById('itl-sum').textContent));
    check(
        'gaps are counted',
        /^p50 .*p95 .*of [1-9]/.test(await page.locator('#itl-sum').innerText()),
        await page.locator('#itl-sum').innerText(),
    );
    await dials(page);
    await answerExplained(page);
    await hidden(page);
    await leave('live', page, { errors: ['404'] });
}

// The dials keep the figures of the last answer, which are those of the line under it.
async function dials(page) {
    await page.waitForFunction(() => document.getElementById('rate-age').textContent !== '');
    const text = await page.locator('.message.assistant .stats').innerText();
    const figure = (shown) => Number(/[\d.,]+/.exec(shown)[0].replace(',', ''));
    const rate = figure(await page.locator('#rate').innerText());
    check(
        'the dial agrees with the answer',
        rate > 0.75 * figure(text) && rate < 1.33 * figure(text),
        [rate, text],
    );
    const dim = await page.locator('#rate').evaluate((node) => getComputedStyle(node).opacity);
    check('and is dimmed', Number(dim) < 1, dim);
    const share = figure(await page.locator('#share').innerText());
    const dashes = await page.locator('#arc .value').getAttribute('stroke-dasharray');
    check(
        'the gauge is drawn up to its figure',
        share > 0 && Math.abs(parseFloat(dashes) - share) <= 1,
        [share, dashes],
    );
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
    check(
        'the hint has the command',
        (await page.locator('#why-hint').innerText()).includes(`runnel explain ${id}`),
    );
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
        const text = await downloaded(page, () =>
            page.getByRole('button', { name, exact: true }).click(),
        );
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
    const follows = page.waitForRequest('**/engine/live', { timeout: 800 }).then(
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
export async function small() {
    const page = await visit(open, { viewport: { width: 390, height: 844 }, colorScheme: 'dark' });
    check(
        'small: the chat is shown, the engine is not',
        (await page.locator('#chat').isVisible()) && !(await page.locator('#engine').isVisible()),
    );
    await page.route('**/v1/chat/completions', (route) =>
        route.fulfill(
            stream([piece('Yes.'), { timings: { predicted_n: 9, predicted_per_second: 432 } }]),
        ),
    );
    await send(page, story);
    await done(page);
    await page.click('#tab-engine');
    await page.waitForFunction(() => document.getElementById('rate').textContent === '432');
    check('small: the tab shows the engine', await page.locator('#engine').isVisible());
    await page.waitForFunction(() => document.getElementById('link').dataset.state === 'live');
    const wide = await page.evaluate(
        () => document.documentElement.scrollWidth > document.documentElement.clientWidth,
    );
    check('small: nothing is wider than the screen', !wide);
    await page.locator('#spans input').last().focus();
    const moved = await page.evaluate(
        () => document.documentElement.scrollTop + document.body.scrollTop,
    );
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
