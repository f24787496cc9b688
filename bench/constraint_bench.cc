// Time of token masks and of compilation, over a folder of JSON files.
//
//   constraint_bench MODEL.gguf FOLDER [LIMIT]
//
// MODEL.gguf gives the vocabulary. A file is a schema, or has the fields of JSONSchemaBench's
// MaskBench: "schema" (or "gbnf" or "regex", a text), and "tests" of "valid" and "data" (a value)
// or "text". Every valid test is tokenized; the time of a token is that of its mask and of
// accepting it. Constraints are new for each file and share masks through the vocabulary.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "constraints/constraint.h"
#include "constraints/token_trie.h"
#include "gguf/reader.h"
#include "model/vocabulary.h"
#include "text/tokenizer.h"

namespace {

namespace constraints = chimere::constraints;
using Json = nlohmann::ordered_json;

/// Processor time of this thread in microseconds: other programs do not count.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

struct Slow {
  double time = 0;
  std::string what;
};

struct Times {
  std::vector<double> all;
  std::vector<Slow> slowest;

  void add(double time, const std::string& file, const std::string& what) {
    all.push_back(time);
    if (slowest.size() < 12 || time > slowest.back().time) {
      slowest.push_back(
          {time, file + ": " + what.substr(what.size() - std::min<size_t>(what.size(), 60))});
      std::ranges::sort(slowest, std::greater<>(), &Slow::time);
      if (slowest.size() > 12) slowest.pop_back();
    }
  }
  void print(const char* name) {
    if (all.empty()) return;
    std::ranges::sort(all);
    double sum = 0;
    for (const double time : all) sum += time;
    const auto at = [&](double part) {
      return all[std::min(all.size() - 1,
                          static_cast<size_t>(part * static_cast<double>(all.size())))];
    };
    std::printf("%s: %zu, mean %.1f us, p50 %.1f, p99 %.1f, p99.9 %.1f, max %.1f\n", name,
                all.size(), sum / static_cast<double>(all.size()), at(0.5), at(0.99), at(0.999),
                all.back());
    for (const Slow& slow : slowest) std::printf("  %9.1f us  %s\n", slow.time, slow.what.c_str());
  }
};

std::optional<constraints::ConstraintSpec> spec_of(const Json& file) {
  constraints::ConstraintSpec spec;
  if (file.is_object() && file.contains("gbnf")) {
    spec.content = constraints::GbnfSpec{file["gbnf"].get<std::string>()};
  } else if (file.is_object() && file.contains("regex")) {
    spec.content = constraints::RegexSpec{file["regex"].get<std::string>()};
  } else if (file.is_object() && file.contains("schema") && file.contains("tests")) {
    spec.content = constraints::JsonSchemaSpec{file["schema"].dump()};
  } else {
    spec.content = constraints::JsonSchemaSpec{file.dump()};
  }
  return spec;
}

/// As json.dumps() writes it.
void write_spaced(const Json& value, std::string& out) {
  if (value.is_object()) {
    out += "{";
    for (auto it = value.begin(); it != value.end(); ++it) {
      if (it != value.begin()) out += ", ";
      out += Json(it.key()).dump() + ": ";
      write_spaced(it.value(), out);
    }
    out += "}";
  } else if (value.is_array()) {
    out += "[";
    for (size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += ", ";
      write_spaced(value[i], out);
    }
    out += "]";
  } else {
    out += value.dump();
  }
}

struct Bench {
  const chimere::text::Tokenizer& tokenizer;
  std::shared_ptr<const constraints::TokenTrie> trie;
  Times masks;
  Times compiles;
  int refused = 0;
  int rejected = 0;

  void run(const std::string& name, const Json& file) {
    const double start = now();
    auto constraint = constraints::Constraint::compile(*spec_of(file), trie);
    const double compile = (now() - start);
    if (!constraint.ok()) {
      ++refused;
      return;
    }
    compiles.add(compile, name, "compile");
    if (!file.is_object() || !file.contains("tests")) return;
    for (const Json& test : file["tests"]) {
      if (!test.value("valid", true)) continue;
      std::string text;
      if (test.contains("text")) {
        text = test["text"].get<std::string>();
      } else {
        write_spaced(test["data"], text);
      }
      run_text(name, text, (*constraint)->matcher());
    }
  }

  void run_text(const std::string& name, const std::string& text, constraints::Matcher matcher) {
    std::string before;
    for (const int32_t token : tokenizer.encode(text, false)) {
      const double start = now();
      const auto mask = matcher.mask();
      const bool allowed = (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
      const bool accepted = matcher.accept(token);
      masks.add((now() - start), name, before);
      if (allowed != accepted) {
        std::printf("%s: the mask contradicts accept() after %s\n", name.c_str(), before.c_str());
        std::exit(1);
      }
      if (!accepted) {
        ++rejected;
        std::printf("%s: rejected after %s (%s)\n", name.c_str(),
                    before.substr(before.size() - std::min<size_t>(before.size(), 120)).c_str(),
                    matcher.status().ok() ? "" : matcher.status().error().message.c_str());
        return;
      }
      before += tokenizer.token_bytes(token, true);
    }
    if (!matcher.complete()) ++rejected;
  }
};

int run(const char* model, const char* folder, size_t limit) {
  auto file = chimere::gguf::Reader::open(model);
  if (!file.ok()) return std::printf("%s\n", file.error().message.c_str()), 1;
  auto vocabulary = chimere::model::vocabulary_from_gguf(**file);
  if (!vocabulary.ok()) return std::printf("%s\n", vocabulary.error().message.c_str()), 1;
  auto tokenizer = chimere::text::Tokenizer::create(*std::move(vocabulary));
  if (!tokenizer.ok()) return std::printf("%s\n", tokenizer.error().message.c_str()), 1;
  const double start = now();
  Bench bench{**tokenizer, constraints::TokenTrie::create(**tokenizer), {}, {}};
  std::printf("trie: %d tokens, %zu nodes, longest token %d bytes, %.0f ms\n",
              bench.trie->vocabulary_size(), bench.trie->trie().nodes.size(), bench.trie->longest(),
              (now() - start) / 1000);
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  // Evenly over the folder.
  const size_t step = std::max<size_t>(1, paths.size() / std::max<size_t>(1, limit));
  for (size_t i = 0; i < paths.size(); i += step) {
    std::ifstream stream(paths[i]);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_discarded()) bench.run(paths[i].filename().string(), json);
  }
  bench.masks.print("mask and accept");
  bench.compiles.print("compile");
  std::printf("%d files refused, %d valid texts rejected\n", bench.refused, bench.rejected);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc < 3) {
    std::printf("constraint_bench MODEL.gguf FOLDER [LIMIT]\n");
    return 2;
  }
  return run(argv[1], argv[2], argc > 3 ? std::strtoul(argv[3], nullptr, 10) : SIZE_MAX);
}
