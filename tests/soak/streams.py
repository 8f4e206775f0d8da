#!/usr/bin/env python3
"""Many streams against one real server with little memory: whole streams, hang-ups, preemption.
   streams.py RUNNEL [OPTIONS OF SERVE...]     Python's own modules only
Environment: SOAK_MINUTES (5), SOAK_CLIENTS (96); options of serve have their twins (RUNNEL_BACKEND, RUNNEL_MODEL).
A table; exit status 1 when an answer is wrong, something is not given back, or the server fails."""
import asyncio, json, os, random, re, signal, socket, struct, subprocess, sys, threading, time

QUIET_S, PATIENCE_S, N_FIXED = 20, 120, 40
DEFAULTS = {'--max-seqs': '64', '--kv-memory': '72p', '--ctx': '1024', '--max-waiting': '512'}
WORDS = 'the fox and a lantern were in deep green forest one day when old king said that little robot had no home'.split()


def fixed_requests():
    """Prompts of some families with common starts; the seed makes their texts the same every time."""
    draw, requests = random.Random(1), []
    starts = [' '.join(draw.choice(WORDS) for _ in range(60)) for _ in range(4)]
    for i in range(N_FIXED):
        tail = ' '.join(draw.choice(WORDS) for _ in range(draw.choice((2, 8, 30, 60))))
        body = {'prompt': f'{starts[i % 4]} {tail}' if i % 3 else tail, 'seed': i, 'stream': True, 'ignore_eos': True,
                'max_tokens': draw.choice((8, 40, 150, 500)), 'temperature': 0 if i % 5 == 0 else 0.9,
                'stream_options': {'include_usage': True}}
        if i % 7 == 0: body['n'] = 3
        if i % 4 == 0: body['repetition_penalty'] = 1.1
        requests.append(body)
    return requests


class Soak:
    def __init__(self, port, until):
        self.port, self.until = port, until
        self.requests, self.known, self.random = fixed_requests(), {}, random.Random(2)
        self.whole = self.hangups = self.tokens = self.refused = 0
        self.faults = {}

    def fault(self, what):
        self.faults[what] = self.faults.get(what, 0) + 1

    async def open(self, body):
        reader, writer = await asyncio.open_connection('127.0.0.1', self.port)
        text = json.dumps(body)
        writer.write(f'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(text)}\r\n\r\n{text}'.encode())
        return reader, writer

    async def stream(self, i):
        """One whole stream, which must be as it was the first time."""
        reader, writer = await self.open(self.requests[i])
        try:
            data = await asyncio.wait_for(reader.read(), PATIENCE_S)
        finally:
            writer.close()
        head, _, body = data.partition(b'\r\n\r\n')
        status = head.split(b' ', 2)[1:2]
        if status == [b'429']:
            self.refused += 1
            return await asyncio.sleep(0.05)
        if status != [b'200']: return self.fault(f'status {status}: {body[:200]}')
        texts, ends, tokens, done = {}, {}, 0, False
        for line in body.split(b'\n'):
            if not line.startswith(b'data: '): continue
            if line[6:].strip() == b'[DONE]':
                done = True
                continue
            event = json.loads(line[6:])
            if event.get('error'): return self.fault(f'error event: {event["error"]}')
            for choice in event.get('choices', ()):
                at = choice['index']
                texts[at] = texts.get(at, '') + choice['text']
                if choice.get('finish_reason'): ends[at] = choice['finish_reason']
            if event.get('usage'): tokens = event['usage']['completion_tokens']
        want = self.requests[i]['max_tokens'] * self.requests[i].get('n', 1)
        if not done or tokens != want: return self.fault(f'request {i}: {tokens} of {want} tokens, [DONE]: {done}')
        got = json.dumps([texts, ends], sort_keys=True)
        if self.known.setdefault(i, got) != got: return self.fault(f'request {i}: another text')
        self.whole += 1
        self.tokens += tokens

    async def hangup(self, i):
        """Leaves after the request, at the first bytes or in the middle; by close or by RST."""
        reader, writer = await self.open({**self.requests[i], 'max_tokens': 600})
        try:
            await writer.drain()
            stage = self.random.randrange(3)
            if stage == 0: await asyncio.sleep(self.random.random() * 0.02)
            if stage > 0: await asyncio.wait_for(reader.read(1), PATIENCE_S)
            if stage > 1: await asyncio.wait_for(reader.read(self.random.randrange(200, 20000)), PATIENCE_S)
            if self.random.random() < 0.5:
                writer.get_extra_info('socket').setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        finally:
            writer.close()
        self.hangups += 1

    async def client(self):
        while time.monotonic() < self.until:
            i = self.random.randrange(N_FIXED)
            try:
                await (self.hangup(i) if self.random.random() < 0.4 else self.stream(i))
            except Exception as error:  # noqa: BLE001: any failure of a request is a finding
                self.fault(f'{type(error).__name__}: {error}')
                await asyncio.sleep(0.2)


