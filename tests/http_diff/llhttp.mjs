// How llhttp, the parser of Node's HTTP server, splits a stream of bytes into requests, with none of
// its leniencies. Each request is one string, as reader_split writes it.
import { createRequire } from 'node:module';

const { HTTPParser, methods } = createRequire(import.meta.url)('_http_common');
const parser = new HTTPParser();
const resource = {};
let requests, fields, url, current;
let trailed = 0;

parser[HTTPParser.kOnHeaders] = (list, part) => {
    if (current) trailed++; // trailers
    else {
        fields.push(...list);
        url += part;
    }
};
parser[HTTPParser.kOnHeadersComplete] = (major, minor, list, method, target, status, message, upgrade, keep) => {
    const all = list ?? fields;
    const line = `${methods[method]}\0${list ? target : url}\0`;
    current = { text: all.length ? `${line}${all.join('\0')}\0` : line, major, minor, keep, body: '', complete: false };
    requests.push(current);
    fields = [];
    url = '';
    return 0;
};
parser[HTTPParser.kOnBody] = (bytes) => { current.body += bytes.latin1Slice(); };
parser[HTTPParser.kOnMessageComplete] = () => {
    current.complete = true;
    current = null;
};

// Bytes are given in pieces of the sizes that `size` gives. An upgrade is not made, as by a server
// that offers none: parsing continues after that request. Node hides errors in such a request, but
// then no byte is taken any more; the pause for the upgrade takes none at most once.
function execute(bytes, size) {
    for (let at = 0, stuck = 0; at < bytes.length;) {
        const end = Math.min(bytes.length, at + size(bytes.length - at));
        while (at < end) {
            const result = parser.execute(bytes.subarray(at, end));
            if (typeof result !== 'number') return result;
            stuck = result > 0 ? 0 : stuck + 1;
            if (stuck > 1) return { code: 'error in an upgrade request' };
            at += result;
        }
    }
    return null;
}

// `heads`: how many requests' heads were accepted. llhttp looks at Transfer-Encoding only after it
// has given the head out; such a head is not accepted.
export function split(bytes, size) {
    requests = [];
    fields = [];
    url = '';
    current = null;
    trailed = 0;
    parser.initialize(HTTPParser.REQUEST, resource, 0, HTTPParser.kLenientNone);
    const error = execute(bytes, size);
    const last = requests.at(-1);
    const closed = last !== undefined && last.complete && !last.keep;
    const refused = error !== null && !closed;
    const heads = requests.length - (error?.reason === 'Request has invalid `Transfer-Encoding`' ? 1 : 0);
    return { requests, heads, end: closed ? 'closed' : refused ? 'refused' : 'more', code: refused ? error.code : '', trailed };
}
