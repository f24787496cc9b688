// Next-token log-probabilities from llama.cpp.
//   node logits.mjs [THREADS] < jobs.jsonl     job: {"model": path, "tokens": [id..], "kv": "F32"|"F16", "one_by_one": bool,
//                                          "lora": [{"filePath": path, "scale": number}..] or nothing}
// Prints one line per job: {"positions": [[log-probability of id 0, of id 1, ..] of the token after each token]}.
// one_by_one runs single tokens, like decoding; otherwise the whole list is one batch, like a prompt.
import readline from "node:readline";
import {openContext, openLlama, openModel, printLine} from "./llama.mjs";

function logProbabilities(logits) {
    const values = new Float64Array(logits.size);
    let max = -Infinity;
    for (const [token, logit] of logits) {
        values[token] = logit;
        max = Math.max(max, logit);
    }
    let sum = 0;
    for (const value of values) sum += Math.exp(value - max);
    const logSum = max + Math.log(sum);
    return Array.from(values, (value) => Number((value - logSum).toPrecision(9)));
}

const threads = Number(process.argv[2] ?? 2);
const llama = await openLlama(threads);
const models = new Map();
for await (const line of readline.createInterface({input: process.stdin})) {
    const job = JSON.parse(line);
    if (!models.has(job.model)) {
        for (const model of models.values()) await model.dispose();
        models.clear();
        models.set(job.model, await openModel(llama, job.model));
    }
    const context = await openContext(models.get(job.model),
        {size: Math.max(256, job.tokens.length + 8), kv: job.kv ?? "F32", threads, lora: job.lora});
    const sequence = context.getSequence();
    const items = job.tokens.map((token) => [token, {generateNext: {logits: true, options: {temperature: 0}}}]);
    const positions = [];
    for (const batch of job.one_by_one ? items.map((item) => [item]) : [items]) {
        for (const output of await sequence.controlledEvaluate(batch)) positions.push(logProbabilities(output.next.logits));
    }
    printLine({positions});
    await context.dispose();
}
process.exit(0);
