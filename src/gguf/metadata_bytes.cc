#include "gguf/metadata_bytes.h"

#include "gguf/file_parser.h"

namespace chimere::gguf {

Result<std::map<std::string, std::span<const uint8_t>>> metadata_bytes(const Reader& reader) {
  if (reader.files().empty()) return unsupported("metadata is copied from files only");
  std::map<std::string, std::span<const uint8_t>> values;
  for (const MappedFile& file : reader.files()) {
    auto parsed = parse_file(file.data(), file.size());
    CHIMERE_CHECK_OK(file.check_unchanged());
    if (!parsed.ok()) return std::move(parsed).error();
    for (const std::string& key : parsed->contents.keys()) {
      values.emplace(key, parsed->contents.find_encoded(key));
    }
  }
  return values;
}

}  // namespace chimere::gguf
