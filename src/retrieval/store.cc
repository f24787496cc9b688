#include "retrieval/store.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <utility>

#include "database/word_score.h"

namespace chimere::retrieval {
namespace {

using database::Migration;
using database::Statement;

constexpr std::array<Migration, 1> kSchema = {{{R"sql(
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sources (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  place TEXT NOT NULL,
  UNIQUE (kind, place));
CREATE TABLE documents (
  id INTEGER PRIMARY KEY,
  source INTEGER NOT NULL REFERENCES sources (id),
  name TEXT NOT NULL UNIQUE,
  title TEXT NOT NULL,
  digest TEXT NOT NULL,
  size INTEGER NOT NULL,
  modified_ns INTEGER NOT NULL);
CREATE INDEX documents_of_source ON documents (source);
-- AUTOINCREMENT: the id of a chunk that is gone never comes back.
CREATE TABLE chunks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  document INTEGER NOT NULL REFERENCES documents (id),
  line INTEGER NOT NULL,
  vector BLOB);
CREATE INDEX chunks_of_document ON chunks (document);
CREATE INDEX chunks_with_vector ON chunks (id) WHERE vector IS NOT NULL;
CREATE INDEX chunks_without_vector ON chunks (id) WHERE vector IS NULL;
CREATE VIRTUAL TABLE words USING fts5 (
  title, heading, text, tokenize = "porter unicode61 remove_diacritics 2");
INSERT INTO words (words, rank) VALUES ('rank', 'bm25(8.0, 4.0, 1.0)');
)sql"}}};

StoredDocument read_document(const Statement& row) {
  StoredDocument document;
  document.id = row.integer(0);
  document.source = row.integer(1);
  document.name = row.text(2);
  document.digest = row.text(3);
  document.size = row.integer(4);
  document.modified_ns = row.integer(5);
  return document;
}

}  // namespace

Result<Store> Store::open(const std::string& path, bool create) {
  std::error_code error;
  if (!create && !std::filesystem::exists(path, error))
    return not_found("There is no file " + path + ".");
  CHIMERE_TRY(database::Database database, database::Database::open(path, kSchema));
  CHIMERE_CHECK_OK(database::add_word_score(database));
  return Store(std::move(database));
}

Result<std::string> Store::fact(const std::string& key) {
  CHIMERE_TRY(Statement select, database_.prepare("SELECT value FROM facts WHERE key = ?1"));
  CHIMERE_CHECK_OK(select.bind(key));
  CHIMERE_TRY(const bool row, select.step());
  return row ? std::string(select.text(0)) : std::string();
}

Status Store::set_fact(const std::string& key, const std::string& value) {
  CHIMERE_TRY(Statement insert, database_.prepare("INSERT INTO facts VALUES (?1, ?2) ON CONFLICT "
                                                  "(key) DO UPDATE SET value = excluded.value"));
  CHIMERE_CHECK_OK(insert.bind(key, value));
  return insert.run();
}

Result<std::vector<StoredSource>> Store::sources() {
  CHIMERE_TRY(Statement select,
              database_.prepare("SELECT id, kind, place FROM sources ORDER BY id"));
  std::vector<StoredSource> found;
  while (true) {
    CHIMERE_TRY(const bool row, select.step());
    if (!row) return found;
    found.push_back({select.integer(0), std::string(select.text(1)), std::string(select.text(2))});
  }
}

Result<int64_t> Store::add_source(const std::string& kind, const std::string& place) {
  CHIMERE_TRY(Statement insert,
              database_.prepare("INSERT INTO sources (kind, place) VALUES (?1, ?2) ON CONFLICT DO "
                                "UPDATE SET place = place RETURNING id"));
  CHIMERE_CHECK_OK(insert.bind(kind, place));
  CHIMERE_TRY(const bool row, insert.step());
  const int64_t id = row ? insert.integer(0) : 0;
  CHIMERE_CHECK_OK(insert.run());
  return id;
}

Status Store::remove_source(int64_t id) {
  CHIMERE_TRY(const auto documents, documents_of(id));
  for (const auto& [name, document] : documents) CHIMERE_CHECK_OK(remove(document.id));
  CHIMERE_TRY(Statement statement, database_.prepare("DELETE FROM sources WHERE id = ?1"));
  CHIMERE_CHECK_OK(statement.bind(id));
  return statement.run();
}

Result<std::map<std::string, StoredDocument>> Store::documents_of(int64_t source) {
  CHIMERE_TRY(Statement select,
              database_.prepare("SELECT id, source, name, digest, size, modified_ns FROM documents "
                                "WHERE source = ?1"));
  CHIMERE_CHECK_OK(select.bind(source));
  std::map<std::string, StoredDocument> found;
  while (true) {
    CHIMERE_TRY(const bool row, select.step());
    if (!row) return found;
    StoredDocument document = read_document(select);
    std::string name = document.name;
    found.emplace(std::move(name), std::move(document));
  }
}

Result<std::vector<StoredDocument>> Store::documents() {
  CHIMERE_TRY(
      Statement select,
      database_.prepare(
          "SELECT d.id, d.source, d.name, d.digest, d.size, d.modified_ns, d.title, (SELECT "
          "count(*) FROM chunks c WHERE c.document = d.id) FROM documents d ORDER BY name"));
  std::vector<StoredDocument> found;
  while (true) {
    CHIMERE_TRY(const bool row, select.step());
    if (!row) return found;
    found.push_back(read_document(select));
    found.back().title = select.text(6);
    found.back().chunks = select.integer(7);
  }
}

Result<StoredDocument> Store::find_document(const std::string& name) {
  CHIMERE_TRY(Statement select,
              database_.prepare("SELECT id, source, name, digest, size, modified_ns FROM documents "
                                "WHERE name = ?1"));
  CHIMERE_CHECK_OK(select.bind(name));
  CHIMERE_TRY(const bool row, select.step());
  return row ? read_document(select) : StoredDocument();
}

Status Store::remove_chunks(int64_t document) {
  CHIMERE_TRY(Statement words,
              database_.prepare(
                  "DELETE FROM words WHERE rowid IN (SELECT id FROM chunks WHERE document = ?1)"));
  CHIMERE_CHECK_OK(words.bind(document));
  CHIMERE_CHECK_OK(words.run());
  CHIMERE_TRY(Statement chunks, database_.prepare("DELETE FROM chunks WHERE document = ?1"));
  CHIMERE_CHECK_OK(chunks.bind(document));
  return chunks.run();
}

Status Store::put(const StoredDocument& document, std::span<const Chunk> chunks) {
  CHIMERE_TRY(Statement insert,
              database_.prepare(
                  "INSERT INTO documents (source, name, title, digest, size, modified_ns) VALUES "
                  "(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (name) DO UPDATE SET source = "
                  "excluded.source, title = excluded.title, digest = excluded.digest, size = "
                  "excluded.size, modified_ns = excluded.modified_ns RETURNING id"));
  CHIMERE_CHECK_OK(insert.bind(document.source, document.name, document.title, document.digest,
                               document.size, document.modified_ns));
  CHIMERE_TRY(const bool row, insert.step());
  const int64_t id = row ? insert.integer(0) : 0;
  CHIMERE_CHECK_OK(insert.run());
  CHIMERE_CHECK_OK(remove_chunks(id));
  CHIMERE_TRY(Statement chunk,
              database_.prepare("INSERT INTO chunks (document, line) VALUES (?1, ?2)"));
  CHIMERE_TRY(Statement words,
              database_.prepare("INSERT INTO words (rowid, title, heading, text) VALUES (?1, ?2, "
                                "?3, ?4)"));
  for (const Chunk& c : chunks) {
    CHIMERE_CHECK_OK(chunk.bind(id, c.line));
    CHIMERE_CHECK_OK(chunk.run());
    CHIMERE_CHECK_OK(words.bind(database_.last_insert_id(), document.title, c.heading, c.text));
    CHIMERE_CHECK_OK(words.run());
  }
  return {};
}

Status Store::touch(int64_t document, int64_t size, int64_t modified_ns) {
  CHIMERE_TRY(Statement update,
              database_.prepare("UPDATE documents SET size = ?2, modified_ns = ?3 WHERE id = ?1"));
  CHIMERE_CHECK_OK(update.bind(document, size, modified_ns));
  return update.run();
}

Status Store::remove(int64_t document) {
  CHIMERE_CHECK_OK(remove_chunks(document));
  CHIMERE_TRY(Statement statement, database_.prepare("DELETE FROM documents WHERE id = ?1"));
  CHIMERE_CHECK_OK(statement.bind(document));
  return statement.run();
}

Result<StoreCounts> Store::counts() {
  CHIMERE_TRY(
      Statement select,
      database_.prepare("SELECT (SELECT count(*) FROM documents), (SELECT count(*) FROM chunks), "
                        "(SELECT count(*) FROM chunks WHERE vector IS NULL)"));
  CHIMERE_TRY(const bool row, select.step());
  StoreCounts counts;
  if (row) counts = {select.integer(0), select.integer(1), select.integer(2)};
  return counts;
}

Result<std::vector<Store::Unembedded>> Store::without_vectors(int64_t after, int64_t most) {
  CHIMERE_TRY(
      Statement select,
      database_.prepare("SELECT c.id, w.title, w.heading, w.text FROM chunks c JOIN words w "
                        "ON w.rowid = c.id WHERE c.vector IS NULL AND c.id > ?1 ORDER BY "
                        "c.id LIMIT ?2"));
  CHIMERE_CHECK_OK(select.bind(after, most));
  std::vector<Unembedded> found;
  while (true) {
    CHIMERE_TRY(const bool row, select.step());
    if (!row) return found;
    std::string text(select.text(1));
    for (const int column : {2, 3}) {
      if (select.text(column).empty()) continue;
      if (!text.empty()) text += '\n';
      text += select.text(column);
    }
    found.push_back({select.integer(0), std::move(text)});
  }
}

Status Store::set_vector(int64_t chunk, std::span<const std::byte> vector) {
  CHIMERE_TRY(Statement update, database_.prepare("UPDATE chunks SET vector = ?2 WHERE id = ?1"));
  CHIMERE_CHECK_OK(update.bind(chunk, vector));
  return update.run();
}

Status Store::forget_vectors() {
  return database_.run("UPDATE chunks SET vector = NULL WHERE vector IS NOT NULL");
}

Status Store::each_vector(int64_t after,
                          const std::function<void(int64_t, std::span<const std::byte>)>& take) {
  CHIMERE_TRY(
      Statement select,
      database_.prepare("SELECT id, vector FROM chunks WHERE id > ?1 AND vector IS NOT NULL "
                        "ORDER BY id"));
  CHIMERE_CHECK_OK(select.bind(after));
  while (true) {
    CHIMERE_TRY(const bool row, select.step());
    if (!row) return {};
    take(select.integer(0), select.bytes(1));
  }
}

Result<std::vector<int64_t>> Store::chunks_with_vectors() {
  CHIMERE_TRY(Statement select,
              database_.prepare("SELECT id FROM chunks WHERE vector IS NOT NULL ORDER BY id"));
  std::vector<int64_t> found;
  while (true) {
    CHIMERE_TRY(const bool row, select.step());
    if (!row) return found;
    found.push_back(select.integer(0));
  }
}

Result<int64_t> Store::count_words(const std::string& expression, int64_t most) {
  CHIMERE_TRY(Statement select,
              database_.prepare("SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 "
                                "LIMIT ?2)"));
  CHIMERE_CHECK_OK(select.bind(expression, most));
  CHIMERE_TRY(const bool row, select.step());
  return row ? select.integer(0) : 0;
}

Result<std::vector<WordHit>> Store::search_words(const TextsToScore& texts, size_t most) {
  // Not ORDER BY: FTS5 would keep the places of all words in its sorter.
  CHIMERE_TRY(Statement select,
              database_.prepare("SELECT rowid, word_score(words, ?2, 8.0, 4.0, 1.0) FROM words "
                                "WHERE words MATCH ?1 LIMIT ?3"));
  CHIMERE_CHECK_OK(
      select.bind(texts.expression, std::as_bytes(std::span(texts.texts_with_phrase)), texts.most));
  std::vector<WordHit> found;
  while (true) {
    CHIMERE_TRY(const bool row, select.step());
    if (!row) break;
    found.push_back({select.integer(0), select.number(1)});
  }
  const auto last = found.begin() + static_cast<std::ptrdiff_t>(std::min(most, found.size()));
  std::ranges::partial_sort(found, last, [](const WordHit& a, const WordHit& b) {
    return a.score != b.score ? a.score > b.score : a.chunk < b.chunk;
  });
  found.erase(last, found.end());
  return found;
}

Result<std::vector<StoredPassage>> Store::passages(std::span<const int64_t> ids) {
  CHIMERE_TRY(
      Statement select,
      database_.prepare("SELECT c.id, d.name, w.title, w.heading, w.text, c.line FROM chunks "
                        "c JOIN documents d ON d.id = c.document JOIN words w ON w.rowid = "
                        "c.id WHERE c.id = ?1"));
  std::vector<StoredPassage> found;
  for (const int64_t id : ids) {
    CHIMERE_CHECK_OK(select.bind(id));
    CHIMERE_TRY(const bool row, select.step());
    if (!row) continue;
    found.push_back({select.integer(0), std::string(select.text(1)), std::string(select.text(2)),
                     std::string(select.text(3)), std::string(select.text(4)), select.integer(5)});
  }
  return found;
}

Result<int64_t> Store::data_version() {
  CHIMERE_TRY(Statement select, database_.prepare("PRAGMA data_version"));
  CHIMERE_TRY(const bool row, select.step());
  return row ? select.integer(0) : 0;
}

Result<std::string> Store::check() {
  Result<std::string> pages = database_.check();
  if (!pages.ok() || pages->compare("ok") != 0) return pages;
  if (const Status words = database_.run("INSERT INTO words (words) VALUES ('integrity-check')");
      !words.ok())
    return std::string("the index of words: ") + words.error().message;
  CHIMERE_TRY(Statement orphans,
              database_.prepare(
                  "SELECT (SELECT count(*) FROM chunks WHERE document NOT IN (SELECT id FROM "
                  "documents)) + (SELECT count(*) FROM chunks WHERE id NOT IN (SELECT rowid FROM "
                  "words)) + (SELECT count(*) FROM words WHERE rowid NOT IN (SELECT id FROM "
                  "chunks))"));
  CHIMERE_TRY(const bool row, orphans.step());
  if (row && orphans.integer(0) > 0)
    return std::to_string(orphans.integer(0)) + " chunks without their document or their words";
  return std::string("ok");
}

}  // namespace chimere::retrieval
