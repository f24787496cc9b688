// Runs a fuzz target without libFuzzer: `target [-runs=N] [file...]`. Replays the files, then runs
// N random mutations of the target's seeds. The random seed is printed first; it reproduces a
// failure.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "base/fresh_seed.h"
#include "fuzz.h"

namespace {

using Bytes = std::vector<uint8_t>;

void mutate(Bytes& b, std::mt19937& random) {
  static constexpr uint8_t kExtremes[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  if (b.empty()) b.push_back(0);
  const size_t at = random() % b.size();
  const size_t length = std::min<size_t>(1 + random() % 16, b.size() - at);
  const auto from = b.begin() + static_cast<std::ptrdiff_t>(at);
  const auto to = from + static_cast<std::ptrdiff_t>(length);
  switch (random() % 7) {
    case 0:
      b[at] ^= static_cast<uint8_t>(1U << (random() % 8));
      break;
    case 1:
      b[at] = static_cast<uint8_t>(random());
      break;
    case 2:
      std::fill(from, to, kExtremes[random() % std::size(kExtremes)]);
      break;
    case 3:
      b.erase(from, to);
      break;
    case 4: {
      const Bytes copy(from, to);
      b.insert(b.begin() + static_cast<std::ptrdiff_t>(random() % b.size()), copy.begin(),
               copy.end());
      break;
    }
    case 5: {
      const Bytes copy(from, to);
      const size_t target = random() % b.size();
      std::copy_n(copy.begin(), std::min(length, b.size() - target),
                  b.begin() + static_cast<std::ptrdiff_t>(target));
      break;
    }
    default:
      if (random() % 8 == 0) b.resize(at);
      break;
  }
}

bool number(std::string_view argument, std::string_view name, unsigned& value) {
  if (!argument.starts_with(name)) return false;
  argument.remove_prefix(name.size());
  return std::from_chars(argument.data(), argument.data() + argument.size(), value).ec ==
         std::errc();
}

}  // namespace

int main(int argc, char** argv) {
  unsigned runs = 20000;
  for (int i = 1; i < argc; ++i) {
    if (number(argv[i], "-runs=", runs)) continue;
    std::ifstream in(argv[i], std::ios::binary);
    if (!in) {
      std::fprintf(stderr, "cannot read %s\n", argv[i]);
      return 2;
    }
    const Bytes b((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    LLVMFuzzerTestOneInput(b.data(), b.size());
  }
  std::printf("%u mutations\n", runs);
  std::mt19937 random(chimere::fresh_seed());
  std::fflush(stdout);
  const std::vector<Bytes> seeds = fuzz_seeds();
  for (const Bytes& s : seeds) LLVMFuzzerTestOneInput(s.data(), s.size());
  for (unsigned run = 0; run < runs; ++run) {
    Bytes b = seeds[random() % seeds.size()];
    for (unsigned n = 1 + random() % 6; n > 0; --n) mutate(b, random);
    LLVMFuzzerTestOneInput(b.data(), b.size());
  }
  return 0;
}
