// An independent client: gRPC and HTTP/2 in JavaScript, our .proto read as it is.
//
//   client.js TOP ADDRESS SCENARIO [ARGUMENT...]
//
// Each scenario checks one thing about a running agent; exit 0 when all is well.
'use strict';
const assert = require('assert');
const fs = require('fs');
const net = require('net');
const http2 = require('http2');
const zlib = require('zlib');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const [top, address, scenario, ...args] = process.argv.slice(2);
const load = (file, dirs) => grpc.loadPackageDefinition(loader.loadSync(file, {
	keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true, includeDirs: dirs,
}));
const { CRIUAgent } = load('agent.proto',
	[`${top}/agent/proto`, `${top}/libctx/proto`]).criu.agent.v1;
const { Health } = load('grpc/health/v1/health.proto', ['/usr/share/grpc-proto']).grpc.health.v1;
const S = grpc.status;
const clients = [];

function connect(Kind = CRIUAgent, creds = grpc.credentials.createInsecure(), options = {}) {
	const c = new Kind(address, creds, { 'grpc.use_local_subchannel_pool': 1, ...options });
	clients.push(c);
	return c;
}

// The answer, or the error with its code.
function call(c, method, request = {}, ms = 20000) {
	return new Promise((resolve, reject) => {
		c[method](request, { deadline: Date.now() + ms },
			(error, answer) => error ? reject(error) : resolve(answer));
	});
}

async function refused(c, method, request, code, text) {
	const error = await call(c, method, request).then(
		(answer) => assert.fail(`${method} was answered: ${JSON.stringify(answer)}`), (e) => e);
	assert.strictEqual(error.code, code, `${method}: ${error.message}`);
	assert.match(error.details, text);
}

// The next @n messages of a stream, or how it ended.
function take(stream, n) {
	return new Promise((resolve) => {
		const got = [];
		stream.on('data', (m) => { got.push(m); if (got.length === n) resolve({ got }); });
		stream.on('error', (error) => resolve({ got, error }));
		stream.on('end', () => resolve({ got }));
	});
}

// 60 KiB that would be 60 MiB: refused as it is, not unpacked first.
function bomb() {
	const body = zlib.gzipSync(Buffer.alloc(60 << 20));
	const head = Buffer.from([1, 0, 0, 0, 0]);
	head.writeUInt32BE(body.length, 1);
	const session = http2.connect('http://agent',
		{ createConnection: () => net.connect(address.replace('unix:', '')) });
	const stream = session.request({ ':method': 'POST', 'content-type': 'application/grpc',
		te: 'trailers', 'grpc-encoding': 'gzip',
		':path': '/criu.agent.v1.CRIUAgent/StopProfiling' });
	stream.end(Buffer.concat([head, body]));
	return new Promise((resolve, reject) => {
		const ended = (headers) => {
			if (headers['grpc-status'] === undefined)
				return;
			session.destroy();
			assert.strictEqual(+headers['grpc-status'], S.UNIMPLEMENTED);
			resolve();
		};
		stream.on('response', ended).on('trailers', ended).on('error', reject).resume();
	});
}

async function await_hot(c) {
	for (;;) {
		const hot = await call(c, 'GetHotRegions');
		if (hot.regions.some((r) => r.end_addr - r.start_addr >= 16 << 20))
			return hot;
		await new Promise((r) => setTimeout(r, 50));
	}
}

