// The roofline: operations per byte against operations per second, both logarithmic. The roofs are
// the machine's measured bandwidth and peak; dots are the last steps, the newest one is filled.
import { surface, themeColour } from './charts.js';
import { byId, number, percent } from './ui.js';

const tall = 150;

// "12 G", "3.4 T"
function short(value) {
    const units = ['', ' k', ' M', ' G', ' T', ' P'];
    let unit = 0;
    while (value >= 1000 && unit < units.length - 1) {
        value /= 1000;
        unit += 1;
    }
    return `${number(value)}${units[unit]}`;
}

// A step as {x: FLOP/byte, y: FLOP/s, roof: FLOP/s that the machine could do there}.
function dotOf([flops, bytes, ns], bandwidth, peak) {
    const x = flops / bytes;
    return { x, y: (flops / ns) * 1e9, roof: Math.min(peak, x * bandwidth) };
}

function describe(dots, bandwidth, peak) {
    if (!(bandwidth > 0)) return 'the machine’s roofs were not measured';
    if (!dots.length) return 'no step yet';
    const last = dots.at(-1);
    const bound = last.x * bandwidth < peak ? 'memory' : 'compute';
    return (
        `${number(last.x)} FLOP/byte, ${short(last.y)}FLOP/s: ` +
        `${percent(Math.min(1, last.y / last.roof))} of the ${bound} roof`
    );
}

export function roofDraw(live) {
    const bandwidth = live.bandwidth.measured;
    const peak = live.peak > 0 ? live.peak : Infinity; // not measured: one roof
    const dots = live.last_steps.map((step) => dotOf(step, bandwidth, peak));
    const text = describe(dots, bandwidth, peak);
    byId('roof-sum').textContent = text;
    byId('roof').setAttribute('aria-label', `Roofline: ${text}`);
    const { ctx, width, height } = surface(byId('roof'), tall);
    if (!(bandwidth > 0) || width < 40) return;
    if (peak === Infinity && !dots.length) return; // nothing gives the axes their range
    paint(ctx, dots, frame(dots, bandwidth, peak, width, height));
}

// The area of the drawing, and the functions from values to pixels.
function frame(dots, bandwidth, peak, width, height) {
    const ridge = peak / bandwidth;
    const xs = [ridge, ...dots.map((dot) => dot.x)].filter(Number.isFinite);
    const [low, high] = [Math.min(...xs) / 4, Math.max(...xs) * 8];
    const bottom = Math.min(low * bandwidth, ...dots.map((dot) => dot.y)) / 2;
    const top = Math.min(peak, high * bandwidth);
    const head = 15; // of the roof's label
    const part = (value, from, to) => Math.log(value / from) / Math.log(to / from);
    return {
        low,
        high,
        ridge,
        bandwidth,
        peak,
        width,
        height,
        base: height - 16,
        x: (value) => part(value, low, high) * width,
        y: (value) => head + (height - 16 - head) * (1 - part(value, bottom, top)),
    };
}

function paint(ctx, dots, at) {
    ctx.fillStyle = themeColour('--line');
    ctx.fillRect(0, at.base, at.width, 1);
    ctx.strokeStyle = themeColour('--ink');
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.moveTo(0, at.y(at.low * at.bandwidth));
    const knee = Math.min(at.ridge, at.high);
    ctx.lineTo(at.x(knee), at.y(knee * at.bandwidth));
    ctx.lineTo(at.width, at.y(knee * at.bandwidth));
    ctx.stroke();
    ctx.fillStyle = themeColour('--muted');
    ctx.font = `11px ${themeColour('--sans')}`;
    ctx.textBaseline = 'bottom';
    ctx.textAlign = 'right';
    ctx.fillText('FLOP/byte', at.width, at.height);
    if (at.peak < Infinity) ctx.fillText(`${short(at.peak)}FLOP/s`, at.width, at.y(at.peak) - 2);
    ctx.textAlign = 'left';
    ctx.fillText(number(at.low), 0, at.height);
    ctx.textAlign = 'center';
    if (at.peak < Infinity) ctx.fillText(number(at.ridge), at.x(at.ridge), at.height);
    dots.forEach((dot, i) => paintDot(ctx, at, dot, i === dots.length - 1));
}

function paintDot(ctx, at, dot, newest) {
    ctx.beginPath();
    ctx.arc(at.x(dot.x), at.y(dot.y), newest ? 4.5 : 2.5, 0, 2 * Math.PI);
    ctx.fillStyle = themeColour(newest ? '--accent' : '--muted');
    ctx.globalAlpha = newest ? 1 : 0.5;
    ctx.fill();
    ctx.globalAlpha = 1;
}
