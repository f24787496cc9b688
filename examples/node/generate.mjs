// libchimere by koffi (npm install koffi): node generate.mjs MODEL TEXT. MODEL "" is the shipped model.
import koffi from "koffi";

const lib = koffi.load(process.env.CHIMERE_SHARED_LIBRARY ?? "libchimere.so.1");

koffi.opaque("chimere_runtime");
koffi.opaque("chimere_model");
koffi.opaque("chimere_sequence");
koffi.struct("chimere_option", { name: "str", value: "str" });
const Token = koffi.struct("chimere_token", {
  struct_size: "size_t", id: "int32_t", logprob: "float", text: "str", text_size: "size_t",
});
koffi.proto("int chimere_token_callback(void* user_data, const chimere_token* token)");

const lastError = lib.func("const char* chimere_last_error(void)");
const declare = (signature) => {
  const f = lib.func(signature);
  return (...values) => {
    if (f(...values) !== 0) throw new Error(lastError());
  };
};
const createRuntime = declare(
  "int chimere_runtime_create(const chimere_option* options, size_t n, _Out_ chimere_runtime** runtime)");
const loadModel = declare(
  "int chimere_model_load(chimere_runtime* runtime, const char* name, const chimere_option* options, size_t n, " +
  "void* log, void* user_data, _Out_ chimere_model** model)");
const tokenize = declare(
  "int chimere_tokenize(chimere_model* model, const char* text, size_t size, uint32_t flags, " +
  "_Out_ int32_t* tokens, size_t capacity, _Out_ size_t* n)");
const createSequence = declare(
  "int chimere_sequence_create(chimere_model* model, const int32_t* tokens, size_t n, " +
  "_Out_ chimere_sequence** sequence)");
const generate = declare(
  "int chimere_generate(chimere_sequence* sequence, const chimere_option* options, size_t n, " +
  "chimere_token_callback* callback, void* user_data, void* result)");
const free = {
  runtime: lib.func("void chimere_runtime_free(chimere_runtime* runtime)"),
  model: lib.func("void chimere_model_free(chimere_model* model)"),
  sequence: lib.func("void chimere_sequence_free(chimere_sequence* sequence)"),
};

const out = (call) => {
  const box = [null];
  call(box);
  return box[0];
};

const [name, text] = process.argv.slice(2);
if (text === undefined) {
  console.error("usage: generate.mjs MODEL TEXT");
  process.exit(2);
}
const runtime = out((box) => createRuntime(null, 0, box));
const load = [{ name: "backend", value: "cpu" }];
const model = out((box) => loadModel(runtime, name || null, load, load.length, null, null, box));

const size = Buffer.byteLength(text);
const capacity = size + 1; // a token has at least one byte; the BOS token comes on top
const tokens = new Int32Array(capacity);
const n = Number(out((box) => tokenize(model, text, size, 1, tokens, capacity, box)));
const sequence = out((box) => createSequence(model, tokens, n, box));

const options = [{ name: "max-tokens", value: "24" }, { name: "temp", value: "0" }];
const print = (_, pointer) => {
  process.stdout.write(koffi.decode(pointer, Token).text);
  return 0;
};
generate(sequence, options, options.length, print, null, null);
process.stdout.write("\n");

free.sequence(sequence);
free.model(model);
free.runtime(runtime);
