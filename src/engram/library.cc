#include "engram/library.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <system_error>
#include <utility>

namespace chimere::engram {
namespace fs = std::filesystem;

std::string refusal(const Candidate& text, const QualityRules& rules) {
  const size_t n = text.tokens.size();
  if (!(text.score >= rules.min_score)) return "Its score is below the minimum.";
  if (n < std::max<size_t>(3, rules.min_tokens)) {
    return "It has " + std::to_string(n) + " tokens; at least " +
           std::to_string(std::max<size_t>(3, rules.min_tokens)) + " are needed.";
  }
  std::set<std::array<int32_t, 3>> different;
  for (size_t i = 2; i < n; ++i)
    different.insert({text.tokens[i - 2], text.tokens[i - 1], text.tokens[i]});
  if (static_cast<double>(different.size()) < rules.min_variety * static_cast<double>(n - 2))
    return "It is too repetitive.";
  return {};
}

Library::Library(std::string folder, uint64_t tokenizer, QualityRules rules)
    : folder_(std::move(folder)), tokenizer_(tokenizer), rules_(rules) {}

Status Library::check_scope(std::string_view scope) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  if (!scope.empty() && scope.size() <= 64 && std::ranges::all_of(scope, allowed)) return {};
  return invalid_argument("'" + std::string(scope.substr(0, 64)) +
                          "' is not a valid table name: use 1 to 64 letters, digits, - and _.");
}

std::string Library::path_of(std::string_view scope) const {
  return (fs::path(folder_) / (std::string(scope) + ".engr")).string();
}

Result<std::shared_ptr<const Table>> Library::newest(const std::string& scope) {
  CHIMERE_CHECK_OK(check_scope(scope));
  const std::string path = path_of(scope);
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  const uintmax_t size = error ? 0 : fs::file_size(path, error);
  if (error) return not_found("There is no engram table '" + scope + "'; write to it first.");
  const std::lock_guard lock(reading_);
  const auto it = open_.find(scope);
  if (it != open_.end() && it->second.time == time && it->second.size == size)
    return it->second.table;
  CHIMERE_TRY(auto table, open_table(path, {.tokenizer = tokenizer_}));
  open_[scope] = {table, time, size};
  return table;
}

Result<Memory::Tables> Library::tables(std::span<const std::string> scopes) {
  Memory::Tables out;
  for (const std::string& scope : scopes) {
    CHIMERE_TRY(auto table, newest(scope));
    out.push_back(std::move(table));
  }
  return out;
}

Result<std::vector<std::string>> Library::list() const {
  std::vector<std::string> out;
  std::error_code error;
  if (!fs::exists(folder_, error)) return out;
  fs::directory_iterator files(folder_, error);
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    const fs::path& path = files->path();
    const std::string name = path.stem().string();
    if (path.extension() == ".engr" && check_scope(name).ok()) out.push_back(name);
  }
  if (error) return io_error("The folder '" + folder_ + "' cannot be read: " + error.message());
  std::ranges::sort(out);
  return out;
}

Status Library::decay(std::string_view scope, uint16_t day) {
  CHIMERE_CHECK_OK(check_scope(scope));
  const std::lock_guard lock(writing_);
  const std::string path = path_of(scope);
  uint64_t tokenizer = 0;
  std::vector<float> gate;
  auto counts = read_counts(path, tokenizer, gate);
  if (!counts.ok() && counts.error().code == Error::Code::kNotFound) {
    return not_found("There is no engram table '" + std::string(scope) + "'.");
  }
  CHIMERE_TRY(const Counts before, std::move(counts));
  CHIMERE_CHECK_OK(write_table(path, before.decayed(day), tokenizer, gate));
  const std::lock_guard forget(reading_);
  open_.erase(std::string(scope));
  return {};
}

Status Library::erase(std::string_view scope) {
  CHIMERE_CHECK_OK(check_scope(scope));
  const std::lock_guard lock(writing_);
  std::error_code error;
  const bool removed = fs::remove(path_of(scope), error);
  if (error) {
    return io_error("The engram table '" + std::string(scope) +
                    "' cannot be deleted: " + error.message());
  }
  const std::lock_guard forget(reading_);
  open_.erase(std::string(scope));
  if (!removed) return not_found("There is no engram table '" + std::string(scope) + "'.");
  return {};
}

Result<WriteReport> Library::write(std::string_view scope, std::span<const Candidate> texts,
                                   const std::string& source, uint16_t day) {
  CHIMERE_CHECK_OK(check_scope(scope));
  WriteReport report;
  const std::lock_guard lock(writing_);
  const std::string path = path_of(scope);
  Counts counts(kDefaultOrder);
  uint64_t tokenizer = tokenizer_;
  std::vector<float> gate;
  std::error_code error;
  if (fs::exists(path, error)) {
    CHIMERE_TRY(counts, read_counts(path, tokenizer, gate));
    if (tokenizer != tokenizer_) {
      return invalid_argument("The engram table '" + std::string(scope) +
                              "' belongs to another tokenizer; use another name.");
    }
  }
  for (const Candidate& text : texts) {
    const std::string why = refusal(text, rules_);
    if (!why.empty()) {
      report.refused.push_back("texts[" + std::to_string(&text - texts.data()) + "]: " + why);
      continue;
    }
    const double weight = std::clamp(text.score, 0.0, 1.0) * kOne;
    const Occurrence occurrence{source, day,
                                static_cast<uint32_t>(std::max(1L, std::lround(weight)))};
    CHIMERE_TRY(const Counts more, Counts::of({&text.tokens, 1}, counts.order(), occurrence));
    CHIMERE_TRY(counts, Counts::merged(counts, more));
    ++report.written;
  }
  report.ngrams = counts.successors().size();
  if (report.ngrams > rules_.max_ngrams) {
    return out_of_memory("The engram table '" + std::string(scope) + "' is full (" +
                         std::to_string(rules_.max_ngrams) +
                         " n-grams); free space with `chimere engram prune` or `decay`.");
  }
  if (report.written == 0) return report;
  fs::create_directories(folder_, error);  // write_table() reports the error
  CHIMERE_CHECK_OK(write_table(path, counts, tokenizer, gate));
  // Two writes may have the same time stamp, so the cached table is dropped.
  const std::lock_guard forget(reading_);
  open_.erase(std::string(scope));
  return report;
}

}  // namespace chimere::engram
