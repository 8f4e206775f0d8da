// A thread of its own that asks for /health ten times a second on one connection, so that the times
// are not those of the busy clients. Messages: 'go', 'stop' (answered when nothing is under way with
// {ms: [...], failures: [...], ports: [...]} since the last one).
import http from 'node:http';
import https from 'node:https';
import { parentPort, workerData } from 'node:worker_threads';

const { port, secure, patience } = workerData;
const library = secure ? https : http;
const agent = new library.Agent({ keepAlive: true, maxSockets: 1 });
let seen = { ms: [], failures: [], ports: [] }, going = false, underWay = false, asked = false;

function answer() {
    if (!asked || underWay) return;
    asked = false;
    parentPort.postMessage(seen);
    seen = { ms: [], failures: [], ports: [] };
}

function ask() {
    const start = performance.now();
    underWay = true;
    const request = library.get({ host: '127.0.0.1', port, path: '/health', agent, rejectUnauthorized: false });
    const late = setTimeout(() => request.destroy(new Error('no answer in time')), patience);
    const over = (failure) => {
        clearTimeout(late);
        if (!underWay) return;
        underWay = false;
        if (failure) seen.failures.push(failure);
        else seen.ms.push(performance.now() - start);
        answer();
    };
    request.on('response', (response) => {
        if (!seen.ports.includes(response.socket.localPort)) seen.ports.push(response.socket.localPort);
        response.resume();
        response.on('end', () => over(response.statusCode === 200 ? null : `status ${response.statusCode}`));
    });
    request.on('error', (error) => over(error.message));
}

setInterval(() => { if (going && !underWay) ask(); }, 100);
parentPort.on('message', (message) => {
    going = message === 'go';
    asked = !going;
    answer();
});
