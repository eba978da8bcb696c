#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace planwright::launcher {

/// `line` without terminal escapes: colours, cursor moves, titles. The result may stand in
/// `storage`. An escape that the line's end cuts off is left out as far as it is there.
std::string_view without_escapes(std::string_view line, std::string& storage);

/// At most `limit` bytes of `line` as one line of UTF-8 for people and JSON: control characters
/// and what is no UTF-8 become U+FFFD, blanks around it are left out.
std::string printable(std::string_view line, std::size_t limit);

/// A line behind what launchers put before it, and the rank that they name.
struct RankedLine {
  std::optional<int> rank;
  std::string_view text;
};

/// Knows these, one after another: `[rank1]:` (torch's exception hook), `[default1]:`,
/// `[trainer1]:` or `[1]:` (torchrun --tee or --redirects), `1: ` (srun --label), `[1,2]<stdout>:`
/// (mpirun), and, not taken off, `[Rank 1]` behind up to four other groups in brackets. A global
/// rank counts more than the local one of torchrun's default. Sources: pytorch/pytorch
/// torch/distributed/distributed_c10d.py and torch/distributed/elastic/multiprocessing/tail_log.py
/// @ 2.11.0; Slurm's srun(1); Open MPI's mpirun(1), --tag-output.
RankedLine split_rank(std::string_view line);

}  // namespace planwright::launcher
