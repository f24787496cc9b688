// Texts of an encoder one after the other and together: embedding_bench [THREADS]. The model has
// the shapes of MiniLM-L6 (384 wide, six layers) with random weights and a small vocabulary. Prints
// the CPU time of 64 texts, the best of some alternating runs, and whether the vectors have the
// same bits.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include "engine/embedder.h"
#include "gguf/reader.h"
#include "model/vocabulary.h"
#include "support/encoder_model.h"

namespace {

using chimere::DType;
namespace engine = chimere::engine;

double cpu_seconds() {
  timespec t = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

struct Model {
  std::vector<uint8_t> bytes;
  std::unique_ptr<chimere::gguf::Reader> file;
  std::unique_ptr<chimere::text::Tokenizer> tokenizer;
  std::unique_ptr<chimere::ThreadPool> pool;
  std::unique_ptr<chimere::kernels::Ops> ops;
  std::unique_ptr<chimere::model::Model> model;
  std::unique_ptr<engine::Embedder> embedder;
};

chimere::Result<Model> load(DType weights, int threads) {
  CHIMERE_TRY(const chimere::gguf::Writer writer,
              chimere::test::make_encoder_model(
                  {.n_layers = 6, .n_embd = 384, .n_heads = 12, .n_ff = 1536, .weights = weights}));
  Model m;
  m.bytes = writer.bytes();
  CHIMERE_TRY(m.file, chimere::gguf::Reader::from_bytes(m.bytes.data(), m.bytes.size()));
  CHIMERE_TRY(auto vocabulary, chimere::model::vocabulary_from_gguf(*m.file));
  CHIMERE_TRY(m.tokenizer, chimere::text::Tokenizer::create(std::move(vocabulary)));
  m.pool = std::make_unique<chimere::ThreadPool>(threads);
  m.ops = chimere::kernels::make_cpu_ops(*m.pool);
  CHIMERE_TRY(m.model, chimere::model::load_model(*m.file, *m.ops, {}));
  CHIMERE_TRY(m.embedder, engine::Embedder::create(*m.model, *m.tokenizer, 512, 512));
  return m;
}

void measure(const Model& m, const char* type, size_t length) {
  std::mt19937 rng(1);
  std::vector<engine::EmbeddingInput> texts(64);
  for (engine::EmbeddingInput& text : texts) {
    text.tokens.resize(length);
    for (int32_t& token : text.tokens) {
      token = static_cast<int32_t>(rng() % chimere::test::kEncoderTokens);
    }
  }
  double alone = 1e9;
  double together = 1e9;
  bool same = true;
  for (int run = 0; run < (length > 100 ? 2 : 5); ++run) {
    std::vector<std::vector<float>> one;
    const double begin = cpu_seconds();
    for (const engine::EmbeddingInput& text : texts) {
      one.push_back((*m.embedder->compute({&text, 1}))[0]);
    }
    const double middle = cpu_seconds();
    const auto all = m.embedder->compute(texts);
    const double end = cpu_seconds();
    alone = std::min(alone, middle - begin);
    together = std::min(together, end - middle);
    same = same && all.ok() && one == *all;
  }
  std::printf("%-5s %4zu tokens: one by one %7.1f ms, together %7.1f ms, ratio %.2f, %s\n", type,
              length, alone * 1e3, together * 1e3, alone / together,
              same ? "same bits" : "OTHER BITS");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  for (const auto& [type, name] :
       {std::pair{DType::kQ8_0, "q8_0"}, std::pair{DType::kF16, "f16"}}) {
    const auto model = load(type, std::max(threads, 1));
    if (!model.ok()) {
      std::fprintf(stderr, "%s\n", model.error().message.c_str());
      return 1;
    }
    for (const size_t length : {4, 8, 16, 64, 256}) measure(*model, name, length);
  }
  return 0;
}
