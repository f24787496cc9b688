// llama.cpp's token ids.
//   node tokenize.mjs MODEL < texts.jsonl     text: {"text": string, "special": bool}
// Prints one line per text: [id..]. With special, the names of control tokens inside the text become those tokens.
import readline from "node:readline";
import {openLlama, openModel, printLine} from "./llama.mjs";

const llama = await openLlama(1);
const model = await openModel(llama, process.argv[2]);
for await (const line of readline.createInterface({input: process.stdin})) {
    const {text, special} = JSON.parse(line);
    // "trimLeadingSpace" and other conveniences of the binding are disabled: the plain vocabulary is compared.
    printLine(Array.from(model.tokenize(text, special ?? false)));
}
process.exit(0);
