#include "studies/schema.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "estimator/spec/error.h"
#include "studies/database.h"

namespace planwright::studies {
namespace {

struct Table {
  const char* name;
  const char* ddl;  ///< to the letter what Optuna's library emits, for those who compare files
};

constexpr std::array kOptunaTables{
    Table{"studies", R"(CREATE TABLE IF NOT EXISTS studies (
	study_id INTEGER NOT NULL, 
	study_name VARCHAR(512) NOT NULL, 
	PRIMARY KEY (study_id)
))"},
    Table{"version_info", R"(CREATE TABLE IF NOT EXISTS version_info (
	version_info_id INTEGER NOT NULL, 
	schema_version INTEGER, 
	library_version VARCHAR(256), 
	PRIMARY KEY (version_info_id), 
	CHECK (version_info_id=1)
))"},
    Table{"study_directions", R"(CREATE TABLE IF NOT EXISTS study_directions (
	study_direction_id INTEGER NOT NULL, 
	direction VARCHAR(8) NOT NULL, 
	study_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	PRIMARY KEY (study_direction_id), 
	UNIQUE (study_id, objective), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
))"},
    Table{"study_user_attributes", R"(CREATE TABLE IF NOT EXISTS study_user_attributes (
	study_user_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_user_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
))"},
    Table{"study_system_attributes", R"(CREATE TABLE IF NOT EXISTS study_system_attributes (
	study_system_attribute_id INTEGER NOT NULL, 
	study_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (study_system_attribute_id), 
	UNIQUE (study_id, "key"), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
))"},
    Table{"trials", R"(CREATE TABLE IF NOT EXISTS trials (
	trial_id INTEGER NOT NULL, 
	number INTEGER, 
	study_id INTEGER, 
	state VARCHAR(8) NOT NULL, 
	datetime_start DATETIME, 
	datetime_complete DATETIME, 
	PRIMARY KEY (trial_id), 
	FOREIGN KEY(study_id) REFERENCES studies (study_id)
))"},
    Table{"trial_user_attributes", R"(CREATE TABLE IF NOT EXISTS trial_user_attributes (
	trial_user_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_user_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
))"},
    Table{"trial_system_attributes", R"(CREATE TABLE IF NOT EXISTS trial_system_attributes (
	trial_system_attribute_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	"key" VARCHAR(512), 
	value_json TEXT, 
	PRIMARY KEY (trial_system_attribute_id), 
	UNIQUE (trial_id, "key"), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
))"},
    Table{"trial_params", R"(CREATE TABLE IF NOT EXISTS trial_params (
	param_id INTEGER NOT NULL, 
	trial_id INTEGER, 
	param_name VARCHAR(512), 
	param_value FLOAT, 
	distribution_json TEXT, 
	PRIMARY KEY (param_id), 
	UNIQUE (trial_id, param_name), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
))"},
    Table{"trial_values", R"(CREATE TABLE IF NOT EXISTS trial_values (
	trial_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	objective INTEGER NOT NULL, 
	value FLOAT, 
	value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_value_id), 
	UNIQUE (trial_id, objective), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
))"},
    Table{"trial_intermediate_values", R"(CREATE TABLE IF NOT EXISTS trial_intermediate_values (
	trial_intermediate_value_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	step INTEGER NOT NULL, 
	intermediate_value FLOAT, 
	intermediate_value_type VARCHAR(7) NOT NULL, 
	PRIMARY KEY (trial_intermediate_value_id), 
	UNIQUE (trial_id, step), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
))"},
    Table{"trial_heartbeats", R"(CREATE TABLE IF NOT EXISTS trial_heartbeats (
	trial_heartbeat_id INTEGER NOT NULL, 
	trial_id INTEGER NOT NULL, 
	heartbeat DATETIME NOT NULL, 
	PRIMARY KEY (trial_heartbeat_id), 
	UNIQUE (trial_id), 
	FOREIGN KEY(trial_id) REFERENCES trials (trial_id)
))"},
    Table{"alembic_version", R"(CREATE TABLE IF NOT EXISTS alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
))"},
};

