// llama.cpp's prompt and decode speed by its own clock (without the time of the JavaScript around it).
//   node speed.mjs MODEL [--threads N] [--kv F16|F32] [--flash]
// Reads lines {"prompt": P, "decode": N} and answers each with {"prompt_tok_s": .., "decode_tok_s": ..}: a prompt of P
// tokens from an empty context, then N single-token steps after it. The model stays loaded, so that runs can alternate
// with another program's.
import readline from "node:readline";
import {parseArgs} from "node:util";
import {openContext, openLlama, openModel, printLine, takeTimings} from "./llama.mjs";

const {values, positionals} = parseArgs({
    allowPositionals: true,
    options: {threads: {type: "string", default: "2"}, kv: {type: "string", default: "F16"}, flash: {type: "boolean"}}
});
const threads = Number(values.threads);
const llama = await openLlama(threads);
const model = await openModel(llama, positionals[0]);
const vocabulary = model.fileInfo.metadata.tokenizer.ggml.tokens.length;

for await (const line of readline.createInterface({input: process.stdin})) {
    const {prompt, decode} = JSON.parse(line);
    const context = await openContext(model,
        {size: prompt + decode + 8, kv: values.kv, flash: values.flash ?? false, threads});
    const sequence = context.getSequence();
    const tokens = Array.from({length: prompt}, (_, i) => (i * 7919 + 13) % (vocabulary - 16));
    // Every step computes the logits of its last token, as generation does; sampling is not timed.
    const step = async (ids) => await sequence.controlledEvaluate(
        ids.map((id, i) => i + 1 < ids.length ? id : [id, {generateNext: {token: true, options: {temperature: 0}}}]));
    await takeTimings(context);
    await step(tokens);
    const first = await takeTimings(context);
    for (let i = 0; i < decode; i++) await step([(i * 104729 + 7) % (vocabulary - 16)]);
    const rest = await takeTimings(context);
    printLine({
        prompt_tok_s: first.promptTokens / first.promptMs * 1000, decode_tok_s: rest.evalTokens / rest.evalMs * 1000
    });
    await context.dispose();
}
process.exit(0);
