// The table of allowed differences: requests that the reader refuses and llhttp accepts. A row is
// recognised by the reader's status, code and reason; its examples are checked by --examples.
const get = 'GET / HTTP/1.1\r\nHost: a\r\n';
const post = 'POST / HTTP/1.1\r\nHost: a\r\n';
const chunked = `${post}Transfer-Encoding: chunked\r\n\r\n`;
const bad = { status: 400, code: 'bad_request' };
const ambiguous = { status: 400, code: 'ambiguous_request' };

export const allowed = [
    { id: 'method', rule: 'Methods of other protocols, and CONNECT, are not known.',
        status: 501, code: 'method_not_implemented', why: "The request's method is not known",
        examples: ['PROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n', 'CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n'] },
    { id: 'version', rule: 'Only HTTP/1.1 and HTTP/1.0 are spoken.',
        status: 505, code: 'version_not_supported', why: 'Only HTTP/1.1 and 1.0 are spoken',
        examples: ['GET / HTTP/2.0\r\nHost: a\r\n\r\n', 'GET / HTTP/0.9\r\nHost: a\r\n\r\n'] },
    { id: 'line-parts', rule: 'A request without a version, as of HTTP/0.9, is not taken.',
        ...bad, why: "The request's line is not METHOD TARGET HTTP/1.1",
        examples: ['GET /\r\n\r\n'] },
    { id: 'line-blanks', rule: 'There is one space before the target and one behind it.',
        ...bad, why: "The request's line does not end with HTTP/1.1",
        examples: ['GET  / HTTP/1.1\r\nHost: a\r\n\r\n', 'GET /  HTTP/1.1\r\nHost: a\r\n\r\n'] },
    { id: 'line-long', rule: "A request's line has at most 16384 bytes, all of them counted.",
        status: 414, code: 'uri_too_long', why: "The request's line is longer than the 16384 bytes of a head",
        examples: [`GET /${'a'.repeat(16370)} HTTP/1.1\r\nHost: a\r\n\r\n`, `${'\r\n'.repeat(8200)}${get}\r\n`] },
    { id: 'target-characters', rule: 'A target holds no "#".',
        ...bad, why: "The request's target holds a character that must be escaped",
        examples: ['GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n'] },
    { id: 'target-form', rule: 'A target is a path, an http address with a name of plain characters and no user, or "*" for OPTIONS.',
        ...bad, why: "The request's target is not a path",
        examples: ['GET * HTTP/1.1\r\nHost: a\r\n\r\n', 'GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n', 'GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n'] },
    { id: 'line-end', rule: 'Lines end with CR LF, also the empty ones before a request.',
        ...bad, why: 'A line of the request does not end with CR LF',
        examples: [`\n${get}\r\n`, `\r\r\n${get}\r\n`] },
    { id: 'head-long', rule: 'A head has at most 16384 bytes, all of them counted.',
        status: 431, code: 'headers_too_large', why: "The request's head has more than 16384 bytes",
        examples: [`${get}${'A: b\r\n'.repeat(3000)}\r\n`] },
    { id: 'host-none', rule: 'A request of HTTP/1.1 has a Host field.',
        ...bad, why: 'There is no Host field',
        examples: ['GET / HTTP/1.1\r\n\r\n'] },
    { id: 'host-two', rule: 'A request has one Host field at most.',
        ...bad, why: 'There is more than one Host field',
        examples: [`${get}Host: a\r\n\r\n`] },
    { id: 'host-name', rule: 'The Host field is a name or an address, with a port or without.',
        ...bad, why: 'The Host field is not a name',
        examples: ['GET / HTTP/1.1\r\nHost: a/b\r\n\r\n', 'GET / HTTP/1.1\r\nHost: a, b\r\n\r\n'] },
    { id: 'expect', rule: 'No expectation but 100-continue is met.',
        status: 417, code: 'expectation_failed', why: 'No expectation but 100-continue is met',
        examples: [`${get}Expect: 200-ok\r\n\r\n`] },
    { id: 'coding', rule: 'The one transfer coding is chunked, alone.',
        ...ambiguous, why: 'Transfer-Encoding is not chunked',
        examples: [`${post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`, `${post}Transfer-Encoding: ,chunked\r\n\r\n0\r\n\r\n`, `${post}Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`] },
    { id: 'coding-1.0', rule: 'A request of HTTP/1.0 has no transfer coding.',
        ...ambiguous, why: 'Transfer-Encoding is not part of HTTP/1.0',
        examples: ['POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'] },
    { id: 'tab', rule: 'No tab follows the value of a length, a coding or Connection: llhttp refuses it behind the first two and takes it for a part of the third.',
        ...ambiguous, why: 'A tab follows a length, a coding or Connection',
        examples: [`${get}Connection: keep-alive\t\r\n\r\n`] },
    { id: 'chunk-line', rule: "A chunk's line has at most 256 bytes; its extensions are ;NAME, ;NAME=TOKEN and ;NAME=\"TEXT\".",
        ...bad, why: 'The size of a chunk of the body is not plain digits',
        examples: [`${chunked}${'0'.repeat(300)}\r\n\r\n`, `${chunked}0;a=\r\n\r\n`, `${chunked}0;;a\r\n\r\n`, `${chunked}0;a=b"c"\r\n\r\n`] },
    { id: 'extra-long', rule: 'Extensions and trailers of a body have at most 16384 bytes, all of them counted.',
        status: 431, code: 'headers_too_large', why: "The body's chunks have more than 16384 bytes of extensions and trailers",
        examples: [`${chunked}0\r\n${'A: b\r\n'.repeat(3000)}\r\n`, `${chunked}${`1;${'a'.repeat(200)}\r\nx\r\n`.repeat(100)}0\r\n\r\n`] },
    { id: 'trailer', rule: 'Trailers hold no Host, and no field that says where the request ends or whether another follows.',
        ...ambiguous, why: "The body's trailers hold a field of the head",
        examples: [`${chunked}0\r\nHost: a\r\n\r\n`, `${chunked}0\r\nConnection: keep-alive\r\n\r\n`] },
];

// The one difference that is no refusal: the reader closes a connection that llhttp keeps. It is
// recognised by the word "close" in a Connection field.
export const closes = { id: 'closes', sign: /\0(proxy-)?connection\0(|[^\0]*[ \t,])close[ \t,\0]/i,
    rule: 'The reader closes where a Connection field holds the word close; llhttp wants commas around it, and lets keep-alive win in HTTP/1.0.',
    examples: ['GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n', `${get}Connection: close x\r\n\r\n`] };
