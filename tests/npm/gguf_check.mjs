// Compares what `runnel inspect --json` says of GGUF files with what @huggingface/gguf reads in
// them: container, metadata by type, the tensor table.
//   node gguf_check.mjs PROGRAM FILE...
// One line for each difference; exit 1 when there is one.
import { spawnSync } from "node:child_process";
import { GGMLQuantizationType, GGUFValueType, gguf } from "@huggingface/gguf";

const TYPE_NAMES = {
    [GGUFValueType.UINT8]: "u8",
    [GGUFValueType.INT8]: "i8",
    [GGUFValueType.UINT16]: "u16",
    [GGUFValueType.INT16]: "i16",
    [GGUFValueType.UINT32]: "u32",
    [GGUFValueType.INT32]: "i32",
    [GGUFValueType.FLOAT32]: "f32",
    [GGUFValueType.BOOL]: "bool",
    [GGUFValueType.STRING]: "string",
    [GGUFValueType.ARRAY]: "array",
    [GGUFValueType.UINT64]: "u64",
    [GGUFValueType.INT64]: "i64",
    [GGUFValueType.FLOAT64]: "f64",
};

// What the package adds to the metadata: the header's own fields.
const HEADER_FIELDS = new Set(["version", "tensor_count", "kv_count"]);
const ITEMS_SHOWN = 4;

function inspect(program, file) {
    const run = spawnSync(program, ["inspect", "--json", file], { encoding: "utf8", maxBuffer: 1 << 28 });
    if (run.status !== 0) throw new Error(`inspect ended with ${run.status}: ${run.stderr}`);
    return JSON.parse(run.stdout);
}

function sameScalar(type, theirs, ours) {
    switch (type) {
        case GGUFValueType.FLOAT32: // written with as few digits as identify it
            return Math.fround(ours) === theirs;
        case GGUFValueType.FLOAT64: // written with 15 digits
            return ours === theirs || Math.abs(ours - theirs) <= 1e-14 * Math.abs(theirs);
        case GGUFValueType.UINT64:
        case GGUFValueType.INT64: // beyond 63 bits as text; JSON.parse makes the others doubles
            return typeof ours === "string" ? BigInt(ours) === theirs : ours === Number(theirs);
        default:
            return ours === theirs;
    }
}

// An array is {type, count, first}.
function sameArray(subType, theirs, ours) {
    const shown = subType === GGUFValueType.ARRAY ? 0 : Math.min(theirs.length, ITEMS_SHOWN);
    return ours?.type === TYPE_NAMES[subType] && ours.count === theirs.length &&
        ours.first.length === shown &&
        ours.first.every((item, i) => sameScalar(subType, theirs[i], item));
}

function text(value) {
    const json = JSON.stringify(value, (_, item) => (typeof item === "bigint" ? `${item}` : item));
    return json === undefined ? "nothing" : json.slice(0, 120);
}

function compareMetadata(theirs, ours, differ) {
    const keys = Object.keys(theirs).filter((key) => !HEADER_FIELDS.has(key));
    if (Object.keys(ours).join("\n") !== keys.join("\n")) differ("keys", keys, Object.keys(ours));
    for (const key of keys) {
        const { value, type, subType } = theirs[key];
        const same = type === GGUFValueType.ARRAY
            ? sameArray(subType, value, ours[key])
            : sameScalar(type, value, ours[key]);
        if (!same) differ(key, value, ours[key]);
    }
    return keys.length;
}

function compareTensors(file, alignment, ours, differ) {
    const theirs = file.tensorInfos;
    if (ours.length !== theirs.length) differ("tensors", theirs.length, ours.length);
    theirs.forEach((tensor, i) => {
        const want = {
            name: tensor.name,
            shape: tensor.shape.map(Number),
            format: GGMLQuantizationType[tensor.dtype],
            offset: Number(file.tensorDataOffset + tensor.offset),
        };
        const { name, shape, format, offset, bytes } = ours[i] ?? {};
        const have = { name, shape, format, offset };
        if (text(want) !== text(have)) differ(`tensor ${i}`, want, have);
        // The package knows no sizes, but the next tensor begins where this one ends, aligned.
        const next = theirs[i + 1];
        const room = next ? Number(next.offset - tensor.offset) : undefined;
        if (room !== undefined && Math.ceil(bytes / alignment) * alignment !== room)
            differ(`tensor ${i}, bytes up to the next`, room, bytes);
    });
    return theirs.length;
}

async function check(program, path) {
    let differences = 0;
    const differ = (what, theirs, ours) => {
        differences++;
        console.log(`${path}: ${what}: the package reads ${text(theirs)}, runnel ${text(ours)}`);
    };
    const file = await gguf(path, { allowLocalFile: true, typedMetadata: true });
    const ours = inspect(program, path);
    const container = `GGUF v${file.metadata.version}`;
    if (ours.container !== container) differ("container", container, ours.container);
    const keys = compareMetadata(file.typedMetadata, ours.metadata, differ);
    const alignment = Number(file.metadata["general.alignment"] ?? 32);
    const tensors = compareTensors(file, alignment, ours.tensors, differ);
    if (keys !== Number(file.metadata.kv_count)) differ("key count", file.metadata.kv_count, keys);
    console.log(`${path}: ${keys} keys, ${tensors} tensors, ${differences} differences`);
    return differences;
}

const [program, ...files] = process.argv.slice(2);
if (!program || !files.length) {
    console.error("usage: node gguf_check.mjs PROGRAM FILE...");
    process.exit(2);
}
let total = 0;
for (const file of files) total += await check(program, file);
process.exit(total ? 1 : 0);