def scrape(port):
    with socket.create_connection(('127.0.0.1', port), PATIENCE_S) as link:
        link.sendall(b'GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
        text = b''.join(iter(lambda: link.recv(65536), b'')).decode()
    def one(name, label=''):
        return sum(float(line.rsplit(' ', 1)[1]) for line in text.splitlines() if line.startswith(name + '{') and label in line)
    return {'held': one('runnel:kv_pages', 'state="held"'), 'cached': one('runnel:kv_pages', 'state="cached"'),
            'states': one('runnel:states', 'state="held"'),
            'running': one('vllm:num_requests_running'), 'waiting': one('vllm:num_requests_waiting'),
            'preemptions': one('vllm:num_preemptions_total'), 'hits': one('vllm:prefix_cache_hits_total'),
            'errors': one('vllm:request_success_total', '"error"'), 'steps': one('runnel:steps_total')}


def start(program, options):
    given = [option.split('=')[0] for option in options]
    for name, value in DEFAULTS.items():
        twin = 'RUNNEL_' + name[2:].upper().replace('-', '_')
        if name not in given and twin not in os.environ: options += [name, value]
    server = subprocess.Popen([program, 'serve', '--host', '127.0.0.1', '--port', '0', '-q', *options],
                              stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        found = re.search(r'ready at http://127\.0\.0\.1:(\d+)', line)
        if found:
            # nothing may wait for a reader; later lines are shown
            threading.Thread(target=lambda: [sys.stderr.write(line) for line in server.stderr], daemon=True).start()
            return server, int(found[1])
        sys.stderr.write(line)
    sys.exit('streams: the server did not start')


def main():
    if len(sys.argv) < 2: sys.exit(__doc__)
    minutes, n_clients = float(os.environ.get('SOAK_MINUTES') or 5), int(os.environ.get('SOAK_CLIENTS') or 96)
    server, port = start(sys.argv[1], sys.argv[2:])
    begin = time.monotonic()
    before = scrape(port)
    soak = Soak(port, begin + 60 * minutes)

    async def run():
        clients = [asyncio.create_task(soak.client()) for _ in range(n_clients)]
        most, told = 0, begin
        while time.monotonic() < soak.until and server.poll() is None:
            await asyncio.sleep(0.5)
            try:
                now = await asyncio.to_thread(scrape, port)
            except OSError as error:
                soak.fault(f'/metrics: {error}')
                continue
            most = max(most, now['running'])
            if time.monotonic() - told > 30:
                told = time.monotonic()
                print(f'{told - begin:6.0f} s: {soak.whole} whole, {soak.hangups} hang-ups, {now["preemptions"]:.0f} preemptions, '
                      f'{now["running"]:.0f} run, {now["held"]:.0f} pages held, {sum(soak.faults.values())} faults', flush=True)
        if server.poll() is not None: soak.until = 0
        await asyncio.gather(*clients)
        return most

    most = asyncio.run(run())
    took = time.monotonic() - begin
    if server.poll() is not None:
        sys.exit(f'FAILED: the server ended by itself after {took:.0f} s with {server.returncode}; {soak.whole} whole streams, '
                 f'{soak.hangups} hang-ups')
    after = scrape(port)
    end = time.monotonic() + QUIET_S
    while any(after[key] != before[key] for key in ('held', 'states', 'running', 'waiting')) and time.monotonic() < end:
        time.sleep(0.1)
        after = scrape(port)
    server.send_signal(signal.SIGTERM)
    try:
        status = server.wait(60)
    except subprocess.TimeoutExpired:
        server.kill()
        status = 'none within 60 s'
    for key in ('held', 'states', 'running', 'waiting'):
        if after[key] != before[key]: soak.fault(f'{key}: {before[key]:.0f} at the start, {after[key]:.0f} at the end')
    if status: soak.fault(f'exit status {status}')
    if after['errors']: soak.fault(f'{after["errors"]:.0f} requests ended with an error')
    rows = [('minutes', f'{took / 60:.1f}'), ('clients', n_clients), ('whole streams', soak.whole), ('hang-ups', soak.hangups),
            ('refused with 429', soak.refused), ('tokens of whole streams', soak.tokens), ('different requests seen', len(soak.known)),
            ('most at a time', f'{most:.0f}'), ('preemptions', f'{after["preemptions"]:.0f}'), ('cached prompt tokens', f'{after["hits"]:.0f}'),
            ('steps', f'{after["steps"]:.0f}'), ('pages held, start and end', f'{before["held"]:.0f} and {after["held"]:.0f}'),
            ('pages cached at the end', f'{after["cached"]:.0f}'), ('faults', sum(soak.faults.values()))]
    print('| what | number |\n| --- | ---: |')
    for name, value in rows: print(f'| {name} | {value} |')
    for what, n in sorted(soak.faults.items(), key=lambda item: -item[1])[:20]: print(f'FAILED {n} times: {what}')
    print('FAILED' if soak.faults else 'passed')
    sys.exit(1 if soak.faults else 0)


main()
