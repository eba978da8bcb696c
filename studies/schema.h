#pragma once

#include <string>

namespace planwright::studies {

class Database;

/// The alembic revision of every Optuna from 3.2 to 5.0, the one that is written and read.
inline constexpr const char* kOptunaRevision = "v3.2.0.a";
/// `version_info.schema_version`, the same in every Optuna since 2.0.
inline constexpr int kOptunaSchema = 12;
/// Of the side tables `planwright_*`. Raised when an older Planwright could misread them.
inline constexpr int kSideSchema = 1;

/// What a file that SQLite can open turned out to be.
enum class FileKind {
  empty,         ///< no table at all, also 0 bytes: Optuna fills such a file, and so do we
  unfinished,    ///< its making was interrupted: tables are missing, so it holds no trial yet
  current,       ///< Optuna's tables at our revision
  older_optuna,  ///< a revision that `optuna storage upgrade` brings to ours
  newer_optuna,  ///< a revision or schema that we do not know
  newer_side,    ///< Optuna's part is ours to use, the side tables are a later Planwright's
  strange,       ///< Optuna's by its tables, but not with the columns that we need
  other,         ///< somebody else's database
};

struct FileFinding {
  FileKind kind = FileKind::empty;
  std::string detail;  ///< the revision, the missing column, the strange tables
};

/// Looks at table and column names and at the version rows; changes nothing.
FileFinding inspect(Database& database);

/// An InputError that says what the file is and what to do, unless it is empty, unfinished or
/// current.
void require_usable(const FileFinding& finding, const std::string& path);

/// Makes whatever is missing of Optuna's 12 tables, its two version rows and the side tables, in
/// one transaction. Safe when several processes do it at once. InputError as `require_usable`,
/// looked at again inside the transaction.
void create_schema(Database& database);

}  // namespace planwright::studies
