// The text of answers: Markdown, formulas, code, hostile text; and the parser of events.
import { check, done, leave, narrow, open, piece, send, stream, visit } from './page_visit.mjs';

// Hostile and ordinary markdown through the page's own renderer, and a hostile answer through the
// chat.
export async function markdown() {
    const page = await visit(open, narrow);
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
            '<p><math title="a^2 * b*c"><mrow><msup><mi>a</mi><mn>2</mn></msup><mo>∗</mo><mi>b</mi><mo>∗</mo><mi>c</mi></mrow></math> <math display="block" title="x_1 = &lt;y_2&gt;"><mrow><msub><mi>x</mi><mn>1</mn></msub><mo>=</mo><mo>&lt;</mo><msub><mi>y</mi><mn>2</mn></msub><mo>&gt;</mo></mrow></math> [no link] (open <em>i</em></p>',
        ],
        [
            '$5 and $10, US$5, $5=$10, $x_1$ and \\(\\foo{a} * b*c\\).',
            '<p>$5 and $10, US$5, $5=$10, <math title="x_1"><mrow><msub><mi>x</mi><mn>1</mn></msub></mrow></math> and <code class="tex">\\(\\foo{a} * b*c\\)</code>.</p>',
        ],
        [
            '$$\n\\frac12\n+ \\unknown\n$$',
            '<p><code class="tex">$$\n\\frac12\n+ \\unknown\n$$</code></p>',
        ],
        [
            '\\[ \\begin{pmatrix} 1 & 2 \\\\ 3 & \\sqrt{x} \\end{pmatrix} \\]',
            '<div class="formula" tabindex="0"><math display="block" title="\\begin{pmatrix} 1 &amp; 2 \\\\ 3 &amp; \\sqrt{x} \\end{pmatrix}"><mrow><mrow><mo fence="true">(</mo><mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr><mtr><mtd><mn>3</mn></mtd><mtd><msqrt><mi>x</mi></msqrt></mtd></mtr></mtable><mo fence="true">)</mo></mrow></mrow></math></div>',
        ],
        [
            '- [ ] a\n- [x] b\n- [y] c',
            '<ul><li class="task"><input type="checkbox" disabled="" aria-label="open">a</li><li class="task"><input type="checkbox" disabled="" checked="" aria-label="done">b</li><li>[y] c</li></ul>',
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
            html.includes(
                '<code><span class="k">let</span> a = <span class="s">"&lt;b&gt;"</span>;</code>',
            ),
        html,
    );
    for (const mark of [
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
        '$x_',
        '$$\n',
        '$\\frac{',
        '```c\n/*"',
        '# ',
        '\n- ',
        '\n> > ',
        '(',
        '[a](',
    ]) {
        const { ms } = await render(mark.repeat(8000));
        if (process.env.TIMES) console.log(JSON.stringify(mark), Math.round(ms));
    }
    await parser(page);
    await hostileAnswer(page);
    await leave('markdown', page);
}

async function hostileAnswer(page) {
    const text =
        '<img src=x onerror="window.pwned=1"> [a](javascript:window.pwned=1) <svg onload=window.pwned=1> ![b](https://elsewhere.example/b.png)\n\n<script>window.pwned=1</script>';
    const end = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
    await page.route('**/v1/chat/completions', (route) =>
        route.fulfill(stream([piece(text), end])),
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

async function parser(page) {
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
}
