// When something is in the way: errors, a full context, a lost connection, files, other models.
import {
    begun,
    check,
    done,
    downloaded,
    leave,
    narrow,
    open,
    piece,
    send,
    story,
    stream,
    textOf,
    tight,
    visit,
} from './page_visit.mjs';

export async function errors() {
    const page = await visit(open, narrow);
    await lost(page);
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
        route.fulfill(
            stream([piece('Half'), { error: { message: 'the step failed' } }], { cut: true }),
        ),
    );
    await page.getByRole('button', { name: 'Regenerate' }).click();
    await page.waitForSelector('.state.error');
    check(
        'an error in a stream keeps the text',
        (await textOf(page)) === 'Half' &&
            (await page.locator('.state.error').innerText()).includes('the step failed'),
    );
    await refusal(page);
    await reasoningCut(page);
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
        return route.fulfill(stream([piece('Taken')]));
    });
    await send(page, 'Refuse me.');
    await page.waitForFunction(() =>
        document
            .querySelector('.message:last-child .state.error')
            ?.textContent.includes('too long'),
    );
    const state = await page.locator('.message:last-child .state').innerText();
    check(
        'a refusal is said without the field’s name, and is not tried again',
        !state.includes('(messages)') && !state.includes('Try again') && state.includes('Edit'),
        state,
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

// An answer that was cut in its reasoning shows the reasoning, and says why there is nothing else.
async function reasoningCut(page) {
    await page.getByRole('button', { name: 'New conversation' }).click();
    await page.route('**/v1/chat/completions', (route) =>
        route.fulfill(
            stream([
                { choices: [{ index: 0, delta: { reasoning_content: 'Let me think.' } }] },
                { choices: [{ index: 0, delta: {}, finish_reason: 'length' }] },
            ]),
        ),
    );
    // a text that is read again may have one token more than the answer that filled the context
    await page.route('**/tokenize', (route) =>
        route.fulfill({ json: { count: 1025, max_model_len: 1024 } }),
    );
    await send(page, 'Why?');
    await page.waitForSelector('.message.assistant .state:not([hidden]) .ways');
    await page.waitForSelector('#meter[data-state=full]');
    const meter = await page.locator('#meter').getAttribute('aria-valuetext');
    check('a full context is not more than full', meter === '1,024 of 1,024 tokens, full', meter);
    await page.unroute('**/tokenize');
    const text = await page.locator('.message.assistant').innerText();
    check(
        'reasoning that was cut is open, and the cut is said',
        text.includes('Let me think.') && text.includes('within the reasoning') &&
            text.includes('Open the settings'),
        text,
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

// A connection that breaks leaves the text, which can be continued.
async function lost(page) {
    const sent = [];
    await page.route('**/v1/chat/completions', (route) => {
        sent.push(route.request().postDataJSON().messages);
        return route.fulfill(
            sent.length === 1 ? stream([piece('Half')], { cut: true }) : stream([piece(' way.')]),
        );
    });
    await send(page, story);
    await page.waitForSelector('.state.error');
    const text = await page.locator('.state.error').innerText();
    check(
        'a lost connection is said',
        text.includes('The connection to the server was lost.'),
        text,
    );
    check('and leaves the text', (await textOf(page)) === 'Half');
    await page.getByRole('button', { name: 'Continue' }).click();
    await page.waitForFunction(() => !document.querySelector('.message.writing, .state.error'));
    check('the answer is continued', (await textOf(page)) === 'Half way.', await textOf(page));
    check(
        'from where it was',
        sent[1].length === 2 && sent[1][1].role === 'assistant' && sent[1][1].content === 'Half',
        sent[1],
    );
    await page.unroute('**/v1/chat/completions');
    await page.getByRole('button', { name: 'New conversation' }).click();
}

// A real context that becomes full: within an answer, and by a message.
export async function filled() {
    const page = await visit(tight, narrow);
    const sent = [];
    page.on('request', (request) => {
        if (request.url().endsWith('/v1/chat/completions'))
            sent.push(
                request
                    .postDataJSON()
                    .messages.map(({ content }) => content)
                    .join('|'),
            );
    });
    const meter = (text) =>
        page.waitForFunction(
            (part) => document.getElementById('meter').ariaValueText?.includes(part),
            text,
        );
    await send(page, story);
    await done(page);
    await meter(' of 128 tokens');
    await send(page, 'Now tell me a story about a robot who learns to swim in the sea.');
    await page.getByRole('button', { name: 'Drop the oldest turns and continue' }).click();
    await page.waitForSelector('.cut:not([hidden])');
    const cut = await page.locator('.cut:not([hidden])').innerText();
    check(
        'dropped turns are counted',
        /^The oldest turn, \d+ tokens, is no longer sent: the context holds 128 tokens\./.test(cut),
        cut,
    );
    await done(page);
    check('and not sent', !sent.at(-1).includes(story) && sent.at(-1).includes('robot'), sent);
    await page.getByRole('button', { name: 'New conversation' }).click();
    await refusedAsFull(page, sent);
    await leave('filled', page, { errors: ['400'] });
}

async function refusedAsFull(page, sent) {
    await send(page, story);
    await done(page);
    const long = `Tell me about ${'a cat and a dog and '.repeat(8)}a bird.`;
    await send(page, long);
    await page.waitForSelector('.state.error');
    const state = await page.locator('.state.error').innerText();
    check(
        'a full context is said in words of its own',
        /^The context is full: with this message .* the context holds 128\./.test(state) &&
            !/maximum context length|\(messages\)|Try again/.test(state),
        state,
    );
    await page.getByRole('button', { name: 'Ask in a new conversation' }).click();
    check('the message is not lost', (await page.inputValue('#input')) === long);
    await page.fill('#input', '');
    await page.click('#list-open');
    await page.locator('.row .open').first().click();
    await page.locator('.state.error').getByRole('button', { name: 'Drop the oldest' }).click();
    await page.waitForFunction(() => !document.querySelector('.state.error, .message.writing'));
    check('without the oldest it is answered', sent.at(-1) === long, sent.at(-1));
    await page.getByRole('button', { name: 'Send all again' }).click();
    check('all can be sent again', (await page.locator('.message.dropped').count()) === 0);
    await tooLongAlone(page);
}

// Neither dropping turns nor a new conversation helps a message that is too long by itself.
async function tooLongAlone(page) {
    const waysOn = () => page.locator('.state.error .ways').innerText();
    await send(page, 'a cat and a dog and '.repeat(40));
    await page.waitForSelector('.state.error .ways');
    const state = await page.locator('.state.error').innerText();
    check(
        'a message that is too long by itself is said to be',
        /^This message has \d+ tokens, and the whole context holds 128\. The message was not sent\./.test(
            state,
        ),
        state,
    );
    check('and can only be edited', (await waysOn()) === 'Edit the message', await waysOn());
    check('turns are not dropped for it', !(await page.locator('#meter-drop').isVisible()));
    await page.reload();
    await page.waitForSelector('.state.error .ways');
    check('also after a reload', (await waysOn()) === 'Edit the message', await waysOn());
}

// An exported conversation comes back whole; a bad file changes nothing.
export async function imports(page) {
    const before = await page.locator('.message').allInnerTexts();
    await page.click('#list-open');
    const exported = () =>
        downloaded(page, () =>
            page.getByRole('button', { name: 'Export as json' }).first().click(),
        );
    const text = await exported();
    const give = (name, content) =>
        page.setInputFiles('#import-file', {
            name,
            mimeType: 'application/json',
            buffer: Buffer.from(content),
        });
    for (const [name, content, reason] of [
        ['broken.json', '{"messages":', 'it is no JSON'],
        ['tool.json', '[{"role":"tool","content":"x"}]', 'message 1 has the role "tool"'],
        ['none.json', '{"title":"x"}', 'it has no list of messages'],
    ]) {
        await give(name, content);
        await page.waitForFunction(
            (want) => document.getElementById('import-said').textContent.includes(want),
            `${name} was not imported: ${reason}`,
        );
    }
    check('a bad file adds nothing', (await page.locator('.row').count()) === 1);
    await give('good.json', text);
    await page.waitForFunction(() => !document.getElementById('list').open);
    const shown = await page.locator('.message').allInnerTexts();
    check('an import is shown with its figures', shown.join() === before.join(), [shown, before]);
    await page.click('#list-open');
    check('beside the others', (await page.locator('.row').count()) === 2);
    check('and comes back whole', (await exported()) === text, [await exported(), text]);
    await give(
        'saved.json',
        '[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]',
    );
    await page.waitForSelector('#chat-system:not([hidden])');
    const [request] = await Promise.all([
        page.waitForRequest('**/v1/chat/completions'),
        page.getByRole('button', { name: 'Answer' }).click(),
    ]);
    check(
        'messages that the terminal saved keep their system message',
        request.postDataJSON().messages[0].content === 'Be brief.',
        request.postDataJSON(),
    );
    await begun(page);
}

const changed = (change) => async (page) =>
    page.route('**/props*', async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, json: { ...(await response.json()), ...change } });
    });

