#include "retrieval/collections.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <utility>

#include "net/url.h"
#include "retrieval/open_collection.h"

namespace chimere::retrieval {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".sqlite";

bool valid_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name.front() != '.' &&
         std::ranges::all_of(name, [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-');
         });
}

/// A folder name for any text.
std::string hexadecimal(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const unsigned char c : text) {
    out += kDigits[c >> 4U];
    out += kDigits[c & 15U];
  }
  return out;
}

std::string folder_of(const std::string& folder, const std::string& owner) {
  return owner.empty() ? folder : folder + "/keys/" + hexadecimal(owner);
}

Error no_collection(const CollectionId& id) {
  return not_found("There is no collection '" + id.name + "'.");
}

/// Makes the places of sources independent of the working directory, and checks that they exist.
Result<std::vector<Source>> resolved(std::span<const Source> sources) {
  std::vector<Source> out;
  for (Source source : sources) {
    if (source.kind == Source::Kind::kUrl) {
      if (net::origin_of(source.place).empty())
        return invalid_argument("'" + source.place + "' is not an http or https address.");
    } else if (!source.place.empty() || source.kind == Source::Kind::kPath) {
      std::error_code error;
      const fs::path path = fs::canonical(source.place, error);
      if (error) return not_found("There is no file or folder '" + source.place + "'.");
      source.place = path.string();
    }
    out.push_back(std::move(source));
  }
  return out;
}

}  // namespace

Collections::Collections(std::string folder, std::shared_ptr<TextEmbedder> embedder,
                         std::shared_ptr<TextReranker> reranker)
    : folder_(std::move(folder)), embedder_(std::move(embedder)), reranker_(std::move(reranker)) {}

Collections::~Collections() = default;

Result<std::string> Collections::path_of(const CollectionId& id) const {
  if (!valid_name(id.name)) {
    return invalid_argument("'" + id.name.substr(0, 80) +
                            "' is no name of a collection: up to 64 letters, digits, '.', '_' and "
                            "'-', the first no '.'.");
  }
  // The longest name of a file is 255 bytes.
  if (id.owner.size() > 100) return invalid_argument("The owner's name is too long.");
  return folder_of(folder_, id.owner) + "/" + id.name + std::string(kEnding);
}

Result<std::shared_ptr<OpenCollection>> Collections::opened(const CollectionId& id, bool create) {
  CHIMERE_TRY(const std::string path, path_of(id));
  std::error_code error;
  const std::scoped_lock lock(mutex_);
  if (!create && !fs::exists(path, error)) {
    opened_.erase(path);
    return no_collection(id);
  }
  std::shared_ptr<OpenCollection>& entry = opened_[path];
  if (entry == nullptr) entry = std::make_shared<OpenCollection>(id, path);
  return entry;
}

Result<UpdateReport> Collections::add(const CollectionId& id, std::span<const Source> sources,
                                      const UpdateOptions& options) {
  CHIMERE_TRY(const std::vector<Source> absolute, resolved(sources));
  CHIMERE_TRY(const auto collection, opened(id, true));
  std::error_code error;
  fs::create_directories(folder_of(folder_, id.owner), error);
  if (error) {
    return io_error("The folder " + folder_of(folder_, id.owner) +
                    " cannot be created: " + error.message() + ".");
  }
  return collection->update(absolute, embedder_.get(), options);
}

Result<UpdateReport> Collections::add_text(const CollectionId& id, const std::string& name,
                                           const std::string& bytes, const std::string& type,
                                           const UpdateOptions& options) {
  if (name.empty() || name.size() > 1000)
    return invalid_argument("A document needs a name of at most 1000 bytes.");
  CHIMERE_TRY(const auto collection, opened(id, true));
  std::error_code error;
  fs::create_directories(folder_of(folder_, id.owner), error);
  if (error) {
    return io_error("The folder " + folder_of(folder_, id.owner) +
                    " cannot be created: " + error.message() + ".");
  }
  return collection->add_text(name, bytes, type, embedder_.get(), options);
}

Result<UpdateReport> Collections::update(const CollectionId& id, const UpdateOptions& options) {
  CHIMERE_TRY(const auto collection, opened(id, false));
  return collection->update({}, embedder_.get(), options);
}

Result<std::vector<CollectionInfo>> Collections::list(const std::string& owner) {
  std::vector<CollectionInfo> found;
  std::error_code error;
  fs::directory_iterator at(folder_of(folder_, owner), error);
  if (error) return found;  // no folder, no collections
  for (const fs::directory_entry& entry : at) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(kEnding)) continue;
    const CollectionId id = {file.substr(0, file.size() - kEnding.size()), owner};
    if (!valid_name(id.name)) continue;
    CHIMERE_TRY(CollectionInfo described, info(id));
    found.push_back(std::move(described));
  }
  std::ranges::sort(found, {}, [](const CollectionInfo& c) { return c.id.name; });
  return found;
}

Result<CollectionInfo> Collections::info(const CollectionId& id) {
  CHIMERE_TRY(const auto collection, opened(id, false));
  return collection->info();
}

Result<std::vector<DocumentInfo>> Collections::documents(const CollectionId& id) {
  CHIMERE_TRY(const auto collection, opened(id, false));
  return collection->documents();
}

Status Collections::remove(const CollectionId& id) {
  CHIMERE_TRY(const std::string path, path_of(id));
  const std::scoped_lock lock(mutex_);
  opened_.erase(path);
  std::error_code error;
  if (!fs::remove(path, error))
    return error ? io_error("The collection '" + id.name +
                            "' cannot be removed: " + error.message() + ".")
                 : no_collection(id);
  for (const char* ending : {"-wal", "-shm"}) fs::remove(path + ending, error);
  return {};
}

Status Collections::remove_document(const CollectionId& id, const std::string& name) {
  CHIMERE_TRY(const auto collection, opened(id, false));
  return collection->remove_document(name);
}

Result<Found> Collections::search(const CollectionId& id, const std::string& query,
                                  const SearchOptions& options) {
  CHIMERE_TRY(const auto collection, opened(id, false));
  return collection->search(query, options, embedder_.get(), reranker_.get());
}

Result<std::string> Collections::check(const CollectionId& id) {
  CHIMERE_TRY(const auto collection, opened(id, false));
  return collection->check();
}

}  // namespace chimere::retrieval
