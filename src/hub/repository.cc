#include "hub/repository.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace chimere::hub {
namespace {

constexpr int64_t kLargestFile = int64_t{1} << 50;

bool is_letter_or_digit(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9');
}

char lower(char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_text(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

template <typename T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// A name as hosts allow it: letters, digits, ".", "-", "_".
bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= 96 && name.front() != '.' &&
         std::ranges::all_of(name, [](char c) {
           return is_letter_or_digit(c) || c == '.' || c == '-' || c == '_';
         });
}

/// "Q4_K_M" of "dir/Model-8B-Q4_K_M": the last part of the name, including a "UD-" before it.
std::string quant_of(std::string_view model) {
  model.remove_prefix(std::min(model.size(), model.rfind('/') + 1));
  size_t begin = model.find_last_of("-.") + 1;  // npos + 1 is 0
  if (begin >= 3 && same_text(model.substr(begin - 3, 3), "UD-") &&
      (begin == 3 || model[begin - 4] == '-' || model[begin - 4] == '.')) {
    begin -= 3;
  }
  return std::string(model.substr(begin));
}

std::string list_quants(const std::vector<RepositoryModel>& models) {
  constexpr size_t kMost = 40;
  std::string out;
  for (size_t i = 0; i < std::min(models.size(), kMost); ++i) {
    out += (out.empty() ? "" : ", ") + models[i].quant;
  }
  return models.size() > kMost ? out + ", ..." : out;
}

}  // namespace

Result<ModelName> parse_model_name(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view repository = text.substr(0, colon);
  const std::string_view quant = text.substr(std::min(colon + 1, text.size()));
  const size_t slash = std::min(repository.find('/'), repository.size());
  const bool named = is_plain_name(repository.substr(0, slash)) && slash < repository.size() &&
                     is_plain_name(repository.substr(slash + 1));
  const bool quant_usable = colon == text.size() || safe_path(quant);
  if (!named || !quant_usable) {
    return invalid_argument("'" + std::string(text) +
                            "' is not a model name: write OWNER/NAME or OWNER/NAME:QUANT, such as "
                            "someone/Some-Model-GGUF:Q4_K_M.");
  }
  return ModelName{std::string(repository), std::string(quant)};
}

bool safe_path(std::string_view path) {
  if (path.empty() || path.size() > 1000 || path.back() == '/') return false;
  for (const char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\' || c == ':') return false;
  }
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    // Names that begin with a dot are hidden, or are "." or "..".
    if (name.empty() || name.front() == '.' || name.size() > 200) return false;
    path.remove_prefix(std::min(path.size(), name.size() + 1));
  }
  return true;
}

std::string percent_encoded(std::string_view path) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    if (is_letter_or_digit(c) || std::string_view("/-._~").find(c) != std::string_view::npos) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

std::string sha256_of_etag(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  std::string out(etag);
  std::ranges::transform(out, out.begin(), lower);
  const bool digits = out.size() == 64 && std::ranges::all_of(out, [](char c) {
                        return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f');
                      });
  return digits ? out : "";
}

Result<std::vector<RepositoryFile>> parse_tree(std::string_view json) {
  const auto tree = nlohmann::json::parse(json, nullptr, false);
  if (!tree.is_array()) {
    return invalid_data(
        "The host's list of files is not a JSON list; check that HF_ENDPOINT is a model hub.");
  }
  std::vector<RepositoryFile> files;
  const auto text = [](const nlohmann::json& object, const char* key) -> std::string {
    const auto it = object.find(key);
    return it != object.end() && it->is_string() ? it->get<std::string>() : "";
  };
  for (const auto& entry : tree) {
    if (!entry.is_object() || text(entry, "type") != "file") continue;
    RepositoryFile file;
    file.path = text(entry, "path");
    if (!file.path.ends_with(".gguf")) continue;
    if (!safe_path(file.path)) {
      return invalid_data(
          "The host's list of files has a name that could lead out of the model folder; nothing "
          "was downloaded.");
    }
    const auto lfs = entry.find("lfs");
    const bool has_lfs = lfs != entry.end() && lfs->is_object();
    const nlohmann::json& sized = has_lfs && lfs->contains("size") ? *lfs : entry;
    const auto size = sized.find("size");
    const bool whole = size != sized.end() && size->is_number_unsigned() &&
                       size->get<uint64_t>() <= static_cast<uint64_t>(kLargestFile);
    if (!whole)
      return invalid_data("The host's list of files has no size for '" + file.path + "'.");
    file.size = static_cast<int64_t>(size->get<uint64_t>());
    if (has_lfs) file.sha256 = sha256_of_etag(text(*lfs, "oid"));
    files.push_back(std::move(file));
  }
  return files;
}

