// Point reads one at a time, or new entities by transactions of 100, with @azure/data-tables; see bench/src/client/sdk.rs.
"use strict";

const { AzureNamedKeyCredential, TableClient } = require("@azure/data-tables");

const env = (name) => process.env[`BENCH_${name}`];
const text = "x".repeat(222);

async function get(table) {
    const end = performance.now() + 1000 * Number(env("SECONDS"));
    let things = 0;
    while (performance.now() < end) {
        const index = Math.floor(Math.random() * Number(env("ENTITIES")));
        const partition = String(Math.floor(index / 1000)).padStart(6, "0");
        await table.getEntity(`p${partition}`, `r${String(index).padStart(9, "0")}`);
        things += 1;
    }
    return things;
}

function entity(index) {
    return {
        partitionKey: `b${String(Math.floor(index / 100) % 1000).padStart(6, "0")}`,
        rowKey: `r${String(index).padStart(9, "0")}`,
        Count: 100000,
        Active: true,
        Price: 19.99,
        Total: 9007199254740993n,
        When: new Date("2026-01-02T03:04:05.678Z"),
        Text: text,
    };
}

async function bulk(table) {
    const count = Number(env("BULK_ENTITIES"));
    const end = Number(env("BULK_START")) + count;
    let next = Number(env("BULK_START"));
    async function worker() {
        while (next < end) {
            const first = next;
            next += 100;
            const actions = Array.from({ length: 100 }, (_, at) => ["upsert", entity(first + at), "Replace"]);
            await table.submitTransaction(actions);
        }
    }
    await Promise.all(Array.from({ length: Number(env("PARALLEL")) }, worker));
    return count;
}

async function main() {
    const credential = new AzureNamedKeyCredential(env("ACCOUNT"), env("KEY"));
    const table = new TableClient(env("ENDPOINT"), env("TABLE"), credential, { allowInsecureConnection: true });
    const started = performance.now();
    const before = process.cpuUsage();
    const things = await { get, bulk }[env("TASK")](table);
    const cpu = process.cpuUsage(before);
    const seconds = (performance.now() - started) / 1000;
    console.log(JSON.stringify({ things, seconds, cpu_seconds: (cpu.user + cpu.system) / 1e6 }));
}

main();
