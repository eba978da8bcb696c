#include "studies/database.h"

#include <SQLiteCpp/Column.h>
#include <fmt/core.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "estimator/spec/error.h"

namespace planwright::studies {
namespace {

/// ":memory:", "" and "file:" are special to SQLite, a path that begins with "/" never is.
std::string plain_path(const std::string& path) { return std::filesystem::absolute(path).string(); }

/// The file as an immutable URI: read without locks, journal or shared memory.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : plain_path(path)) {
    if (c == '%' || c == '?' || c == '#') {
      uri += fmt::format("%{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      uri += c;
    }
  }
  return uri + "?immutable=1";
}

bool has_content(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && status.st_size > 0;
}

/// A reader needs the shared memory of a write-ahead log, or the roll-back of a journal, also where
/// it may not write. Without either of them the plain file is the whole truth.
bool readable_as_it_is(const std::string& path) {
  return !has_content(path + "-wal") && !has_content(path + "-journal");
}

void first_read(SQLite::Database& database) {
  database.execAndGet("SELECT count(*) FROM sqlite_master");
}

/// A reader too asks to write, since only a writer can roll back what a killed process left behind;
/// SQLite falls back to reading by itself.
int open_flags(OpenMode mode) {
  return SQLite::OPEN_READWRITE | (mode == OpenMode::create ? SQLite::OPEN_CREATE : 0);
}

SQLite::Database connect(const std::string& path, OpenMode mode, int busy_timeout_ms) {
  SQLite::Database database(plain_path(path), open_flags(mode), busy_timeout_ms);
  if (mode != OpenMode::read_only) return database;
  try {
    first_read(database);
    return database;
  } catch (const SQLite::Exception& error) {
    const bool may_not_write =
        error.getErrorCode() == SQLITE_CANTOPEN || error.getErrorCode() == SQLITE_READONLY;
    if (!may_not_write || !readable_as_it_is(path)) throw;
    return {immutable_uri(path), SQLite::OPEN_READONLY | SQLite::OPEN_URI, busy_timeout_ms};
  }
}

std::string write_failure(const SQLite::Database& database) {
  const int code = sqlite3_system_errno(database.getHandle());
  return code == 0 ? "" : fmt::format(" ({})", std::strerror(code));
}

[[noreturn]] void explain(const std::string& path, const SQLite::Exception& error,
                          const std::string& system) {
  const std::string kept = "; everything finished before is kept";
  switch (error.getErrorCode()) {
    case SQLITE_NOTADB:
      throw InputError({path, "", "", "is not an SQLite database; give another --storage", ""});
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      throw InputError({path, "", "",
                        fmt::format("cannot be used as a study file: {}{}; give a --storage in a "
                                    "folder that may be written to",
                                    error.what(), system),
                        ""});
    case SQLITE_FULL:
      throw WorldError(
          fmt::format("{}: the disk is full{}{}; make room and run again", path, system, kept));
    case SQLITE_IOERR:
      throw WorldError(fmt::format("{}: {}{}{}; the disk, a quota or a file-size limit refuses",
                                   path, error.what(), system, kept));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      throw WorldError(
          fmt::format("{}: another process has kept it locked for too long ({}){}; "
                      "`fuser {}` names it",
                      path, error.what(), kept, path));
    case SQLITE_CORRUPT:
      throw WorldError(
          fmt::format("{}: the file is damaged ({}); restore a copy, or save what can be "
                      "read with `sqlite3 {} .recover`",
                      path, error.what(), path));
    default:
      throw WorldError(fmt::format("{}: {}{}", path, error.what(), kept));
  }
}

SQLite::Database connect_or_explain(const std::string& path, OpenMode mode, int busy_timeout_ms) {
  try {
    return connect(path, mode, busy_timeout_ms);
  } catch (const SQLite::Exception& error) {
    explain(path, error, "");
  }
}

}  // namespace

Query::~Query() {
  statement_.tryReset();
  statement_.clearBindings();
}

Database::Database(const std::string& path, OpenMode mode, int busy_timeout_ms, bool network)
    : path_(path),
      mode_(mode),
      network_(network),
      database_(connect_or_explain(path, mode, busy_timeout_ms)) {
  guarded([&] {
    first_read(database_);
    // A commit is on disk when it returns; the default of WAL mode alone would not promise that.
    database_.exec("PRAGMA synchronous = FULL");
    if (mode == OpenMode::read_only) database_.exec("PRAGMA query_only = ON");
  });
}

Database::~Database() {
  statements_.clear();
  if (mode_ == OpenMode::read_only) return;
  // Two processes that close together see each other and both would leave it to the other; the
  // differing pauses part them.
  const std::chrono::milliseconds pause(1 + ::getpid() % 16);
  database_.tryExec("PRAGMA busy_timeout = 0");
  for (int tries = 0; tries < 4; ++tries) {
    if (try_journal_mode("PRAGMA journal_mode = DELETE")) return;
    std::this_thread::sleep_for(pause);
  }
}

Query Database::query(const char* sql) {
  auto found = statements_.find(sql);
  if (found == statements_.end()) {
    found = statements_.emplace(sql, SQLite::Statement(database_, sql)).first;
  }
  return Query(found->second);
}

void Database::use_write_ahead_log() {
  if (network_ || mode_ == OpenMode::read_only) return;
  // SQLite does not wait by itself for this lock, which others hold for milliseconds only.
  for (int pause_ms = 1; pause_ms <= 128; pause_ms *= 2) {
    if (try_journal_mode("PRAGMA journal_mode = WAL")) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
  }
}

void Database::require_in_place() const {
  int moved = 0;
  sqlite3_file_control(database_.getHandle(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved == 0) return;
  throw WorldError(
      fmt::format("{}: was moved or deleted while it was in use; put it back, or run "
                  "again to start anew",
                  path_));
}

bool Database::try_journal_mode(const char* pragma) {
  const int code = database_.tryExec(pragma);
  return code != SQLITE_BUSY && code != SQLITE_LOCKED;
}

void Database::fail(const SQLite::Exception& error) const {
  explain(path_, error, write_failure(database_));
}

}  // namespace planwright::studies
