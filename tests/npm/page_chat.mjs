// A person's chat: answers, several conversations, the list, settings, keys.
import {
    answers,
    begun,
    check,
    done,
    downloaded,
    key,
    leave,
    locked,
    narrow,
    open,
    send,
    story,
    textOf,
    visit,
    writing,
} from './page_visit.mjs';
import { imports } from './page_ways.mjs';

export async function conversation() {
    const page = await visit(open, { tokens: 600 }); // it is to be stopped
    await page.waitForFunction(() => document.getElementById('model').textContent.includes('tale'));
    check(
        'one button is called a new conversation',
        (await page.getByRole('button', { name: 'New conversation' }).count()) === 1,
    );
    const ideas = await page.locator('.idea').allInnerTexts();
    check('a model of stories is asked for stories', /story/.test(ideas[0]), ideas);
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

    await page.locator('#set-max_tokens').evaluate((input) => {
        input.value = '80';
        input.dispatchEvent(new Event('input'));
    });
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
        /tokens\/s.*first token.*\d+ tokens.*% of drafts.*% of bandwidth/s.test(stats),
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

export async function lists() {
    const page = await visit(open, { tokens: 30, ...narrow });
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
        const text = await downloaded(page, () =>
            page.getByRole('button', { name: label }).click(),
        );
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
    await done(page);
    await imports(page);
    await leave('lists', page);
}

export async function settings() {
    const page = await visit(open, { tokens: 0, ...narrow });
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
    await page.getByText('Advanced', { exact: true }).click();
    await page.fill('#set-stop', 'THE END\n\\n\\n');
    await page.fill('#set-presence_penalty', '0.5');
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
        body.max_tokens === 3 &&
            body.temperature === 0 &&
            body.seed === 7 &&
            body.presence_penalty === 0.5 &&
            JSON.stringify(body.stop) === '["THE END","\\n\\n"]' &&
            !('top_p' in body) &&
            !('min_p' in body),
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

// Nothing but keys: to the message, an answer, stop, its buttons, settings, the list.
export async function keyboard() {
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

export async function keyed() {
    const page = await visit(locked);
    await page.waitForSelector('#key[open]');
    check(
        'a gauge without a figure is empty',
        (await page.locator('#arc .value').getAttribute('class')).includes('none'),
    );
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