const scenarios = {
	// every value outside its range, by the field's name; the agent goes on
	async bad_values() {
		const c = connect();
		const bad = {
			interval_ms: [-1, 1, 9, 3600001, 2147483647],
			hot_threshold: [-0.1, 1, 1.5, NaN, Infinity, -Infinity],
			hot_consecutive: [-1, 11, 2147483647],
			pid: [-1, -2147483648],
			granularity_bytes: [1, 4096, 65537, 3 << 20, 2 ** 31, 2 ** 53],
			service_name: ['x'.repeat(1025), 'a\0b'],
		};
		for (const [field, values] of Object.entries(bad))
			for (const value of values)
				await refused(c, 'StartProfiling', { [field]: value },
					S.INVALID_ARGUMENT, new RegExp(`^${field}:`));
		await refused(c, 'StartProfiling', { pid: 1, service_name: 'x' },
			S.INVALID_ARGUMENT, /^service_name:/);
		await refused(c, 'GetProcessContext', { pid: -5 }, S.INVALID_ARGUMENT, /^pid:/);
		for (const id of ['', '.', '..', 'a/b', '/etc', 'a.b', '-x', 'x'.repeat(65), 'a\0', 'ä'])
			for (const method of ['PreCheckpoint', 'FinalDump'])
				await refused(c, method, { dump_id: id },
					S.INVALID_ARGUMENT, /^dump_id:/);
		for (const id of ['../x', 'same'])
			await refused(c, 'FinalDump', { dump_id: 'same', parent_dump_id: id },
				S.INVALID_ARGUMENT, /^parent_dump_id:/);
	},

	async nothing_profiled() {
		const c = connect();
		for (const method of ['GetHotRegions', 'GetDirtyVolume', 'GetProcessContext'])
			await refused(c, method, {}, S.FAILED_PRECONDITION, /nothing is being profiled/);
		const { error } = await take(c.WatchDirtyVolume({}), 1);
		assert.strictEqual(error.code, S.FAILED_PRECONDITION);
		assert.deepStrictEqual(await call(c, 'StopProfiling'), { success: true });
		const a = await call(c, 'StartProfiling', { pid: 4194303 });
		assert.strictEqual(a.success, false);
		assert.match(a.error, /4194303/);
		await refused(c, 'GetProcessContext', { pid: 4194303 }, S.NOT_FOUND, /4194303/);
	},

	// every RPC on a process that writes; args: pid
	async profile(pid) {
		const c = connect();
		const a = await call(c, 'StartProfiling', { pid: +pid, interval_ms: 50 });
		assert.strictEqual(a.error, '');
		assert.ok(a.success && a.pid === +pid && a.vma_count > 3);
		const again = await call(c, 'StartProfiling', { pid: +pid });
		assert.ok(!again.success && /already being profiled/.test(again.error));
		const hot = await await_hot(c);
		assert.ok(hot.hot_vmas >= 1 && hot.hot_vmas <= hot.total_vmas);
		for (const r of hot.regions)
			assert.ok(r.pid === +pid && r.start_addr < r.end_addr &&
				r.written_ratio > 0.3 && r.written_ratio <= 1 && r.consecutive_hot >= 3);
		const v = await call(c, 'GetDirtyVolume');
		assert.ok(v.cumulative_dirty_bytes >= v.dirty_bytes && v.avg_dirty_rate > 0);
		assert.ok(Math.abs(Date.now() - v.timestamp_ms) < 60000);
		const who = await call(c, 'GetProcessContext');
		const name = who.context.resource.attributes.find((x) => x.key === 'service.name');
		assert.match(name.value.string_value, /^agent-/);
		assert.ok(!who.fallback && who.published_at_ns > 0);
		const self = await call(c, 'GetProcessContext', { pid: process.pid });
		assert.ok(self.fallback && self.published_at_ns === 0);
		const dump = await call(c, 'PreCheckpoint', { dump_id: 'one' });
		assert.ok(!dump.success && dump.error !== '' && dump.dump_id === 'one');
		assert.deepStrictEqual(await call(c, 'StopProfiling'), { success: true });
		await refused(c, 'GetHotRegions', {}, S.FAILED_PRECONDITION, /it was stopped/);
	},

	// streams: order, the least time between messages, cancel, the end
	async streams(pid) {
		const c = connect();
		await call(c, 'StartProfiling', { pid: +pid, interval_ms: 20 });
		const all = c.WatchDirtyVolume({});
		const seldom = c.WatchDirtyVolume({ interval_ms: 3600000 });
		const once = take(seldom, 2);
		const { got } = await take(all, 10);
		for (let i = 1; i < got.length; i++) {
			assert.ok(got[i].timestamp_ms >= got[i - 1].timestamp_ms);
			assert.ok(got[i].cumulative_dirty_bytes >= got[i - 1].cumulative_dirty_bytes);
		}
		all.cancel();
		const late = c.WatchDirtyVolume({}, { deadline: Date.now() + 300 });
		const ended = await take(late, 1e9);
		assert.strictEqual(ended.error.code, S.DEADLINE_EXCEEDED);
		assert.ok(ended.got.length > 0);
		await call(c, 'StopProfiling');
		const end = await once;
		assert.strictEqual(end.got.length, 1);
		assert.strictEqual(end.error.code, S.FAILED_PRECONDITION);
		assert.match(end.error.details, /it was stopped/);
		await refused(c, 'StartProfiling', { interval_ms: 5 }, S.INVALID_ARGUMENT, /interval_ms/);
	},

	async unknown() {
		const c = connect();
		for (const path of ['/criu.agent.v1.CRIUAgent/Nope', '/no.such/Method', '/x/y']) {
			const error = await new Promise((resolve) => c.makeUnaryRequest(path,
				(x) => x, (x) => x, Buffer.alloc(0), { deadline: Date.now() + 20000 }, resolve));
			assert.strictEqual(error.code, S.UNIMPLEMENTED);
		}
		const h = connect(Health);
		for (const service of ['', 'criu.agent.v1.CRIUAgent'])
			assert.strictEqual((await call(h, 'Check', { service })).status, 'SERVING');
		await refused(h, 'Check', { service: 'other' }, S.NOT_FOUND, /no such service/);
	},

	// bytes that are no message, too large ones, a message too little
	async malformed() {
		const c = connect();
		const raw = (bytes) => new Promise((resolve) => c.makeUnaryRequest(
			'/criu.agent.v1.CRIUAgent/StartProfiling', (x) => x, (x) => x, bytes,
			{ deadline: Date.now() + 20000 }, resolve));
		const samples = [[0x08], [0x0a, 0xff], [0xff, 0xff, 0xff], [0x2a, 2, 0xc3, 0x28],
			[0x2a, 3, 0xed, 0xa0, 0x80], [0x2a, 1, 0], [0x2a, 0xff, 0xff, 0xff, 0xff, 0x0f]];
		for (const s of samples)
			assert.strictEqual((await raw(Buffer.from(s))).code, S.INVALID_ARGUMENT,
				JSON.stringify(s));
		assert.strictEqual((await raw(Buffer.alloc(100000, 0x40))).code, S.RESOURCE_EXHAUSTED);
		assert.strictEqual((await raw(Buffer.alloc(8 << 20))).code, S.RESOURCE_EXHAUSTED);
		await bomb();
		for (let i = 0; i < 200; i++) {
			const bytes = Buffer.from(Array.from({ length: i % 40 },
				(_, k) => (i * 131 + k * k * 29) & 255));
			const error = await raw(bytes);
			assert.ok(!error || error.code === S.INVALID_ARGUMENT, `${error}`);
		}
	},

	// a client that opens a stream with the smallest window and reads nothing, on
	// bare HTTP/2; args: pid. Others are served, and it is told what it missed.
	async slow_reader(pid) {
		const c = connect();
		await call(c, 'StartProfiling', { pid: +pid, interval_ms: 10 });
		const session = http2.connect('http://agent', {
			createConnection: () => net.connect(address.replace('unix:', '')),
			settings: { initialWindowSize: 200 },
		});
		const stream = session.request({ ':method': 'POST', 'content-type': 'application/grpc',
			te: 'trailers', ':path': '/criu.agent.v1.CRIUAgent/WatchDirtyVolume' });
		stream.end(Buffer.alloc(5));
		stream.pause();
		const quick = await take(c.WatchDirtyVolume({}), 60);
		assert.strictEqual(quick.got.length, 60);
		const Type = CRIUAgent.service.WatchDirtyVolume.responseDeserialize;
		let left = Buffer.alloc(0);
		await new Promise((resolve, reject) => {
			stream.on('error', reject);
			stream.on('data', (d) => {
				left = Buffer.concat([left, d]);
				for (let n; left.length >= 5 && left.length >= 5 + (n = left.readUInt32BE(1));
					left = left.subarray(5 + n))
					if (Type(left.subarray(5, 5 + n)).skipped_samples > 0)
						resolve();
			});
			stream.resume();
		});
		session.destroy();
		await call(c, 'StopProfiling');
	},

	// many clients, all methods at once; args: clients, seconds, pid
	async crowd(n, seconds, pid) {
		await call(connect(), 'StartProfiling', { pid: +pid, interval_ms: 50 });
		const until = Date.now() + 1000 * +seconds;
		let calls = 0;
		await Promise.all(Array.from({ length: +n }, async (_, i) => {
			const c = connect();
			const stream = c.WatchDirtyVolume({});
			stream.on('data', () => {}).on('error', () => {});
			do {
				const volume = await call(c, 'GetDirtyVolume');
				assert.ok(volume.cumulative_dirty_bytes >= 0);
				await call(c, 'GetHotRegions');
				if (i % 8 === 0)
					await call(c, 'GetProcessContext', { pid: +pid });
				if (i % 8 === 1)
					await refused(c, 'StartProfiling', { interval_ms: 1 },
						S.INVALID_ARGUMENT, /interval_ms/);
				calls++;
			} while (Date.now() < until);
			stream.cancel();
		}));
		await call(clients[0], 'StopProfiling');
		console.log(`${n} clients, ${calls} rounds of calls`);
	},

	// connections that are dropped at any moment, and some that stay half open
	async drops(n) {
		const path = address.replace('unix:', '');
		const halves = [];
		for (let i = 0; i < +n; i++)
			await new Promise((resolve, reject) => {
				const s = net.connect(path, () => {
					if (i % 3 === 1)
						s.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
					if (i % 3 === 2)
						s.write(Buffer.alloc(64, i));
					if (i % 50 === 0)
						halves.push(s);
					else
						s.destroy();
					resolve();
				});
				// EAGAIN: the kernel's queue of those not yet accepted is full
				s.on('error', (e) => e.code === 'EAGAIN' ? setTimeout(resolve, 20, i--) :
					e.code === 'ECONNRESET' || e.code === 'EPIPE' ? resolve() : reject(e));
			});
		assert.deepStrictEqual(await call(connect(), 'StopProfiling'), { success: true });
		halves.forEach((s) => s.destroy());
	},

	// a deadline that is over before there can be an answer
	async deadline() {
		const c = connect();
		await call(c, 'StopProfiling');
		const error = await call(c, 'StopProfiling', {}, -1).catch((e) => e);
		assert.strictEqual(error.code, S.DEADLINE_EXCEEDED);
		await Promise.all(Array.from({ length: 100 }, () => new Promise((resolve) => {
			const k = c.GetProcessContext({ pid: process.pid }, resolve);
			k.cancel();
		})));
		await call(c, 'StopProfiling');
	},

	// mTLS; args: ca cert key | ca | none. Without a certificate there is no answer.
	async tls(ca, cert, key) {
		const read = (f) => f ? fs.readFileSync(f) : null;
		const creds = ca === 'plain' ? grpc.credentials.createInsecure() :
			grpc.credentials.createSsl(read(ca), read(key), read(cert));
		const c = connect(CRIUAgent, creds, { 'grpc.enable_http_proxy': 0 });
		const error = await call(c, 'StopProfiling', {}, 10000).then(() => null, (e) => e);
		if (cert && ca !== 'plain')
			assert.strictEqual(error, null);
		else
			assert.ok(error && (error.code === S.UNAVAILABLE ||
				error.code === S.DEADLINE_EXCEEDED), `${error}`);
	},

	// an agent that refuses this user: the call fails, nothing hangs
	async not_allowed() {
		const error = await call(connect(), 'StopProfiling', {}, 10000).catch((e) => e);
		assert.ok(error.code === S.UNAVAILABLE || error.code === S.DEADLINE_EXCEEDED, `${error}`);
	},

	// calls in progress while the agent is told to end; args: its pid
	async shutdown(agent, pid) {
		const c = connect();
		await call(c, 'StartProfiling', { pid: +pid, interval_ms: 10 });
		const watched = take(c.WatchDirtyVolume({}), 1e9);
		const storm = Array.from({ length: 200 }, () => call(c, 'GetProcessContext',
			{ pid: +pid }).then(() => S.OK, (e) => e.code));
		process.kill(+agent, 'SIGTERM');
		const codes = await Promise.all(storm);
		// INTERNAL: this client's word for a connection that went before it had sent
		const fine = [S.OK, S.UNAVAILABLE, S.CANCELLED, S.INTERNAL];
		assert.ok(codes.every((x) => fine.includes(x)), `${codes}`);
		const { error } = await watched;
		assert.ok(fine.includes(error.code), `${error}`);
	},
};

scenarios[scenario](...args).then(() => {
	clients.forEach((c) => c.close());
	process.exit(0);
}, (error) => {
	console.error(error);
	process.exit(1);
});
