// Random JSON Schemas; every text that sample_jobs makes for them is to be valid by ajv. By hand:
//   npm i ajv ajv-formats; node schemas_ajv.mjs BUILD/tests/sample_jobs [SCHEMAS [SEED]]
// With the address of a server (http://...) in its place, that server's model writes the texts, at temperature 1.5.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import process from "node:process";
const require = createRequire(process.cwd() + "/");
const Ajv = require("ajv/dist/2020").default;
const formats = require("ajv-formats").default;

let seed = BigInt(process.argv[4] ?? 1);
function below(n) {
  seed = (seed * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((seed >> 33n) % BigInt(n));
}
const pick = (list) => list[below(list.length)];
const names = ["a", "ab", "abc", "name", "x1", "é", "q\"uote", "line\n", "", "/path"];
const patterns = ["^a", "b$", "[0-9]+", "^x.*y$", "^(foo|bar)-\\d{2,4}$", "a.c", "^[^\\s\"]+$", "\\\\", "^\\w{3,60}$", "é|ü"];

function string() {
  const s = { type: "string" };
  const kind = below(6);
  if (kind === 0) s.pattern = pick(patterns);
  if (kind === 1) s.format = pick(["date", "time", "date-time", "uuid", "email", "ipv4", "ipv6", "uri", "hostname"]);
  if (kind === 2 || below(6) === 0) s.minLength = below(5);
  if (kind === 2 || below(6) === 0) s.maxLength = (s.minLength ?? 0) + below(s.pattern || s.format ? 60 : 20);
  return s;
}
const decimal = () => Number((below(2) ? "-" : "") + below(pick([3, 30, 2000])) + pick(["", "", ".5", ".25", ".125"]));
function number() {
  const s = { type: pick(["integer", "number"]) };
  if (below(2)) s[pick(["minimum", "exclusiveMinimum"])] = decimal();
  if (below(3) === 0) s[pick(["maximum", "exclusiveMaximum"])] = (s.minimum ?? s.exclusiveMinimum ?? 0) + 1 + below(500);
  if (below(5) === 0) s.multipleOf = pick([1, 2, 3, 5, 7, 10, 0.5, 0.25]);
  return s;
}
function object(depth, refs) {
  const s = { type: "object" };
  if (below(8)) {
    s.properties = {};
    for (let n = below(5); n > 0; n--) s.properties[pick(names)] = schema(depth - 1, refs);
    s.required = Object.keys(s.properties).filter(() => below(2));
    if (below(6) === 0) s.required.push("needed");
  }
  if (below(2)) s.additionalProperties = below(3) ? false : schema(depth - 1, refs);
  if (s.required?.includes("needed") && s.additionalProperties === false) delete s.additionalProperties;
  if (below(5) === 0) s.patternProperties = { [pick(patterns)]: schema(depth - 1, refs) };
  return s;
}
function array(depth, refs) {
  const s = { type: "array" };
  if (below(3)) s.items = schema(depth - 1, refs);
  if (below(4) === 0) s.prefixItems = [schema(depth - 1, refs), schema(depth - 1, refs)];
  if (below(3) === 0) s.minItems = below(4);
  if (below(2) === 0) s.maxItems = (s.minItems ?? 0) + below(4);
  return s;
}
function schema(depth, refs) {
  const kind = below(depth > 0 ? 12 : 6);
  if (kind === 0) return pick([true, {}, { type: "boolean" }, { type: ["null", "integer"] }]);
  if (kind <= 2) return string();
  if (kind <= 4) return number();
  if (kind === 5) return pick([{ enum: [1, "a\n", null, [1, { b: 2 }], 1.5, "é\""] }, { const: { k: ["v"] } }, { type: "string", enum: ["x", "y"] }]);
  if (kind <= 7) return object(depth, refs);
  if (kind === 8) return array(depth, refs);
  if (kind === 9) return { [pick(["anyOf", "anyOf"])]: [schema(depth - 1, refs), schema(depth - 1, refs)] };
  if (kind === 10 && refs) return { $ref: "#/$defs/" + pick(["A", "B"]) };
  return { allOf: [object(depth - 1, refs), { properties: { [pick(names)]: schema(depth - 1, refs) } }] };
}
function root() {
  const s = below(3) ? object(3, true) : schema(3, true);
  if (typeof s !== "object") return s;
  return { ...s, $defs: { A: object(2, true), B: schema(1, false) } };
}

// Lines as sample_jobs prints them: an array of texts, or an error.
function sample(program) {
  const out = spawnSync(program, ["4"], {
    input: schemas.map((s) => JSON.stringify(s) + "\n").join(""), maxBuffer: 1 << 30, encoding: "utf8" });
  return out.stdout.split("\n").slice(0, -1);
}
async function ask(url, schema, i) {
  const body = { prompt: "Once upon a time", max_tokens: 400, temperature: 1.5, seed: i,
    response_format: { type: "json_schema", json_schema: { name: "random", schema } } };
  const answer = await (await fetch(`${url}/v1/completions`, { method: "POST", body: JSON.stringify(body) })).json();
  if (answer.error) return `ERROR ${answer.error.message}`;
  const [{ text, finish_reason }] = answer.choices;
  return JSON.stringify(finish_reason === "stop" ? [text] : []); // others are cut off
}
async function serve(url) {
  const all = [];
  for (let i = 0; i < n; i += 8) all.push(...await Promise.all(schemas.slice(i, i + 8).map((s, k) => ask(url, s, i + k))));
  return all;
}

const n = Number(process.argv[3] ?? 1000);
const schemas = Array.from({ length: n }, root);
const lines = process.argv[2].startsWith("http") ? await serve(process.argv[2]) : sample(process.argv[2]);
let texts = 0, bad = 0;
const errors = {};
lines.forEach((line, i) => {
  if (line.startsWith("ERROR")) {
    const key = line.replace(/^ERROR \S*: /, "");
    errors[key] = (errors[key] ?? 0) + 1;
    return;
  }
  const ajv = new Ajv({ strict: false, multipleOfPrecision: 6 });
  formats(ajv);
  let validate;
  try {
    validate = ajv.compile(schemas[i]);
  } catch (e) {
    errors[e.message] = (errors[e.message] ?? 0) + 1; // ajv does not read it
    return;
  }
  for (const text of JSON.parse(line)) {
    texts++;
    let why = null;
    try {
      if (!validate(JSON.parse(text))) why = ajv.errorsText(validate.errors);
    } catch (e) {
      why = e.message;
    }
    if (why && bad++ < 10) console.log(JSON.stringify(schemas[i]), "\n  ", text, "\n  ", why);
  }
});
console.log(`${lines.length} of ${n} schemas, ${texts} texts, ${bad} not valid`, errors);
process.exit(bad || lines.length !== n ? 1 : 0);
