#pragma once

#include "cli/row_cells.h"
#include "estimator/spec/model_spec.h"

namespace planwright::cli {

/// The model that a row's integers describe. Where its name is that of a preset whose blocks have
/// these integers, the rest is the preset's; else its block is the one that usually has its
/// activation. Either is assumed, and says so. An InputError names the column that is missing, or
/// the cell that no such model can have.
ModelSpec model_of(RowCells& cells);

}  // namespace planwright::cli
