// Times of n-gram tables: the cuckoo filter in cache, the build of a table, and the cost of a table
// for each token.
//
//   engram_bench                       filter, and the build of a table of 10 million n-grams
//   engram_bench MODEL TABLE TEXT      lookup and mixture after every token of a text (random
//   logits)
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "engine/engram_mixture.h"
#include "engram/counts.h"
#include "engram/cuckoo_filter.h"
#include "engram/memory.h"
#include "engram/table.h"
#include "gguf/reader.h"
#include "model/vocabulary.h"
#include "sampling/log_softmax.h"
#include "sampling/sampler.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace chimere {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void filter() {
  std::mt19937_64 random(1);
  std::printf("%10s %8s %14s %14s %16s\n", "keys", "KiB", "known, ns", "unknown, ns",
              "false positives");
  for (const size_t n : {size_t{7'000}, size_t{60'000}, size_t{1'000'000}}) {
    std::vector<uint64_t> known(n);
    std::vector<uint64_t> unknown(n);
    for (uint64_t& h : known) h = engram::mix(random());
    for (uint64_t& h : unknown) h = engram::mix(random());
    const std::vector<uint64_t> buckets = engram::CuckooFilter::build(known);
    const engram::CuckooFilter filter{buckets};
    size_t found = 0;
    const auto time = [&](const std::vector<uint64_t>& hashes) {
      std::vector<double> all;
      for (int r = 0; r < 15; ++r) {
        const auto begun = Clock::now();
        for (const uint64_t h : hashes) found += filter.may_contain(h) ? 1 : 0;
        all.push_back(1e9 * seconds_since(begun) / static_cast<double>(n));
      }
      return median(all);
    };
    const double hit = time(known);
    if (found != 15 * n) std::exit(1);  // a filter has no false negatives
    found = 0;
    const double miss = time(unknown);
    std::printf("%10zu %8zu %14.2f %14.2f %15.4f%%\n", n, buckets.size() * 8 / 1024, hit, miss,
                100.0 * static_cast<double>(found) / 15 / static_cast<double>(n));
  }
}

/// Tokens with Zipf-like frequencies and some correlation of neighbours.
void build() {
  std::mt19937_64 random(2);
  std::vector<std::vector<int32_t>> documents;
  for (int d = 0; d < 560; ++d) {
    std::vector<int32_t> text(5000);
    uint64_t before = 0;
    for (int32_t& t : text) {
      const double u = std::uniform_real_distribution<double>(0, 1)(random);
      const auto rank = static_cast<uint64_t>(16384 * u * u * u);
      before = random() % 3 == 0 ? rank : (before * 31 + rank % 8) % 16384;
      t = static_cast<int32_t>(before);
    }
    documents.push_back(std::move(text));
  }
  const auto path = std::filesystem::temp_directory_path() / "engram_bench.engr";
  const auto begun = Clock::now();
  const auto counts =
      engram::Counts::of(documents, engram::kDefaultOrder, {"bench", 20000, engram::kOne});
  const double counted = seconds_since(begun);
  if (!counts.ok() || !engram::write_table(path.string(), *counts, 1, {}).ok()) std::exit(1);
  std::printf(
      "table of order %d: %zu n-grams after %zu contexts, counted in %.1f s, written in "
      "%.1f s, %.0f MB\n",
      counts->order(), counts->successors().size(), counts->nodes().size() - 1, counted,
      seconds_since(begun) - counted, static_cast<double>(std::filesystem::file_size(path)) / 1e6);
  std::filesystem::remove(path);
}

int tokens(const std::string& model, const std::string& path, const std::string& text) {
  auto file = gguf::Reader::open(model);
  if (!file.ok()) return 2;
  const auto tokenizer =
      text::Tokenizer::create(model::vocabulary_from_gguf(**file).value()).value();
  std::ifstream in(text, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const auto history = tokenizer->encode(bytes.substr(0, 60'000), false);
  const auto table = engram::open_table(path, {});
  if (!table.ok()) {
    std::fprintf(stderr, "%s\n", table.error().message.c_str());
    return 2;
  }
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2.5F);
  std::vector<float> logits(static_cast<size_t>(tokenizer->n_tokens()));
  for (float& l : logits) l = normal(random);

  engram::Memory memory = engram::Memory::create({*table}, engram::Gating::kLearned).value();
  sampling::SamplingParams params;
  sampling::Sampler plain(params);
  params.auxiliary =
      engine::EngramMixture::create({*table}, {}, text::vocabulary_reasoning(*tokenizer)).value();
  sampling::Sampler mixed(params);
  std::vector<double> lookup;
  std::vector<double> sums;
  std::vector<double> shares;
  std::vector<double> without;
  std::vector<double> with;
  size_t selected = 0;
  for (size_t n = 64; n < history.size(); ++n) {
    const auto before = std::span(history).first(n);
    logits[n % logits.size()] = normal(random);
    auto at = Clock::now();
    const auto step = [&at](std::vector<double>& to) {
      const auto now = Clock::now();
      to.push_back(1e6 * std::chrono::duration<double>(now - at).count());
      at = Clock::now();
    };
    (void)memory.look_up(before);
    step(lookup);
    const auto largest = sampling::find_largest(logits).value();
    at = Clock::now();
    const auto d = sampling::distribution_of(sampling::log_sum_exp(logits));
    step(sums);
    selected += memory
                    .mix({logits, d.log_sum, d.entropy, largest.id,
                          static_cast<double>(largest.value) - d.log_sum})
                    .size();
    step(shares);
    (void)plain.sample(logits, before, n);
    step(without);
    (void)mixed.sample(logits, before, n);
    step(with);
  }
  std::printf("%zu tokens, vocabulary of %zu, %.0f tokens with shares; medians in microseconds:\n",
              lookup.size(), logits.size(),
              static_cast<double>(selected) / static_cast<double>(lookup.size()));
  std::printf(
      "  lookup %.2f, softmax sum %.2f, shares %.2f; greedy choice without %.2f, with %.2f\n",
      median(lookup), median(sums), median(shares), median(without), median(with));
  return 0;
}

}  // namespace
}  // namespace chimere

int main(int argc, char** argv) {
  if (argc == 4) return chimere::tokens(argv[1], argv[2], argv[3]);
  chimere::filter();
  chimere::build();
  return 0;
}
