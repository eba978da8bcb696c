#include "launcher/logs/failure_signs.h"

#include <array>

namespace planwright::launcher {
namespace {

using enum OutcomeKind;
using enum SignWeight;

// Sources: pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp, c10/core/impl/alloc_cpu.cpp,
// torch/csrc/distributed/c10d/{ProcessGroupNCCL,ProcessGroupGloo,socket}.cpp, .../Utils.hpp,
// aten/src/ATen/mps/MPSAllocator.mm, torch/utils/data/dataloader.py and
// torch/distributed/elastic/multiprocessing/api.py @ 1.9 to 2.11; pytorch/gloo
// gloo/transport/tcp/{unbound_buffer,pair}.cc; NVIDIA/nccl src/include/checks.h and
// src/misc/socket.cc @ 2.27; NVIDIA-NeMo/Megatron-Bridge's training with memory snapshots @ 0.6;
// SchedMD/slurm src/plugins/task/cgroup @ 22.05 to 24.11; the kernel's mm/oom_kill.c; sysexits of
// sh.
constexpr FailureSign kSigns[] = {
    // The device ran full.
    {out_of_memory, "OutOfMemoryError", any_level},
    {out_of_memory, "CUDA out of memory", any_level},
    {out_of_memory, "HIP out of memory", any_level},
    {out_of_memory, "XPU out of memory", any_level},
    {out_of_memory, "NPU out of memory", any_level},
    {out_of_memory, "MPS backend out of memory", any_level},
    {out_of_memory, "CUDA error: out of memory", any_level},
    {out_of_memory, "CUDA driver error: out of memory", any_level},
    {out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", any_level},
    {out_of_memory, "cudaErrorMemoryAllocation", any_level},
    {out_of_memory, "hipErrorOutOfMemory", any_level},
    {out_of_memory, "Cuda failure {*}out of memory", any_level},
    {out_of_memory, "unhandled cuda error {*}out of memory", any_level},
    {out_of_memory, "[OOM] rank {rank} saved memory snapshot", any_level},
    {out_of_memory, "CUBLAS_STATUS_ALLOC_FAILED", any_level},
    {out_of_memory, "CUBLAS_STATUS_NOT_INITIALIZED", at_start},
    {out_of_memory, "CUDNN_STATUS_ALLOC_FAILED", any_level},
    {out_of_memory, "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", any_level},
    // The host did.
    {host_out_of_memory, "DefaultCPUAllocator: can't allocate memory"},
    {host_out_of_memory, "DefaultCPUAllocator: not enough memory"},
    {host_out_of_memory, "std::bad_alloc"},
    {host_out_of_memory, "Cannot allocate memory"},
    {host_out_of_memory, "Out of memory: Killed process", any_level},
    {host_out_of_memory, "oom-kill event", any_level},
    {host_out_of_memory, "oom_kill event", any_level},
    {host_out_of_memory, "oom_kill events", any_level},
    {host_out_of_memory, "OOMKilled", any_level},
    {host_out_of_memory, "Some of your processes may have been killed by the cgroup out-of-memory"},
    {host_out_of_memory, "OUT_OF_MEMORY"},
    // Something was killed.
    {crashed, "DataLoader worker {*}killed by signal: Killed", own, true},
    {crashed, "(exitcode: -9) local_rank: {rank}", consequence, true},
    {crashed, "Signal 9 (SIGKILL) received", consequence, true},
    {crashed, "exit code 137", consequence, true},
    {crashed, "exited with code 137", consequence, true},
    // A collective did not end. What a peer's end does to the others is told apart below.
    {hung, "Watchdog caught collective operation timeout", any_level},
    {hung, "milliseconds before timing out", any_level},
    {hung, "watchdog got stuck for", any_level},
    {hung, "timed out in monitoredBarrier", any_level},
    {hung, "Timed out waiting {number}ms for", any_level},
    {hung, "Application timeout caused pair closure", any_level},
    {hung, "wait timeout after {number}ms"},
    // What another rank's end looks like from here.
    {crashed, "Connection closed by peer", consequence},
    {crashed, "Connection reset by peer", consequence},
    {crashed, "Broken pipe", consequence},
    {crashed, "Connection closed by remote peer", consequence},
    {crashed, "Failed to recv, got 0 bytes", consequence},
    {crashed, "failed to recv, got 0 bytes", consequence},
    {crashed, "remote process exited or there was a network error", consequence},
    {crashed, "NCCL communicator was aborted", consequence},
    {crashed, "reached monitoredBarrier, but received errors", consequence},
    {crashed, "ChildFailedError", consequence},
    {crashed, "closing signal SIGTERM", consequence},
    {crashed, "Signal 15 (SIGTERM)", consequence},
    {crashed, "SignalException", consequence},
    {crashed, "(exitcode: {*}) local_rank: {rank}", consequence},
    // The place lacks something.
    {environment, "Address already in use"},
    {environment, "EADDRINUSE"},
    {environment, "Connection refused"},
    {environment, "The server socket has failed to listen on any local network address"},
    {environment, "No route to host"},
    {environment, "Name or service not known"},
    {environment, "Temporary failure in name resolution"},
    {environment, "ModuleNotFoundError: "},
    {environment, "No module named "},
    {environment, "ImportError: "},
    {environment, ": command not found"},
    {environment, "can't open file"},
    {environment, "error while loading shared libraries"},
    {environment, "symbol lookup error"},
    {environment, "No CUDA GPUs are available"},
    {environment, "Found no NVIDIA driver on your system"},
    {environment, "NVIDIA driver on your system is too old"},
    {environment, "CUDA driver version is insufficient"},
    {environment, "no kernel image is available for execution on the device"},
    {environment, "invalid device ordinal"},
    {environment, "insufficient shared memory (shm)"},
    {environment, "Too many open files"},
    {environment, "No space left on device"},
    {environment, "Disk quota exceeded"},
    {environment, "Read-only file system"},
    // It broke in a way that has no exception of Python's.
    {crashed, "an illegal memory access was encountered"},
    {crashed, "device-side assert triggered"},
    {crashed, "unspecified launch failure"},
    {crashed, "uncorrectable ECC error"},
    {crashed, "unhandled cuda error"},
    {crashed, "unhandled system error"},
    {crashed, "Segmentation fault"},
    {crashed, "terminate called after throwing"},
    {crashed, "Fatal Python error"},
    {crashed, "core dumped"},
};

// Sources: pytorch/pytorch c10/cuda/CUDACachingAllocator.cpp @ 1.4, 1.13, 2.0 ("capacty"
// until 2.1), 2.11; aten/src/ATen/mps/MPSAllocator.mm and c10/core/impl/alloc_cpu.cpp @ 2.11.
constexpr std::string_view kDetails[] = {
    "Tried to allocate {oom_requested}",
    "tried to allocate {oom_requested}",
    "GPU {oom_device} has a total",
    "(GPU {oom_device};",
    "has a total capacity of {oom_capacity} of which",
    "has a total capacty of {oom_capacity} of which",
    "of which {oom_free} is free",
    "Of the allocated memory {oom_allocated} is allocated by",
    "{oom_unallocated} is reserved by {*}but unallocated",
    "{oom_capacity} total capacity",
    "{oom_allocated} already allocated",
    "{oom_free} free;",
    "{oom_reserved} reserved in total",
    "{oom_reserved} cached)",
    "MPS allocated: {oom_allocated}",
    "max allowed: {oom_capacity}",
};

}  // namespace

std::span<const FailureSign> failure_signs() { return kSigns; }

std::span<const std::string_view> out_of_memory_details() { return kDetails; }

}  // namespace planwright::launcher
