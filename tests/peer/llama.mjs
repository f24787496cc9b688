// llama.cpp (through node-llama-cpp) set up for comparison: CPU only, a given number of threads, no download, no build.
import fs from "node:fs";
import {getLlama, LlamaLogLevel} from "node-llama-cpp";

let timings = [];

export async function openLlama(threads) {
    return await getLlama({
        gpu: false, build: "never", skipDownload: true, progressLogs: false, maxThreads: threads,
        logLevel: LlamaLogLevel.info,
        logger: (level, message) => {
            timings.push(message);
            if (level === LlamaLogLevel.error || level === LlamaLogLevel.fatal) process.stderr.write(`${message}\n`);
        }
    });
}

export async function openModel(llama, path) {
    return await llama.loadModel({modelPath: path, gpuLayers: 0});
}

/** kv: "F32" or "F16". lora: [{filePath, scale}] or nothing. Flash attention changes the order of sums, and is off unless asked for. */
export async function openContext(model, {size, kv, flash = false, threads, lora}) {
    return await model.createContext({
        contextSize: size, batchSize: size, sequences: 1, flashAttention: flash, threads,
        lora: lora && {adapters: lora}, experimentalKvCacheKeyType: kv, experimentalKvCacheValueType: kv, performanceTracking: true
    });
}

/** llama.cpp's own clock since the last call: {promptMs, promptTokens, evalMs, evalTokens}. */
export async function takeTimings(context) {
    timings = [];
    await context.printTimings();
    const text = timings.join("\n");
    const read = (name) => {
        const match = text.match(new RegExp(`(?:^|[^t]) ?${name} time =\\s*([\\d.]+) ms /\\s*(\\d+)`));
        return match ? [Number(match[1]), Number(match[2])] : [0, 0];
    };
    const [promptMs, promptTokens] = read("prompt eval");
    const [evalMs, evalTokens] = read(" eval");
    return {promptMs, promptTokens, evalMs, evalTokens};
}

/** Writes one line of JSON at once: process.exit() would cut a pipe's pending writes. */
export function printLine(value) {
    let rest = Buffer.from(JSON.stringify(value) + "\n");
    while (rest.length > 0) {
        try {
            rest = rest.subarray(fs.writeSync(1, rest));
        } catch (error) {
            if (error.code !== "EAGAIN") throw error;
        }
    }
}
