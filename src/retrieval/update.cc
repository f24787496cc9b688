// Adding and re-reading documents.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_stream.h"
#include "base/sha256.h"
#include "net/address.h"
#include "retrieval/open_collection.h"
#include "retrieval/page_fetcher.h"
#include "retrieval/read_documents.h"
#include "retrieval/sources.h"
#include "retrieval/stored_facts.h"

namespace chimere::retrieval {
namespace {

using database::Transaction;

constexpr int64_t kMostFileBytes = int64_t{64} << 20;
constexpr size_t kMostSkipped = 20;
/// Grows when a reader or the chunk rules change what is stored: documents are read again then.
constexpr const char* kRulesVersion = "1";

Error stopped(const std::string& name) {
  return {Error::Code::kCancelled,
          "The update was stopped; what was read is kept. `chimere "
          "collection update " +
              name + "` continues."};
}

Status next_generation(Store& store) {
  return store.database().run(
      "INSERT INTO facts VALUES ('generation', 1) ON CONFLICT (key) DO UPDATE SET value = "
      "CAST(value AS INTEGER) + 1");
}

/// Groups changes into transactions of bounded size.
class Batch {
 public:
  explicit Batch(Store& store) : store_(&store) {}

  /// Runs a change. Errors: those of the change, after which nothing of the open transaction is
  /// kept, and of the database.
  template <typename Change>
  Status run(size_t bytes, const Change& change) {
    if (!transaction_) {
      CHIMERE_TRY(Transaction begun, Transaction::begin(store_->database()));
      transaction_.emplace(std::move(begun));
      since_ = Clock::now();
    }
    CHIMERE_CHECK_OK(change());
    bytes_ += bytes;
    constexpr size_t kMostBytes = size_t{4} << 20;
    constexpr std::chrono::seconds kLongest{1};  // others wait for the write lock
    return bytes_ >= kMostBytes || Clock::now() - since_ > kLongest ? commit() : Status();
  }
  Status commit() {
    if (!transaction_) return {};
    CHIMERE_CHECK_OK(next_generation(*store_));
    Status done = transaction_->commit();
    transaction_.reset();
    bytes_ = 0;
    return done;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Store* store_;
  std::optional<Transaction> transaction_;
  size_t bytes_ = 0;
  Clock::time_point since_;
};

Result<std::string> bytes_of(const SourceFile& file) {
  if (file.size > kMostFileBytes) {
    return unsupported("'" + file.path + "' has more than " + std::to_string(kMostFileBytes >> 20) +
                       " MiB.");
  }
  CHIMERE_TRY(InputFile input, InputFile::open(file.path));
  if (input.remaining() > static_cast<uint64_t>(kMostFileBytes))
    return unsupported("'" + file.path + "' grew while it was read.");
  std::string bytes(input.remaining(), '\0');
  CHIMERE_CHECK_OK(input.read({reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()}));
  return bytes;
}

std::string digest_of(std::string_view bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.finish();
}

/// The file that a document is in: an archive's entry is "ARCHIVE!/ENTRY".
std::string file_of(const std::string& name) { return name.substr(0, name.find("!/")); }

/// Reads the files of one source.
class SourceUpdate {
 public:
  SourceUpdate(Store& store, const StoredSource& source, bool reread, const UpdateOptions& options,
               UpdateReport& report)
      : store_(store),
        source_(source),
        reread_(reread),
        options_(options),
        report_(report),
        batch_(store) {}

  Status run(const std::string& collection) {
    CHIMERE_TRY(const auto documents, store_.documents_of(source_.id));
    for (const auto& [name, document] : documents) known_[file_of(name)].push_back(document);
    if (source_.kind == name_of(Source::Kind::kUrl)) return fetch(collection);
    CHIMERE_TRY(const std::vector<SourceFile> files, list());
    int64_t done = 0;
    for (const SourceFile& file : files) {
      if (options_.interrupted && options_.interrupted()) {
        CHIMERE_CHECK_OK(batch_.commit());
        return stopped(collection);
      }
      if (options_.progress)
        options_.progress({"read", done, static_cast<int64_t>(files.size()), file.path});
      CHIMERE_CHECK_OK(look_at(file));
      ++done;
    }
    // What is left was not seen.
    for (const auto& [file, gone] : known_) {
      for (const StoredDocument& document : gone) {
        CHIMERE_CHECK_OK(batch_.run(0, [&] { return store_.remove(document.id); }));
        ++report_.removed;
      }
    }
    return batch_.commit();
  }

 private:
  Result<std::vector<SourceFile>> list() const {
    if (source_.kind == name_of(Source::Kind::kManual))
      return manual_pages(source_.place, options_.interrupted);
    auto files = files_below(source_.place, options_.interrupted);
    // A source that is gone has no documents any more.
    if (!files.ok() && files.error().code == Error::Code::kNotFound && !known_.empty())
      return std::vector<SourceFile>();
    return files;
  }

