// Renders the families of tests/data/templates with @huggingface/jinja and compares with a folder of
// results: those of our own interpreter.
//   node render.mjs RESULTS
// One line for each difference; exit 1 when there is one. Templates that refuse a conversation are
// to refuse it there, too; the messages are compared when the template raised them.
import { readFileSync, readdirSync } from "node:fs";
import { Template } from "@huggingface/jinja";

const DATA = new URL("../data/templates/", import.meta.url);
const read = (url) => JSON.parse(readFileSync(url, "utf8"));

const cases = read(new URL("conversations.json", DATA));

// The package has a clock of its own: it gets ours.
const SystemDate = Date;
globalThis.Date = class extends SystemDate {
    constructor(...args) {
        super(...(args.length ? args : [cases.now * 1000]));
    }
};

function result(template, variables) {
    try {
        return { text: template.render(structuredClone(variables)) };
    } catch (error) {
        return { error: error.message };
    }
}

function equal(ours, other) {
    if ("text" in ours) return ours.text === other.text;
    return "raised" in ours ? ours.raised === other.error : "error" in other;
}

// Where the package itself differs from jinja2, with the reason.
const KNOWN = read(new URL("npm_known.json", DATA));

let n = 0;
let differences = 0;
let known = 0;
for (const file of readdirSync(DATA).filter((name) => name.endsWith(".jinja"))) {
    const family = file.replace(".jinja", "");
    const template = new Template(readFileSync(new URL(file, DATA), "utf8"));
    const ours = read(`${process.argv[2]}/${family}.json`);
    const few = cases.few.families.includes(family) ? cases.few.conversations : null;
    for (const conversation of cases.conversations) {
        if (few && !few.includes(conversation.name)) continue;
        const other = result(template, { ...cases.variables[family], ...conversation.variables });
        n++;
        if (equal(ours[conversation.name], other)) continue;
        if (KNOWN[family]?.[conversation.name] ?? KNOWN["*"][conversation.name]) {
            known++;
            continue;
        }
        differences++;
        console.log(`${family}, ${conversation.name}:`);
        console.log(`  ours    ${JSON.stringify(ours[conversation.name])}`);
        console.log(`  package ${JSON.stringify(other)}`);
    }
}
console.log(`${n} renders, ${differences} differ, ${known} differ as known`);
process.exit(differences || !n ? 1 : 0);
