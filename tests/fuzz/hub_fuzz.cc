// Parses arbitrary bytes as a hub's list of files, its headers, and a model's name. Accepted paths
// must stay inside the model folder.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fuzz.h"
#include "hub/repository.h"

namespace hub = chimere::hub;

namespace {

// Parts of one text. NOLINTBEGIN(bugprone-suspicious-missing-comma)
constexpr std::string_view kSeeds[] = {
    R"([{"type":"file","path":"big/M-BF16-00001-of-00002.gguf","size":7,"lfs":{"oid":")"
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    R"(","size":700}},{"type":"file","path":"big/M-BF16-00002-of-00002.gguf","size":9},)"
    R"({"type":"file","path":"M-UD-Q4_K_M.gguf","size":12},{"type":"directory","path":"x"}])",
    R"([{"type":"file","path":"../m.gguf","size":1}])",
    R"(<https://h/a>; rel="prev", <https://h/b?cursor=1>; rel="next")",
    "bytes 200-999/1000",
    "W/\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"",
    "owner/Some-Model-GGUF:UD-Q4_K_M",
    "dir/model-00002-of-00003.gguf",
};
// NOLINTEND(bugprone-suspicious-missing-comma)

void require(bool truth, const char* what) {
  if (truth) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void check_path(const std::string& path) {
  require(!path.empty() && path.front() != '/' && path.find('\0') == std::string::npos &&
              ("/" + path + "/").find("/../") == std::string::npos,
          "a path leads out of the folder");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto files = hub::parse_tree(text); files.ok()) {
    for (const hub::RepositoryFile& f : *files) {
      check_path(f.path);
      require(f.size >= 0 && (f.sha256.empty() || f.sha256.size() == 64), "a file makes no sense");
    }
    for (const hub::RepositoryModel& m : hub::group_models(*files)) {
      require(!m.files.empty() && m.size() >= 0, "a model has no files");
      const auto chosen = hub::choose_model(*files, m.name);
      require(chosen.ok(), "a model cannot be chosen by its name");
    }
    for (const auto* quant : {"", "q4_k_m", "bf16"}) {
      const auto chosen = hub::choose_model(*files, quant);
      require(chosen.ok() || !chosen.error().message.empty(), "an error says nothing");
    }
  } else {
    require(!files.error().message.empty(), "an error says nothing");
  }
  if (const auto name = hub::parse_model_name(text); name.ok()) check_path(name->repository);
  if (hub::safe_path(text)) check_path(std::string(text));
  if (const auto range = hub::parse_content_range(text)) {
    require(range->first >= 0 && range->first < range->total, "a range makes no sense");
  }
  const std::string sha = hub::sha256_of_etag(text);
  require(sha.empty() || sha.size() == 64, "a checksum has another length");
  if (const auto part = hub::parse_part(text)) {
    require(1 <= part->index && part->index <= part->count, "a part has no place");
  }
  require(hub::next_page(text).size() <= size, "an address grows");
  const std::string encoded = hub::percent_encoded(text);
  require(encoded.find_first_of("?#\\ \n") == std::string::npos, "an address has raw characters");
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  std::vector<std::vector<uint8_t>> seeds;
  for (const std::string_view seed : kSeeds) seeds.emplace_back(seed.begin(), seed.end());
  return seeds;
}
