// Embeddings from llama.cpp.
//   node embeddings.mjs < jobs.jsonl     job: {"model": path, "tokens": [id..]}
// Prints one line per job: {"vector": [..]}.
import readline from "node:readline";
import {openLlama, openModel, printLine} from "./llama.mjs";

const llama = await openLlama(2);
let path = null;
let model = null;
let context = null;
for await (const line of readline.createInterface({input: process.stdin})) {
    const job = JSON.parse(line);
    if (job.model !== path) {
        if (model) await model.dispose();
        path = job.model;
        model = await openModel(llama, path);
        context = await model.createEmbeddingContext({contextSize: 512, threads: 2});
    }
    printLine({vector: (await context.getEmbeddingFor(job.tokens)).vector});
}
process.exit(0);
