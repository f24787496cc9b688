#include "token_file.h"

#include <cstring>
#include <fstream>

namespace chimere::train {
namespace {

constexpr char kMagic[] = "CHTOKENS";
struct Header {
  char magic[8];
  uint32_t n_vocab;
  uint32_t end;
  uint64_t n_tokens;
  uint64_t text_bytes;
};
static_assert(sizeof(Header) == 32);

}  // namespace

Result<TokenFile> TokenFile::read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  Header header{};
  if (!in.read(reinterpret_cast<char*>(&header), sizeof(header)) ||
      std::memcmp(header.magic, kMagic, sizeof(header.magic)) != 0) {
    return invalid_data(path + " is not a token file. Make one with chimere-vocabulary encode.");
  }
  in.seekg(0, std::ios::end);
  if (static_cast<uint64_t>(in.tellg()) != sizeof(Header) + 2 * header.n_tokens) {
    return invalid_data(path + " does not have the size that its header names. Copy it again.");
  }
  TokenFile file{header.n_vocab, header.end, header.text_bytes, {}, {0}};
  file.ids.resize(header.n_tokens);
  in.seekg(sizeof(Header));
  in.read(reinterpret_cast<char*>(file.ids.data()),
          static_cast<std::streamsize>(2 * header.n_tokens));
  if (!in) return io_error("Cannot read " + path + ".");
  for (size_t i = 0; i < file.ids.size(); ++i) {
    if (file.ids[i] >= file.n_vocab) {
      return invalid_data(path + " holds token ids beyond its vocabulary. Make it again.");
    }
    if (file.ids[i] == file.end && i + 1 < file.ids.size()) {
      file.starts.push_back(static_cast<int64_t>(i) + 1);
    }
  }
  return file;
}

Status TokenFile::write(const std::string& path) const {
  Header header{{}, n_vocab, end, ids.size(), text_bytes};
  std::memcpy(header.magic, kMagic, sizeof(header.magic));
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header), sizeof(header));
  out.write(reinterpret_cast<const char*>(ids.data()),
            static_cast<std::streamsize>(2 * ids.size()));
  out.close();
  if (!out) return io_error("Cannot write " + path + ". Is the disk full?");
  return {};
}

}  // namespace chimere::train
