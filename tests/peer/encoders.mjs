// Embeddings and scores of encoders from llama.cpp.
//   node encoders.mjs < jobs.jsonl     job: {"model": path, "text": text} or {"model": path, "query": text, "documents": [text..]}
// Prints one line per job: {"vector": [..]} or {"scores": [..]}.
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
        const options = {contextSize: 512, batchSize: 512, threads: 2};
        context = job.query === undefined ? await model.createEmbeddingContext(options) : await model.createRankingContext(options);
    }
    if (job.query === undefined) {
        printLine({vector: (await context.getEmbeddingFor(job.text)).vector});
    } else {
        printLine({scores: await context.rankAll(job.query, job.documents)});
    }
}
process.exit(0);
