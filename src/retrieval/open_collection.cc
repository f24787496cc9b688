#include "retrieval/open_collection.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <system_error>
#include <utility>

#include "retrieval/near_duplicates.h"
#include "retrieval/ranking.h"
#include "retrieval/stored_facts.h"
#include "retrieval/words_query.h"

namespace chimere::retrieval {
namespace {

/// What an embedder reads of a passage: its document's title, its headings, its text.
std::string full_text(const StoredPassage& passage) {
  std::string text;
  for (const std::string* part : {&passage.title, &passage.heading, &passage.text}) {
    if (part->empty()) continue;
    if (!text.empty()) text += '\n';
    text += *part;
  }
  return text;
}

/// Removes passages that repeat a better one, until `most` remain.
void remove_duplicates(std::vector<StoredPassage>& passages, size_t most) {
  std::vector<StoredPassage> kept;
  std::vector<std::vector<uint64_t>> seen;
  for (StoredPassage& passage : passages) {
    if (kept.size() >= most) break;
    std::vector<uint64_t> own = shingles(passage.text);
    const bool repeated = std::ranges::any_of(seen, [&](const std::vector<uint64_t>& other) {
      return resemblance(own, other) >= kNearDuplicate;
    });
    if (repeated) continue;
    kept.push_back(std::move(passage));
    seen.push_back(std::move(own));
  }
  passages = std::move(kept);
}

}  // namespace

class OpenCollection::Lease {
 public:
  Lease(OpenCollection& owner, std::unique_ptr<Store> store)
      : owner_(&owner), store_(std::move(store)) {}
  Lease(Lease&& other) noexcept : owner_(other.owner_), store_(std::move(other.store_)) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Lease& operator=(Lease&&) = delete;
  ~Lease() {
    constexpr size_t kMostIdle = 8;
    if (store_ == nullptr) return;
    const std::scoped_lock lock(owner_->mutex_);
    if (owner_->idle_.size() < kMostIdle) owner_->idle_.push_back(std::move(store_));
  }
  Store& operator*() const { return *store_; }
  Store* operator->() const { return store_.get(); }