constexpr std::array kIndexes{
    "CREATE UNIQUE INDEX IF NOT EXISTS ix_studies_study_name ON studies (study_name)",
    "CREATE INDEX IF NOT EXISTS ix_trials_study_id ON trials (study_id)",
};

// A problem is stored once, however many studies are made of it. Hash and keys are ours.
constexpr std::array kSideTables{
    "CREATE TABLE IF NOT EXISTS planwright_problems (hash TEXT NOT NULL PRIMARY KEY, json TEXT NOT "
    "NULL)",
    "CREATE TABLE IF NOT EXISTS planwright_meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT "
    "NULL)",
};

struct OldRevision {
  const char* revision;
  const char* releases;
};

// Source: the alembic head of each release tag of optuna/optuna.
constexpr OldRevision kOldRevisions[] = {
    {"v0.9.0.a", "0.9 to 1.1"}, {"v1.2.0.a", "1.2"},         {"v1.3.0.a", "1.3 to 2.3"},
    {"v2.4.0.a", "2.4 or 2.5"}, {"v2.6.0.a", "2.6 to 2.10"}, {"v3.0.0.a", "3.0 (beta)"},
    {"v3.0.0.b", "3.0 (beta)"}, {"v3.0.0.c", "3.0 (beta)"},  {"v3.0.0.d", "3.0 or 3.1"},
};

using Names = std::set<std::string>;

Names names_of(Database& database, const char* sql) {
  Names names;
  for (Query query = database.query(sql); query.next();) names.insert(query.text(0));
  return names;
}

Names columns(SQLite::Database& database, const char* table) {
  SQLite::Statement statement(database, "SELECT name FROM pragma_table_info(?)");
  statement.bind(1, table);
  Names names;
  while (statement.executeStep()) names.insert(statement.getColumn(0).getString());
  return names;
}

/// "trials.number" if a table that is there lacks a column that a fresh file has, else "".
std::string missing_column(Database& database, const Names& tables) {
  SQLite::Database fresh(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  for (const Table& table : kOptunaTables) {
    if (!tables.contains(table.name)) continue;
    fresh.exec(table.ddl);
    const Names there = columns(database.handle(), table.name);
    for (const auto& column : columns(fresh, table.name)) {
      if (!there.contains(column)) return fmt::format("{}.{}", table.name, column);
    }
  }
  return "";
}

const OldRevision* old_revision(const std::string& revision) {
  const auto* found =
      std::find_if(std::begin(kOldRevisions), std::end(kOldRevisions),
                   [&](const OldRevision& old) { return old.revision == revision; });
  return found == std::end(kOldRevisions) ? nullptr : found;
}

/// By its version rows. A file without them (a file of rustuna, an interrupted creation) counts as
/// current, as it does for Optuna.
FileFinding versions(Database& database, const Names& tables) {
  Names revisions;
  if (tables.contains("alembic_version")) {
    revisions = names_of(database, "SELECT version_num FROM alembic_version");
  }
  if (revisions.size() > 1) return {FileKind::strange, "it has two rows in alembic_version"};
  if (!revisions.empty() && *revisions.begin() != kOptunaRevision) {
    const std::string& revision = *revisions.begin();
    const OldRevision* old = old_revision(revision);
    if (old == nullptr) return {FileKind::newer_optuna, "revision " + revision};
    return {FileKind::older_optuna, fmt::format("{}, revision {}", old->releases, revision)};
  }
  if (!tables.contains("version_info")) return {FileKind::current, ""};
  Query query = database.query("SELECT schema_version FROM version_info");
  if (!query.next() || query.integer(0) == kOptunaSchema) return {FileKind::current, ""};
  const auto kind =
      query.integer(0) < kOptunaSchema ? FileKind::older_optuna : FileKind::newer_optuna;
  return {kind, "schema " + query.text(0)};
}

FileFinding side_version(Database& database, const Names& tables) {
  if (!tables.contains("planwright_meta")) return {FileKind::current, ""};
  Query query = database.query("SELECT value FROM planwright_meta WHERE key = 'schema'");
  if (!query.next() || query.text(0) == std::to_string(kSideSchema)) return {FileKind::current, ""};
  return {FileKind::newer_side, "version " + query.text(0)};
}

bool lacks_tables(const Names& tables) {
  return std::any_of(kOptunaTables.begin(), kOptunaTables.end(), [&](const Table& table) {
    // Optuna 2.4 and an upgrade of its files know no heartbeats; alembic_version comes last.
    const std::string name = table.name;
    return name != "trial_heartbeats" && name != "alembic_version" && name != "version_info" &&
           !tables.contains(name);
  });
}

std::string some(const Names& tables) {
  std::vector<std::string> shown(tables.begin(), tables.end());
  const bool more = shown.size() > 3;
  shown.resize(std::min<std::size_t>(shown.size(), 3));
  return fmt::format("the table{} {}{}", tables.size() == 1 ? "" : "s", fmt::join(shown, ", "),
                     more ? " and more" : "");
}

std::string refusal(const FileFinding& finding, const std::string& path) {
  switch (finding.kind) {
    case FileKind::older_optuna:
      return fmt::format(
          "was written by an older Optuna, {}; bring it up to date with `optuna storage "
          "upgrade --storage sqlite:///{}` of Optuna 3.2 or later",
          finding.detail, path);
    case FileKind::newer_optuna:
      return fmt::format(
          "was written by a newer Optuna ({}; this Planwright knows revision {}, schema "
          "{}); use a newer Planwright",
          finding.detail, kOptunaRevision, kOptunaSchema);
    case FileKind::newer_side:
      return fmt::format(
          "was written by a newer Planwright (its side tables are {}, this one knows "
          "version {}); use that one",
          finding.detail, kSideSchema);
    case FileKind::strange:
      return fmt::format(
          "looks like a study file of Optuna, but {}; look at it with `sqlite3 {} .schema`",
          finding.detail, path);
    case FileKind::other:
      return fmt::format("is an SQLite database, but not a study file of Optuna: it holds {}",
                         finding.detail);
    case FileKind::empty:
    case FileKind::unfinished:
    case FileKind::current:
      break;
  }
  return "";
}

}  // namespace

