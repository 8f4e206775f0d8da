// A server of the soak, and clients of it: requests by Node's own client, raw connections, and a
// strict reader of answers. Loopback only; every wait ends.
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import tls from 'node:tls';

export const PATIENCE_MS = 30e3;
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Starts the program; secure: with a certificate of its own. Resolves when it is ready.
export async function start(program, folder, name, secure) {
    const log = `${folder}/${name}.log`;
    const options = ['serve', '--port', '0', '-q', '--access-log', log];
    if (secure) {
        const [key, cert] = [`${folder}/key.pem`, `${folder}/cert.pem`];
        const made = spawnSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost',
            '-keyout', key, '-out', cert]);
        if (made.status !== 0) throw new Error(`openssl made no certificate: ${made.stderr ?? made.error}`);
        options.push('--tls-cert', cert, '--tls-key', key);
    }
    const child = spawn(program, options, { stdio: ['ignore', 'ignore', 'pipe'] });
    process.on('exit', () => child.kill('SIGKILL'));
    const server = { name, secure, child, pid: child.pid, log, said: '', module: secure ? https : http };
    server.ended = new Promise((resolve) => child.on('close', (code, signal) => resolve(signal ?? code)));
    server.agent = new server.module.Agent({ keepAlive: true, maxSockets: 32, timeout: 60e3 });
    await new Promise((resolve, reject) => {
        child.stderr.on('data', (data) => {
            server.said = (server.said + data).slice(0, 4096);
            server.port ??= Number(server.said.match(/ready at https?:\/\/[^:]+:(\d+)/)?.[1]) || undefined;
            if (server.port) resolve();
        });
        child.on('error', reject);
        server.ended.then((code) => reject(new Error(`${program} ended with ${code}: ${server.said}`)));
    });
    return server;
}

// What the kernel says of it.
export const descriptors = (server) => fs.readdirSync(`/proc/${server.pid}/fd`).length;
export const rss = (server) => Number(fs.readFileSync(`/proc/${server.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) / 1024;

// One whole exchange. body: an object, or none for GET. on(response): called at its head; wait: ms before each piece of the
// body is sent. Resolves to {status, headers, text, port}, the port being our own.
export function exchange(server, path, body, { method, agent = server.agent, on, wait = 0, headers = {} } = {}) {
    return new Promise((resolve, reject) => {
        const data = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
        const request = server.module.request({ host: '127.0.0.1', port: server.port, path, agent, rejectUnauthorized: false,
            method: method ?? (data ? 'POST' : 'GET'), headers: { ...(data && { 'content-length': data.length }), ...headers } });
        const late = setTimeout(() => request.destroy(new Error('no whole answer in time')), PATIENCE_MS);
        const over = (how, what) => { clearTimeout(late); how(what); };
        request.on('response', (response) => {
            const pieces = [], port = response.socket.localPort;
            response.on('data', (piece) => pieces.push(piece));
            response.on('end', () => over(resolve, { status: response.statusCode, headers: response.headers,
                text: Buffer.concat(pieces).toString(), port }));
            response.on('error', (error) => over(reject, error));
            on?.(response, request);
        });
        request.on('error', (error) => over(reject, error));
        if (!wait) return request.end(data);
        (async () => { // a slow sender
            for (let i = 0, step = Math.ceil(data.length / 8); i < data.length; i += step) {
                request.write(data.subarray(i, i + step));
                await sleep(wait);
            }
            request.end();
        })();
    });
}

// A raw connection: {socket, tcp, received, ended}. received grows; ended says how it ended.
export function connect(server) {
    return new Promise((resolve, reject) => {
        const tcp = net.connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true });
        const socket = server.secure ? tls.connect({ socket: tcp, rejectUnauthorized: false, allowHalfOpen: true }) : tcp;
        const link = { socket, tcp, received: Buffer.alloc(0), ended: null };
        const late = setTimeout(() => { tcp.destroy(); reject(new Error('no connection in time')); }, PATIENCE_MS);
        socket.on('data', (data) => { link.received = Buffer.concat([link.received, data]); link.wake?.(); });
        socket.on('end', () => { link.ended ??= 'end'; link.wake?.(); });
        tcp.on('error', (error) => { link.ended ??= error.code; link.wake?.(); reject(error); });
        if (server.secure) socket.on('error', (error) => { link.ended ??= error.code; link.wake?.(); reject(error); });
        socket.on('close', () => { link.ended ??= 'close'; link.wake?.(); });
        socket.once(server.secure ? 'secureConnect' : 'connect', () => { clearTimeout(late); resolve(link); });
    });
}

// Until what came fulfils the condition, the connection ended, or time is over: whether it is fulfilled.
export async function received(link, condition, ms = PATIENCE_MS) {
    const end = performance.now() + ms;
    while (!condition(link.received) && !link.ended && performance.now() < end) {
        await new Promise((resolve) => {
            const late = setTimeout(resolve, Math.max(1, end - performance.now()));
            link.wake = () => { clearTimeout(late); resolve(); };
        });
    }
    link.wake = null;
    return condition(link.received);
}

// The answers in what came on a connection: [{status, headers, text}], heads: which are to HEAD. Throws at what is none.
export function answersOf(bytes, heads = []) {
    const answers = [];
    let text = bytes.toString('latin1');
    while (text) {
        const end = text.indexOf('\r\n\r\n');
        const lines = text.slice(0, end).split('\r\n');
        const status = Number(lines[0].match(/^HTTP\/1\.1 (\d{3}) /)?.[1]);
        if (end < 0 || !status) throw new Error(`no head: ${JSON.stringify(text.slice(0, 30))}`);
        if (status < 200) { // an interim answer
            text = text.slice(end + 4);
            continue;
        }
        const headers = Object.fromEntries(lines.slice(1).map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]));
        let body = '', at = end + 4;
        if (heads[answers.length] || status === 204 || status === 304) {
            // there is none
        } else if (headers['transfer-encoding'] === 'chunked') {
            for (let size = -1; size !== 0; at += size + 2) {
                const line = text.slice(at).match(/^([0-9a-fA-F]+)\r\n/);
                if (!line) throw new Error(`no chunk: ${JSON.stringify(text.slice(at, at + 40))}`);
                size = parseInt(line[1], 16);
                at += line[0].length;
                body += text.slice(at, at + size);
                if (text.slice(at + size, at + size + 2) !== '\r\n') throw new Error('a chunk is cut off');
            }
        } else {
            const length = Number(headers['content-length']);
            if (!(length >= 0) || text.length < at + length) throw new Error(`no whole body: ${lines.join(' | ').slice(0, 120)}`);
            body = text.slice(at, at += length);
        }
        answers.push({ status, headers, text: Buffer.from(body, 'latin1').toString() });
        text = text.slice(at);
    }
    return answers;
}

// The samples of /metrics: a map from 'name{label="value",...}', without the model's labels, to numbers.
export function samplesOf(text) {
    const samples = new Map();
    for (const line of text.split('\n')) {
        const found = line.match(/^([^ {#]+)(?:\{(.*)\})? (\S+)$/);
        if (!found) continue;
        const labels = (found[2] ?? '').split(',').filter((label) => label && !/^(model_name|engine)=/.test(label));
        samples.set(found[1] + (labels.length ? `{${labels.join(',')}}` : ''), Number(found[3]));
    }
    return samples;
}