std::string next_page(std::string_view link) {
  // <address>; rel="next", <address>; rel="last"
  while (!link.empty()) {
    const size_t begin = link.find('<');
    const size_t end = link.find('>', std::min(begin, link.size()));
    if (begin == std::string_view::npos || end == std::string_view::npos) return "";
    const std::string_view address = link.substr(begin + 1, end - begin - 1);
    const std::string_view rest = link.substr(end + 1);
    const std::string_view parameters = rest.substr(0, rest.find('<'));
    if (parameters.find("rel=\"next\"") != std::string_view::npos ||
        parameters.find("rel=next") != std::string_view::npos) {
      return std::string(address);
    }
    link = rest;
  }
  return "";
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || slash < dash) {
    return std::nullopt;
  }
  ContentRange range;
  int64_t last = 0;
  const bool numbers = parse_number(text.substr(0, dash), range.first) &&
                       parse_number(text.substr(dash + 1, slash - dash - 1), last) &&
                       parse_number(text.substr(slash + 1), range.total);
  if (!numbers || range.first < 0 || last < range.first || last >= range.total) return std::nullopt;
  return range;
}

std::optional<Part> parse_part(std::string_view path) {
  constexpr std::string_view kExtension = ".gguf";
  if (!path.ends_with(kExtension)) return std::nullopt;
  path.remove_suffix(kExtension.size());
  Part part{std::string(path), 1, 1};
  // "-00002-of-00003"
  constexpr size_t kSuffix = 15;
  if (path.size() <= kSuffix) return part;
  const std::string_view suffix = path.substr(path.size() - kSuffix);
  int32_t index = 0;
  int32_t count = 0;
  const bool numbered = suffix[0] == '-' && suffix.substr(6, 4) == "-of-" &&
                        parse_number(suffix.substr(1, 5), index) &&
                        parse_number(suffix.substr(10, 5), count);
  if (!numbered || index < 1 || count < index) return part;
  return Part{std::string(path.substr(0, path.size() - kSuffix)), index, count};
}

int64_t RepositoryModel::size() const {
  int64_t sum = 0;
  for (const RepositoryFile& f : files) sum += f.size;
  return sum;
}

std::vector<RepositoryModel> group_models(const std::vector<RepositoryFile>& files) {
  struct Group {
    std::map<int32_t, const RepositoryFile*> parts;
    int32_t count = 1;
  };
  std::map<std::pair<std::string, int32_t>, Group> groups;
  for (const RepositoryFile& f : files) {
    const auto part = parse_part(f.path);
    if (!part) continue;
    std::string name = part->model.substr(part->model.rfind('/') + 1);
    std::ranges::transform(name, name.begin(), lower);
    if (name.find("mmproj") != std::string::npos || name.find("imatrix") != std::string::npos) {
      continue;
    }
    Group& group = groups[{part->model, part->count}];
    group.count = part->count;
    group.parts[part->index] = &f;
  }
  std::vector<RepositoryModel> models;
  for (const auto& [key, group] : groups) {
    if (group.parts.size() != static_cast<size_t>(group.count)) continue;
    RepositoryModel& model = models.emplace_back();
    model.name = key.first;
    model.quant = quant_of(key.first);
    for (const auto& [index, file] : group.parts) model.files.push_back(*file);
  }
  return models;
}

Result<RepositoryModel> choose_model(const std::vector<RepositoryFile>& files,
                                     std::string_view quant) {
  const std::vector<RepositoryModel> models = group_models(files);
  if (models.empty()) return not_found("It has no complete GGUF model.");
  if (quant.empty() && models.size() == 1) return models[0];
  const std::string_view wanted = quant.empty() ? "Q4_K_M" : quant;
  const RepositoryModel* found = nullptr;
  for (const RepositoryModel& m : models) {
    if (same_text(m.name, wanted) || same_text(m.name + ".gguf", wanted)) return m;
    if (!same_text(m.quant, wanted)) continue;
    if (found != nullptr) {
      return not_found("Both '" + found->name + "' and '" + m.name + "' are called " +
                       std::string(wanted) + "; write one of these names after the colon.");
    }
    found = &m;
  }
  if (found != nullptr) return *found;
  return not_found((quant.empty() ? std::string("It has several models; name one after a "
                                                "colon")
                                  : "It has no " + std::string(quant)) +
                   ". There are: " + list_quants(models) + ".");
}

}  // namespace chimere::hub
