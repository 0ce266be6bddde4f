// As grind.py; with garbage for the collector.
"use strict";
const fs = require("fs");

const N = 16 << 20;
const v = new Int32Array(N);

function garbage(round) {
	const map = new Map();
	for (let i = 0; i < 20000; i++)
		map.set(i, "value " + (i ^ round));
	return map.size;
}

function pass() {
	for (let i = 0; i < N; i++)
		v[i] = i;
	for (let round = 0; round < 8; round++) {
		for (let i = 0; i < N; i++)
			v[i] = Math.imul(v[i], 1664525) + 1013904223;
		if (garbage(round) !== 20000)
			throw new Error("the map lost entries");
	}
	let sum = 0;
	for (let i = 0; i < N; i++)
		sum = sum + v[i] | 0;
	return sum >>> 0;
}

do {
	console.log("pass " + pass());
} while (!fs.existsSync("stop"));
console.log("done");