  /// A page of the web. One that cannot be fetched stays as it was.
  Status fetch(const std::string& collection) {
    const std::string& url = source_.place;
    if (options_.interrupted && options_.interrupted()) return stopped(collection);
    if (options_.progress) options_.progress({"fetch", 0, 1, url});
    FetchOptions fetching;
    fetching.interrupted = options_.interrupted;
    for (const std::string& text : options_.allowed_addresses) {
      const auto address = net::parse_ip(text);
      if (!address) return invalid_argument("'" + text + "' is not an IP address.");
      fetching.allowed.push_back(*address);
    }
    CHIMERE_TRY(PageFetcher fetcher, PageFetcher::create(std::move(fetching)));
    const Result<FetchedPage> page = fetcher.get(url);
    if (!page.ok() && page.error().code == Error::Code::kCancelled) return stopped(collection);
    if (!page.ok()) {
      skip(page.error().message);
      return {};
    }
    std::vector<StoredDocument> before = known_[url];
    const std::string digest = digest_of(page->bytes);
    if (!reread_ && !before.empty() && before.front().digest == digest) {
      report_.unchanged += static_cast<int64_t>(before.size());
      return {};
    }
    SourceFile file;
    file.path = url;
    CHIMERE_CHECK_OK(read(file, page->bytes, page->media_type, digest, std::move(before)));
    return batch_.commit();
  }

  void skip(std::string why) const {
    ++report_.n_skipped;
    if (report_.skipped.size() < kMostSkipped) report_.skipped.push_back(std::move(why));
  }

  Status look_at(const SourceFile& file) {
    auto node = known_.extract(file.path);
    std::vector<StoredDocument> before;
    if (!node.empty()) before = std::move(node.mapped());
    const bool same = !before.empty() && std::ranges::all_of(before, [&](const StoredDocument& d) {
      return d.size == file.size && d.modified_ns == file.modified_ns;
    });
    if (same && !reread_) {
      report_.unchanged += static_cast<int64_t>(before.size());
      return {};
    }
    const Result<std::string> bytes = bytes_of(file);
    if (!bytes.ok()) {
      skip(bytes.error().message);
      return remove(before);
    }
    const std::string digest = digest_of(*bytes);
    if (!reread_ && !before.empty() && before.front().digest == digest) {
      report_.unchanged += static_cast<int64_t>(before.size());
      return batch_.run(0, [&]() -> Status {
        for (const StoredDocument& d : before)
          CHIMERE_CHECK_OK(store_.touch(d.id, file.size, file.modified_ns));
        return {};
      });
    }
    return read(file, *bytes, "", digest, before);
  }

  Status remove(const std::vector<StoredDocument>& documents) {
    for (const StoredDocument& document : documents) {
      CHIMERE_CHECK_OK(batch_.run(0, [&] { return store_.remove(document.id); }));
      ++report_.removed;
    }
    return {};
  }

  Status read(const SourceFile& file, const std::string& bytes, const std::string& media_type,
              const std::string& digest, std::vector<StoredDocument> before) {
    struct Entry {
      StoredDocument stored;
      std::vector<Chunk> chunks;
    };
    std::vector<Entry> entries;
    const Status status = read_documents(
        file.path, bytes, media_type,
        [&](const std::string& name, Document document) -> Status {
          Entry entry;
          entry.chunks = chunk(document);
          if (entry.chunks.empty()) return {};
          entry.stored.source = source_.id;
          entry.stored.name = name;
          entry.stored.title = std::move(document.title);
          entry.stored.digest = digest;
          entry.stored.size = file.size;
          entry.stored.modified_ns = file.modified_ns;
          entries.push_back(std::move(entry));
          return {};
        },
        [&](std::string why) { skip(std::move(why)); });
    if (!status.ok()) skip(status.error().message);
    return batch_.run(bytes.size(), [&]() -> Status {
      for (const Entry& entry : entries) {
        const size_t had = before.size();
        std::erase_if(before, [&](const auto& d) { return d.name == entry.stored.name; });
        CHIMERE_CHECK_OK(store_.put(entry.stored, entry.chunks));
        (before.size() < had ? report_.changed : report_.added) += 1;
      }
      for (const StoredDocument& gone : before) {
        CHIMERE_CHECK_OK(store_.remove(gone.id));
        ++report_.removed;
      }
      return {};
    });
  }

