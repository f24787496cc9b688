// Parses what a Hugging-Face-compatible host says about a repository, and selects the files of a
// model. Pure functions on untrusted text.
#ifndef CHIMERE_HUB_REPOSITORY_H_
#define CHIMERE_HUB_REPOSITORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace chimere::hub {

/// "owner/name" or "owner/name:Q4_K_M".
struct ModelName {
  std::string repository;
  std::string quant;  ///< empty: any
};
/// Errors: kInvalidArgument.
Result<ModelName> parse_model_name(std::string_view text);

struct RepositoryFile {
  std::string path;  ///< in the repository; satisfies safe_path()
  int64_t size = 0;
  std::string sha256;  ///< 64 lower-case digits; empty: not given by the host
};

/// Parses a page of GET /api/models/OWNER/NAME/tree/main?recursive=true; returns its *.gguf files.
/// Errors: kInvalidData (not such a document, a path that leads out of the folder, an invalid
/// size).
Result<std::vector<RepositoryFile>> parse_tree(std::string_view json);

/// The address with rel="next" in a Link header (RFC 8288); empty if there is none.
std::string next_page(std::string_view link);

/// Parses "bytes 200-999/1000" (RFC 9110, 14.4).
struct ContentRange {
  int64_t first = 0;
  int64_t total = 0;
};
std::optional<ContentRange> parse_content_range(std::string_view text);

/// The digits of an ETag that is a SHA-256; empty for any other ETag.
std::string sha256_of_etag(std::string_view etag);

/// Whether this is a relative path of plain names: no "..", nothing hidden, no backslash or control
/// character, at most 1000 bytes.
bool safe_path(std::string_view path);

/// Percent-encodes a path: everything but letters, digits, "/", "-", ".", "_" and "~".
std::string percent_encoded(std::string_view path);

/// "dir/model-00002-of-00003.gguf" is part 2 of 3 of "dir/model"; a whole file is part 1 of 1.
struct Part {
  std::string model;
  int32_t index = 1;
  int32_t count = 1;
};
/// nullopt if the name does not end with .gguf.
std::optional<Part> parse_part(std::string_view path);

/// The files of one model, in order of their parts.
struct RepositoryModel {
  std::string name;   ///< path without part number and ".gguf"
  std::string quant;  ///< from the file's name: "Q4_K_M", "UD-Q2_K_XL"
  std::vector<RepositoryFile> files;

  int64_t size() const;
};
/// The models among files, by name; without incomplete ones, projectors and importance matrices
/// (mmproj, imatrix).
std::vector<RepositoryModel> group_models(const std::vector<RepositoryFile>& files);

/// Selects the model that `quant` names, ignoring case: a quant or a whole name. If empty: the only
/// model, or Q4_K_M. Errors: kNotFound, listing the models.
Result<RepositoryModel> choose_model(const std::vector<RepositoryFile>& files,
                                     std::string_view quant);

}  // namespace chimere::hub

#endif  // CHIMERE_HUB_REPOSITORY_H_
