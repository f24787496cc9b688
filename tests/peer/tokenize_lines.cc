// Our tokenizer on many texts:
//   tokenize_lines MODEL TEXTS IDS [--special]
// TEXTS: for each text its length in bytes (32 bits, little endian) and its bytes. IDS: for each
// text the number of ids, then the ids. Every text is also decoded; those that do not round-trip
// are counted. Prints one line of JSON.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gguf/reader.h"
#include "model/vocabulary.h"
#include "text/tokenizer.h"

namespace {

using chimere::Result;

Result<std::unique_ptr<chimere::text::Tokenizer>> load(const char* path) {
  CHIMERE_TRY(const auto file, chimere::gguf::Reader::open(path));
  CHIMERE_TRY(auto vocabulary, chimere::model::vocabulary_from_gguf(*file));
  return chimere::text::Tokenizer::create(std::move(vocabulary));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "tokenize_lines MODEL TEXTS IDS [--special]\n");
    return 2;
  }
  const bool special = argc > 4 && std::strcmp(argv[4], "--special") == 0;
  const auto tokenizer = load(argv[1]);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  std::ifstream in(argv[2], std::ios::binary);
  const std::string texts((std::istreambuf_iterator<char>(in)), {});
  std::ofstream out(argv[3], std::ios::binary);
  std::chrono::steady_clock::duration encoding{};
  size_t lines = 0;
  size_t tokens = 0;
  size_t lost = 0;
  for (size_t at = 0; at + 4 <= texts.size();) {
    uint32_t length = 0;
    std::memcpy(&length, texts.data() + at, 4);
    const std::string_view text = std::string_view(texts).substr(at + 4, length);
    at += 4 + length;
    const auto start = std::chrono::steady_clock::now();
    const std::vector<int32_t> ids = (*tokenizer)->encode(text, special);
    encoding += std::chrono::steady_clock::now() - start;
    const auto count = static_cast<uint32_t>(ids.size());
    out.write(reinterpret_cast<const char*>(&count), 4);
    out.write(reinterpret_cast<const char*>(ids.data()), std::streamsize{4} * count);
    lines += 1;
    tokens += ids.size();
    lost += (*tokenizer)->decode(ids, true) == text ? 0 : 1;
  }
  std::printf(R"({"lines": %zu, "tokens": %zu, "lost": %zu, "seconds": %.3f})"
              "\n",
              lines, tokens, lost, std::chrono::duration<double>(encoding).count());
  return out.flush() ? 0 : 1;
}
