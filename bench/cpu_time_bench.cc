// CPU time of prompts and decode steps, for machines that other work shares: the time of the clock
// would be theirs too. One thread by default, so that no thread spins while it waits for another.
//
//   cpu_time_bench MODEL [prompt tokens] [decode steps] [threads]
//
// Prints one line of JSON: CPU milliseconds per token, what a decode step must read and write
// (weights and recurrent states), that rate, and the rate of plain reads of the file, measured
// before and after.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "base/mapped_file.h"
#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "kernels/api.h"
#include "model/model.h"

namespace {

using chimere::MappedFile;
using chimere::Result;
using chimere::kernels::kMaxChunkRows;
using chimere::model::Model;
using chimere::model::RowClass;
using chimere::model::SequenceRows;

constexpr int kStepRows = 512;

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class T>
T take(Result<T> r) {
  if (!r.ok()) {
    std::fprintf(stderr, "%s\n", r.error().message.c_str());
    std::exit(1);
  }
  return std::move(r).value();
}

class Tokens {
 public:
  explicit Tokens(int64_t n_vocab) : below_(static_cast<uint32_t>(n_vocab)) {}
  int32_t next() { return static_cast<int32_t>(rng_() % below_); }

 private:
  std::mt19937 rng_{1};
  uint32_t below_;
};

void prompt(Model& model, chimere::state::SequenceState& state, int n, Tokens& tokens) {
  for (int done = 0; done < n;) {
    SequenceRows rows;
    rows.state = &state;
    rows.row_class = RowClass::kPrefill;
    while (done < n && static_cast<int>(rows.tokens.size()) < kStepRows) {
      const int chunk = std::min(n - done, kMaxChunkRows);
      for (int i = 0; i < chunk; ++i) rows.tokens.push_back(tokens.next());
      rows.chunks.push_back(chunk);
      done += chunk;
    }
    if (done == n) rows.logits_of = {static_cast<int32_t>(rows.tokens.size()) - 1};
    take(model.forward({{rows}}));
  }
}

void decode(Model& model, chimere::state::SequenceState& state, int steps, Tokens& tokens) {
  for (int i = 0; i < steps; ++i) {
    SequenceRows rows;
    rows.state = &state;
    rows.tokens = {tokens.next()};
    rows.logits_of = {0};
    take(model.forward({{rows}}));
  }
}

/// GB/s of CPU time of plain reads of up to a GB of the file, on this thread.
double read_rate(const MappedFile& file) {
  const size_t words = std::min(file.size(), size_t{1} << 30) / 8;
  const auto* const from = reinterpret_cast<const uint64_t*>(file.data());
  const double start = cpu_seconds();
  uint64_t sums[32] = {};
  for (size_t i = 0; i + 32 <= words; i += 32) {
    for (size_t j = 0; j < 32; ++j) sums[j] ^= from[i + j];
  }
  const double seconds = cpu_seconds() - start;
  uint64_t all = 0;
  for (const uint64_t s : sums) all ^= s;
  if (all == 1) std::fprintf(stderr, " ");  // keeps the reads
  return static_cast<double>(words) * 8 / seconds / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 5) {
    std::fprintf(stderr, "usage: cpu_time_bench MODEL [prompt tokens] [decode steps] [threads]\n");
    return 2;
  }
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::atoi(argv[at]) : otherwise;
  };
  const int n_prompt = number(2, 128);
  const int n_decode = number(3, 16);
  chimere::ThreadPool pool(number(4, 1));
  const auto ops = chimere::kernels::make_cpu_ops(pool);
  const auto file = take(chimere::gguf::Reader::open(argv[1]));
  const MappedFile bytes = take(MappedFile::open(argv[1]));
  const auto model = take(chimere::model::load_model(*file, *ops, {.max_tokens = 16384}));
  Tokens tokens(model->n_vocab());
  const auto state = model->states().create_sequence();
  prompt(*model, *state, 8, tokens);
  (void)read_rate(bytes);  // maps the pages

  double read = read_rate(bytes);
  double start = cpu_seconds();
  prompt(*model, *state, n_prompt, tokens);
  const double prompt_ms = n_prompt == 0 ? 0 : 1e3 * (cpu_seconds() - start) / n_prompt;
  start = cpu_seconds();
  decode(*model, *state, n_decode, tokens);
  const double decode_ms = n_decode == 0 ? 0 : 1e3 * (cpu_seconds() - start) / n_decode;
  read = std::max(read, read_rate(bytes));
  const auto moved =
      static_cast<double>(model->active_weight_bytes() + 2 * model->states().bytes_per_slot());
  std::printf(
      "{\"prompt_ms\": %.3f, \"decode_ms\": %.3f, \"decode_mb\": %.1f, "
      "\"decode_gb_s\": %.2f, \"read_gb_s\": %.2f}\n",
      prompt_ms, decode_ms, moved / 1e6, decode_ms == 0 ? 0 : moved / decode_ms / 1e6, read);
  return 0;
}