FileFinding inspect(Database& database) {
  const Names tables = names_of(
      database, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
  if (tables.empty()) return {FileKind::empty, ""};
  if (!tables.contains("studies") ||
      !(tables.contains("trials") || tables.contains("version_info"))) {
    return {FileKind::other, some(tables)};
  }
  FileFinding version = versions(database, tables);
  if (version.kind != FileKind::current) return version;
  if (const std::string column = missing_column(database, tables); !column.empty()) {
    return {FileKind::strange, fmt::format("it has no column {}", column)};
  }
  if (lacks_tables(tables)) return {FileKind::unfinished, ""};
  return side_version(database, tables);
}

void require_usable(const FileFinding& finding, const std::string& path) {
  const std::string rule = refusal(finding, path);
  if (rule.empty()) return;
  // The other kinds end with something else that can be done.
  const char* joint = finding.kind == FileKind::other ? "; " : ", or ";
  throw InputError({path, "", "", rule + joint + "give another --storage", ""});
}

void create_schema(Database& database) {
  database.write([&] {
    const FileFinding finding = inspect(database);
    require_usable(finding, database.path());
    for (const Table& table : kOptunaTables) database.execute(table.ddl);
    // A file that was upgraded has the second index under another name.
    if (finding.kind != FileKind::current) {
      for (const char* index : kIndexes) database.execute(index);
    }
    for (const char* table : kSideTables) database.execute(table);
    database.query("INSERT OR IGNORE INTO version_info VALUES (1, ?, 'planwright')")
        .with(kOptunaSchema)
        .run();
    database
        .query(
            "INSERT INTO alembic_version SELECT ? WHERE NOT EXISTS (SELECT 1 FROM alembic_version)")
        .with(kOptunaRevision)
        .run();
    database.query("INSERT OR IGNORE INTO planwright_meta VALUES ('schema', ?)")
        .with(std::to_string(kSideSchema))
        .run();
  });
}

}  // namespace planwright::studies