  Store& store_;
  const StoredSource& source_;
  bool reread_;
  const UpdateOptions& options_;
  UpdateReport& report_;
  Batch batch_;
  std::map<std::string, std::vector<StoredDocument>> known_;  ///< by file
};

}  // namespace

Status OpenCollection::embed(Store& store, TextEmbedder& embedder, const UpdateOptions& options,
                             UpdateReport& report) const {
  CHIMERE_TRY(const std::string made_by, store.fact(facts::kEmbedder));
  if (made_by != embedder.identity()) {
    CHIMERE_TRY(Transaction transaction, Transaction::begin(store.database()));
    CHIMERE_CHECK_OK(store.forget_vectors());
    CHIMERE_CHECK_OK(store.set_fact(facts::kEmbedder, embedder.identity()));
    CHIMERE_CHECK_OK(next_generation(store));
    CHIMERE_CHECK_OK(transaction.commit());
  }
  CHIMERE_TRY(const StoreCounts counts, store.counts());
  constexpr int64_t kBatch = 256;
  int64_t after = 0;
  while (true) {
    if (options.interrupted && options.interrupted()) return stopped(id_.name);
    CHIMERE_TRY(const auto chunks, store.without_vectors(after, kBatch));
    if (chunks.empty()) return {};
    if (options.progress) options.progress({"embed", report.embedded, counts.without_vector, ""});
    std::vector<std::string> texts;
    texts.reserve(chunks.size());
    for (const auto& c : chunks) texts.push_back(c.text);
    CHIMERE_TRY(const auto vectors, embedder.embed(texts));
    CHIMERE_TRY(Transaction transaction, Transaction::begin(store.database()));
    for (size_t i = 0; i < chunks.size(); ++i)
      CHIMERE_CHECK_OK(store.set_vector(chunks[i].id, pack_vector(vectors.at(i))));
    CHIMERE_CHECK_OK(next_generation(store));
    CHIMERE_CHECK_OK(transaction.commit());
    report.embedded += static_cast<int64_t>(chunks.size());
    after = chunks.back().id;
  }
}

Result<UpdateReport> OpenCollection::update(std::span<const Source> sources, TextEmbedder* embedder,
                                            const UpdateOptions& options) {
  const std::scoped_lock one(updating_);
  CHIMERE_TRY(Store store, Store::open(path_, true));
  for (const Source& source : sources) {
    CHIMERE_TRY(const int64_t added,
                store.add_source(std::string(name_of(source.kind)), source.place));
    (void)added;
  }
  CHIMERE_TRY(const std::string rules, store.fact(facts::kRules));
  UpdateReport report;
  CHIMERE_TRY(const auto stored, store.sources());
  for (const StoredSource& source : stored) {
    if (source.kind == kGivenSource) continue;
    CHIMERE_CHECK_OK(
        SourceUpdate(store, source, rules != kRulesVersion, options, report).run(id_.name));
  }
  if (rules != kRulesVersion) CHIMERE_CHECK_OK(store.set_fact(facts::kRules, kRulesVersion));
  if (embedder != nullptr) CHIMERE_CHECK_OK(embed(store, *embedder, options, report));
  return report;
}

Result<UpdateReport> OpenCollection::add_text(const std::string& name, const std::string& bytes,
                                              const std::string& type, TextEmbedder* embedder,
                                              const UpdateOptions& options) {
  const std::scoped_lock one(updating_);
  CHIMERE_TRY(Store store, Store::open(path_, true));
  UpdateReport report;
  const std::string digest = digest_of(bytes);
  CHIMERE_TRY(const int64_t source, store.add_source(std::string(kGivenSource), ""));
  Batch batch(store);
  CHIMERE_CHECK_OK(read_documents(
      name, bytes, type,
      [&](const std::string& entry, Document document) -> Status {
        const std::vector<Chunk> chunks = chunk(document);
        if (chunks.empty()) return {};
        CHIMERE_TRY(const StoredDocument before, store.find_document(entry));
        if (before.id != 0 && before.source != source)
          return invalid_argument("The collection has a document '" + entry +
                                  "' already, which comes from a file; take another name.");
        (before.id != 0 ? report.changed : report.added) += 1;
        StoredDocument stored;
        stored.source = source;
        stored.name = entry;
        stored.title = std::move(document.title);
        stored.digest = digest;
        return batch.run(bytes.size(), [&] { return store.put(stored, chunks); });
      },
      [&](std::string why) {
        ++report.n_skipped;
        if (report.skipped.size() < kMostSkipped) report.skipped.push_back(std::move(why));
      }));
  CHIMERE_CHECK_OK(batch.commit());
  if (report.added + report.changed == 0) return invalid_data("'" + name + "' has no text.");
  if (embedder != nullptr) CHIMERE_CHECK_OK(embed(store, *embedder, options, report));
  return report;
}

Status OpenCollection::remove_document(const std::string& name) {
  const std::scoped_lock one(updating_);
  CHIMERE_TRY(Store store, Store::open(path_, false));
  CHIMERE_TRY(const StoredDocument document, store.find_document(name));
  if (document.id == 0)
    return not_found("The collection '" + id_.name + "' has no document '" + name + "'.");
  Batch batch(store);
  CHIMERE_CHECK_OK(batch.run(0, [&] { return store.remove(document.id); }));
  return batch.commit();
}

}  // namespace chimere::retrieval