// A server with several models: each conversation has its own.
export async function models() {
    const entry = (id, status) => ({ id, object: 'model', max_model_len: 1024, status });
    const page = await visit(open, {
        ...narrow,
        script: async (one) => {
            await changed({ model_alias: 'qwen2.5-coder-7b' })(one);
            await one.route('**/v1/models', (route) =>
                route.fulfill({
                    json: {
                        data: [
                            entry('qwen2.5-coder-7b', 'loaded'),
                            entry('other', { value: 'unloaded' }),
                        ],
                    },
                }),
            );
        },
    });
    const sent = [];
    const counted = [];
    await page.route('**/v1/chat/completions', (route) => {
        const { model } = route.request().postDataJSON();
        sent.push(model);
        if (model === 'other')
            return route.fulfill({
                status: 400,
                json: { error: { message: 'no template', code: 'no_chat_template' } },
            });
        return route.fulfill(stream([piece('Yes.')]));
    });
    await page.route('**/v1/completions', (route) => {
        sent.push(route.request().postDataJSON().prompt);
        return route.fulfill(stream([{ choices: [{ index: 0, text: ' there' }] }]));
    });
    await page.route('**/tokenize', (route) => {
        counted.push(route.request().postDataJSON().model);
        return route.fulfill({ json: { count: 10, max_model_len: 1024 } });
    });
    const choice = page.getByRole('combobox', { name: 'Model' });
    await choice.waitFor();
    const options = await choice.locator('option').allInnerTexts();
    check(
        'models are listed with their state',
        options.join() === 'qwen2.5-coder-7b – loaded,other – not loaded',
        options,
    );
    const ideas = await page.locator('.idea').allInnerTexts();
    check('a model of code is asked for code', /function/.test(ideas[0]), ideas);
    await send(page, 'One?');
    await done(page);
    await page.getByRole('button', { name: 'New conversation' }).click();
    await choice.selectOption('other');
    await page.waitForFunction(
        () => document.getElementById('link').textContent === 'other is not loaded',
    );
    await continued(page, sent);
    await page.click('#list-open');
    await page.locator('.row .open').nth(1).click();
    check('a conversation keeps its model', (await choice.inputValue()) === 'qwen2.5-coder-7b');
    check('a model is not loaded to count tokens', !counted.includes('other'), counted);
    await leave('models', page, { errors: ['400'] });
}

// A model without a chat template continues text: all of it, as it is.
async function continued(page, sent) {
    await send(page, 'Once');
    await done(page);
    await page.waitForFunction(
        () => document.getElementById('input').placeholder === 'Text to continue',
    );
    await send(page, ' was ');
    await page.waitForFunction(() => document.querySelectorAll('.message').length === 4);
    await done(page);
    check(
        'without a template text is continued',
        JSON.stringify(sent) ===
            JSON.stringify(['qwen2.5-coder-7b', 'other', 'Once', 'Once there was ']),
        sent,
    );
}
