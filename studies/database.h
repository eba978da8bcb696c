#pragma once

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>

#include "studies/store.h"

namespace planwright::studies {

/// A prepared statement, kept by the connection; reset when this goes out of scope, because a
/// statement left in the middle holds its lock.
class Query {
 public:
  explicit Query(SQLite::Statement& statement) : statement_(statement) {}
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;
  ~Query();

  /// Binds values to the parameters, from the first on; an empty optional is NULL.
  template <class... Values>
  Query& with(const Values&... values) {
    int index = 0;
    (bind(++index, values), ...);
    return *this;
  }

  bool next() { return statement_.executeStep(); }  ///< false: no further row
  int run() { return statement_.exec(); }           ///< for statements without rows: rows changed

  bool is_null(int column) const { return statement_.getColumn(column).isNull(); }
  std::int64_t integer(int column) const { return statement_.getColumn(column).getInt64(); }
  double real(int column) const { return statement_.getColumn(column).getDouble(); }
  std::string text(int column) const { return statement_.getColumn(column).getString(); }

 private:
  template <class Value>
  void bind(int index, const Value& value) {
    statement_.bind(index, value);
  }
  template <class Value>
  void bind(int index, const std::optional<Value>& value) {
    if (value) {
      statement_.bind(index, *value);
    } else {
      statement_.bind(index);
    }
  }

  SQLite::Statement& statement_;
};

/// One connection to one file: journal mode, transactions, and SQLite's errors in our words.
class Database {
 public:
  /// InputError if the file is not a database or may not be used; WorldError if it is damaged or
  /// locked. `network`: the file lies on a network file system, where WAL does not work.
  Database(const std::string& path, OpenMode mode, int busy_timeout_ms, bool network);
  /// Puts the file back to a rollback journal if this is the last connection to it.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  OpenMode mode() const { return mode_; }

  /// `sql` is compiled at its first use. Use within `read` or `write`.
  Query query(const char* sql);
  void execute(const char* sql) { database_.exec(sql); }
  std::int64_t last_row() const { return database_.getLastInsertRowid(); }
  bool has_table(const std::string& name) const { return database_.tableExists(name); }

  /// Readers of other processes no longer wait for our commits, nor we for them. Quietly stays as
  /// it is where that cannot be had.
  void use_write_ahead_log();

  /// Runs `work` inside BEGIN IMMEDIATE and commits; rolled back if it throws. WorldError if the
  /// file was moved or deleted since it was opened, since nobody would find what is written to it.
  template <class Work>
  auto write(const Work& work) {
    require_in_place();
    return guarded([&] { return in_transaction(SQLite::TransactionBehavior::IMMEDIATE, work); });
  }

  /// Runs `work` on one snapshot of the file.
  template <class Work>
  auto read(const Work& work) {
    return guarded([&] { return in_transaction(SQLite::TransactionBehavior::DEFERRED, work); });
  }

  SQLite::Database& handle() { return database_; }

 private:
  template <class Work>
  auto guarded(const Work& work) -> decltype(work()) {
    try {
      return work();
    } catch (const SQLite::Exception& error) {
      fail(error);
    }
  }

  template <class Work>
  auto in_transaction(SQLite::TransactionBehavior behavior, const Work& work) -> decltype(work()) {
    SQLite::Transaction transaction(database_, behavior);
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      transaction.commit();
    } else {
      auto result = work();
      transaction.commit();
      return result;
    }
  }

  void require_in_place() const;
  [[noreturn]] void fail(const SQLite::Exception& error) const;
  bool try_journal_mode(const char* pragma);

  std::string path_;
  OpenMode mode_;
  bool network_;
  SQLite::Database database_;
  std::unordered_map<const char*, SQLite::Statement> statements_;  ///< by the literal's address
};

}  // namespace planwright::studies
