#include "runtime/engram_memories.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "text/fingerprint.h"

namespace chimere::runtime {
namespace fs = std::filesystem;
namespace {

/// Days since 1970-01-01.
uint16_t today() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint16_t>(std::chrono::duration_cast<std::chrono::days>(now).count());
}

}  // namespace

EngramMemories::EngramMemories(std::string folder, const text::Tokenizer& tokenizer)
    : folder_(std::move(folder)), tokenizer_(text::fingerprint(tokenizer)) {}

/// Key names may be "." or "..": the prefix makes them safe folder names.
std::string EngramMemories::folder_of(const std::string& owner) const {
  return fmt::format("{}/{:016x}/{}", folder_, tokenizer_, owner.empty() ? "all" : "key-" + owner);
}

engram::Library& EngramMemories::library_of(const std::string& owner) {
  const std::scoped_lock lock(mutex_);
  std::unique_ptr<engram::Library>& library = libraries_[owner];
  if (library == nullptr) {
    engram::QualityRules rules;
    rules.max_ngrams = kMaxNgrams;
    library = std::make_unique<engram::Library>(folder_of(owner), tokenizer_, rules);
  }
  return *library;
}

Result<engram::Memory::Tables> EngramMemories::tables(const std::string& owner,
                                                      std::span<const std::string> names) {
  if (names.empty()) return engram::Memory::Tables();
  return library_of(owner).tables(names);
}

Result<engram::WriteReport> EngramMemories::write(const std::string& owner, const std::string& name,
                                                  std::span<const engram::Candidate> texts,
                                                  const std::string& source) {
  CHIMERE_CHECK_OK(engram::Library::check_scope(name));
  const std::string folder = folder_of(owner);
  std::error_code error;
  fs::create_directories(folder, error);
  for (const fs::path& p : {fs::path(folder_), fs::path(folder).parent_path(), fs::path(folder)}) {
    if (!error) fs::permissions(p, fs::perms::owner_all, error);
  }
  if (error) {
    return io_error("The folder '" + folder + "' cannot be created: " + error.message() +
                    "; check --state-folder.");
  }
  return library_of(owner).write(name, texts, source, today());
}

Result<std::vector<std::string>> EngramMemories::list(const std::string& owner) {
  return library_of(owner).list();
}

Result<std::shared_ptr<const engram::Table>> EngramMemories::table(const std::string& owner,
                                                                   const std::string& name) {
  CHIMERE_TRY(auto tables, library_of(owner).tables({&name, 1}));
  return std::move(tables.front());
}

Status EngramMemories::decay(const std::string& owner, const std::string& name) {
  return library_of(owner).decay(name, today());
}

Status EngramMemories::erase(const std::string& owner, const std::string& name) {
  return library_of(owner).erase(name);
}

}  // namespace chimere::runtime
