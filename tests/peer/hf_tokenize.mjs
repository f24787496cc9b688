// Hugging Face's tokenizers (the Rust library) on many texts.
//   node hf_tokenize.mjs TOKENIZER_JSON TEXTS IDS
// TEXTS: for each text its length in bytes (32 bits, little endian) and its UTF-8. IDS: for each text the number of ids, then the ids.
import fs from "node:fs";
import {createRequire} from "node:module";

const {Tokenizer} = createRequire(import.meta.url)("@anush008/tokenizers-linux-x64-gnu");
const BATCH = 1000;

const [json, texts, ids] = process.argv.slice(2);
const tokenizer = Tokenizer.fromFile(json);
const input = fs.readFileSync(texts);
const output = fs.openSync(ids, "w");
let batch = [];

async function flush() {
    const numbers = [];
    for (const encoding of await tokenizer.encodeBatch(batch, {addSpecialTokens: false})) {
        const of = encoding.getIds();
        numbers.push(of.length);
        for (const id of of) numbers.push(id);
    }
    fs.writeSync(output, new Uint8Array(Uint32Array.from(numbers).buffer));
    batch = [];
}

for (let at = 0; at < input.length;) {
    const length = input.readUInt32LE(at);
    batch.push(input.toString("utf8", at + 4, at + 4 + length));
    at += 4 + length;
    if (batch.length === BATCH) await flush();
}
await flush();
process.exit(0);
