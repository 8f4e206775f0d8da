// Tokens per second while something is written: the tokens of all streams by the time in which at
// least one of them wrote, as the line under an answer has it. Idle time does not lower the figure.
// When the last stream ends, the figures of the time since the first began stay, with their age.

const windowMs = 1000;
const seen = new Map(); // stream number -> {output, until}: its tokens so far, up to which moment
let samples = []; // {time, tokens, ms}: tokens that were written and how long that took
let burst = null; // {tokens, ms, share}: since the engine had nothing to write; share times ms
let last = null; // {rate, share, time} of the burst before
let answered = null; // {rate, share, at} of this page's last answer, by the page's clock

export function ratesReset() {
    seen.clear();
    samples = [];
    burst = last = null;
}

// The part of a picture's time in which a stream wrote, and its tokens in it; null: none. The first
// token of a stream ends its prompt, and no time belongs to it.
function spanOf(stream, now) {
    const known = seen.get(stream.n);
    const times = stream.tokens.map(([time]) => time);
    const isFirst = known ? known.until === null : stream.tokens[0]?.[1] === 'first';
    const tokens = (known ? stream.output - known.output : times.length) - (isFirst ? 1 : 0);
    const from = known?.until ?? times[0] ?? null;
    const until = from === null ? null : stream.state === 'decode' ? now : (times.at(-1) ?? from);
    seen.set(stream.n, { output: stream.output, until });
    return from === null
        ? null
        : { from, until: Math.max(from, until), tokens: Math.max(0, tokens) };
}

// The time that spans cover together.
function covered(spans) {
    let [sum, end] = [0, -Infinity];
    for (const { from, until } of spans.sort((a, b) => a.from - b.from)) {
        sum += Math.max(0, until - Math.max(from, end));
        end = Math.max(end, until);
    }
    return sum;
}

const sumOf = (list, name) => list.reduce((sum, entry) => sum + entry[name], 0);

// Takes a picture: {rate, share, age_ms}. age_ms is 0 while something is written; rate is NaN as
// long as nothing ever was.
export function ratesTake(live) {
    const now = live.time_ms;
    const spans = live.streams.map((stream) => spanOf(stream, now)).filter(Boolean);
    const there = new Set(live.streams.map(({ n }) => n));
    for (const n of seen.keys()) if (!there.has(n)) seen.delete(n);
    const sample = { time: now, tokens: sumOf(spans, 'tokens'), ms: covered(spans) };
    samples = [...samples.filter(({ time }) => time > now - windowMs), sample];
    if (sample.ms > 0) {
        burst ??= { tokens: 0, ms: 0, share: 0 };
        burst.tokens += sample.tokens;
        burst.ms += sample.ms;
        burst.share += sample.ms * live.bandwidth.share;
        const rate = (1000 * sumOf(samples, 'tokens')) / sumOf(samples, 'ms');
        return { rate, share: live.bandwidth.share, age_ms: 0 };
    }
    if (burst) {
        const { tokens, ms, share } = burst;
        last = { rate: (1000 * tokens) / ms, share: share / ms, time: now };
        burst = null;
        samples = [];
    }
    const age = last ? now - last.time : Infinity;
    const answeredAge = answered ? performance.now() - answered.at : Infinity;
    const newest = answeredAge < age - windowMs ? answered : last; // unless it was watched
    return newest
        ? {
              rate: newest.rate,
              share: newest.share,
              age_ms: Math.max(1, Math.min(age, answeredAge)),
          }
        : { rate: NaN, share: NaN, age_ms: 1 };
}

// An answer of this page ended, maybe while nobody watched the engine.
export function ratesAnswered({ predicted_n, predicted_per_second, bandwidth_share }) {
    if (predicted_n > 1)
        answered = { rate: predicted_per_second, share: bandwidth_share, at: performance.now() };
}