 private:
  OpenCollection* owner_;
  std::unique_ptr<Store> store_;
};

Result<OpenCollection::Lease> OpenCollection::lease() {
  bool replaced = false;
  while (true) {
    std::unique_ptr<Store> store;
    {
      const std::scoped_lock lock(mutex_);
      if (idle_.empty()) break;
      store = std::move(idle_.back());
      idle_.pop_back();
    }
    if (!store->database().has_moved()) return Lease(*this, std::move(store));
    replaced = true;  // another process, or another Collections, removed the file
  }
  if (replaced) {
    const std::scoped_lock lock(loading_);
    vectors_.reset();
  }
  CHIMERE_TRY(Store store, Store::open(path_, false));
  return Lease(*this, std::make_unique<Store>(std::move(store)));
}

Result<std::shared_ptr<const VectorIndex>> OpenCollection::vectors(Store& store,
                                                                   const TextEmbedder& embedder,
                                                                   std::string& note) {
  using Index = std::shared_ptr<const VectorIndex>;
  CHIMERE_TRY(const std::string made_by, store.fact(facts::kEmbedder));
  if (made_by.empty()) {
    note = "The collection has no vectors yet: `chimere collection update " + id_.name +
           "` computes them.";
    return Index();
  }
  if (made_by != embedder.identity()) {
    note = "The collection's vectors are of another embedding model (" + made_by +
           "): `chimere collection update " + id_.name + "` computes them anew.";
    return Index();
  }
  CHIMERE_TRY(const std::string generation, store.fact(facts::kGeneration));
  const std::scoped_lock lock(loading_);
  if (vectors_ != nullptr && generation == generation_ &&
      vectors_->dimensions() == embedder.dimensions())
    return vectors_;
  const auto add_to = [](VectorIndex& index) {
    return [&index](int64_t chunk, std::span<const std::byte> packed) { index.add(chunk, packed); };
  };
  auto index = std::make_shared<VectorIndex>(embedder.dimensions());
  if (vectors_ != nullptr && vectors_->dimensions() == embedder.dimensions()) {
    CHIMERE_TRY(const std::vector<int64_t> present, store.chunks_with_vectors());
    *index = *vectors_;
    index->keep(present);
    CHIMERE_CHECK_OK(store.each_vector(index->last_chunk(), add_to(*index)));
    if (index->size() != static_cast<int64_t>(present.size()))  // vectors in between were added
      *index = VectorIndex(embedder.dimensions());
  }
  if (index->size() == 0) CHIMERE_CHECK_OK(store.each_vector(0, add_to(*index)));
  vectors_ = std::move(index);
  generation_ = generation;
  return vectors_;
}

Result<int64_t> OpenCollection::chunks_with(Store& store, const std::string& generation,
                                            const std::string& expression) {
  constexpr size_t kMostRemembered = 20'000;
  {
    const std::scoped_lock lock(counting_);
    if (generation != counted_generation_) chunks_with_.clear();
    counted_generation_ = generation;
    const auto known = chunks_with_.find(expression);
    if (known != chunks_with_.end()) return known->second;
  }
  CHIMERE_TRY(const int64_t chunks,
              store.count_words(expression, std::numeric_limits<int64_t>::max()));
  const std::scoped_lock lock(counting_);
  if (chunks_with_.size() >= kMostRemembered) chunks_with_.clear();
  if (generation == counted_generation_) chunks_with_[expression] = chunks;
  return chunks;
}

Result<std::vector<WordHit>> OpenCollection::chunks_with_words(Store& store,
                                                               const std::string& query,
                                                               size_t most) {
  constexpr int64_t kMostScored = 3'000;
  CHIMERE_TRY(const std::string generation, store.fact(facts::kGeneration));
  CHIMERE_TRY(const std::vector<TextsToScore> parts,
              texts_to_score(words_of_query(query), kMostScored,
                             [&](const std::string& expression, int64_t limit) {
                               return limit == std::numeric_limits<int64_t>::max()
                                          ? chunks_with(store, generation, expression)
                                          : store.count_words(expression, limit);
                             }));
  std::map<int64_t, double> scores;  // a chunk's score is the same in every part
  for (const TextsToScore& part : parts) {
    CHIMERE_TRY(const std::vector<WordHit> hits, store.search_words(part, most));
    for (const WordHit& hit : hits) scores.emplace(hit.chunk, hit.score);
  }
  std::vector<WordHit> words;
  words.reserve(scores.size());
  for (const auto& [chunk, score] : scores) words.push_back({chunk, score});
  std::ranges::stable_sort(words, std::greater(), &WordHit::score);
  words.resize(std::min(words.size(), most));
  return words;
}

Result<std::vector<VectorHit>> OpenCollection::near_chunks(Store& store, const std::string& query,
                                                           const SearchOptions& options,
                                                           TextEmbedder& embedder, Found& found) {
  CHIMERE_TRY(const auto index, vectors(store, embedder, found.note));
  if (index == nullptr || index->size() == 0) return std::vector<VectorHit>();
  CHIMERE_TRY(const auto embedded, embedder.embed(std::span(&query, 1)));
  found.by_vectors = true;
  return index->search(embedded.front(), static_cast<size_t>(std::max(options.candidates, 1)));
}

Result<Found> OpenCollection::search(const std::string& query, const SearchOptions& options,
                                     TextEmbedder* embedder, TextReranker* reranker) {
  Found found;
  CHIMERE_TRY(const Lease store, lease());
  std::vector<WordHit> words;
  if (options.words) {
    CHIMERE_TRY(words, chunks_with_words(*store, query,
                                         static_cast<size_t>(std::max(options.candidates, 1))));
  }
  std::vector<VectorHit> near;
  const bool blank = query.find_first_not_of(" \t\r\n") == std::string::npos;
  if (options.vectors && embedder != nullptr && !blank) {
    CHIMERE_TRY(near, near_chunks(*store, query, options, *embedder, found));
  }
  const std::vector<RankedChunk> ranked = fuse(words, near, std::max(options.vectors_weight, 1e-6));
  const auto count = static_cast<size_t>(std::max(options.count, 0));
  const bool reranks = options.rerank && reranker != nullptr && !blank;
  const size_t wanted =
      reranks ? std::max(count, static_cast<size_t>(std::max(options.reranked, 1))) : count;
  // Duplicates make room for others.
  std::vector<int64_t> ids;
  for (const RankedChunk& chunk : ranked) {
    if (ids.size() >= 2 * wanted + 8) break;
    ids.push_back(chunk.id);
  }
  CHIMERE_TRY(std::vector<StoredPassage> passages, store->passages(ids));
  remove_duplicates(passages, wanted);
  std::vector<double> relevance;
  if (reranks && !passages.empty()) {
    std::vector<std::string> texts;
    texts.reserve(passages.size());
    for (const StoredPassage& passage : passages) texts.push_back(full_text(passage));
    CHIMERE_TRY(relevance, reranker->score(query, texts));
    found.reranked = true;
  }
  for (size_t i = 0; i < passages.size(); ++i) {
    StoredPassage& stored = passages[i];
    const auto chunk = std::ranges::find(ranked, stored.id, &RankedChunk::id);
    Passage passage;
    passage.id = stored.id;
    passage.document = std::move(stored.document);
    passage.title = std::move(stored.title);
    passage.heading = std::move(stored.heading);
    passage.text = std::move(stored.text);
    passage.line = stored.line;
    passage.score = chunk->score;
    passage.words = chunk->words;
    passage.similarity = chunk->similarity;
    if (found.reranked) {
      passage.relevance = relevance.at(i);
      passage.score = relevance.at(i);
    }
    found.passages.push_back(std::move(passage));
  }
  if (found.reranked) std::ranges::stable_sort(found.passages, std::greater(), &Passage::score);
  if (found.passages.size() > count) found.passages.resize(count);
  return found;
}

Result<CollectionInfo> OpenCollection::info() {
  CHIMERE_TRY(const Lease store, lease());
  CHIMERE_TRY(const StoreCounts counts, store->counts());
  CollectionInfo info;
  info.id = id_;
  info.documents = counts.documents;
  info.chunks = counts.chunks;
  info.without_vector = counts.without_vector;
  CHIMERE_TRY(info.embedder, store->fact(facts::kEmbedder));
  for (const char* ending : {"", "-wal"}) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path_ + ending, error);
    if (!error) info.bytes += static_cast<int64_t>(size);
  }
  CHIMERE_TRY(const auto sources, store->sources());
  for (const StoredSource& stored : sources) {
    if (const auto kind = kind_of(stored.kind)) info.sources.push_back({*kind, stored.place});
  }
  return info;
}

Result<std::vector<DocumentInfo>> OpenCollection::documents() {
  CHIMERE_TRY(const Lease store, lease());
  CHIMERE_TRY(auto stored, store->documents());
  std::vector<DocumentInfo> found;
  found.reserve(stored.size());
  for (StoredDocument& document : stored)
    found.push_back({std::move(document.name), std::move(document.title), document.chunks});
  return found;
}

Result<std::string> OpenCollection::check() {
  CHIMERE_TRY(const Lease store, lease());
  return store->check();
}

}  // namespace chimere::retrieval
